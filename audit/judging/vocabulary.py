"""Define the words of an audit: one entry for each verdict and gate, for page, chart and
headline."""

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
    "Type the run's command again if it has ended: it runs what is missing. Where unparsed answers stopped it, add "
    "canary=false. Then build the report again."
)


# Each grade has a tone of page.css and a colour in charts (Okabe & Ito).
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
    """Words of a verdict.

    name: its display name. glyph, marker: its mark in text and in charts. means: one or two
    sentences. where: words by archetype of the cell, if the meaning depends on it. plain: a few
    plain words beside the name.
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
        """Return the tone of its grade in page.css."""
        return _SHOWN[self.grade][0]

    @property
    def colour(self) -> str:
        """Return the colour of its grade in charts."""
        return _SHOWN[self.grade][1]

    def of(self, archetype: str | None) -> VerdictWord:
        """Return the words of the verdict for a kind of item.

        Parameters
        ----------
        archetype : str or None
            The kind of item; None if words depend on no kind.

        Returns
        -------
        VerdictWord
            The words.
        """
        return self.where.get(archetype or "", self)


# The words of what every audit shares.
WITHHELD = VerdictWord(
    "Withheld",
    "✖",
    "X",
    "The measurement itself failed a check, so no conclusion is drawn. The report states what to mend.",
    Grade.CHECK_FAILED,
    plain="A check of the measurement failed",
)
NOT_IDENTIFIED = VerdictWord(
    "Not identified",
    "○",
    "h",
    "These data cannot answer the question, whatever the answers are. The report states what this run lacks.",
    Grade.NOT_IDENTIFIED,
)
UNDERPOWERED = VerdictWord(
    "Not enough data",
    "✚",
    "P",
    "An effect of the size that matters could be real or not: the data cannot tell. This neither clears nor "
    "suspects the model: measure more.",
    Grade.UNDECIDED,
)


def verdict_of(
    words: Mapping[Word, VerdictWord], grade: Grade, archetype: str | None = None
) -> Word:
    """Return the verdict that states a grade.

    Parameters
    ----------
    words : mapping
        Words by verdict.
    grade : Grade
        The grade of the ladder.
    archetype : str or None
        The kind of item; None if words depend on no kind.

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
    """Return the words of a cell's verdict.

    Parameters
    ----------
    words : mapping
        Words by verdict.
    cell : Cell
        The cell.

    Returns
    -------
    VerdictWord
        For the archetype of the cell.

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
        A cell of verdict.json.

    Returns
    -------
    tuple of float or None
        The two numbers; None if the cell does not state one.
    """
    numbers = next((gate.numbers for gate in cell.gates if gate.name == "enough_data"), {})
    return numbers.get("asked"), numbers.get("needed")


def subtitle(words: Mapping[Any, VerdictWord], cell: Cell) -> str:
    """Return the verdict in plain words, with the numbers if there were too few questions.

    Parameters
    ----------
    words : mapping
        Words by verdict.
    cell : Cell
        The cell.

    Returns
    -------
    str
        A few words.
    """
    if cell.verdict != "underpowered":
        word = word_of(words, cell)
        return word.plain or word.name
    if not cell.judged:
        return "None of its tests could be judged"
    asked, needed = sizes_of(cell)
    if asked is None or needed is None or needed <= asked:
        return "An effect that matters is neither shown nor excluded"
    return f"Not enough questions: {asked:,.0f} asked, about {needed:,.0f} needed"


@dataclass(frozen=True)
class GateWord:
    """Words of a gate.

    title: subject of a line that ends with pass or fail. because: meaning of a failure in a
    headline. reads: what the check is made from, if an audit states it.
    """

    title: str
    because: str
    reads: str = ""


LOG_GATES: dict[str, GateWord] = {  # gates that every audit of imported logs has
    "log_finished": GateWord("Logs finished", "a log is not finished"),
    "chance_known": GateWord(
        "Number of options known", "the number of options is unknown, so chance is unknown"
    ),
    "counts_right": GateWord(
        "Score counts right answers", "the score does not count right answers"
    ),
    "asked_alike": GateWord("Sets asked alike", "the two sets were sampled, or cut off, otherwise"),
}


ANSWER_GATES: dict[str, GateWord] = {  # gates of audits that compare answers
    "parseability": GateWord("Readable answers", "too many answers could not be read"),
    "above_chance": GateWord(
        "Score above guessing", "the model is not clearly better than guessing"
    ),
    "exact_values": GateWord("Plausible values", "some figures are suspiciously exact"),
    "enough_data": GateWord("Enough questions", "there are too few questions"),
}
ANSWER_LABELS = {  # display names of their thresholds
    "above_chance_standard_errors": "Score above guessing: standard errors needed",
    "answered_share_min": "Readable answers: least share",
    "noise_floor_alpha": "Repeated runs agree: level of the test",
}


def gate_reasons(failed: Sequence[Gate], words: Mapping[str, GateWord]) -> tuple[Reason, ...]:
    """Return why gates withhold a verdict, with the title that the page gives each.

    Parameters
    ----------
    failed : sequence of Gate
        The failed gates.
    words : mapping
        Words by gate.

    Returns
    -------
    tuple of Reason
        One for each gate.
    """
    reasons = []
    for gate in failed:
        title = words[gate.name].title if gate.name in words else gate.name
        reasons.append(Reason(f"gate_{gate.name}", gate.numbers, f"{title}: {gate.detail}"))
    return tuple(reasons)
