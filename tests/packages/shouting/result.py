"""The three verdicts, and all that is said of one cell."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from audit.statistics.paired import CellOutcomes
from audit.verdict.run import CellResult, Decided, JudgedRun
from shouting.texts import TEXTS


class Verdict(StrEnum):
    WITHHELD = "withheld"
    MATTERS = "shouting_matters"
    UNDERPOWERED = "underpowered"
    NOTHING = "shouting_does_nothing"


class Decision(Decided[Verdict]):
    """With one of these verdicts."""


@dataclass(frozen=True)
class Evidence:
    """n: questions that were answered both ways. cost: accuracy that the loudest volume costs (0-1), with its 90 %
    interval; p: exact McNemar, one-sided."""

    n: int
    accuracy: float
    cost: float
    low: float
    high: float
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

    def own_of_cell(self, cell: CellOutcomes, result: ShoutingResult) -> dict[str, Any]:
        return {"evidence": result.evidence, "p_adjusted": result.p_adjusted, "score": result.evidence.accuracy}
