"""Define the statuses and gates of the validity audit, and their texts.

The page, the gate and the headlines use the same texts. `INSTRUMENT` describes this audit to the
programs that compare audits. The validity audit neither detects nor excludes memory. What a cell
can show depends on its archetype (what edits of the content should do to answers).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from audit.judging.document import Cell, Difference, Interval, Section
from audit.judging.instrument import Indicator, Instrument, Measured
from audit.judging.ladder import Grade
from audit.judging.result import Texts
from audit.judging.run import CellResult, Decided
from audit.judging.vocabulary import GateWord, VerdictWord
from audit.validity.edits.record import Archetype
from audit.validity.texts import TEXTS

if TYPE_CHECKING:  # Commands that do not use statistics import this module.
    from audit.validity.evidence import Evidence
    from audit.validity.status import PaperStatus


class ValidityStatus(StrEnum):
    """Name the statuses, in the order in which they are tested.

    The scorer is checked before the numerical gates.
    """

    INELIGIBLE_EDITS = "ineligible_edits"  # the paper's F1: edits change nothing, or are too few
    SCORER_UNVALIDATED = "scorer_unvalidated"
    FAILED = "failed_gates"
    INELIGIBLE_ARCHETYPE = "ineligible_archetype"  # the paper's F5: contracts are mixed
    EXPLORATORY = "exploratory"  # a fault that the checks must catch is not caught
    SELECTIVE = "confirmatory_selective"
    NON_SELECTIVE = "confirmatory_non_selective"
    INDETERMINATE = "indeterminate"


Decision = Decided[ValidityStatus]


@dataclass(frozen=True)
class Injected:
    """Report how a check reacted to a fault in a copy of the run's data.

    Attributes
    ----------
    fault : str
        Class of the fault in li2026.
    named : str
        What is wrong in the faulty copy.
    check : str
        The gate that must fail.
    state : {"caught", "missed", "already_failing", "not_showable"}
        The result. "already_failing" means that the check failed before the injection.
        "not_showable" means that these data cannot contain the fault.
    detail : str
        What the check reported.
    """

    fault: str
    named: str
    check: str
    state: str
    detail: str


@dataclass(frozen=True, kw_only=True)
class ValidityResult(CellResult):
    """Hold the status of one cell with its evidence.

    Attributes
    ----------
    context : str
        Context of the cell.
    decision : Decision
        The status, its grade and its reasons.
    paper : PaperStatus or None
        The status that the algorithm of the paper gives for the same numbers.
    faults : tuple of Injected
        Results of the injected faults.
    evidence : Evidence
        All statistics.
    above_p, below_p : float or None
        One-sided p-values of the tests that D is above (below) its bound, after Holm's correction
        over the panel; None if not tested.
    """

    texts: ClassVar[Texts] = TEXTS

    context: str
    decision: Decision
    paper: PaperStatus | None
    faults: tuple[Injected, ...]
    evidence: Evidence
    above_p: float | None
    below_p: float | None


# The page lists the statuses in this order, the worst first.
VERDICTS: dict[ValidityStatus, VerdictWord] = {
    ValidityStatus.INELIGIBLE_EDITS: VerdictWord(
        "Edits not usable",
        "◇",
        "d",
        "The edits do not change what the scorer reads, or too few items have edits (the paper's "
        "F1).",
        Grade.CHECK_FAILED,
        plain="The edits do not change what is scored",
    ),
    ValidityStatus.SCORER_UNVALIDATED: VerdictWord(
        "Scorer unvalidated",
        "▼",
        "v",
        "No human label or reference supports the scorer, or the scorer failed its self-test. Its "
        "scores have no meaning yet.",
        Grade.CHECK_FAILED,
        plain="Nothing supports the scorer yet",
    ),
    ValidityStatus.FAILED: VerdictWord(
        "Not measurable",
        "✖",
        "X",
        "No conclusion is drawn. Answers cannot be read, or rows are not paired, or the model is "
        "no better than a rule that does not read the question.",
        Grade.CHECK_FAILED,
        plain="A check failed: no result about the model",
    ),
    ValidityStatus.INELIGIBLE_ARCHETYPE: VerdictWord(
        "Edits of two kinds",
        "◆",
        "D",
        "Some edits of the content should change the answer and some should not, so a single "
        "number has no meaning (the paper's F5).",
        Grade.NOT_IDENTIFIED,
        plain="Edits of two kinds are mixed",
    ),
    ValidityStatus.EXPLORATORY: VerdictWord(
        "Exploratory",
        "■",
        "s",
        "A check missed the fault that it must catch, or the check could not be tested. All other "
        "checks pass.",
        Grade.CHECK_FAILED,
        plain="A check missed the fault that it must catch",
    ),
    ValidityStatus.INDETERMINATE: VerdictWord(
        "Not confirmed",
        "✚",
        "P",
        "All checks pass, and the data confirm neither a fault nor its absence. Either no "
        "direction of the difference is significant after correction. Or edits of the content move "
        "more answers than layout and wording do, but answers do not clearly reach the new right "
        "answer in most cases. The paper has no status for this.",
        Grade.UNDECIDED,
        plain="Neither a fault nor its absence is shown",
    ),
    # Whether a confirmed direction is a finding or a clearance depends on the archetype of the
    # cell. Without an archetype, the direction is neither a finding nor a clearance.
    ValidityStatus.NON_SELECTIVE: VerdictWord(
        "Content moves no answer",
        "●",
        "o",
        "What edits of the content should do is not known.",
        Grade.NOT_IDENTIFIED,
        {
            Archetype.DIAGNOSTIC: VerdictWord(
                "Follows the form",
                "▲",
                "^",
                "The right answer changes, but layout and wording move answers more often than the "
                "content does. This is a finding (li2026: confirmatory, non-selective).",
                Grade.FOUND_STRONG,
                plain="Answers follow layout and wording more than content",
            ),
            Archetype.INVARIANCE: VerdictWord(
                "Stays where it should",
                "●",
                "o",
                "No answer should change. Edits of the content move no more answers than layout "
                "and wording do, up to the margin. This is as it should be (li2026: confirmatory, "
                "non-selective).",
                Grade.CLEARED,
                plain="The content changes, and answers stay as they should",
            ),
        },
    ),
    ValidityStatus.SELECTIVE: VerdictWord(
        "Content moves answers",
        "●",
        "o",
        "What edits of the content should do is not known.",
        Grade.NOT_IDENTIFIED,
        {
            Archetype.DIAGNOSTIC: VerdictWord(
                "Follows the content",
                "●",
                "o",
                "The right answer changes, and answers follow the content more than layout and "
                "wording. This is as it should be (li2026: confirmatory, selective).",
                Grade.CLEARED,
                plain="Answers follow content more than layout and wording",
            ),
            Archetype.INVARIANCE: VerdictWord(
                "Reacts where it should not",
                "▲",
                "^",
                "No answer should change, but edits of the content move answers more than layout "
                "and wording do. This is a finding (li2026: confirmatory, selective).",
                Grade.FOUND_STRONG,
                plain="Answers change with the content, but should not",
            ),
        },
    ),
}

GATES: dict[str, GateWord] = {
    "G1_edits_reach_scorer": GateWord(
        "G1: edits reach the scorer",
        "edits do not change what the scorer reads",
        "Hashes of the token ids that the scorer read, for every edit and its original.",
    ),
    "G1_enough_edits": GateWord(
        "G1: enough edits",
        "too few items have the edits",
        "The edits of each item that changed what the scorer reads.",
    ),
    "G1_answers_readable": GateWord(
        "G1: answers readable",
        "answers cannot be read under an edit",
        "Whether an answer was read, for the original and for each edit.",
    ),
    "scorer_valid": GateWord(
        "Scorer valid",
        "the scorer is not validated",
        "The scorer's evidence, and its self-test on these items.",
    ),
    "F3b_key_position": GateWord(
        "Key at every position",
        "the key is always at one position",
        "The position at which the key of each original was shown.",
    ),
    "F3c_label_values": GateWord(
        "Labels have values",
        "the scored labels have no probability",
        "Why answers were not read, and the total probability of the labels.",
    ),
    "F3c_exact_values": GateWord(
        "Plausible values",
        "some numbers are suspiciously exact",
        "Changes of response and score by family.",
    ),
    "G2_above_baseline": GateWord(
        "G2: above baseline",
        "the model is no better than a rule that never reads the question",
        "Scores of the originals, and of rules that see only the options.",
    ),
    "G3_denominator": GateWord(
        "G3: ratio has a denominator",
        "the ratio has no denominator",
        "Changes of answer under edits of layout and wording.",
    ),
    "G4_paired": GateWord(
        "G4: rows are paired",
        "rows of different items share an id",
        "Text and key of every row of an item, and the items' clusters.",
    ),
    "G4_order": GateWord(
        "G4: items in order",
        "edited rows belong to other originals",
        "Responses to originals and to surface edits, item by item.",
    ),
    "G5_archetype": GateWord(
        "G5: edits of one kind",
        "edits of two kinds are mixed",
        "What every edit of the content should do.",
    ),
    "F5_direction": GateWord(
        "Answers moved, not keys",
        "keys moved onto answers that stayed",
        "Score and answer before and after edits of the content.",
    ),
    "F6_isolation": GateWord(
        "Content beyond neutral words",
        "neutral words move as many answers as the content",
        "Changes of answer under edits of the content and under the placebo.",
    ),
    "F10_context": GateWord(
        "Repeated requests are the same",
        "a repeated request was a different request",
        "Hashes of the requests, for the first sending and the replays.",
    ),
    "noise_floor": GateWord(
        "Repeated requests agree",
        "the same request gives other answers",
        "Responses to the same request, sent again.",
    ),
    "G6_repair_regression": GateWord(
        "G6: faults are caught",
        "a check missed the fault that it must catch",
        "A copy of this run with each fault, and the result of the check of that fault.",
    ),
}

# The page prints these names for the kinds of edit and the thresholds.
LABELS = {
    "format": "layout (format)",
    "semantic": "wording (semantic)",
    "attribute": "content (attribute)",
    "placebo": "neutral words (placebo)",
    "alpha": "Error rate of both directions together",
    "noop_share_max": "G1: largest share of edits that change nothing",
    "parse_share_min": "G1: least share of readable answers",
    "parse_drop_alpha": "G1: level of the test that compares readable answers before and after an "
    "edit",
    "applicable_share_min": "G1: least share of the wanted edits",
    "baseline_standard_errors": "G2: standard errors above the baseline",
    "denominator_min": "G3: least lower limit of the denominator",
    "margin": "Largest excess over layout and wording that still counts as no change",
    "follow_min": "Least lower limit of the share of expected answers",
    "wrong_to_right_max": "Largest share of wrong answers that an edit makes right",
    "position_alpha": "Level of the test that the key is at every position",
    "label_mass_min": "Labels have values: least mean probability",
    "replay_change_max": "Repeated requests agree: largest share that changes",
}


FORMAT, ATTRIBUTE = frozenset({"format"}), frozenset({"attribute"})


class ValidityEvidence(Section):
    """Hold the fields of `Evidence` that other programs read.

    Attributes
    ----------
    archetype : str or None
        What attribute edits should do to the answers.
    score : Interval
        Score of the originals.
    primary : Difference or None
        The difference D.
    csr : dict of str to Interval
        Maps each convention of the key to the paper's ratio CSR.
    """

    archetype: str | None
    score: Interval
    primary: Difference | None
    csr: dict[str, Interval]


class ValidityCell(Cell):
    """Hold one cell of verdict.json, the file in which a validity audit stores its verdict.

    Attributes
    ----------
    evidence : ValidityEvidence or None
        The statistics of the cell.
    """

    evidence: ValidityEvidence | None

    @property
    def archetype(self) -> str | None:
        """Return what attribute edits should do to the answers; None if the cell has no
        statistics.
        """
        return self.evidence.archetype if self.evidence else None


def sees(cell: ValidityCell) -> frozenset[str]:
    """Return the kinds of finding that a cell can show.

    Parameters
    ----------
    cell : ValidityCell
        A cell of verdict.json.

    Returns
    -------
    frozenset of str
        {"attribute"} if no answer should change, otherwise {"format"}.
    """
    return ATTRIBUTE if cell.archetype == Archetype.INVARIANCE else FORMAT


def measured(cell: ValidityCell) -> Measured:
    """Return the difference D behind the status, and the rate of false positives.

    Parameters
    ----------
    cell : ValidityCell
        A cell of verdict.json.

    Returns
    -------
    Measured
        D with its interval.
    """
    accused = "selective" if cell.archetype == Archetype.INVARIANCE else "non_selective"
    estimand, alarms = "answers moved by content more than by form (D)", cell.rates.get(accused)
    d = cell.evidence.primary if cell.evidence else None
    if d is None:
        return Measured(estimand, None, None, None, alarms)
    return Measured(estimand, d.difference, d.low, d.high, alarms)


def tracked(cell: ValidityCell) -> tuple[Indicator, ...]:
    """Return the metrics of a cell that the registry compares between runs.

    Parameters
    ----------
    cell : ValidityCell
        A cell of verdict.json.

    Returns
    -------
    tuple of Indicator
        The score, and the difference D under the name `selectivity`. The tuple is empty if the cell
        has no statistics.
    """
    if cell.evidence is None:
        return ()
    score, primary = cell.evidence.score, cell.evidence.primary
    selectivity = Indicator("selectivity", None)
    if primary is not None:
        selectivity = Indicator("selectivity", primary.difference, primary.low, primary.high)
    return (Indicator("score", score.estimate, score.low, score.high), selectivity)


INSTRUMENT = Instrument(
    "validity",
    "the construct-validity audit",
    FORMAT | ATTRIBUTE,
    measured,
    tracked,
    sees,
    cell=ValidityCell,
)
