"""The five verdicts, and all that is said of one cell."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from audit.perturb.texts import TEXTS
from audit.verdict.result import Texts
from audit.verdict.run import CellResult, Decided

if TYPE_CHECKING:  # the vocabulary is read by commands that have no statistics to load
    from audit.perturb.grounds import Evidence
    from audit.perturb.tipping import Unparsed


class PerturbVerdict(StrEnum):
    """In the order in which they are tried."""

    WITHHELD = "withheld"
    DROP_BEYOND_REFERENCE = "drop_beyond_reference"
    BRITTLE_CAUSE_UNKNOWN = "brittle_cause_unknown"
    UNDERPOWERED = "underpowered"
    NO_DROP_DETECTED = "no_drop_detected"


@dataclass(frozen=True)
class Decision(Decided[PerturbVerdict]):
    """doubt: by code, why a drop was not counted, not called beyond reference, or (withheld) not judged."""

    doubt: str = ""


@dataclass(frozen=True, kw_only=True)
class PerturbResult(CellResult):
    """The verdict on one model and benchmark, with its evidence (None where nothing could be compared).

    found_p, beyond_p: after Holm over the panel; None where not tested. plain_p: beyond_p without the prior of how much
    models differ, and plain: the finding by it. unparsed: how far the verdict holds; None where all was parsed.
    """

    texts: ClassVar[Texts] = TEXTS

    decision: Decision
    evidence: Evidence | None
    found_p: float | None
    beyond_p: float | None
    plain_p: float | None = None
    plain: PerturbVerdict | None = None
    unparsed: Unparsed | None = None
