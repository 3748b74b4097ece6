"""Keys stay out of messages and generations."""

from base64 import b64encode
from collections.abc import Callable

import pytest

from audit.engines.redact import Redactor

KEY = "sk-test-0123456789-do-not-leak"


def test_redaction() -> None:
    redactor = Redactor([KEY, "EMPTY", "abc"])
    assert redactor.message(f"a {KEY} b") == "a [redacted] b"
    assert redactor.message("Authorization: Bearer xyz123, next") == "Authorization: [redacted], next"
    assert redactor.message("provided: sk-abcd****wxyz.") == "provided: [redacted]"
    assert redactor.message("http://user:pw@host/v1") == "http://[redacted]@host/v1"
    assert redactor.message("abc") == "abc"  # too short to be a key
    assert redactor.generation(f"EMPTY {KEY} sk-learn") == "EMPTY [redacted] sk-learn"  # a placeholder is a word
    assert len(redactor.message("y" * 5000)) == 400


def test_a_message_holds_nothing_that_a_terminal_obeys() -> None:
    """A server's text reaches error rows, logs and the last sentence of a run."""
    said = Redactor([KEY]).message(f"no\x1b]0;owned\x07\x1b[2J\x9b31m {KEY}\r\nlines\u202e end \ud83d")
    bad = "\N{REPLACEMENT CHARACTER}"
    assert said == f"no{bad}]0;owned{bad}{bad}[2J{bad}31m [redacted] lines{bad} end {bad}"


@pytest.mark.parametrize("spell", [str.upper, str.lower, lambda k: k[::-1], lambda k: b64encode(k.encode()).decode()])
def test_a_key_that_is_echoed_in_another_spelling_is_cut(spell: Callable[[str], str]) -> None:
    key = "Fk9-Q2xlYW5Mb2dz-77"
    for cut in (Redactor([key]).message, Redactor([key]).generation):
        assert spell(key).rstrip("=") not in cut(f"you sent {spell(key)} to us")
