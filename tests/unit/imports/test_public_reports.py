"""Read each small input that was made after a public bug report: the value that its README has."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from audit.core.errors import AuditError
from audit.imports.checks import check_logs
from audit.imports.detect import read_log
from audit.imports.join import Joined, counts
from audit.imports.record import Wanted

M = {"model": "m"}


@dataclass(frozen=True)
class Read:
    """What a log holds. failed: checks without which no verdict is given."""

    accuracy: float
    items: int
    unparsed: int = 0
    score: str = ""
    failed: tuple[str, ...] = ()
    wanted: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Refused:
    """A log that is not read. says: of the refusal, a regular expression."""

    says: str
    wanted: dict[str, str] = field(default_factory=dict)


UNKNOWN = (
    "chance_known",
)  # letters, or truth values, and nothing tells how many options there are
GPQA = {"model": "m", "benchmark": "gpqa", "key": "text"}
REPORTS: dict[str, tuple[Read | Refused, ...]] = {  # by folder and file
    "03-*/*.jsonl": (Read(0.47, 100, score="acc", failed=("counts_right",), wanted=M),),
    "04-*/preds.csv": (Read(0.7, 40, failed=UNKNOWN),),
    "05-*/preds.csv": (Read(26 / 38, 40, 2),),
    "06-*/preds.csv": (Read(1, 36, failed=UNKNOWN),),
    "07-*/replies.jsonl": (Read(1, 9, failed=UNKNOWN),),
    "08-*/replies.jsonl": (Read(1, 29, 4),),  # 25 numbers, and four replies with two meanings
    "09-*/replies.jsonl": (Read(1, 19, 2),),
    "10-*/gsm*": (
        Read(0.8, 40, score="final_number_exact_match"),
        Read(0, 40, score="exact_match", wanted={"metric": "exact_match"}),
    ),
    "10b-*/gsm*": (Read(0.8, 40, score="final_number_exact_match"),),
    "10c-*/gpqa*": (Read(0.7, 40, score="chain_of_thought_correctness"),),
    "11b-*/boolq*": (Read(0.8, 40, score="exact_match"),),
    "13-*/log.json": (Read(1, 6, score="choice", failed=("log_finished",)),),
    "14-*/log.json": (Read(0.75, 40, 8, "choice"),),
    "15-*/log.json": (
        Refused(r"answer_format 1\.000, match 0\.600"),
        Read(0.6, 40, score="match", wanted={"metric": "match"}),
    ),
    "16-*/log.json": (
        Refused(r"match\.accuracy 0\.500, match\.brevity 1\.000"),
        Read(0.5, 10, 0, "match.accuracy", UNKNOWN, {"metric": "match.accuracy"}),
    ),
    "17-*/log.json": (Read(22 / 38, 40, 2, "choice"),),
    "18-*/log.json": (Read(26 / 34, 40, 6),),
    "19-*/log.json": (Read(0.8, 20),),
    "20-*/m1.jsonl": (Read(0.675, 40, wanted=GPQA),),
    "20-*/m2.jsonl": (Read(0.55, 40, wanted=GPQA),),
    "21-*/*.jsonl": (Read(0.5, 10),),
    "22-*/gsm8k.json": (Read(1, 10, wanted=M),),
    "22-*/*details.json": (Read(0.5, 10, wanted=M),),
    "23-*/*results.json": (
        Refused(r"base 1\.000, plus 0\.500", M),
        Read(0.5, 10, wanted=M | {"metric": "plus"}),
    ),
    "23-*/*samples.jsonl": (Refused("solutions alone"),),
    "24-*/*.jsonl": (Refused("marks of a judge"),),
    "25-*/results.json": (Read(0.5, 6),),
    "26-*/*.json": (Refused("no single items"),),
    "27-*/log.json": (Read(0.7, 20, score="bfcl_scorer", failed=UNKNOWN),),
    "28-*/*.parquet": (Read(0.7, 20, score="extractive_match", wanted=M),),
    "30-*/preds.csv": (Refused(r"0 to 3 .* 1 to 4"),),
    "31-*/preds.csv": (Read(1, 40, failed=UNKNOWN),),
    "32-*/preds.csv": (Read(1, 40, 8, failed=UNKNOWN),),
}
CASES = [(file, case) for file, cases in REPORTS.items() for case in cases]


@pytest.mark.parametrize(
    ("file", "case"), CASES, ids=[f"{file} {type(case).__name__}" for file, case in CASES]
)
def test_a_public_report_is_read_right_or_refused(
    shared_data: Path, file: str, case: Read | Refused
) -> None:
    (path,) = (shared_data / "public_reports").glob(file)
    wanted = Wanted(**case.wanted)
    if isinstance(case, Refused):
        with pytest.raises(AuditError, match=case.says):
            list(read_log(path, wanted).outcomes)
        return
    joined = Joined()
    log = read_log(path, wanted)
    joined.add(path.name, log.outcomes, unfinished=log.unfinished)
    (cell, *_) = counts(joined)
    failed = {
        check.name for check in check_logs(joined, [cell.benchmark], None) if not check.passed
    }
    assert cell.accuracy == pytest.approx(case.accuracy, abs=5e-4)
    assert (cell.items, cell.unparsed) == (case.items, case.unparsed)
    assert log.score == case.score or not case.score
    assert failed == set(case.failed)
