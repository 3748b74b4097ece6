"""Define the statuses of the construct-validity audit and their texts: one entry a status and one a
gate.

Page, gate and headline share these entries. Last, `INSTRUMENT` is the audit's row of the table of
instruments. It sees nothing of memory, and clears none of it; what a cell can show depends on its
archetype.
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

if TYPE_CHECKING:  # the words are read by commands that have no statistics to load
    from audit.validity.evidence import Evidence
    from audit.validity.status import PaperStatus


class ValidityStatus(StrEnum):
    """Name the statuses, in the order in which they are tried.

    Scorer validation comes before the numerical gates (finding B).
    """

    INELIGIBLE_EDITS = (
        "ineligible_edits"  # the paper's F1: edits do not reach the scorer, or too few exist
    )
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
    """Report one known fault put into a copy of the run's data.

    Attributes
    ----------
    fault, named : str
        Class of the fault, and what is wrong.
    check : str
        Gate that must fail on it.
    state : str
        caught, missed, already_failing or not_showable.
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
        Status, grade and reasons.
    paper : PaperStatus or None
        Status by the paper's own algorithm.
    faults : tuple of Injected
        Injected faults.
    evidence : Evidence
        Statistics.
    above_p, below_p : float or None
        p after Holm over the panel; None if not tested.
    """

    texts: ClassVar[Texts] = TEXTS

    context: str
    decision: Decision
    paper: PaperStatus | None  # what the paper's own algorithm says of the same numbers
    faults: tuple[Injected, ...]
    evidence: Evidence
    above_p: float | None
    below_p: float | None


# Worst first, as on the page.
VERDICTS: dict[ValidityStatus, VerdictWord] = {
    ValidityStatus.INELIGIBLE_EDITS: VerdictWord(
        "Edits not usable",
        "◇",
        "d",
        "The edits do not reach what the scorer reads, or too few items have them (the paper's F1).",
        Grade.CHECK_FAILED,
        plain="The edits do not reach what is scored",
    ),
    ValidityStatus.SCORER_UNVALIDATED: VerdictWord(
        "Scorer unvalidated",
        "▼",
        "v",
        "No human label or reference backs the scorer, or it failed a test of itself. A score that it gives says "
        "nothing yet.",
        Grade.CHECK_FAILED,
        plain="Nothing backs the scorer yet",
    ),
    ValidityStatus.FAILED: VerdictWord(
        "Not measurable",
        "✖",
        "X",
        "Answers cannot be read, the model does no better than a rule that never reads the question, or rows are not "
        "paired: no conclusion is drawn.",
        Grade.CHECK_FAILED,
        plain="A check failed: no result about the model",
    ),
    ValidityStatus.INELIGIBLE_ARCHETYPE: VerdictWord(
        "Edits of two kinds",
        "◆",
        "D",
        "Some edits of the content should move the answer and some should not: no one number means "
        "anything (the paper's F5).",
        Grade.NOT_IDENTIFIED,
        plain="Edits of two kinds are mixed",
    ),
    ValidityStatus.EXPLORATORY: VerdictWord(
        "Exploratory",
        "■",
        "s",
        "All others pass, and a check did not catch the fault that it is there for, or could not be tried.",
        Grade.CHECK_FAILED,
        plain="A check did not catch its own fault",
    ),
    ValidityStatus.INDETERMINATE: VerdictWord(
        "Not confirmed",
        "✚",
        "P",
        "All checks pass, and the data confirm neither: no direction of the difference is shown after correction, or "
        "edits of the content move answers more than edits of layout and wording do and are not shown to reach the "
        "new right answer more often than not. The paper's algorithm has no status for this.",
        Grade.UNDECIDED,
        plain="Neither a fault nor its absence is shown",
    ),
    # Confirmed either way, and good or bad news by the cell's archetype. Without one, nothing can
    # be told.
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
                "The right answer changes, and layout and wording move answers more often than the content does: a "
                "finding (li2026: confirmatory, non-selective).",
                Grade.FOUND_STRONG,
                plain="Answers follow layout and wording more than content",
            ),
            Archetype.INVARIANCE: VerdictWord(
                "Stays where it should",
                "●",
                "o",
                "No answer should change, and edits of the content move answers by no more than the margin beyond what "
                "edits of layout and wording do, as it should be (li2026: confirmatory, non-selective).",
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
                "The right answer changes, and answers follow it more than they follow edits of layout and wording, as "
                "it should be (li2026: confirmatory, selective).",
                Grade.CLEARED,
                plain="Answers follow content more than layout and wording",
            ),
            Archetype.INVARIANCE: VerdictWord(
                "Reacts where it should not",
                "▲",
                "^",
                "No answer should change, and edits of the content move answers more than layout and wording do: a "
                "finding (li2026: confirmatory, selective).",
                Grade.FOUND_STRONG,
                plain="Answers change with the content, and should not",
            ),
        },
    ),
}

GATES: dict[str, GateWord] = {
    "G1_edits_reach_scorer": GateWord(
        "G1: edits reach the scorer",
        "edits do not reach what the scorer reads",
        "Hashes of the consumed token ids of every edit and of its original.",
    ),
    "G1_enough_edits": GateWord(
        "G1: enough edits",
        "too few items have the edits",
        "Edits of each item that changed what the scorer reads.",
    ),
    "G1_answers_readable": GateWord(
        "G1: answers readable",
        "answers cannot be read under an edit",
        "Whether an answer was read, original against each edit.",
    ),
    "scorer_valid": GateWord(
        "Scorer valid",
        "the scorer is not validated",
        "The scorer's evidence, and its self-test on these items.",
    ),
    "F3b_key_position": GateWord(
        "Key at every position",
        "the key stands at one position",
        "Where the key of each original was shown.",
    ),
    "F3c_label_values": GateWord(
        "Labels have values",
        "the scored labels hold no probability",
        "Why answers were not read, and the probability that the labels hold.",
    ),
    "F3c_exact_values": GateWord(
        "Plausible values",
        "some figures are suspiciously exact",
        "Changes of response and score by family.",
    ),
    "G2_above_baseline": GateWord(
        "G2: above baseline",
        "the model does no better than a rule that never reads",
        "Scores of the originals, and of rules that see the options alone.",
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
        "edited rows are not of their originals",
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
        "a request sent again was another one",
        "Hashes of what was consumed, first sending against replays.",
    ),
    "noise_floor": GateWord(
        "Repeated requests agree",
        "the same request gives other answers",
        "Responses to the very same request, sent again.",
    ),
    "G6_repair_regression": GateWord(
        "G6: faults are caught",
        "a check missed the fault that it is there for",
        "A copy of this run for each fault, its check, and the tests that the chronology names.",
    ),
}

# Kinds of edit and thresholds, as the page prints them.
LABELS = {
    "format": "layout (format)",
    "semantic": "wording (semantic)",
    "attribute": "content (attribute)",
    "placebo": "neutral words (placebo)",
    "alpha": "Error rate of both directions together",
    "noop_share_max": "G1: largest share of edits that change nothing",
    "parse_share_min": "G1: least share of readable answers",
    "parse_drop_alpha": "Readable before against after an edit: level of the test",
    "applicable_share_min": "G1: least share of the edits wanted",
    "baseline_standard_errors": "G2: standard errors above the baseline",
    "denominator_min": "G3: least lower limit of the denominator",
    "margin": "How much more than layout or wording still counts as not moving",
    "follow_min": "Least lower limit of answers as expected",
    "wrong_to_right_max": "Largest share of wrong answers that an edit makes right",
    "position_alpha": "Key at every position: level of the test",
    "label_mass_min": "Labels have values: least mean probability",
    "replay_change_max": "Repeated requests agree: largest share that changes",
}


FORMAT, ATTRIBUTE = frozenset({"format"}), frozenset({"attribute"})


class ValidityEvidence(Section):
    """Hold the part of `Evidence` that other programs read.

    Attributes
    ----------
    archetype : str or None
        What attribute edits should do.
    score : Interval
        Score of the originals.
    primary : Difference or None
        D.
    csr : dict of str to Interval
        The paper's ratio, by key convention.
    """

    archetype: str | None
    score: Interval
    primary: Difference | None
    csr: dict[str, Interval]


class ValidityCell(Cell):
    """Hold a cell of the construct-validity audit's verdict.json.

    Attributes
    ----------
    evidence : ValidityEvidence or None
        Statistics of the cell.
    """

    evidence: ValidityEvidence | None

    @property
    def archetype(self) -> str | None:
        return self.evidence.archetype if self.evidence else None


def sees(cell: ValidityCell) -> frozenset[str]:
    """Return what a cell can show."""
    return ATTRIBUTE if cell.archetype == Archetype.INVARIANCE else FORMAT


def measured(cell: ValidityCell) -> Measured:
    """Return D with its interval, and the false positive rate at a true ratio of 1."""
    accused = "selective" if cell.archetype == Archetype.INVARIANCE else "non_selective"
    what, alarms = "answers moved by content beyond form (D)", cell.rates.get(accused)
    d = cell.evidence.primary if cell.evidence else None
    if d is None:
        return Measured(what, None, None, None, alarms)
    return Measured(what, d.difference, d.low, d.high, alarms)


def tracked(cell: ValidityCell) -> tuple[Indicator, ...]:
    """Return the tracked metrics of a cell: the score and the selectivity.

    selectivity: how much more attribute edits move answers than surface edits do.
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
