"""Define what each audit's instrument can see, and combine the statements of several (pure).

An instrument makes statements about what it sees and about nothing else. A finding stands although
an instrument that is blind to it finds nothing. No instrument clears a model of what it does not
see.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from audit.core.number_text import drop_points, with_interval
from audit.judging.document import Cell
from audit.judging.ladder import SPEAKING, Grade
from audit.judging.vocabulary import VerdictWord


@dataclass(frozen=True)
class Indicator:
    """A figure with its 95 % interval, all 0-1; None if not computed.

    against: names of the reference models of the figure; with other references it is another
    figure.
    """

    name: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    against: tuple[str, ...] = ()


# A score may rest on these besides ability. No instrument sees all of them.
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
    """The statement of an instrument on one kind; among several statements the first in this order
    counts.
    """

    SEEN = "seen"
    SUGGESTED = "suggested"
    CAUSE_UNKNOWN = "seen, cause unknown"
    NOT_SEEN = "not seen"
    COULD_NOT_TELL = "could not tell"
    BLIND = "blind"
    NOT_RUN = "not run"  # No audit that looks for this was run.


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
    """The figure behind a finding.

    estimate, low, high: 0-1, None if not computed. false_alarms: share of clean models that this
    procedure accuses in the nearest calibrated design; None without a near design.
    """

    what: str
    estimate: float | None
    low: float | None
    high: float | None
    false_alarms: float | None

    def __str__(self) -> str:
        """Return such as 'largest gain under noise: +1.1 points [−7.2, +8.9]'; empty if not
        computed.

        A drop is written without a sign.
        """
        if self.estimate is None:
            return ""
        figure, bracket, ends = with_interval(self.estimate, self.low, self.high).partition(" [")
        if self.what.startswith("drop"):
            figure, ends = drop_points(self.estimate), ends.replace("+", "")
        return f"{self.what}: {figure}{bracket}{ends}"

    def supports(self, grade: Grade) -> bool:
        """Return whether the figure is evidence of a grade.

        Parameters
        ----------
        grade : Grade
            Grade of the verdict.

        Returns
        -------
        bool
            False if a contrast speaks and this interval includes 0: the verdict rests on another
            figure.

        Examples
        --------
        >>> gap = Measured("gap", 0.01, -0.05, 0.07, None)
        >>> gap.supports(Grade.FOUND_STRONG), gap.supports(Grade.CLEARED)
        (False, True)
        """
        if grade not in SPEAKING or self.low is None or self.high is None:
            return True
        return not self.low <= 0 <= self.high


@dataclass(frozen=True)
class Instrument:
    """An audit as a row of the table.

    sees: some of KINDS. cell: type of its cells of verdict.json. measured: returns the figure of a
    cell. tracked: returns the figures of a cell that a registry follows over versions of a model.
    of_cell: returns what it sees, if that depends on the cell. by_kind: returns the grade of each
    kind from (cell, alpha), if a finding does not cover all that it sees.
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
    """The statement of one instrument on a model and benchmark.

    kinds: by each kind that it sees. sensitivity: in words, "not measured" if it was not. context:
    that of the cell, if a benchmark has several.
    """

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
    """Return the row of an instrument from a cell of its verdict.

    Parameters
    ----------
    instrument : Instrument
        The audit.
    cell : Cell
        A cell of its verdict.json.
    word : VerdictWord
        The words of its verdict.
    alpha : float
        Level of its run.

    Returns
    -------
    Finding
        The row.
    """
    sees = instrument.of_cell(cell) if instrument.of_cell else instrument.sees
    grades = instrument.by_kind(cell, alpha) if instrument.by_kind else {}
    context = cell.context or ""
    kinds = {}
    for kind in KINDS:
        if kind in sees:
            kinds[kind] = _SEEN[grades.get(kind, cell.grade)]
    return Finding(
        audit=instrument.audit,
        name=f"{instrument.name} ({context})" if context else instrument.name,
        sees=tuple(kinds),
        verdict=cell.verdict,
        word=word.name,
        tone=word.tone,
        glyph=word.glyph,
        grade=cell.grade,
        measured=instrument.measured(cell),
        sensitivity=cell.sensitivity or "not measured",
        context=context,
        kinds=kinds,
    )


def looked_for(findings: Sequence[Finding]) -> dict[str, tuple[Seen, ...]]:
    """Return the statements on each kind.

    Parameters
    ----------
    findings : sequence of Finding
        One for each instrument.

    Returns
    -------
    dict of tuple of Seen
        By kind: one for each instrument, and last their combination. It is NOT_RUN if every
        instrument is blind to the kind.
    """
    table = {}
    for kind in KINDS:
        row = [finding.kinds.get(kind, Seen.BLIND) for finding in findings]
        statements = []
        for state in row:
            if state != Seen.BLIND:
                statements.append(state)
        table[kind] = (*row, min(statements, key=list(Seen).index, default=Seen.NOT_RUN))
    return table


_LINES = {
    Seen.SEEN: "Seen: {}. An audit that is blind to it does not take it back.",
    Seen.SUGGESTED: "Suggested, and another stated cause makes the same data: {}.",
    Seen.CAUSE_UNKNOWN: "Seen, cause unknown: {}.",
    Seen.NOT_SEEN: "Not seen, up to the limit that the audit states: {}.",
    Seen.COULD_NOT_TELL: "Could not tell: {}.",
    Seen.NOT_RUN: "Not looked for: {}. No audit that could see it was run, so nothing here clears the model of it.",
}


def synthesis(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return the combined statements on one model and benchmark.

    Parameters
    ----------
    findings : sequence of Finding
        One for each instrument.

    Returns
    -------
    tuple of str
        A sentence for each state, with its kinds and instruments.
    """
    by_state: dict[Seen, list[str]] = {state: [] for state in _LINES}
    for kind, row in looked_for(findings).items():
        state = row[-1]
        instruments: dict[Seen | None, list[str]] = {}
        for finding in findings:
            instruments.setdefault(finding.kinds.get(kind), []).append(finding.name)
        names = ", ".join(instruments.get(state, ()))
        not_by = ", ".join(instruments.get(Seen.NOT_SEEN, ()))
        against = f"; not by {not_by}" if not_by and state == Seen.SEEN else ""
        by_state[state].append(KINDS[kind] + (f" ({names}{against})" if names else ""))
    lines = []
    for state, kinds in by_state.items():
        if kinds:
            lines.append(_LINES[state].format("; ".join(kinds)))
    return tuple(lines)
