"""What is quoted of messages holds no key."""

import time
from base64 import b64encode
from collections.abc import Callable

import pytest

from audit.engines.redact import Redactor
from audit.engines.retry import error_code_and_message

KEY = "sk-test-0123456789-do-not-leak"


def test_redaction() -> None:
    redactor = Redactor([KEY, "EMPTY", "abc"])
    assert redactor.message(f"a {KEY} b") == "a <removed> b"
    assert (
        redactor.message("Authorization: Bearer xyz12345, next") == "Authorization: <removed>, next"
    )
    assert redactor.message("provided: sk-abcd****wxyz.") == "provided: <removed>."
    assert redactor.message("http://user:pw@host/v1") == "http://<removed>@host/v1"
    assert redactor.message("abc") == "abc"  # too short to be a key
    assert (
        redactor.generation(f"EMPTY {KEY} sk-learn") == "EMPTY <removed> sk-learn"
    )  # a placeholder is a word
    assert len(redactor.message("y" * 5000)) == 400


@pytest.mark.parametrize("unit", ["?", "?key", "&token", "-eyJ", "<", "://a", "bearer "])
def test_a_long_message_is_read_in_a_moment(unit: str) -> None:
    """A server may send 16 MiB as its error, and nobody else is served while they are read."""
    began = time.process_time()
    for body in (unit * 300_000, {"error": {"message": "?" + unit * 300_000}}):
        _, message = error_code_and_message(body)
        assert len(Redactor([KEY]).message(message)) <= 400
    assert time.process_time() - began < 5


def test_no_key_is_cut_in_two_by_the_end_of_what_is_read() -> None:
    for at in range(3960, 3995):
        message = Redactor([KEY]).message(f"?token={'x' * (at - 8)} {KEY}")
        assert message.startswith("?token=<removed> <rem") and "sk-" not in message


def test_a_message_holds_nothing_that_a_terminal_obeys() -> None:
    """A server's text reaches error rows, logs and the last sentence of a run."""
    message = Redactor([KEY]).message(
        f"no\x1b]0;owned\x07\x1b[2J\x9b31m {KEY}\r\nlines\u202e end \ud83d"
    )
    bad = "\N{REPLACEMENT CHARACTER}"
    assert message == f"no{bad}]0;owned{bad}{bad}[2J{bad}31m <removed> lines{bad} end {bad}"


@pytest.mark.parametrize(
    "spell", [str.upper, str.lower, lambda k: k[::-1], lambda k: b64encode(k.encode()).decode()]
)
def test_a_key_that_is_echoed_in_another_spelling_is_cut(spell: Callable[[str], str]) -> None:
    key = "Fk9-Q2xlYW5Mb2dz-77"
    for cut in (Redactor([key]).message, Redactor([key]).generation):
        assert spell(key).rstrip("=") not in cut(f"you sent {spell(key)} to us")
