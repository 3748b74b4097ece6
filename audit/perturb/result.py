"""The five verdicts, and all that is said of one cell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from audit.verdict.run import CellResult

if TYPE_CHECKING:  # the vocabulary is read by commands that have no statistics to load
    from audit.perturb.evidence import Evidence


class PerturbVerdict(StrEnum):
    """In the order in which they are tried."""

    WITHHELD = "withheld"
    DROP_BEYOND_REFERENCE = "drop_beyond_reference"
    BRITTLE_CAUSE_UNKNOWN = "brittle_cause_unknown"
    UNDERPOWERED = "underpowered"
    NO_DROP_DETECTED = "no_drop_detected"


@dataclass(frozen=True)
class Decision:
    """A verdict, why, and what to do about it.

    doubt: in a few words, why a drop was not counted, or (brittle) what fresh items say of it, or (withheld) what of it
    hangs on unread answers.
    """

    verdict: PerturbVerdict
    reasons: tuple[str, ...]
    what_to_do: tuple[str, ...] = ()
    doubt: str = ""


@dataclass(frozen=True, kw_only=True)
class PerturbResult(CellResult):
    """The verdict on one model and benchmark, with its evidence (None where nothing could be compared).

    found_p, beyond_p: after Holm over the panel; None where not tested. sensitivity: what this audit was measured to
    notice, in a sentence.
    """

    decision: Decision
    evidence: Evidence | None
    found_p: float | None
    beyond_p: float | None
    sensitivity: str | None = None
