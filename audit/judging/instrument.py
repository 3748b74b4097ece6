"""Define what each audit can detect, and combine the statements of several audits.

Each audit is called an instrument. Three rules apply:

- An instrument makes statements only about the kinds of effect that it can detect.
- A finding of one kind of effect remains valid if an instrument for other kinds finds nothing.
- An instrument cannot clear a model of an effect that it cannot detect.

The module does no I/O.
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
    """Hold an estimate with its 95 % interval, as fractions. A number that was not computed is
    None.

    Attributes
    ----------
    against : tuple of str
        Names of the reference models with which the estimate was computed. Estimates with different
        references are not comparable.
    """

    name: str
    estimate: float | None
    low: float | None = None
    high: float | None = None
    against: tuple[str, ...] = ()


# Effects other than ability that may contribute to a score. No instrument detects all of these
# effects.
KINDS: Mapping[str, str] = {
    "noise": "a score that rises when the question is damaged, by more than a repeated intact question explains",
    "wording": "memory of the published wording",
    "answers": "questions that were learnt with their answers",
    "text": "items that were read as published text",
    "format": "answers that depend on the form of a question more than on its content",
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
    """Hold the statement of an instrument on one kind of effect.

    If several instruments make different statements, the statement listed first in this enum
    counts.
    """

    SEEN = "seen"
    SUGGESTED = "suggested"
    CAUSE_UNKNOWN = "seen, cause unknown"
    NOT_SEEN = "not seen"
    COULD_NOT_TELL = "could not tell"
    BLIND = "blind"
    NOT_RUN = "not run"  # No audit that looks for this kind of effect was run.


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
    """Hold the estimate on which a finding is based.

    Attributes
    ----------
    estimate, low, high : float or None
        The estimate and its 95 % interval, as fractions; None if not computed.
    false_alarms : float or None
        Share of models without memory in which this procedure has a finding, in the nearest
        calibrated design. None if no design is near the run.
    """

    what: str
    estimate: float | None
    low: float | None
    high: float | None
    false_alarms: float | None

    def __str__(self) -> str:
        """Return a text such as 'largest gain under noise: +1.1 points [−7.2, +8.9]'.

        The text is empty if the estimate was not computed. A drop is written without a sign.
        """
        if self.estimate is None:
            return ""
        figure, bracket, ends = with_interval(self.estimate, self.low, self.high).partition(" [")
        if self.what.startswith("drop"):
            figure, ends = drop_points(self.estimate), ends.replace("+", "")
        return f"{self.what}: {figure}{bracket}{ends}"

    def supports(self, grade: Grade) -> bool:
        """Return whether the estimate is evidence for a grade.

        Parameters
        ----------
        grade : Grade
            Grade of the verdict.

        Returns
        -------
        bool
            False if the grade requires a significant contrast, but the interval of this estimate
            includes 0. The verdict is then based on another estimate.

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
    """Describe an audit for comparisons with other audits.

    Attributes
    ----------
    sees : frozenset of str
        The kinds of effect (`KINDS`) that the audit detects.
    measured : callable
        Function from a cell to its main estimate.
    tracked : callable
        Function from a cell to the estimates that a registry compares between versions of a model.
    of_cell : callable or None
        Function from a cell to the kinds of effect that the audit can detect in this cell. None if
        the kinds are the same in every cell.
    by_kind : callable or None
        Function from (cell, alpha) to the grade of each kind of effect. None if a finding applies
        to all kinds alike.
    cell : type
        Type of the audit's cells in verdict.json.
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
    """Hold the statement of one instrument on a model and benchmark.

    Attributes
    ----------
    sensitivity : str
        The sensitivity of the instrument as a phrase, or "not measured".
    context : str
        Context of the cell if a benchmark has several contexts; otherwise "".
    kinds : mapping of str to Seen
        Statement on each kind of effect that the instrument detects.
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
    """Return the statement of an instrument, from a cell of its verdict.

    Parameters
    ----------
    instrument : Instrument
        The audit that judged the cell.
    cell : Cell
        A cell of the audit's verdict.json.
    word : VerdictWord
        Display words for the cell's verdict.
    alpha : float
        Significance level of the audit's run.

    Returns
    -------
    Finding
        The statement of the instrument on each kind of effect.
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
    """Return the statements of all instruments on each kind of effect.

    Parameters
    ----------
    findings : sequence of Finding
        Statement of each instrument.

    Returns
    -------
    dict of tuple of Seen
        Map each kind of effect to the statements of all instruments. The last entry combines these
        statements; it is NOT_RUN if no instrument can detect the kind.
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
    Seen.SEEN: "Seen: {}. An audit that is blind to it does not contradict this.",
    Seen.SUGGESTED: "Suggested, but another stated cause would give the same data: {}.",
    Seen.CAUSE_UNKNOWN: "Seen, cause unknown: {}.",
    Seen.NOT_SEEN: "Not seen, up to the limit that the audit states: {}.",
    Seen.COULD_NOT_TELL: "Could not tell: {}.",
    Seen.NOT_RUN: "Not looked for: {}. No audit that could detect it was run, so the model is not "
    "cleared of it.",
}


def synthesis(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Return sentences that combine the statements of all instruments on one model and benchmark.

    Parameters
    ----------
    findings : sequence of Finding
        Statement of each instrument.

    Returns
    -------
    tuple of str
        One sentence for each kind of statement (`Seen`), with the kinds of effect and the
        instruments to which the sentence applies.
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
