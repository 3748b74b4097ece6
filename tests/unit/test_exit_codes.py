"""The documented table of exit codes, held against what every command does."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typed_here import typed

from audit.__main__ import COMMANDS
from audit.core.exits import BROKEN_PIPE, INTERRUPTED, TERMINATED, run_command
from audit.judging.decision import words

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/exit_codes.md"


def table() -> dict[str, dict[int, str]]:
    """{command: {code: what the table says}}, cells that say nothing left out."""
    lines = PAGE.read_text().split("<!-- exit codes")[1].splitlines()[1:]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines[: lines.index("")]
    ]
    head, _, *body = rows
    codes: dict[str, dict[int, str]] = {}
    for column, title in enumerate(head[1:], start=1):
        for name in re.findall(r"`(\w+)`", title):
            codes[name] = {int(row[0]): row[column] for row in body if row[column]}
    return codes


REFUSED = {
    "sweep": ["r=9..1"],
    "plan": ["r=9..1"],
    "perturb": ["model=scripted", "variants=nowhere"],
    "memory": ["model=scripted", "orders=0"],
    "validity": ["model=scripted", "formats=[nowhere]"],
    "plant": ["model=scripted"],
    "suite": ["nowhere"],
    "variants": ["show", "nowhere"],
    "report": ["nowhere"],
    "gate": ["nowhere"],
    "runs": ["nowhere"],
    "compare": ["nowhere", "nowhere"],
    "registry": ["list", "--registry", "oracle://nowhere"],
    "review": ["show", "nowhere"],
    "evidence": ["verify", "nowhere.zip", "--unsigned"],
    "export": ["inspect", "nowhere"],
    "data": ["show", "nowhere.csv"],
    "import": ["nowhere.eval", "-o", "nowhere"],
    "leaderboard": ["nowhere.eval", "-o", "nowhere"],
    "chronology": ["check", "nowhere.jsonl"],
    "calibrate": ["--n", "some"],
    "reanalyze": ["nowhere.csv"],
    "publish": ["nowhere.jsonl", "--out", "out"],
    "references": ["show", "set:nowhere"],
    "inventory": ["nowhere"],
    "watch": ["nowhere"],
    "open": ["nowhere"],
    "demo": ["--out", "/dev/null/demo"],
    "init": ["--yes", "--model", "two words"],
}


def test_every_command_is_in_the_table_once() -> None:
    assert set(table()) == set(COMMANDS)
    assert set(REFUSED) == set(COMMANDS) - {
        "completion"
    }  # completion takes nothing that could be refused


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_command_does_is_in_its_column(name: str, tmp_path: Path) -> None:
    says = table()[name]
    assert typed(name, "--help", folder=tmp_path).code == 0 and says[0]
    assert typed(name, "--nonsense", folder=tmp_path).code == 2 and "usage" in says[2]
    if name in REFUSED:
        assert typed(name, *REFUSED[name], folder=tmp_path).code == 1 and says[1]
    assert (
        says[INTERRUPTED] and says[TERMINATED] and says[BROKEN_PIPE]
    )  # of all alike: `exits.run_command`


def test_a_verdicts_code_stands_beside_its_name() -> None:
    """Of every audit, and nowhere but in the column of the gate, by which a suite ends."""
    says = table()
    cells = [
        (str(verdict), meaning.grade)
        for verdict, word in words().items()
        for meaning in (word.where.values() or [word])
    ]
    for verdict, grade in cells:
        code = grade.decision().exit_code
        text = (
            str(verdict)
            .replace("excess_explained_by", "explained by")
            .replace("_cause_unknown", "")
        )
        assert text.replace("_", " ") in says["gate"][code].replace(
            "a gain explained", "explained"
        ), verdict
    assert all(
        not {3, 4, 5} & set(codes) for name, codes in says.items() if name not in ("gate", "suite")
    )


def test_an_unknown_command_is_wrong_usage() -> None:
    assert typed("swep").code == 2 and "unknown command" in PAGE.read_text()


ROOT = Path(__file__).resolve().parents[2]


def test_the_code_is_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    for result, code in ((0, 0), (3, 3), (None, None)):
        with pytest.raises(SystemExit) as end:
            run_command(lambda result=result: result)
        assert end.value.code == code
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "shown"), [((), "Interrupted."), (("12 rows kept",), "12 rows kept")]
)
def test_ctrl_c_is_a_sentence(
    arguments: tuple[str, ...], shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped() -> int:
        raise KeyboardInterrupt(*arguments)

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
    "words", [["plan", "model=scripted", "n=10", "r=1"], ["completion", "bash"]], ids=lambda w: w[0]
)
def test_a_reader_that_goes_away_is_met_with_silence(words: list[str]) -> None:
    """As `audit plan ... | head -0`: the pipe is closed before the first line. Tables are rich's,
    which ends with 1."""
    process = subprocess.Popen(
        [sys.executable, "-m", "audit", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(300) == 141
