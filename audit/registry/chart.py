"""Trends as a figure, drawn like the report's: one panel a series, points joined only where they can be compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from audit.registry.trends import Floor, Series
from audit.report.canvas import BLUE, INK, MUTED, PAPER, VERMILLION, plain, styled, svg_text


def trend_svg(series: Sequence[Series], floors: Sequence[Floor] = ()) -> str:
    """The SVG document; the same bytes for the same series. floors: drawn as a dotted line where a panel has one."""
    return svg_text(styled(lambda: _draw(series, floors)))


def _draw(series: Sequence[Series], floors: Sequence[Floor]) -> Figure:
    figure = Figure(figsize=(7.2, 0.5 + 2.3 * len(series)), layout="constrained")
    axes = np.atleast_1d(np.array(figure.subplots(len(series), 1)))
    for ax, one in zip(axes, series, strict=True):
        x = np.arange(len(one.points))
        for level in (f for f in floors if _same(f, one)):
            ax.axhline(100 * level.median, color=MUTED, linewidth=1, linestyle=":", zorder=1)
            ax.annotate("median of current models", (0.995, 100 * level.median), xycoords=("axes fraction", "data"),
                        ha="right", va="bottom", color=MUTED, fontsize=7)  # fmt: skip
        for k, point in enumerate(one.points):
            if k and not point.differs:
                both = [100 * one.points[k - 1].estimate, 100 * point.estimate]
                ax.plot([k - 1, k], both, color=BLUE, linewidth=1.2, zorder=2)
            elif k:
                ax.axvline(k - 0.5, color=MUTED, linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
            changed = point.look is not None and point.look.changed
            colour = VERMILLION if changed else BLUE
            if point.low is not None and point.high is not None:
                ax.vlines(k, 100 * point.low, 100 * point.high, color=colour, linewidth=1.4, zorder=2)
            ax.plot(k, 100 * point.estimate, marker="D" if changed else "o", markersize=6, markeredgecolor=colour,
                    markerfacecolor=colour if point.sound else PAPER, zorder=3)  # fmt: skip
        ax.axhline(0, color=INK, linewidth=0.6, zorder=0)
        ax.set_xlim(-0.5, max(len(x) - 0.5, 0.5))
        ax.set_xticks(
            x, [f"{plain(p.revision.removeprefix('sha256:'), 12)}\n{p.started[:10]}" for p in one.points], fontsize=7
        )
        where = f"{one.benchmark}, {one.context}" if one.context else one.benchmark
        ax.set_title(f"{one.indicator.replace('_', ' ')} of {plain(one.model)} on {plain(where)}")
        ax.set_ylabel("points" if one.indicator != "cs" else "CS, %")
    return figure


def _same(floor: Floor, one: Series) -> bool:
    """Whether a floor is of what the latest point shows, measured as it was."""
    return (floor.indicator, floor.alike) == (one.indicator, one.points[-1].alike)
