"""The words of an audit: one entry a verdict and one a gate, for page, chart, gate and headline alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.verdict.result import Gate


@dataclass(frozen=True)
class VerdictWord:
    """name: as a person reads it. tone: a colour of page.css. glyph, marker, colour: in text, in charts (Okabe & Ito).
    means: one or two sentences. exit_code: of `audit.gate`. weigh: it was not cleared because something was found that
    a person has to weigh, and not because nothing could be told."""

    name: str
    tone: str
    glyph: str
    marker: str
    colour: str
    means: str
    exit_code: int
    weigh: bool = False


@dataclass(frozen=True)
class GateWord:
    """title: the subject of a line that says pass or fail. because: what a failure means in a headline. reads: what the
    check is made from, where an audit tells it."""

    title: str
    because: str
    reads: str = ""


def gate_reasons(failed: Sequence[Gate], words: Mapping[str, GateWord]) -> tuple[str, ...]:
    """Why gates withhold a verdict, each under the name that the page gives it."""
    return tuple(f"{words[g.name].title if g.name in words else g.name}: {g.detail}" for g in failed)
