"""The verdicts, all that is said of one cell, and their words; the row of the table of
instruments."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from audit.judging import vocabulary as shared
from audit.judging.document import Cell
from audit.judging.instrument import Indicator, Instrument, Measured
from audit.judging.ladder import Grade
from audit.judging.run import CellResult, Decided, JudgedRun
from audit.statistics.paired import CellOutcomes
from shouting.texts import TEXTS


class Verdict(StrEnum):
    WITHHELD = "withheld"
    MATTERS = "shouting_matters"
    NOT_IDENTIFIED = "not_identified"
    UNDERPOWERED = "underpowered"
    NOTHING = "shouting_does_nothing"


Decision = Decided[Verdict]


@dataclass(frozen=True)
class Evidence:
    """n: questions that were answered both ways. cost: accuracy that the loudest volume costs
    (0-1), with its 90 % interval; p: exact McNemar, one-sided. None in verdict.json: no answers."""

    n: int
    accuracy: float | None
    cost: float | None
    low: float | None
    high: float | None
    p: float


@dataclass(frozen=True, kw_only=True)
class ShoutingResult(CellResult):
    texts = TEXTS

    evidence: Evidence
    p_adjusted: float


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun[CellOutcomes, ShoutingResult]):
    audit = "shouting"
    schema_version = "1.0"

    def extra_cell_fields(self, cell: CellOutcomes, result: ShoutingResult) -> dict[str, Any]:
        return {
            "evidence": result.evidence,
            "p_adjusted": result.p_adjusted,
            "score": result.evidence.accuracy,
        }


VERDICTS = {
    Verdict.WITHHELD: shared.WITHHELD,
    Verdict.MATTERS: shared.VerdictWord(
        "Shouting matters", "▲", "^", "Shouted questions are missed.", Grade.FOUND_STRONG
    ),
    Verdict.NOT_IDENTIFIED: shared.NOT_IDENTIFIED,
    Verdict.UNDERPOWERED: shared.UNDERPOWERED,
    Verdict.NOTHING: shared.VerdictWord(
        "No harm found", "●", "o", "Shouted questions fare no worse.", Grade.CLEARED
    ),
}
GATES = shared.ANSWER_GATES


class ShoutingCell(Cell):
    evidence: Evidence


def measured(cell: ShoutingCell) -> Measured:
    e = cell.evidence
    return Measured("cost of shouting", e.cost, e.low, e.high, None)


def tracked(cell: ShoutingCell) -> tuple[Indicator, ...]:
    e = cell.evidence
    return Indicator("score", e.accuracy), Indicator("cost", e.cost, e.low, e.high)


INSTRUMENT = Instrument(
    "shouting", "the shouting audit", frozenset({"format"}), measured, tracked, cell=ShoutingCell
)
