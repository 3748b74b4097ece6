"""What each audit's instrument can see, and what several of them say together (pure).

The rule: an instrument speaks of what it sees and of nothing else. A finding is not taken back by an instrument that is
blind to it; no finding clears a model of what no instrument sees; agreement and disagreement are both said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.verdict.indicator import Indicator
from audit.verdict.vocabulary import CLEARED, Outcome, VerdictWord

# What a score may rest on besides ability. No instrument sees all of it.
KINDS: Mapping[str, str] = {
    "noise": "a score that rises when the question is damaged, by more than repeating it whole explains",
    "wording": "memory of the published wording",
    "answers": "questions that were learnt with their answers",
    "text": "items that were read as published text",
    "format": "answers that follow how a question is put more than what it asks",
    "attribute": "answers that react to an attribute that should make no difference",
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


@dataclass(frozen=True)
class Instrument:
    """An audit as a row of the table. sees: of KINDS. measured: a cell of its verdict.json -> its figure.

    tracked: the figures of a cell that a registry follows over versions of a model. of_cell: what it sees, where that
    depends on the cell.
    """

    audit: str
    name: str
    sees: frozenset[str]
    measured: Callable[[Mapping[str, Any]], Measured]
    tracked: Callable[[Mapping[str, Any]], tuple[Indicator, ...]]
    of_cell: Callable[[Mapping[str, Any]], frozenset[str]] | None = None


@dataclass(frozen=True)
class Finding:
    """What one instrument says of a model and benchmark. sensitivity: in words, "not measured" where it was
    not. context: the cell's, where a benchmark has several."""

    audit: str
    name: str
    sees: tuple[str, ...]
    verdict: str
    word: str
    tone: str
    glyph: str
    outcome: Outcome
    measured: Measured
    sensitivity: str
    context: str = ""


def finding(instrument: Instrument, cell: Mapping[str, Any], word: VerdictWord) -> Finding:
    """The row of an instrument, from a cell of its verdict.json."""
    sees = instrument.of_cell(cell) if instrument.of_cell else instrument.sees
    context = str(cell.get("context") or "")
    return Finding(
        audit=instrument.audit,
        name=f"{instrument.name} ({context})" if context else instrument.name,
        sees=tuple(kind for kind in KINDS if kind in sees),
        verdict=cell["verdict"],
        word=word.name,
        tone=word.tone,
        glyph=word.glyph,
        outcome=word.outcome,
        measured=instrument.measured(cell),
        sensitivity=cell.get("sensitivity") or "not measured",
        context=context,
    )


def synthesis(findings: Sequence[Finding]) -> tuple[str, ...]:
    """What instruments of one model and benchmark say together, in sentences."""
    found = [f for f in findings if f.outcome == Outcome.FOUND]
    cleared = [f for f in findings if f.outcome in CLEARED]
    open_ = [f for f in findings if f.outcome not in (Outcome.FOUND, *CLEARED)]
    lines = [_agreement(found, cleared, open_)]
    for f in found:
        lines.append(f"{f.name} speaks for {_kinds(f.sees)}.")
        if blind := [c for c in cleared if not set(f.sees) <= set(c.sees)]:
            does, are = ("does", "is") if len(blind) == 1 else ("do", "are")
            lines.append(
                f"{_names(blind)} did not find it and {does} not take it back: what {f.name} sees, {_names(blind)} "
                f"{are} blind to."
            )
    for c in cleared:
        lines.append(
            f"{c.name} speaks against {_kinds(c.sees)}, up to the limit that it states, if it states one, and against "
            f"nothing else (sensitivity: {c.sensitivity})."
        )
    told = {kind for f in (*found, *cleared) for kind in f.sees}
    if untold := [kind for kind in KINDS if kind not in told and any(kind in f.sees for f in open_)]:
        lines.append(f"nothing can be said of {_kinds(untold, 'or')}: {_names(open_)} could not tell.")
    if unseen := [kind for kind in KINDS if not any(kind in f.sees for f in findings)]:
        lines.append(f"no instrument here sees {_kinds(unseen, 'or')}: nothing on this page clears the model of that.")
    return tuple(line[0].upper() + line[1:] for line in lines)


def _agreement(found: Sequence[Finding], cleared: Sequence[Finding], open_: Sequence[Finding]) -> str:
    """Who says what. Only outcomes that speak can disagree; an open one neither agrees nor disagrees."""
    n = len(found) + len(cleared) + len(open_)
    said = [
        f"{_names(group)} {text}"
        for group, text in ((found, "found something"), (cleared, "found nothing"), (open_, "could not tell"))
        if group
    ]
    if len(said) == 1 and n > 1:
        return f"{'both' if n == 2 else f'all {n}'} instruments agree: {said[0]}."
    if found and cleared:
        return f"the instruments disagree: {'; '.join(said)}. Each looks for something else, so both can be right."
    return f"{'; '.join(said)}."


def _names(findings: Sequence[Finding]) -> str:
    return _listed([f.name for f in findings])


def _kinds(kinds: Sequence[str], last: str = "and") -> str:
    return _listed([KINDS[kind] for kind in kinds], last)


def _listed(found: Sequence[str], last: str = "and") -> str:
    return found[0] if len(found) == 1 else f"{', '.join(found[:-1])} {last} {found[-1]}"
