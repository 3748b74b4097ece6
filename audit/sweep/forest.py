"""The evidence in one chart: each model's gain under noise with what is compatible with it, worst verdict first."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from audit.report.canvas import INK, MUTED, PHONE, PHONE_FONT, names_above, styled
from audit.sweep.result import Effect, Verdict
from audit.sweep.vocabulary import VERDICTS, severity

_ROW = 0.62  # inches a model


class GainRow(NamedTuple):
    """One model. noise: the mean gain between two runs of the clean arm (0-1); None where it was run once."""

    label: str
    verdict: Verdict
    effect: Effect
    noise: float | None


@styled(PHONE_FONT)
def forest(rows: Sequence[GainRow], effect_of_interest: float) -> Figure:
    """Points of accuracy: zero, the smallest effect that matters on both sides, and each model's own noise between
    clean runs."""
    ranked = sorted(rows, key=lambda r: severity(r.verdict, r.effect.gain, r.label))
    present = [word for v, word in VERDICTS.items() if any(r.verdict == v for r in ranked)]
    legend = 0.12 + 0.21 * math.ceil(len(present) / 2)
    height = 0.65 + legend + _ROW * len(ranked)
    figure = Figure(figsize=(PHONE, height))
    axes = figure.add_axes((0.03, 0.62 / height, 0.94, 1 - (0.62 + legend) / height))
    axes.axvline(0, color=INK, linewidth=1)
    for side in (-effect_of_interest, effect_of_interest):
        axes.axvline(side, color=MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    for k, row in enumerate(ranked):
        e = row.effect
        colour, marker = VERDICTS[row.verdict].colour, VERDICTS[row.verdict].marker
        if row.noise is not None:
            axes.barh(k + 0.06, 2 * row.noise, left=-row.noise, height=0.5, color=MUTED, alpha=0.16, linewidth=0)
        for y, value, low, high, filled in (
            (k - 0.05, e.gain, e.ci_low, e.ci_high, True),
            (k + 0.19, e.mean_gain, e.mean_ci_low, e.mean_ci_high, False),
        ):
            axes.errorbar(
                [value], [y], xerr=[[max(value - low, 0)], [max(high - value, 0)]], fmt=marker, color=colour,
                markersize=8 if filled else 6, markerfacecolor=colour if filled else "none",
                elinewidth=1.6 if filled else 1.1, capsize=3,
            )  # fmt: skip
    names_above(axes, [r.label for r in ranked], [k - 0.36 for k in range(len(ranked))])
    axes.set_ylim(len(ranked) - 0.5, -0.62)
    axes.grid(visible=True, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:+.4g}".replace("-", "−") if v else "0"))
    axes.set_xlabel("Accuracy under noise minus clean accuracy, points")
    handles = [Line2D([], [], color=w.colour, marker=w.marker, linestyle="none", markersize=7) for w in present]
    names = [w.name for w in present]
    figure.legend(handles, names, loc="upper left", ncols=2, fontsize=10, frameon=False)
    return figure
