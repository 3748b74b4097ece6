"""Define the verdicts of the perturbation audit, the result of one cell, and their texts.

The page, `audit gate` and the headlines use these texts. `INSTRUMENT` describes this audit for code
that treats all audits alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from audit.judging.document import Cell, Interval, Section
from audit.judging.instrument import Indicator, Instrument, Measured
from audit.judging.ladder import Grade
from audit.judging.result import Reason, Texts, because
from audit.judging.run import CellResult, Decided
from audit.judging.vocabulary import (
    ANSWER_GATES,
    ANSWER_LABELS,
    LOG_GATES,
    NOT_IDENTIFIED,
    UNDERPOWERED,
    WITHHELD,
    GateWord,
    VerdictWord,
)
from audit.perturb.texts import TEXTS

if TYPE_CHECKING:  # Commands that compute no statistics import this module and must start fast.
    from audit.perturb.evidence import Evidence


class PerturbVerdict(StrEnum):
    """Enumerate the verdicts, in the order in which their conditions are checked."""

    WITHHELD = "withheld"
    DROP_BEYOND_REFERENCE = "drop_beyond_reference"
    DROP_SUGGESTS_MEMORY = "drop_suggests_memory"
    CAUSE_UNKNOWN = "drop_cause_unknown"
    NOT_IDENTIFIED = "not_identified"
    UNDERPOWERED = "underpowered"
    NO_DROP_DETECTED = "no_drop_detected"


@dataclass(frozen=True)
class Decision(Decided[PerturbVerdict]):
    """Hold the verdict on one model and benchmark, with the reason for doubt.

    Attributes
    ----------
    doubt : str
        Code of the reason why a drop is ignored, is not called beyond reference, or is not judged.
    """

    doubt: str = ""


@dataclass(frozen=True)
class Unparsed:
    """Describe how sensitive a verdict is to unparsed answers.

    Attributes
    ----------
    share : float
        Share of the tested model's answers that are unparsed (0-1).
    holds : PerturbVerdict or None
        The verdict whose tipping point is stated; None if no verdict depends on unparsed answers.
    tipping_point : float
        Largest odds ratio at which the verdict holds when unparsed answers are imputed. Infinite
        (null in verdict.json) if the verdict holds in the worst case.
    worst_case : bool
        Whether the verdict holds if all unparsed answers are imputed against the verdict.
    largest_worst : float or None
        The largest drop (0-1) if unparsed answers are imputed in the worst case.
    """

    share: float
    holds: PerturbVerdict | None
    tipping_point: float
    worst_case: bool
    largest_worst: float | None

    @property
    def reason(self) -> Reason:
        """Return the code and the numbers of the sentence on unparsed answers."""
        return because("unparsed", **vars(self))


@dataclass(frozen=True, kw_only=True)
class PerturbResult(CellResult):
    """Hold the verdict on one model and benchmark, with its evidence.

    Attributes
    ----------
    decision : Decision
        The verdict and its grade.
    evidence : Evidence or None
        All statistics; None if nothing could be compared.
    found_p, beyond_p : float or None
        p-values after Holm's correction over the panel; None if not tested.
    plain_p : float or None
        `beyond_p` without the prior for the differences between clean models.
    plain : PerturbVerdict or None
        The verdict that would follow from `plain_p`.
    unparsed : Unparsed or None
        How much the verdict depends on unparsed answers; None if all answers were parsed.
    """

    texts: ClassVar[Texts] = TEXTS

    decision: Decision
    evidence: Evidence | None
    found_p: float | None
    beyond_p: float | None
    plain_p: float | None = None
    plain: PerturbVerdict | None = None
    unparsed: Unparsed | None = None


# The page lists the verdicts in this order, the worst first.
VERDICTS: dict[PerturbVerdict, VerdictWord] = {
    PerturbVerdict.DROP_BEYOND_REFERENCE: VerdictWord(
        "Drop beyond reference",
        "▲",
        "^",
        "The score falls by more than broken variants could cause, and by more than the reference "
        "models lose on the same variants. Sensitivity to wording does not explain the pattern. "
        "Part of the score may be memory of the published wording.",
        Grade.FOUND_STRONG,
        plain="Loses more than other models when reworded",
    ),
    PerturbVerdict.DROP_SUGGESTS_MEMORY: VerdictWord(
        "Drop that suggests memory",
        "△",
        "D",
        "The score falls by more than the reference models lose, and on the items on which memory "
        "would help. A model that is sensitive to wording on hard items only has the same pattern. "
        "Reworded held-out items show which of the two it is.",
        Grade.FOUND_SUGGESTIVE,
        plain="Loses more than other models, in the pattern of memory",
    ),
    PerturbVerdict.CAUSE_UNKNOWN: VerdictWord(
        "Drop, cause unknown",
        "▼",
        "v",
        "The score falls when the questions are reworded. The cause may be memory of the wording, "
        "harder or broken variants, or sensitivity to wording. These data cannot show which.",
        Grade.CAUSE_UNKNOWN,
        plain="Loses points when reworded, by memory or not",
    ),
    PerturbVerdict.WITHHELD: WITHHELD,
    PerturbVerdict.NOT_IDENTIFIED: replace(
        NOT_IDENTIFIED, plain="This score leaves no room for a drop that matters"
    ),
    PerturbVerdict.UNDERPOWERED: UNDERPOWERED,
    PerturbVerdict.NO_DROP_DETECTED: VerdictWord(
        "No drop detected",
        "●",
        "o",
        "No drop counts, and the data exclude a drop that matters. Answers that were learnt as "
        "facts survive rewording, and are not excluded.",
        Grade.CLEARED,
        plain="Rewording costs less than what matters; learnt answers are not examined",
    ),
}

GATES: dict[str, GateWord] = {
    **LOG_GATES,
    **ANSWER_GATES,
    "order_of_items": GateWord(
        "Same items in every wording",
        "the items do not match between the original wordings and the variants",
    ),
    "noise_floor": GateWord(
        "Repeated runs agree", "repeats of one prompt differ more than by chance"
    ),
    "variants_reached_model": GateWord(
        "Variants reach the model", "the variants did not reach the model"
    ),
    "broken_share": GateWord("Few broken variants", "too many variants may have lost their answer"),
}

# Display names of the thresholds.
LABELS = {
    **ANSWER_LABELS,
    "alpha": "Error rate of both findings, family-wise",
    "power": "Power at which the detectable drop is stated",
    "effect_of_interest": "Effect of interest: the drop that matters",
    "noop_share_max": "Variants reach the model: largest share of repeated requests",
    "broken_share_max": "Few broken variants: largest upper limit of their share",
    "order_z_min": "Same items in every wording: standard errors needed",
    "order_items_min": "Same items in every wording: fewest items",
    "curve_references_min": "Least number of references for ConStat's curve",
    "units_min": "Enough questions: least number of independent questions",
    "bracket_margin": "References bracket the model: largest miss in accuracy on the variants",
    "tau_prior": "Differences between clean models: scale of the prior, 0 for none",
    "block_at": "Weakest finding that blocks",
    "unparsed_gamma": "Unparsed answers: odds ratio at which they count against a verdict",
}


class Drop(Section):
    """Hold the drop in accuracy when questions are reworded.

    Attributes
    ----------
    original : float or None
        Accuracy with the published wording.
    drop : Interval
        The drop in accuracy, with its interval.
    cs : Interval
        The contamination score: the drop divided by the accuracy.
    """

    original: float | None
    drop: Interval
    cs: Interval


class PerturbEvidence(Section):
    """Hold the fields of the statistical evidence (`Evidence`) that other programs read."""

    drop: Drop


class PerturbVerdictCell(Cell):
    """Hold the entry of one model and benchmark in verdict.json of the perturbation audit."""

    evidence: PerturbEvidence | None


def measured(cell: PerturbVerdictCell) -> Measured:
    """Return the drop on which the verdict is based, with the false positive rate of its test.

    Parameters
    ----------
    cell : PerturbVerdictCell
        The entry of one model and benchmark in verdict.json.

    Returns
    -------
    Measured
        The drop with its interval.
    """
    alarms = cell.rates.get("clean_beyond" if cell.references else "clean_unknown")
    name = "drop under rewording"
    if cell.evidence is None:
        return Measured(name, None, None, None, alarms)
    drop = cell.evidence.drop.drop
    return Measured(name, drop.estimate, drop.low, drop.high, alarms)


def tracked(cell: PerturbVerdictCell) -> tuple[Indicator, ...]:
    """Return the metrics that the registry compares between runs.

    Parameters
    ----------
    cell : PerturbVerdictCell
        The entry of one model and benchmark in verdict.json.

    Returns
    -------
    tuple of Indicator
        The accuracy, the contamination score `cs`, and the drop. The tuple is empty if nothing
        could be compared.
    """
    if cell.evidence is None:
        return ()
    figures = cell.evidence.drop
    return (
        Indicator("score", figures.original),
        Indicator("cs", figures.cs.estimate, figures.cs.low, figures.cs.high),
        Indicator("drop", figures.drop.estimate, figures.drop.low, figures.drop.high),
    )


INSTRUMENT = Instrument(
    "perturb",
    "the perturbation audit",
    frozenset({"wording"}),
    measured,
    tracked,
    cell=PerturbVerdictCell,
)
