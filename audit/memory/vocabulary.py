"""Define the six verdicts of the memory audit, the result of one cell, and their words.

Page, gate and headline use one entry for each verdict and each gate. `INSTRUMENT` is the audit as a
row of the table of instruments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from audit.judging.document import Cell, Difference, Section
from audit.judging.instrument import Indicator, Instrument, Measured
from audit.judging.ladder import DECIDED, Grade
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
    """The verdicts, in the order in which they are tried."""

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
    """The score without memory.

    found: None if it is not identified; needs then has codes of what is missing. items: of the
    published set.
    """

    said: Reason
    score: Bounds | None
    found: WithoutMemory | None = None
    items: FromMemory | None = None
    needs: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Return the statement on the score in words."""
        return sentence(self.said, TEXTS)


@dataclass(frozen=True, kw_only=True)
class MemoryResult(CellResult):
    """The verdict on one model and benchmark, with its evidence.

    holds_up_to: the odds ratio of unparsed answers up to which the statement on the gap holds
    (`audit.memory.decide.tipping`). without: the score without memory; its sentence begins the
    headline.
    """

    texts: ClassVar[Texts] = TEXTS

    decision: Decision
    evidence: Evidence
    holds_up_to: float | None = None
    without: ScoreWithout


# The page keeps this order, which begins with the worst verdict.
VERDICTS: dict[MemoryVerdict, VerdictWord] = {
    MemoryVerdict.MEMORY_OF_TEXT: VerdictWord(
        "Memory of the text seen",
        "▲",
        "^",
        "The benchmark's own text, or its own order, is likelier to the model than what it is compared with: more than "
        "chance, and more than to the reference models where there are some. Having read it makes it so.",
        Grade.FOUND_STRONG,
        plain="The published text is likelier than chance allows",
    ),
    MemoryVerdict.GAP_TO_FRESH: VerdictWord(
        "Gap to held-out items",
        "◆",
        "D",
        "The model scores higher on the benchmark than on held-out items that are as hard for the reference models. "
        "Memory of questions and answers makes such a gap; so does training on items of the benchmark's kind.",
        Grade.FOUND_STRONG,
        plain="Scores higher here than on questions it cannot have seen",
    ),
    MemoryVerdict.CAUSE_UNKNOWN: VerdictWord(
        "Something stands out, cause unknown",
        "▼",
        "v",
        "The published text, its order or the score stands out. Memory makes it so, and so does another cause that "
        "this run cannot exclude. The report names the cause and says which references would tell them apart.",
        Grade.CAUSE_UNKNOWN,
        plain="Memory may be the cause, and so may something else",
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
        "Nothing stands out, and the data exclude a gap to held-out items of the size that matters. Forms of memory "
        "that no indicator here examined, such as of the text, are not excluded.",
        Grade.CLEARED,
        plain="No gap to held-out items that matters",
    ),
}


GATES: dict[str, GateWord] = {
    **LOG_GATES,
    "likelihoods_read": GateWord("Likelihoods read", "too many texts have no likelihood"),
    "orders_reach_model": GateWord(
        "Orders reach the model", "the model was sent other orders as the published one"
    ),
    "parseability": ANSWER_GATES["parseability"],
    "same_guessing": GateWord(
        "Guesses as often right", "the sets' numbers of options alone explain the gap"
    ),
    "fresh_matched": GateWord(
        "Held-out items as hard",
        "the held-out items are not as hard as the benchmark's, and the scales disagree",
    ),
    "fresh_drawn": GateWord(
        "Held-out items not chosen by the references",
        "the held-out items were chosen by the references' own answers",
    ),
    "same_kind": GateWord(
        "Held-out items of the same kind",
        "words alone tell the held-out items from the benchmark's",
    ),
    "above_guessing": GateWord(
        "Better than guessing", "its score is not shown to be better than guessing"
    ),
    "order_exchangeable": GateWord(
        "Order not given away by its words",
        "the words of neighbours alone give the published order away",
    ),
}

# Display names of the thresholds.
LABELS = {
    "alpha": "Error rate of all findings, family-wise",
    "power": "Power at which the detectable gap is stated",
    "effect_of_interest": "Effect of interest: the gap that matters",
    "answered_share_min": "Parsed answers and likelihoods: least share",
    "noop_share_max": "Orders reach the model: largest share of repeated requests",
    "matched_alpha": "Held-out items as hard: level of the test",
    "matched_share_min": "Held-out items as hard: least share of items that have a match",
    "drawn_alpha": "Held-out items not chosen by the references: level of the test",
    "kind_auc_max": "Held-out items of the same kind: largest AUC of a classifier of words",
    "exchangeable_alpha": "Order not given away by its words: level of the test",
    "references_min": "References from which their spread is in the error",
    "shards_min": "Fewest shards for a test of the order of items",
    "items_min": "Fewest items for a test of the order of options",
}


class Limits(Section):
    """The interval of a gap by another estimator than `did`."""

    low: float | None
    high: float | None


class GapFigures(Section):
    """Fields of the gap beyond the references' that other programs read, -1 to 1."""

    did: Difference
    predicted: Limits | None


class MemoryEvidence(Section):
    """Fields of `Evidence` that other programs read."""

    gap: GapFigures | None


class MemoryVerdictCell(Cell):
    """A cell of the memory audit's verdict.json; the score is 0-1."""

    score: float | None
    indicators: tuple[Found, ...]
    evidence: MemoryEvidence

    @property
    def judged(self) -> bool:
        """Return whether at least one indicator was judged."""
        return not self.indicators or not all(indicator.why for indicator in self.indicators)


def measured(cell: MemoryVerdictCell) -> Measured:
    """Return the gap to held-out items beyond the references', with the false positive rate of a
    finding.

    Parameters
    ----------
    cell : MemoryVerdictCell
        A cell of verdict.json.

    Returns
    -------
    Measured
        The figure behind the verdict.
    """
    return Measured(
        "gap to held-out items, beyond the references'", *_gap(cell), cell.rates.get("clean")
    )


def tracked(cell: MemoryVerdictCell) -> tuple[Indicator, ...]:
    """Return the tracked metrics: the score, and the gap beyond the references' as `fresh_gap`.

    Parameters
    ----------
    cell : MemoryVerdictCell
        A cell of verdict.json.

    Returns
    -------
    tuple of Indicator
        The gap is the published minus the held-out score if there are no references.
    """
    against = tuple(sorted(cell.references))
    return Indicator("score", cell.score), Indicator("fresh_gap", *_gap(cell), against)


def _gap(cell: MemoryVerdictCell) -> tuple[float | None, float | None, float | None]:
    """Return estimate and interval (-1 to 1) as the verdict judges them; else in points of accuracy
    alone.
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
    """Return the grade of each kind of memory: of learnt answers by the gap, of text by the other
    indicators.

    Parameters
    ----------
    cell : MemoryVerdictCell
        A cell of verdict.json.
    alpha : float
        Level of the indicators.

    Returns
    -------
    dict
        Grade by kind. Empty if no indicator shows which kind it is: then the verdict is of both.

    Notes
    -----
    Text that was judged and does not stand out is not seen. Text that was not judged is not cleared
    by the gap. Only the verdict says that the data refute a gap.
    """
    grade, known = cell.grade, cell.indicators
    if grade not in DECIDED:
        return {}
    grades = {}
    for kind in ("answers", "text"):
        of_kind = []
        for indicator in known:
            if (indicator.name == Name.GAP) == (kind == "answers"):
                of_kind.append(indicator)
        if any(indicator.seen(alpha) for indicator in of_kind):
            grades[kind] = Grade.FOUND_STRONG
        elif any(indicator.open(alpha) for indicator in of_kind):
            grades[kind] = Grade.CAUSE_UNKNOWN
    if not grades and (grade is not Grade.CLEARED or not known):
        return {}
    judged = any(indicator.judged for indicator in known if indicator.name != Name.GAP)
    answers = Grade.CLEARED if grade is Grade.CLEARED else Grade.UNDECIDED
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
