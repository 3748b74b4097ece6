"""The words of an audit: one entry a verdict and one a gate, for page, chart, gate and headline alike."""

from __future__ import annotations

from dataclasses import dataclass


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
    """title: the subject of a line that says pass or fail. because: what a failure means in a headline."""

    title: str
    because: str
