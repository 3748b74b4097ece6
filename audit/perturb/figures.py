"""The figures of the report: accuracy original against variants, accuracy by distance (0-1)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.report.canvas import BLUE, GRID, MUTED, PHONE, PHONE_FONT, VERMILLION, names_above, plain, styled
from audit.statistics.accuracy import interval
from audit.statistics.paired import FloatArray

BINS = 5  # of distance, with as many variants each
_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.4g} %")


@dataclass(frozen=True)
class Bar:
    """A model's accuracy under the original and the variants, each (accuracy, low, high); None where unanswered."""

    label: str
    original: tuple[float, float, float] | None
    variants: tuple[float, float, float] | None
    reference: bool


@dataclass(frozen=True)
class DistanceBin:
    """Variants at a cosine distance of low to high: how many were answered, and their accuracy with its interval."""

    low: float
    high: float
    n: int
    accuracy: float
    accuracy_low: float
    accuracy_high: float


def distance_bins(distance: FloatArray, correct: FloatArray) -> list[DistanceBin]:
    """(m,) distances and outcomes (1, 0, NaN: left out) -> up to BINS bins with equally many variants each."""
    there = ~np.isnan(correct) & ~np.isnan(distance)
    d, y = distance[there], correct[there]
    order = np.argsort(d, kind="stable")
    bins = []
    for part in np.array_split(order, min(BINS, d.size)) if d.size else ():
        found = interval(y[part], np.arange(part.size))
        if found is not None:
            bins.append(DistanceBin(float(d[part[0]]), float(d[part[-1]]), part.size, *found))
    return bins


@styled(PHONE_FONT)
def original_against_variants(bars: Sequence[Bar], chance: float) -> Figure:
    """One line a model: the original (open) and its variants (filled), with 95 % intervals; references in grey."""
    figure = Figure(figsize=(PHONE, 1.0 + 0.62 * len(bars)), layout="constrained")
    axes = figure.add_subplot()
    for y, bar in enumerate(reversed(bars)):
        colours = (MUTED, MUTED) if bar.reference else (BLUE, VERMILLION)
        for found, colour, shift, fill in (
            (bar.original, colours[0], 0.12, "none"), (bar.variants, colours[1], -0.12, colours[1]),
        ):  # fmt: skip
            if found is not None:
                axes.plot(found[1:], (y + shift,) * 2, color=colour, linewidth=1.4)
                axes.plot(found[0], y + shift, "o", color=colour, markerfacecolor=fill, markersize=6)
    axes.axvline(chance, color=MUTED, linewidth=0.8, linestyle=":")
    names_above(axes, [bar.label for bar in reversed(bars)], [y + 0.38 for y in range(len(bars))])
    axes.set_ylim(-0.4, len(bars) - 0.4)
    axes.xaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("accuracy: original wording (open), variants (filled);\ndotted: guessing")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    return figure


@styled(PHONE_FONT)
def accuracy_by_distance(bins: dict[str, list[DistanceBin]]) -> Figure:
    """Accuracy of the variants over their distance from the original, one line a judged model."""
    figure = Figure(figsize=(PHONE, 3.2), layout="constrained")
    axes = figure.add_subplot()
    for k, (label, found) in enumerate(bins.items()):
        x = [(b.low + b.high) / 2 for b in found]
        y = [b.accuracy for b in found]
        around = [[b.accuracy - b.accuracy_low for b in found], [b.accuracy_high - b.accuracy for b in found]]
        colour = (BLUE, VERMILLION, MUTED)[k % 3]
        axes.errorbar(x, y, yerr=around, fmt="o-", color=colour, capsize=3, linewidth=1.2, label=plain(label))
    axes.yaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("cosine distance of the variant from the original")
    axes.set_ylabel("accuracy of the variants")
    axes.grid(color=GRID, linewidth=0.6)
    if len(bins) > 1:
        axes.legend(fontsize=8)
    return figure
