"""What each audit's instrument can see, and what several of them say together (pure).

An instrument speaks of what it sees and of nothing else. A finding is not taken back by an instrument that is blind to
it, and nothing clears a model of what no instrument sees.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from audit.judging.ladder import Grade
from audit.verdict.document import Cell
from audit.verdict.result import drop_points, with_interval
from audit.verdict.vocabulary import VerdictWord


@dataclass(frozen=True)
class Indicator:
    """A figure with its 95 % interval, all 0-1; None where not computed.

    against: names of the reference models that it is measured against: the same figure against others is another one.
    """

    name: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    against: tuple[str, ...] = ()


# What a score may rest on besides ability. No instrument sees all of it.
KINDS: Mapping[str, str] = {
    "noise": "a score that rises when the question is damaged, by more than repeating it whole explains",
    "wording": "memory of the published wording",
    "answers": "questions that were learnt with their answers",
    "text": "items that were read as published text",
    "format": "answers that follow how a question is put more than what it asks",
    "attribute": "answers that react to an attribute that should make no difference",
}

TITLES: Mapping[str, str] = {
    "noise": "Gain under noise",
    "wording": "Published wording",
    "answers": "Learnt answers",
    "text": "Text that was read",
    "format": "Form over content",
    "attribute": "Irrelevant attribute",
}


class Seen(StrEnum):
    """What an instrument says of one kind; the order is what holds where several say something of it."""

    SEEN = "seen"
    SUGGESTED = "suggested"
    CAUSE_UNKNOWN = "seen, cause unknown"
    NOT_SEEN = "not seen"
    COULD_NOT_TELL = "could not tell"
    BLIND = "blind"
    NOT_RUN = "not run"  # of all together: no audit that looks for it was run


_SEEN = {
    Grade.FOUND_STRONG: Seen.SEEN,
    Grade.FOUND_SUGGESTIVE: Seen.SUGGESTED,
    Grade.CAUSE_UNKNOWN: Seen.CAUSE_UNKNOWN,
    Grade.CHECK_FAILED: Seen.COULD_NOT_TELL,
    Grade.NOT_IDENTIFIED: Seen.COULD_NOT_TELL,
    Grade.UNDECIDED: Seen.COULD_NOT_TELL,
    Grade.CLEARED: Seen.NOT_SEEN,
}


@dataclass(frozen=True)
class Measured:
    """The figure behind a finding. estimate, low, high: 0-1, None where not computed. false_alarms: share of clean
    models that this procedure accuses in the nearest calibrated design; None where none is near."""

    what: str
    estimate: float | None
    low: float | None
    high: float | None
    false_alarms: float | None

    def __str__(self) -> str:
        """'largest gain under noise: +1.1 points [−7.2, +8.9]'; empty where it was not computed. A drop has no sign."""
        if self.estimate is None:
            return ""
        figure, bracket, ends = with_interval(self.estimate, self.low, self.high).partition(" [")
        if self.what.startswith("drop"):
            figure, ends = drop_points(self.estimate), ends.replace("+", "")
        return f"{self.what}: {figure}{bracket}{ends}"


@dataclass(frozen=True)
class Instrument:
    """An audit as a row of the table. sees: of KINDS. cell: its cells of verdict.json. measured: a cell -> its figure.

    tracked: the figures of a cell that a registry follows over versions of a model. of_cell: what it sees, where that
    depends on the cell. by_kind: where a finding is not of all that it sees, (cell, alpha) -> the grade of each kind.
    """

    audit: str
    name: str
    sees: frozenset[str]
    measured: Callable[[Any], Measured]
    tracked: Callable[[Any], tuple[Indicator, ...]]
    of_cell: Callable[[Any], frozenset[str]] | None = None
    by_kind: Callable[[Any, float], Mapping[str, Grade]] | None = None
    cell: type[Cell] = Cell


@dataclass(frozen=True)
class Finding:
    """What one instrument says of a model and benchmark. kinds: of each kind that it sees. sensitivity: in words, "not
    measured" where it was not. context: the cell's, where a benchmark has several."""

    audit: str
    name: str
    sees: tuple[str, ...]
    verdict: str
    word: str
    tone: str
    glyph: str
    grade: Grade
    measured: Measured
    sensitivity: str
    context: str = ""
    kinds: Mapping[str, Seen] = field(default_factory=dict)


def finding(instrument: Instrument, cell: Cell, word: VerdictWord, alpha: float = 0.05) -> Finding:
    """Return the row of an instrument, from a cell of its verdict. alpha: that of its run."""
    sees = instrument.of_cell(cell) if instrument.of_cell else instrument.sees
    own = instrument.by_kind(cell, alpha) if instrument.by_kind else {}
    context = cell.context or ""
    return Finding(
        audit=instrument.audit,
        name=f"{instrument.name} ({context})" if context else instrument.name,
        sees=tuple(kind for kind in KINDS if kind in sees),
        verdict=cell.verdict,
        word=word.name,
        tone=word.tone,
        glyph=word.glyph,
        grade=cell.grade,
        measured=instrument.measured(cell),
        sensitivity=cell.sensitivity or "not measured",
        context=context,
        kinds={kind: _SEEN[own.get(kind, cell.grade)] for kind in KINDS if kind in sees},
    )


def looked_for(findings: Sequence[Finding]) -> dict[str, tuple[Seen, ...]]:
    """Return for each kind what each instrument says of it, and last what holds of them all: NOT_RUN if every one of
    them is blind to it, as an audit that looks for it was not run."""
    found = {}
    for kind in KINDS:
        row = [one.kinds.get(kind, Seen.BLIND) for one in findings]
        spoken = [one for one in row if one != Seen.BLIND]
        found[kind] = (*row, min(spoken, key=list(Seen).index, default=Seen.NOT_RUN))
    return found


_LINES = {
    Seen.SEEN: "Seen: {}. An audit that is blind to it does not take it back.",
    Seen.SUGGESTED: "Suggested, and another stated cause makes the same data: {}.",
    Seen.CAUSE_UNKNOWN: "Seen, cause unknown: {}.",
    Seen.NOT_SEEN: "Not seen, up to the limit that the audit states: {}.",
    Seen.COULD_NOT_TELL: "Could not tell: {}.",
    Seen.NOT_RUN: "Not looked for: {}. No audit that could see it was run, so nothing here clears the model of it.",
}


def synthesis(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Of one model and benchmark a sentence a state, with the kinds in it and who says so."""
    said: dict[Seen, list[str]] = {state: [] for state in _LINES}
    for kind, row in looked_for(findings).items():
        state = row[-1]
        names, not_so = (
            ", ".join(one.name for one in findings if one.kinds.get(kind) == what) for what in (state, Seen.NOT_SEEN)
        )
        against = f"; not by {not_so}" if not_so and state == Seen.SEEN else ""
        said[state].append(KINDS[kind] + (f" ({names}{against})" if names else ""))
    return tuple(_LINES[state].format("; ".join(kinds)) for state, kinds in said.items() if kinds)
