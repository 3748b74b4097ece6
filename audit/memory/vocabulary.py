"""Define the verdicts of the memory audit, the result of one cell, and their texts.

The page, `audit gate` and the headline use the same texts for a verdict. `INSTRUMENT` describes
this audit to programs that compare audits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from audit.judging.document import Cell, Difference, Section
from audit.judging.instrument import Indicator, Instrument, Measured
from audit.judging.ladder import DECIDED, SPEAKING, Grade, grade
from audit.judging.result import Reason, Texts, sentence
from audit.judging.run import CellResult, Decided
from audit.judging.vocabulary import (
    ANSWER_GATES,
    LOG_GATES,
    NOT_IDENTIFIED,
    UNDERPOWERED,
    WITHHELD,
    GateWord,
    VerdictWord,
)
from audit.memory.evidence import Evidence, Name
from audit.memory.evidence import Indicator as Found
from audit.memory.texts import TEXTS
from audit.statistics.chance import Limits as Bounds
from audit.statistics.without_memory import FromMemory, WithoutMemory


class MemoryVerdict(StrEnum):
    """Name the verdicts, in the order in which they are tested."""

    WITHHELD = "withheld"
    MEMORY_OF_TEXT = "memory_of_text_seen"
    GAP_TO_FRESH = "gap_to_fresh_items"
    CAUSE_UNKNOWN = "memory_cause_unknown"
    NOT_IDENTIFIED = "not_identified"
    UNDERPOWERED = "underpowered"
    NOTHING_SEEN = "nothing_seen_by_this_instrument"


Decision = Decided[MemoryVerdict]


@dataclass(frozen=True)
class ScoreWithout:
    """Hold the score without memory, or what is missing to identify this score.

    Attributes
    ----------
    reason : Reason
        The statement on the score, as a code with numbers.
    score : Limits or None
        Accuracy on the benchmark with its 95 % interval.
    estimate : WithoutMemory or None
        The estimate; None if the score without memory is not identified.
    items : FromMemory or None
        Evidence for each published item that it was answered from memory.
    needs : tuple of str
        Codes of what is missing.
    """

    reason: Reason
    score: Bounds | None
    estimate: WithoutMemory | None = None
    items: FromMemory | None = None
    needs: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the statement on the score as text."""
        return sentence(self.reason, TEXTS)


@dataclass(frozen=True, kw_only=True)
class MemoryResult(CellResult):
    """Hold the verdict on one cell with its evidence.

    Attributes
    ----------
    decision : Decision
        The verdict and its grade.
    evidence : Evidence
        All statistics.
    holds_up_to : float or None
        The odds ratio of unparsed answers up to which the statement on the gap holds
        (`audit.memory.decide.tipping`).
    without : ScoreWithout
        The score without memory, with which the headline begins.
    """

    texts: ClassVar[Texts] = TEXTS

    decision: Decision
    evidence: Evidence
    holds_up_to: float | None = None
    without: ScoreWithout


# The page lists the verdicts in this order, the worst first.
VERDICTS: dict[MemoryVerdict, VerdictWord] = {
    MemoryVerdict.MEMORY_OF_TEXT: VerdictWord(
        "Memory of the text seen",
        "▲",
        "^",
        "The benchmark's text or order is likelier to the model than other texts or orders. The "
        "difference is beyond chance, and larger than in the reference models, if there are any. "
        "Having read the benchmark has this effect.",
        Grade.FOUND_STRONG,
        plain="The published text is likelier than by chance",
    ),
    MemoryVerdict.GAP_TO_FRESH: VerdictWord(
        "Gap to held-out items",
        "◆",
        "D",
        "The model scores higher on the benchmark than on held-out items that are as hard for the "
        "reference models. Memory of questions and answers causes such a gap. So does training on "
        "items of the benchmark's kind.",
        Grade.FOUND_STRONG,
        plain="Scores higher here than on questions that it cannot have seen",
    ),
    MemoryVerdict.CAUSE_UNKNOWN: VerdictWord(
        "Something stands out, cause unknown",
        "▼",
        "v",
        "The published text, its order or the score stands out. Memory may be the cause, and so "
        "may another cause that this run cannot exclude. The report names the other cause, and the "
        "references that would separate the two.",
        Grade.CAUSE_UNKNOWN,
        plain="Memory may be the cause, and so may another effect",
    ),
    MemoryVerdict.WITHHELD: WITHHELD,
    MemoryVerdict.NOT_IDENTIFIED: replace(
        NOT_IDENTIFIED, plain="This run lacks what the question needs"
    ),
    MemoryVerdict.UNDERPOWERED: UNDERPOWERED,
    MemoryVerdict.NOTHING_SEEN: VerdictWord(
        "Nothing seen by this instrument",
        "●",
        "o",
        "Nothing stands out, and the data exclude a gap to held-out items that matters. Forms of "
        "memory that no indicator examined, such as memory of the text, are not excluded.",
        Grade.CLEARED,
        plain="No gap to held-out items that matters",
    ),
}


GATES: dict[str, GateWord] = {
    **LOG_GATES,
    "likelihoods_read": GateWord("Texts have likelihoods", "too many texts have no likelihood"),
    "orders_reach_model": GateWord(
        "Orders reach the model", "the other orders were equal to the published order"
    ),
    "parseability": ANSWER_GATES["parseability"],
    "same_guessing": GateWord(
        "Same chance of a right guess", "the numbers of options of the two sets explain the gap"
    ),
    "fresh_matched": GateWord(
        "Held-out items as hard as the benchmark's",
        "the held-out items are not as hard as the benchmark's, and the scales disagree",
    ),
    "fresh_drawn": GateWord(
        "Held-out items not chosen by the references",
        "the held-out items were chosen by the references' answers",
    ),
    "same_kind": GateWord(
        "Held-out items of the same kind",
        "words alone distinguish the held-out items from the benchmark's",
    ),
    "above_guessing": GateWord(
        "Better than guessing", "the score is not shown to be better than guessing"
    ),
    "order_exchangeable": GateWord(
        "Order not revealed by words",
        "the words of neighbouring items alone reveal the published order",
    ),
}

# Display names of the thresholds.
LABELS = {
    "alpha": "Error rate of all findings, family-wise",
    "power": "Power at which the detectable gap is stated",
    "effect_of_interest": "Effect of interest: the gap that matters",
    "answered_share_min": "Parsed answers and likelihoods: least share",
    "noop_share_max": "Orders reach the model: largest share of repeated requests",
    "matched_alpha": "Held-out items as hard as the benchmark's: level of the test",
    "matched_share_min": "Held-out items as hard as the benchmark's: least share of items with a match",
    "drawn_alpha": "Held-out items not chosen by the references: level of the test",
    "kind_auc_max": "Held-out items of the same kind: largest AUC of a classifier of words",
    "exchangeable_alpha": "Order not revealed by words: level of the test",
    "references_min": "Least number of references for a comparison",
    "shards_min": "Fewest shards for a test of the order of items",
    "items_min": "Fewest items for a test of the order of options",
}


class Limits(Section):
    """Hold the 95 % interval of a gap that was computed by an estimator other than `did`."""

    low: float | None
    high: float | None


class GapFigures(Section):
    """Hold the fields of `Evidence.gap` that other programs read. Values are between -1 and 1."""

    did: Difference
    predicted: Limits | None


class MemoryEvidence(Section):
    """Hold the fields of `Evidence` that other programs read."""

    gap: GapFigures | None


class MemoryVerdictCell(Cell):
    """Hold a cell of the memory audit's verdict.json. The score is 0-1."""

    score: float | None
    indicators: tuple[Found, ...]
    evidence: MemoryEvidence

    @property
    def judged(self) -> bool:
        """Return whether at least one indicator was judged."""
        return not self.indicators or not all(indicator.why for indicator in self.indicators)


def measured(cell: MemoryVerdictCell) -> Measured:
    """Return the gap to held-out items (minus that of the references), and the rate of false
    positives.

    Parameters
    ----------
    cell : MemoryVerdictCell
        Entry of one model and benchmark in verdict.json.

    Returns
    -------
    Measured
        The estimate on which the verdict is based, with its interval.
    """
    return Measured(
        "gap to held-out items, beyond the references'", *_gap(cell), cell.rates.get("clean")
    )


def tracked(cell: MemoryVerdictCell) -> tuple[Indicator, ...]:
    """Return the estimates that the registry compares between runs.

    Parameters
    ----------
    cell : MemoryVerdictCell
        Entry of one model and benchmark in verdict.json.

    Returns
    -------
    tuple of Indicator
        The score, and the gap with the name `fresh_gap`. The gap is the tested model's gap minus
        the references' gap. Without references, it is the score on the benchmark minus the score on
        the held-out items.
    """
    against = tuple(sorted(cell.references))
    return Indicator("score", cell.score), Indicator("fresh_gap", *_gap(cell), against)


def _gap(cell: MemoryVerdictCell) -> tuple[float | None, float | None, float | None]:
    """Return the estimate and interval (-1 to 1) of the gap that the verdict uses.

    If the verdict uses no gap, the gap in accuracy is returned.
    """
    for indicator in cell.indicators:
        if indicator.name != Name.GAP:
            continue
        if (
            indicator.estimate is not None
            and indicator.low is not None
            and indicator.high is not None
        ):
            return indicator.estimate / 100, indicator.low / 100, indicator.high / 100
    gap = cell.evidence.gap
    if gap is None:
        return None, None, None
    interval = gap.predicted or gap.did
    return gap.did.difference, interval.low, interval.high


def by_kind(cell: MemoryVerdictCell, alpha: float) -> dict[str, Grade]:
    """Return the grade of each kind of memory.

    The gap determines the grade of learnt answers, and the other indicators determine the grade of
    the text.

    Parameters
    ----------
    cell : MemoryVerdictCell
        Entry of one model and benchmark in verdict.json.
    alpha : float
        The level of the indicators.

    Returns
    -------
    dict
        Grades with the keys "answers" and "text". Empty if no indicator distinguishes answers from
        text. The verdict then applies to answers and text alike.

    Notes
    -----
    If the text was judged and no indicator of the text is significant, the text counts as not seen.
    If the text was not judged, the gap cannot clear the text. That the data exclude a gap follows
    only from the verdict, not from the indicators.
    """
    known, cleared = cell.indicators, cell.grade is Grade.CLEARED
    if cell.grade not in DECIDED:
        return {}
    grades = {}
    for kind in ("answers", "text"):
        of_kind = []
        for indicator in known:
            if (indicator.name == Name.GAP) == (kind == "answers"):
                of_kind.append(indicator)
        graded = grade([indicator.contrast(alpha) for indicator in of_kind]).grade
        if graded in SPEAKING:
            grades[kind] = graded
    if not grades and (not cleared or not known):
        return {}
    judged = any(indicator.judged for indicator in known if indicator.name != Name.GAP)
    answers = Grade.CLEARED if cleared else Grade.UNDECIDED
    return {"answers": answers, "text": Grade.CLEARED if judged else Grade.NOT_IDENTIFIED} | grades


INSTRUMENT = Instrument(
    "memory",
    "the memory audit",
    frozenset({"answers", "text"}),
    measured,
    tracked,
    by_kind=by_kind,
    cell=MemoryVerdictCell,
)
