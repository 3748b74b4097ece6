"""Commands end in a sentence or in silence, never in a traceback that says nothing to a person."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from audit.exits import run_command

ROOT = Path(__file__).resolve().parents[2]


def test_the_code_is_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for result, code in ((0, 0), (3, 3), (None, None)):
        with pytest.raises(SystemExit) as end:
            run_command(lambda result=result: result)
        assert end.value.code == code
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("said", "shown"), [((), "Interrupted."), (("12 rows kept",), "12 rows kept")])
def test_ctrl_c_is_a_sentence(said: tuple[str, ...], shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    def stopped() -> int:
        raise KeyboardInterrupt(*said)

    with pytest.raises(SystemExit) as end:
        run_command(stopped)
    assert end.value.code == 130 and capsys.readouterr().err == f"\n{shown}\n"


def test_sigterm_is_the_same_sentence_with_its_own_code(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as end:
            run_command(lambda: signal.raise_signal(signal.SIGTERM))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert end.value.code == 143 and capsys.readouterr().err == "\nInterrupted.\n"


@pytest.mark.parametrize(
    "words",
    [["plan", "model=scripted", "n=10", "r=1"], ["completion", "bash"], ["reanalyze", "li2026", "--out", "{}"]],
    ids=lambda w: w[0],
)
def test_a_reader_that_goes_away_is_met_with_silence(words: list[str], tmp_path: Path) -> None:
    """As `audit plan ... | head -0`: the pipe is closed before the first line. Tables are rich's, which ends with 1."""
    process = subprocess.Popen(
        [sys.executable, "-m", "audit", *(word.format(tmp_path) for word in words)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(60) == 141
