"""Two pictures of every audit: what a run can rule out, and how many questions it would take. Effects are 0-1."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.report.canvas import BLUE, GREEN, GRID, INK, MUTED, ORANGE, PHONE, PHONE_FONT, names_above, plain, styled

_POINTS = FuncFormatter(lambda value, _: f"{100 * value:.4g}")


@styled(PHONE_FONT)
def ruled_out(rows: Sequence[tuple[str, float]], matters: float, what: str) -> Figure:
    """A bar a model, from no effect to the largest that is still possible; right of it is ruled out.

    rows: (label, largest effect still possible), at least one. matters: the smallest effect that matters. what: its
    name, such as "gain".
    """
    figure = Figure(figsize=(PHONE, 1.35 + 0.62 * len(rows)), layout="constrained")
    axes = figure.subplots()
    right = 1.35 * max(matters, *(limit for _, limit in rows))
    for y, (_, limit) in enumerate(reversed(rows)):
        axes.barh(y, right, height=0.34, color=GRID)
        axes.barh(y, max(limit, 0.0), height=0.34, color=GREEN if limit <= matters else ORANGE)
    axes.axvline(matters, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
    axes.set_title(f"dashed: {100 * matters:g} points matter", fontsize=10)
    names = [f"{plain(label, 30)}: above {100 * limit:.1f} ruled out" for label, limit in reversed(rows)]
    names_above(axes, names, [y + 0.36 for y in range(len(rows))], 60)
    axes.set(xlim=(0, right), ylim=(-0.35, len(rows) - 0.35), xlabel=f"{what}, points; filled: still possible")
    axes.xaxis.set_major_formatter(_POINTS)
    axes.grid(visible=False)
    return figure


@styled(PHONE_FONT)
def power_curve(
    found: Callable[[int], float], asked: int, needed: int | None, matters: float, what: str, *,
    instead: str = "take more references",
) -> Figure:  # fmt: skip
    """The smallest effect that is found with the power asked for, over the number of questions, and where the run is.

    found: questions -> that effect, NaN where none is found. needed: questions from which on it is `matters`; None
    where no number would do, and `instead` says what would.
    """
    far = needed or 20 * asked
    figure = Figure(figsize=(PHONE, 2.9), layout="constrained")
    axes = figure.subplots()
    n = np.unique(np.geomspace(min(asked, far) / 2, 2 * max(asked, far), 24).astype(int).clip(5))
    axes.plot(n, [found(k) for k in n.tolist()], color=BLUE, linewidth=1.8)
    axes.axhline(matters, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
    marks = [(asked, found(asked), f"you are here: {asked:,}", "o", ORANGE)]
    if needed is not None:
        marks.append((needed, matters, f"{needed:,} needed", "D", GREEN))
    for k, y, text, marker, colour in marks:
        axes.plot([k], [y], marker, color=colour, markersize=8, zorder=3)
        axes.annotate(text, (k, y), (6, 8), textcoords="offset points", fontsize=9.5, annotation_clip=False)
    if needed is None:
        axes.set_title(f"more questions alone are not enough: {instead}", fontsize=10)
    axes.set_xscale("log")
    ticks = [k for k in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000) if n[0] <= k <= n[-1]]
    axes.set_xticks(ticks, [f"{k:,}" for k in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_POINTS)
    axes.set(xlabel="questions", ylabel=f"smallest {what} found, points")
    axes.spines["left"].set_color(MUTED)
    return figure
