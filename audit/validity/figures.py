"""The difference D by cell, how many answers each kind of edit moves, and figures 2, 3 and 4 of
li2026 in the paper's form, from any panel; colours by the paper's own status."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.report.canvas import (
    BLUE,
    GREEN,
    GRID,
    MUTED,
    ORANGE,
    PHONE,
    PHONE_FONT,
    PURPLE,
    VERMILLION,
    names_above,
    plain,
    styled,
)
from audit.validity.as_paper import bucket_of
from audit.validity.edits.record import Family
from audit.validity.result import ValidityResult
from audit.validity.status import PAPER
from audit.validity.vocabulary import VERDICTS
from audit.verdict.vocabulary import VerdictWord

_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.4g} %")
_POINTS = FuncFormatter(lambda value, _: f"{100 * value:+.4g}".replace("-", "−") if value else "0")
_BARS = (
    (Family.FORMAT, "layout", MUTED), (Family.SEMANTIC, "wording", BLUE), (Family.ATTRIBUTE, "content", VERMILLION),
    (Family.PLACEBO, "neutral words", GREEN),
)  # fmt: skip


def label(r: ValidityResult) -> str:
    return f"{r.model} / {r.benchmark}" + (f" {r.context}" if r.context else "")


def shown_as(r: ValidityResult) -> VerdictWord:
    """The word of a cell's status, by its archetype."""
    return VERDICTS[r.verdict].of(r.evidence.archetype if r.evidence else None)


@styled(PHONE_FONT)
def differences(results: Sequence[ValidityResult]) -> Figure:
    """D = attr - max(fmt, sem) with the interval that agrees with its tests; colour by status."""
    shown = [r for r in results if r.evidence is not None and r.evidence.primary is not None]
    figure = Figure(figsize=(PHONE, 1.0 + 0.56 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for y, r in enumerate(reversed(shown)):
        assert r.evidence is not None and r.evidence.primary is not None  # noqa: S101 - filtered above
        d, word = r.evidence.primary, shown_as(r)
        axes.plot([d.low, d.high], [y, y], color=word.colour, linewidth=1.6)
        axes.plot(d.difference, y, word.marker, color=word.colour, markersize=7)
    axes.axvline(0, color=MUTED, linewidth=0.8, linestyle=":")
    names_above(axes, [label(r) for r in reversed(shown)], [y + 0.36 for y in range(len(shown))])
    axes.set_ylim(-0.4, len(shown) - 0.4)
    axes.xaxis.set_major_formatter(_POINTS)
    axes.set_xlabel("answers moved by content less those moved by\nlayout or wording (points, 95 % interval)")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    return figure


@styled(PHONE_FONT)
def family_changes(results: Sequence[ValidityResult]) -> Figure:
    """Change of response by family and cell, with 95 % intervals (the paper's Figure 4 has scores: `paper_figures`)."""
    shown = [r for r in results if r.evidence is not None]
    figure = Figure(figsize=(PHONE, 1.4 + 0.95 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for y, r in enumerate(reversed(shown)):
        assert r.evidence is not None  # noqa: S101 - filtered above
        for k, (family, shown_name, colour) in enumerate(_BARS):
            mean = r.evidence.families[family].response_change
            if not mean.n:
                continue
            at = y + 0.27 - 0.18 * k
            axes.plot([mean.low, mean.high], [at, at], color=colour, linewidth=1.4)
            name = shown_name if y == 0 else None
            axes.plot(mean.estimate, at, "o", color=colour, markersize=5, label=name)
    names_above(axes, [label(r) for r in reversed(shown)], [y + 0.46 for y in range(len(shown))])
    axes.set_ylim(-0.42, len(shown) - 0.38)
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("answers that change under an edit of ...")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    figure.legend(loc="outside upper left", ncols=4)
    return figure


_COLOURS = {1: ORANGE, 2: VERMILLION, 3: PURPLE, 4: ORANGE, 5: MUTED, 6: GREEN, 7: BLUE}  # by step of section 3
_FAMILIES = ((Family.FORMAT, MUTED), (Family.SEMANTIC, BLUE), (Family.ATTRIBUTE, VERMILLION))
_LEAST = 0.01  # where a logarithmic axis begins


class Ratio(NamedTuple):
    """A cell's published ratio with its interval. step: of section 3, which colours it. reported: its denominator is
    not nothing."""

    label: str
    status: str
    step: int
    estimate: float
    low: float
    high: float
    reported: bool


class Deltas(NamedTuple):
    """A cell's mean |change of score| under edits of layout, wording and content, 0-1; NaN where there are none."""

    label: str
    changes: tuple[float, ...]


def ratios_of(results: Sequence[ValidityResult]) -> list[Ratio]:
    """The ratio under each edit's own key, with its paired interval over whole clusters."""
    found = [(r, r.evidence.csr["own key"]) for r in results if r.evidence is not None and "own key" in r.evidence.csr]
    return [
        Ratio(label(r), bucket_of(r), r.paper.step if r.paper else 5, one.estimate, one.low, one.high, one.reported)
        for r, one in found
    ]


def deltas_of(results: Sequence[ValidityResult]) -> list[Deltas]:
    return [
        Deltas(label(r), tuple(families[name].score_change for name, _ in _FAMILIES))
        for r in results
        if r.evidence is not None and (families := r.evidence.families)
    ]


@styled()
def ratios(shown: Sequence[Ratio]) -> Figure:
    """Figure 2: the published ratio of each cell."""
    figure = Figure(figsize=(7.6, 1.1 + 0.42 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for y, one in enumerate(reversed(shown)):
        colour = _COLOURS[one.step]
        axes.plot([max(one.low, _LEAST), max(one.high, _LEAST)], [y, y], color=colour, linewidth=1.6)
        face = colour if one.reported else "none"
        axes.plot(max(one.estimate, _LEAST), y, "o", color=colour, markerfacecolor=face, markersize=7)
        axes.annotate(one.status, (1.01, y), xycoords=("axes fraction", "data"), va="center", fontsize=7)
    axes.axvline(1, color=MUTED, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [plain(one.label) for one in reversed(shown)])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel("CSR as published (log scale); open: its denominator may be nothing")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    return figure


@styled()
def before_and_after(results: Sequence[ValidityResult]) -> Figure:
    """Figure 3: the ratio before a repair (x) and after it (y), symlog, linear within 1, with the identity.

    The paper's repair is of its pipeline. Here it is of the key: x under each edit's own key, as published; y on
    responses, which no convention of the key can move.
    """
    shown = [(r, r.evidence.csr) for r in results if r.evidence and {"own key", "response"} <= set(r.evidence.csr)]
    figure = Figure(figsize=(5.6, 4.6), layout="constrained")
    axes = figure.add_subplot()
    top = max([1.0, *(max(c["own key"].estimate, c["response"].estimate) for _, c in shown)]) * 1.6
    axes.plot([0, top], [0, top], color=MUTED, linewidth=0.8, linestyle=":")
    for number, (r, csr) in enumerate(shown, start=1):
        at = csr["own key"].estimate, csr["response"].estimate
        colour = _COLOURS[r.paper.step] if r.paper else MUTED
        axes.plot(*at, "o", color=colour, markersize=6, label=f"{number}  {plain(label(r))}")
        axes.annotate(str(number), at, xytext=(5, 3), textcoords="offset points", fontsize=8)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xlim(-0.1, top)
    axes.set_ylim(-0.1, top)
    axes.set_xlabel("CSR under each edit's own key, as published")
    axes.set_ylabel("CSR on responses")
    axes.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@styled()
def family_deltas(shown: Sequence[Deltas]) -> Figure:
    """Figure 4: the mean |change of score| of each family and cell, and the threshold of G3."""
    figure = Figure(figsize=(7.6, 1.3 + 0.6 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for y, one in enumerate(reversed(shown)):
        for k, ((family, colour), change) in enumerate(zip(_FAMILIES, one.changes, strict=True)):
            if np.isfinite(change):
                name = f"|Δ {family}|" if y == 0 else None
                axes.barh(y + 0.25 - 0.25 * k, change, height=0.22, color=colour, label=name)
    axes.axvline(PAPER.g3_denominator, color=MUTED, linewidth=0.8, linestyle=":")
    axes.set_yticks(range(len(shown)), [plain(one.label) for one in reversed(shown)])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel(f"mean change of the score under each edit's own key; dotted: {PAPER.g3_denominator} (G3)")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=3)
    return figure
