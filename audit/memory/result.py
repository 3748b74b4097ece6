"""The six verdicts, and all that is said of one cell."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from audit.memory.evidence import Evidence
from audit.memory.texts import TEXTS
from audit.memory.without import ScoreWithout
from audit.verdict.reason import Texts
from audit.verdict.run import CellResult, Decided


class MemoryVerdict(StrEnum):
    """In the order in which they are tried."""

    WITHHELD = "withheld"
    MEMORY_OF_TEXT = "memory_of_text_seen"
    GAP_TO_FRESH = "gap_to_fresh_items"
    CAUSE_UNKNOWN = "memory_cause_unknown"
    UNDERPOWERED = "underpowered"
    NOTHING_SEEN = "nothing_seen_by_this_instrument"


class Decision(Decided[MemoryVerdict]):
    """With one of these verdicts."""


@dataclass(frozen=True, kw_only=True)
class MemoryResult(CellResult):
    """The verdict on one model and benchmark, with its evidence.

    holds_up_to: the odds ratio of unparsed answers up to which what is said of the gap holds
    (`audit.memory.decide.tipping`). without: the score without memory; its sentence begins the headline.
    """

    texts: ClassVar[Texts] = TEXTS

    decision: Decision
    evidence: Evidence
    holds_up_to: float | None = None
    without: ScoreWithout | None = None
