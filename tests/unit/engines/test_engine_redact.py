"""What is quoted of messages and logs holds the cause and no key."""

import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable

import pytest

from audit.engines.processes import causes
from audit.engines.redact import Redactor

KEY = "sk-test-0123456789-do-not-leak"


def test_redaction() -> None:
    redactor = Redactor([KEY, "EMPTY", "abc"])
    assert redactor.message(f"a {KEY} b") == "a <removed> b"
    assert redactor.message("Authorization: Bearer xyz12345, next") == "Authorization: <removed>, next"
    assert redactor.message("provided: sk-abcd****wxyz.") == "provided: <removed>."
    assert redactor.message("http://user:pw@host/v1") == "http://<removed>@host/v1"
    assert redactor.message("abc") == "abc"  # too short to be a key
    assert redactor.generation(f"EMPTY {KEY} sk-learn") == "EMPTY <removed> sk-learn"  # a placeholder is a word
    assert len(redactor.message("y" * 5000)) == 400


def test_a_message_holds_nothing_that_a_terminal_obeys() -> None:
    """A server's text reaches error rows, logs and the last sentence of a run."""
    said = Redactor([KEY]).message(f"no\x1b]0;owned\x07\x1b[2J\x9b31m {KEY}\r\nlines\u202e end \ud83d")
    bad = "\N{REPLACEMENT CHARACTER}"
    assert said == f"no{bad}]0;owned{bad}{bad}[2J{bad}31m <removed> lines{bad} end {bad}"


@pytest.mark.parametrize("spell", [str.upper, str.lower, lambda k: k[::-1], lambda k: b64encode(k.encode()).decode()])
def test_a_key_that_is_echoed_in_another_spelling_is_cut(spell: Callable[[str], str]) -> None:
    key = "Fk9-Q2xlYW5Mb2dz-77"
    for cut in (Redactor([key]).message, Redactor([key]).generation):
        assert spell(key).rstrip("=") not in cut(f"you sent {spell(key)} to us")


LOG = b"""\
(EngineCore pid=7) INFO 11-21 10:00:00 [core.py:91] Initializing an engine, max_error_rate=0
(EngineCore pid=7) ERROR 11-21 10:00:09 [core.py:900] torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB
(EngineCore pid=7) ERROR 11-21 10:00:09 [core.py:901] torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (LOG, ["torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"]),  # once, and without the pointer to it
        (
            b"ValueError: bad token hf_abcdefghijklmnopqrstuv in the header",
            ["ValueError: bad token <removed> in the header"],
        ),
        (b"\xff\xfe loading weights\n" * 3, []),
    ],
)
def test_the_cause_is_found_and_no_secret_is_quoted(written, found, tmp_path):
    log = tmp_path / "worker.out"
    log.write_bytes(written)
    assert causes([log]) == found


def test_a_process_finds_the_files_it_writes_to(tmp_path):
    out = tmp_path / "worker.out"
    code = (
        "import sys; print('ValueError: no such layer', flush=True);"
        "from audit.engines.processes import explain; sys.stderr.write(explain())"
    )
    with out.open("wb") as file:
        done = subprocess.run([sys.executable, "-c", code], stdout=file, stderr=subprocess.PIPE, text=True, check=True)
    assert "ValueError: no such layer" in done.stderr and str(out) in done.stderr
