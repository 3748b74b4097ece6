"""The words of an audit: one entry a verdict and one a gate, for page, chart, gate and headline alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.judging.ladder import Grade
from audit.verdict.document import Cell
from audit.verdict.result import Gate, Reason

COMPLETE_IT = (
    "Type the run's command again if it has ended: it runs what is missing. Where unparsed answers stopped it, add "
    "canary=false. Then build the report again."
)


# (tone of page.css, colour in charts: Okabe & Ito's)
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
    """name: as a person reads it. glyph, marker: in text and in charts, one a verdict. means: one or two sentences.
    where: a verdict that comes to something else in each archetype of a cell has a word for each. plain: what it says
    in a few words, beside the name."""

    name: str
    glyph: str
    marker: str
    means: str
    grade: Grade
    where: Mapping[str, VerdictWord] = field(default_factory=dict)
    plain: str = ""

    @property
    def tone(self) -> str:
        return _SHOWN[self.grade][0]

    @property
    def colour(self) -> str:
        return _SHOWN[self.grade][1]

    def of(self, archetype: str | None) -> VerdictWord:
        return self.where.get(archetype or "", self)


def word_of(words: Mapping[Any, VerdictWord], cell: Cell) -> VerdictWord:
    """Return the word of a cell. Raises KeyError if the verdict is unknown."""
    return words[cell.verdict].of(cell.archetype)


def sizes_of(cell: Cell) -> tuple[float | None, float | None]:
    """Return the questions asked, and those that the plan of the design needs; None if the cell states neither."""
    numbers = next((gate.numbers for gate in cell.gates if gate.name == "enough_data"), {})
    return numbers.get("asked"), numbers.get("needed")


def subtitle(words: Mapping[Any, VerdictWord], cell: Cell) -> str:
    """Return the verdict in plain words, with the numbers if there were too few questions."""
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
    """title: the subject of a line that says pass or fail. because: what a failure means in a headline. reads: what the
    check is made from, where an audit tells it."""

    title: str
    because: str
    reads: str = ""


LOG_GATES: dict[str, GateWord] = {  # of every audit that an import can be
    "log_finished": GateWord("Logs finished", "a log is not finished"),
    "chance_known": GateWord("Number of options known", "the number of options is unknown, so chance is unknown"),
    "counts_right": GateWord("Score counts right answers", "the score does not count right answers"),
    "asked_alike": GateWord("Sets asked alike", "the two sets were sampled, or cut off, otherwise"),
}


def gate_reasons(failed: Sequence[Gate], words: Mapping[str, GateWord]) -> tuple[Reason, ...]:
    """Why gates withhold a verdict, each under the name that the page gives it."""
    return tuple(
        Reason(f"gate_{g.name}", g.numbers, f"{words[g.name].title if g.name in words else g.name}: {g.detail}")
        for g in failed
    )
