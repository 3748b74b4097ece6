"""The statuses of this audit, and all that is said of one cell."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from audit.validity.evidence import CellEvidence
from audit.validity.status import PaperStatus
from audit.validity.texts import TEXTS
from audit.verdict.result import Texts
from audit.verdict.run import CellResult, Decided


class ValidityStatus(StrEnum):
    """In the order in which they are tried: scorer validation comes before the numerical gates (finding B)."""

    INELIGIBLE_EDITS = "ineligible_edits"  # the paper's F1: edits do not reach the scorer, or too few exist
    SCORER_UNVALIDATED = "scorer_unvalidated"
    FAILED = "failed_gates"
    INELIGIBLE_ARCHETYPE = "ineligible_archetype"  # the paper's F5: contracts are mixed
    EXPLORATORY = "exploratory"  # a fault that the checks must catch is not caught
    SELECTIVE = "confirmatory_selective"
    NON_SELECTIVE = "confirmatory_non_selective"
    INDETERMINATE = "indeterminate"


class Decision(Decided[ValidityStatus]):
    """With one of these statuses."""


@dataclass(frozen=True)
class Injected:
    """One known fault put into a copy of the run's data. state: caught, missed, already_failing or not_showable."""

    fault: str
    named: str
    check: str
    state: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class ValidityResult(CellResult):
    """The status of one cell with its evidence. above_p, below_p: after Holm over the panel; None where not tested."""

    texts: ClassVar[Texts] = TEXTS

    context: str
    decision: Decision
    paper: PaperStatus | None  # what the paper's own algorithm says of the same numbers
    faults: tuple[Injected, ...]
    evidence: CellEvidence | None
    above_p: float | None
    below_p: float | None
