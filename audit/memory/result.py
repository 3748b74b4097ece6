"""The five verdicts, and all that is said of one cell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from audit.memory.evidence import Evidence
from audit.verdict.run import CellResult


class MemoryVerdict(StrEnum):
    """In the order in which they are tried."""

    WITHHELD = "withheld"
    MEMORY_OF_TEXT = "memory_of_text_seen"
    GAP_TO_FRESH = "gap_to_fresh_items"
    UNDERPOWERED = "underpowered"
    NOTHING_SEEN = "nothing_seen_by_this_instrument"


@dataclass(frozen=True)
class Decision:
    """A verdict, why, and what to do about it."""

    verdict: MemoryVerdict
    reasons: tuple[str, ...]
    what_to_do: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class MemoryResult(CellResult):
    """The verdict on one model and benchmark, with its evidence.

    sensitivity: what this audit was measured to notice, in a sentence.
    """

    decision: Decision
    evidence: Evidence
    sensitivity: str | None = None
