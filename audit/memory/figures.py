"""The figures of the memory audit: orders against each other, and where each item's text stands."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.report.canvas import BLUE, GRID, INK, MUTED, PHONE, PHONE_FONT, VERMILLION, names_above, plain, styled
from audit.statistics.paired import FloatArray
from audit.statistics.without_memory import Limits


@styled(PHONE_FONT)
def scores(rows: Sequence[tuple[str, Limits, bool]], chance: float) -> Figure:
    """Accuracies with their 95 % intervals, a line each: the score, and the score without memory (True)."""
    figure = Figure(figsize=(PHONE, 1.1 + 0.55 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for y, (_, x, without) in enumerate(reversed(rows)):
        colour = BLUE if without else VERMILLION
        axes.plot([x.low, x.high], [y, y], color=colour, linewidth=2)
        axes.plot([x.estimate], [y], "s" if without else "o", color=colour, markersize=8)
        label = f"{100 * x.estimate:.0f} %"
        axes.annotate(label, (x.estimate, y), (0, 7), textcoords="offset points", ha="center", fontsize=9.5)
    axes.axvline(chance, color=MUTED, linewidth=0.9, linestyle=":")
    names_above(axes, [label for label, _, _ in reversed(rows)], [y + 0.4 for y in range(len(rows))])
    axes.set(xlim=(0, 1.02), ylim=(-0.4, len(rows) - 0.4), xlabel="accuracy; dotted: guessing")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
    return figure


@styled()
def order_gains(rows: Sequence[tuple[str, float, float, float, bool]]) -> Figure:
    """What the published order has more than others, in nats a unit with its 95 % interval.

    rows: (label, gain, low, high, judged: the model that is judged, or one to compare it with).
    """
    figure = Figure(figsize=(PHONE, 1.1 + 0.36 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for k, (_, gain, low, high, judged) in enumerate(rows):
        colour = BLUE if judged else MUTED
        axes.plot([low, high], [k, k], color=colour, linewidth=1.6)
        axes.plot([gain], [k], "o" if judged else "s", color=colour, markersize=5)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(rows)), [plain(row[0], 46) for row in rows])
    axes.invert_yaxis()
    axes.set_xlabel("how much likelier than other orders (log-likelihood,\nnats: 0.7 is twice as likely)")
    axes.grid(color=GRID, linewidth=0.6)
    return figure


@styled()
def text_scores(published: FloatArray, fresh: FloatArray, label: str) -> Figure:
    """How likely the text of each item is, as shares of items at or below each value; NaN are left out."""
    figure = Figure(figsize=(PHONE, 3.0), layout="constrained")
    axes = figure.subplots()
    for values, name, colour in ((published, "benchmark", VERMILLION), (fresh, "held-out items", BLUE)):
        x = np.sort(values[~np.isnan(values)])
        if x.size:
            axes.step(x, np.arange(1, x.size + 1) / x.size, where="post", color=colour, label=f"{name} ({x.size})")
    axes.set_xlabel(plain(label, 80))
    axes.set_ylabel("share of items")
    axes.set_ylim(0, 1)
    axes.legend(fontsize=8)
    return figure
