"""The words of an audit: one entry a verdict and one a gate, for page, chart, gate and headline alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from audit.judging.ladder import Grade
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
# Codes that an earlier version wrote, and what this one says of the same data.
EARLIER = {"brittle": "no_excess_detected"}


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


def word_of(words: Mapping[Any, VerdictWord], cell: Mapping[str, Any]) -> VerdictWord:
    """Return the word of a cell of verdict.json. Raises KeyError if the verdict is unknown."""
    code = EARLIER.get(cell["verdict"], cell["verdict"])
    return words[code].of((cell.get("evidence") or {}).get("archetype"))


def grade_of(words: Mapping[Any, VerdictWord], cell: Mapping[str, Any]) -> Grade:
    """Return the grade of a cell of verdict.json; one that an earlier version wrote has that of its word. Raises
    KeyError or ValueError if it is unknown."""
    return Grade(cell["grade"]) if "grade" in cell else word_of(words, cell).grade


def sizes_of(cell: Mapping[str, Any]) -> tuple[float | None, float | None]:
    """Questions asked, and those that the plan of the design needs, of a cell of verdict.json; None where it says
    neither."""
    numbers: Mapping[str, Any] = next(
        (g.get("numbers", {}) for g in cell.get("gates", ()) if g.get("name") == "enough_data"), {}
    )
    return numbers.get("asked"), numbers.get("needed")


def subtitle(words: Mapping[Any, VerdictWord], cell: Mapping[str, Any]) -> str:
    """The verdict of a cell of verdict.json in plain words, with the numbers where there were too few questions."""
    if cell["verdict"] != "underpowered":
        word = word_of(words, cell)
        return word.plain or word.name
    indicators = cell.get("indicators")  # of the memory audit
    if indicators and all(one["why"] for one in indicators):
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
}


def gate_reasons(failed: Sequence[Gate], words: Mapping[str, GateWord]) -> tuple[Reason, ...]:
    """Why gates withhold a verdict, each under the name that the page gives it."""
    return tuple(
        Reason(f"gate_{g.name}", g.numbers, f"{words[g.name].title if g.name in words else g.name}: {g.detail}")
        for g in failed
    )
