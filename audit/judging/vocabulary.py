"""Define the display words of every verdict and gate, for pages, charts and headlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from audit.judging.document import Cell
from audit.judging.ladder import Grade
from audit.judging.result import Gate, Reason

Word = TypeVar("Word", bound=StrEnum)

COMPLETE_IT = (
    "If the run has ended, type its command again, which runs the missing rows. If unparsed answers "
    "stopped the run, add canary=false. Then build the report again."
)


# CSS class in page.css and colour in charts (Okabe & Ito) of each grade.
_SHOWN = {
    Grade.FOUND_STRONG: ("bad", "#d55e00"),
    Grade.FOUND_SUGGESTIVE: ("warn", "#e69f00"),
    Grade.CAUSE_UNKNOWN: ("warn", "#e69f00"),
    Grade.CHECK_FAILED: ("mute", "#626a73"),
    Grade.NOT_IDENTIFIED: ("mute", "#626a73"),
    Grade.UNDECIDED: ("mute", "#626a73"),
    Grade.CLEARED: ("good", "#009e73"),
}


@dataclass(frozen=True)
class VerdictWord:
    """Hold the display words of a verdict.

    Attributes
    ----------
    name : str
        Display name.
    glyph, marker : str
        Symbol of the verdict in texts, and symbol in charts.
    means : str
        Meaning of the verdict in one or two sentences.
    where : mapping
        Map each kind of item to other display words; empty if the meaning does not depend on the
        kind of item.
    plain : str
        Short explanation in plain words, shown next to the name.
    """

    name: str
    glyph: str
    marker: str
    means: str
    grade: Grade
    where: Mapping[str, VerdictWord] = field(default_factory=dict)
    plain: str = ""

    @property
    def tone(self) -> str:
        """Return the CSS class in page.css that colours the verdict's grade.

        Returns
        -------
        str
            Name of the class: "bad", "warn", "mute" or "good".
        """
        return _SHOWN[self.grade][0]

    @property
    def colour(self) -> str:
        """Return the colour of the verdict's grade in charts.

        Returns
        -------
        str
            Hexadecimal RGB colour such as "#d55e00".
        """
        return _SHOWN[self.grade][1]

    def of(self, archetype: str | None) -> VerdictWord:
        """Return the display words of the verdict for a kind of item.

        Parameters
        ----------
        archetype : str or None
            Kind of item; None if the words do not depend on a kind.

        Returns
        -------
        VerdictWord
            The display words.
        """
        return self.where.get(archetype or "", self)


# Display words of the verdicts that all audits share.
WITHHELD = VerdictWord(
    "Withheld",
    "✖",
    "X",
    "The measurement itself failed a check, so no conclusion is drawn. The report states what to "
    "correct.",
    Grade.CHECK_FAILED,
    plain="A check of the measurement failed",
)
NOT_IDENTIFIED = VerdictWord(
    "Not identified",
    "○",
    "h",
    "These data cannot answer the question, whatever the answers are. The report states what is "
    "missing.",
    Grade.NOT_IDENTIFIED,
)
UNDERPOWERED = VerdictWord(
    "Not enough data",
    "✚",
    "P",
    "The data do not show whether there is an effect of the size that matters. This neither "
    "clears nor suspects the model: measure more questions.",
    Grade.UNDECIDED,
)


def verdict_of(
    words: Mapping[Word, VerdictWord], grade: Grade, archetype: str | None = None
) -> Word:
    """Return the first verdict of an audit that has a given grade.

    Parameters
    ----------
    words : mapping
        Display words by verdict.
    grade : Grade
        The grade (see `audit.judging.ladder`).
    archetype : str or None
        The kind of item; None if the words do not depend on a kind of item.

    Returns
    -------
    Word
        The first verdict with this grade.

    Raises
    ------
    KeyError
        If no verdict has the grade.
    """
    for verdict, word in words.items():
        if word.of(archetype).grade is grade:
            return verdict
    raise KeyError(grade)


def word_of(words: Mapping[Any, VerdictWord], cell: Cell) -> VerdictWord:
    """Return the display words of the verdict of a cell.

    Parameters
    ----------
    words : mapping
        Display words by verdict.
    cell : Cell
        Entry of one model and benchmark in verdict.json.

    Returns
    -------
    VerdictWord
        Display words for the cell's verdict and kind of item.

    Raises
    ------
    KeyError
        If the verdict is unknown.
    """
    return words[cell.verdict].of(cell.archetype)


def sizes_of(cell: Cell) -> tuple[float | None, float | None]:
    """Return how many questions were asked, and how many the plan needs.

    Parameters
    ----------
    cell : Cell
        Entry of one model and benchmark in verdict.json.

    Returns
    -------
    tuple of float or None
        Number of questions asked, and number of questions needed; None for a number that the cell
        does not state.
    """
    numbers = next((gate.numbers for gate in cell.gates if gate.name == "enough_data"), {})
    return numbers.get("asked"), numbers.get("needed")


def subtitle(words: Mapping[Any, VerdictWord], cell: Cell) -> str:
    """Return a short phrase that explains the verdict.

    If too few questions were asked, the phrase states how many were asked and how many are needed.

    Parameters
    ----------
    words : mapping
        Display words by verdict.
    cell : Cell
        Entry of one model and benchmark in verdict.json.

    Returns
    -------
    str
        The phrase.
    """
    if cell.verdict != "underpowered":
        word = word_of(words, cell)
        return word.plain or word.name
    if not cell.judged:
        return "No test of this model was possible"
    questions, needed = sizes_of(cell)
    if questions is None or needed is None or needed <= questions:
        return "An effect that matters is neither shown nor excluded"
    return f"Not enough questions: {questions:,.0f} asked, about {needed:,.0f} needed"


@dataclass(frozen=True)
class GateWord:
    """Hold the display words of a gate.

    Attributes
    ----------
    title : str
        Name of the gate on a page, in a line that ends with "pass" or "fail".
    because : str
        Phrase for a headline that says what a failure means.
    reads : str
        The data that the gate checks, if an audit states them.
    """

    title: str
    because: str
    reads: str = ""


LOG_GATES: dict[str, GateWord] = {  # the gates that every audit of imported logs has
    "log_finished": GateWord("Logs finished", "a log is not finished"),
    "chance_known": GateWord(
        "Number of options known", "the number of options is unknown, so chance is unknown"
    ),
    "counts_right": GateWord(
        "Score counts right answers", "the score does not count right answers"
    ),
    "asked_alike": GateWord(
        "Sets asked alike", "the two sets were asked with different sampling or token limits"
    ),
}


ANSWER_GATES: dict[str, GateWord] = {  # gates of audits that compare answers
    "parseability": GateWord("Readable answers", "too many answers could not be read"),
    "above_chance": GateWord(
        "Score above guessing", "the model is not clearly better than guessing"
    ),
    "exact_values": GateWord("Plausible values", "some figures are suspiciously exact"),
    "enough_data": GateWord("Enough questions", "there are too few questions"),
}
ANSWER_LABELS = {  # display names of the thresholds of ANSWER_GATES
    "above_chance_standard_errors": "Score above guessing: standard errors needed",
    "answered_share_min": "Readable answers: smallest share",
    "noise_floor_alpha": "Repeated runs agree: level of the test",
}


def gate_reasons(failed: Sequence[Gate], words: Mapping[str, GateWord]) -> tuple[Reason, ...]:
    """Return a reason for each gate that withholds the verdict. The reason contains the gate's
    title.

    Parameters
    ----------
    failed : sequence of Gate
        Gates that failed and withhold the verdict.
    words : mapping
        Display words by gate.

    Returns
    -------
    tuple of Reason
        One reason for each gate.
    """
    reasons = []
    for gate in failed:
        title = words[gate.name].title if gate.name in words else gate.name
        reasons.append(Reason(f"gate_{gate.name}", gate.numbers, f"{title}: {gate.detail}"))
    return tuple(reasons)
