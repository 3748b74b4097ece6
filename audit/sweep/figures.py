"""Draw figures 2-5 of song2026, and each model's gain under noise.

The arguments of the functions are plain numbers. Accuracies are 0-1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from audit.report import canvas
from audit.sweep.paper import RouterSummary
from audit.sweep.vocabulary import VERDICTS, Effect, Verdict, severity


@dataclass(frozen=True)
class Score:
    """Hold an accuracy with its interval at one router count."""

    routers: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelScores:
    """Hold the accuracies of one cell under the clean arm, the noisy arm and two controls.

    If a control was not run, its field is empty or None.
    """

    label: str
    clean: Score | None
    noisy: tuple[Score, ...]
    ensemble: tuple[Score, ...] = ()
    direct: Score | None = None
    chance: float | None = None


@canvas.styled()
def violation_pattern(points: Sequence[RouterSummary]) -> Figure:
    """Draw figure 2: how many models beat their clean baseline at each r, and by how much.

    Parameters
    ----------
    points : sequence of RouterSummary
        One entry for each router count.

    Returns
    -------
    Figure
        Two panels: the numbers of models on the left, and the mean excess on the right.
    """
    figure, left, right, r = _two_panels(points)
    violating, models, labels, excess = [], [], [], []
    for p in points:
        violating.append(p.violating_models)
        models.append(p.models)
        labels.append(f"{p.violating_models}/{p.models}")
        excess.append(100 * p.mean_positive_excess)
    bars = left.bar(r, violating, color=canvas.BLUE, width=0.62)
    left.bar_label(bars, labels, padding=2, fontsize=8)
    left.set_ylim(0, max(models) * 1.12 + 0.2)
    left.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    left.set(title="Models above their clean baseline", ylabel="Models")
    right.plot(r, excess, color=canvas.VERMILLION, marker="D", markersize=5, linewidth=1.6)
    right.set_ylim(0, max([*filter(math.isfinite, excess), 1.0]) * 1.15)
    right.set(title="Mean positive excess of those models", ylabel="Percentage points")
    return figure


@canvas.styled()
def small_multiples(models: Sequence[ModelScores]) -> Figure:
    """Draw figure 3: each model's noisy accuracies, clean baseline (a line) and two controls.

    Parameters
    ----------
    models : sequence of ModelScores
        The accuracies of each model.

    Returns
    -------
    Figure
        One panel for each model. All panels share both axes.
    """
    n = len(models)
    columns = 1 if n <= 2 else min(n, 4)  # A figure of one or two models fits a phone's width.
    rows = math.ceil(n / columns)
    width = {1: canvas.PHONE, 3: 9.4}.get(columns, 10.4)
    height = 3.4 if n == 1 else 2.05 * rows + 0.55
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    router_counts = set()
    for m in models:
        for s in (*m.noisy, *m.ensemble):
            router_counts.add(s.routers)
    every_r = sorted(router_counts) or [1]
    for axes, model in zip(grid.flat, models, strict=False):
        _one_model(axes, model)
        axes.set_title(canvas.plain(model.label, 30))
        _router_axis(axes, every_r, label=False)
    for axes in grid.flat[n:]:
        axes.set_visible(False)
    # Only the lowest panel of a column has tick labels.
    for axes in grid.flat[max(n - columns, 0) : n]:
        axes.tick_params(labelbottom=True)
    low, high = grid[0, 0].get_ylim()
    grid[0, 0].set_ylim(max(low, -0.02), min(high, 1.02))
    grid[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.4g} %"))
    figure.supxlabel("Router messages (r)", fontsize="medium")
    figure.supylabel("Accuracy", fontsize="medium")
    handles: dict[str, Any] = {}
    for axes in grid.flat:
        for h, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles[str(label)] = h
    figure.legend(
        list(handles.values()), list(handles), loc="outside upper left", ncols=5 if n > 2 else 2
    )
    return figure


@canvas.styled()
def transitions(points: Sequence[RouterSummary]) -> Figure:
    """Draw figure 4: how many answers change under noise at each r.

    Answers change from wrong to right (improve) and from right to wrong (degrade).

    Parameters
    ----------
    points : sequence of RouterSummary
        One entry for each router count.

    Returns
    -------
    Figure
        Two panels: the two counts on the left, and improve minus degrade on the right.
    """
    figure, left, right, r = _two_panels(points)
    up, down, net, colours, hatches = [], [], [], [], []
    for point in points:
        difference = point.improve - point.degrade
        up.append(point.improve)
        down.append(point.degrade)
        net.append(difference)
        colours.append(canvas.GREEN if difference >= 0 else canvas.VERMILLION)
        hatches.append("" if difference >= 0 else "///")
    left.plot(r, up, color=canvas.GREEN, marker="o", linewidth=1.6, label="improve: wrong → right")
    left.plot(
        r, down, "s--", color=canvas.VERMILLION, linewidth=1.6, label="degrade: right → wrong"
    )
    left.set_ylim(0, max([*up, *down, 1]) * 1.32)
    left.set(title="Questions that changed, all models together", ylabel="Questions")
    left.legend(loc="upper left", fontsize=8.5, ncols=1)
    bars = right.bar(r, net, width=0.62, color=colours, hatch=hatches, edgecolor=canvas.PAPER)
    right.bar_label(bars, list(map(_signed, net)), padding=2, fontsize=8)
    span = max(*map(abs, net), 1)
    lower = -span * 1.25 if min(net) < 0 else 0
    upper = span * 1.25 if max(net) > 0 else span * 0.25
    right.set_ylim(lower, upper)
    right.axhline(0, color=canvas.MUTED, linewidth=0.8)
    right.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    left.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    right.set(title="Net: improve minus degrade", ylabel="Questions")
    return figure


@canvas.styled()
def breadth(bars: Sequence[tuple[str, int, int]]) -> Figure:
    """Draw figure 5: the violation breadth of each model.

    This is the paper's term for the share of noisy settings with an accuracy above the clean
    baseline.

    Parameters
    ----------
    bars : sequence of (str, int, int)
        For each model, its label, the number of its settings above the baseline, and the number of
        all its settings.

    Returns
    -------
    Figure
        One bar for each model; the model with the largest share comes first.
    """
    ranked = sorted(bars, key=lambda b: (-b[1] / b[2], b[0]))
    figure = Figure(figsize=(8.6, 0.9 + 0.27 * len(ranked)), layout="constrained")
    axes = figure.subplots()
    rates, labels, names = [], [], []
    for name, above, settings in ranked:
        rates.append(100 * above / settings)
        labels.append(f"{above}/{settings}")
        names.append(canvas.plain(name))
    y = range(len(ranked))
    drawn = axes.barh(y, rates, color=canvas.BLUE, height=0.62)
    axes.bar_label(drawn, labels, padding=4, fontsize=8)
    axes.set_yticks(list(y), names)
    axes.set_ylim(len(ranked) - 0.4, -0.6)
    axes.set_xlim(0, 112)
    axes.set_xticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("Noisy settings above the clean baseline (not a test)")
    return figure


def _two_panels(points: Sequence[RouterSummary]) -> tuple[Figure, Axes, Axes, list[int]]:
    """Return a figure with two charts over r, their axes, and the router counts."""
    figure = Figure(figsize=(8.6, 3.1), layout="constrained")
    left, right = figure.subplots(1, 2)
    r = [p.routers for p in points]
    for axes in (left, right):
        _router_axis(axes, r)
    return figure, left, right, r


def _signed(value: float) -> str:
    """Return a number of questions with its sign, and one decimal if it is not a whole number."""
    text = f"{value:+,.0f}" if float(value).is_integer() else f"{value:+,.1f}"
    return "0" if not text.strip("+-0.") else text


def _router_axis(axes: Axes, routers: Sequence[int], *, label: bool = True) -> None:
    """Set the horizontal axis, with at most 12 tick labels."""
    shown = list(routers) if len(routers) <= 12 else list(routers)[:: math.ceil(len(routers) / 12)]
    axes.set_xticks(shown, list(map(str, shown)))
    axes.set_xlim(min(routers) - 0.6, max(routers) + 0.6)
    axes.grid(visible=False, axis="x")
    if label:
        axes.set_xlabel("Router messages (r)")


def _one_model(axes: Axes, model: ModelScores) -> None:
    """Draw one panel of figure 3."""
    if model.clean is not None:
        axes.axhspan(model.clean.low, model.clean.high, color=canvas.BLUE, alpha=0.13, linewidth=0)
        axes.axhline(
            model.clean.value, color=canvas.BLUE, linewidth=1.5, label="clean baseline, 95 %"
        )
    if model.direct is not None:
        axes.axhline(
            model.direct.value,
            color=canvas.INK,
            linewidth=1.1,
            linestyle=":",
            label="direct (no router)",
        )
    if model.chance is not None:
        axes.axhline(
            model.chance, color=canvas.MUTED, linewidth=0.9, linestyle=(0, (5, 4)), label="chance"
        )
    if model.ensemble:
        _points(axes, model.ensemble, canvas.SKY, "s", "ensemble control", 0.14)
    if model.noisy:
        _points(
            axes, model.noisy, canvas.VERMILLION, "o", "noisy", -0.14 if model.ensemble else 0.0
        )


def _points(
    axes: Axes, scores: Sequence[Score], colour: str, marker: str, label: str, shift: float
) -> None:
    counts = []
    values = []
    below = []
    above = []
    for score in scores:
        counts.append(score.routers + shift)
        values.append(score.value)
        below.append(max(score.value - score.low, 0.0))
        above.append(max(score.high - score.value, 0.0))
    axes.errorbar(
        counts,
        values,
        yerr=[below, above],
        fmt=marker,
        color=colour,
        markersize=3.8,
        elinewidth=1.0,
        capsize=1.6,
        label=label,
    )


_ROW = 0.62  # height of a model's row in inches


class GainRow(NamedTuple):
    """Hold the gain of one model.

    `noise` is the mean absolute difference in accuracy (0-1) between two runs of the clean arm. It
    is None if this arm was run once.
    """

    label: str
    verdict: Verdict
    effect: Effect
    noise: float | None


@canvas.styled()
def forest(rows: Sequence[GainRow], effect_of_interest: float) -> Figure:
    """Draw the gain of each model with its interval, in points.

    Lines mark zero and the smallest effect that matters. A grey area marks the noise between clean
    runs.

    Parameters
    ----------
    rows : sequence of GainRow
        One entry for each model.
    effect_of_interest : float
        The smallest effect that matters, 0-1, which is drawn on both sides of zero.

    Returns
    -------
    Figure
        One row for each model; the model with the worst verdict comes first.
    """
    ranked = sorted(rows, key=lambda r: severity(r.verdict, r.effect.gain, r.label))
    verdicts = {row.verdict for row in ranked}
    present = []
    for v, word in VERDICTS.items():
        if v in verdicts:
            present.append(word)
    legend = 0.12 + 0.21 * len(present)
    height = 0.65 + legend + _ROW * len(ranked)
    figure = Figure(figsize=(canvas.PHONE, height))
    axes = figure.add_axes((0.03, 0.62 / height, 0.94, 1 - (0.62 + legend) / height))
    axes.axvline(0, color=canvas.INK, linewidth=1)
    for side in (-effect_of_interest, effect_of_interest):
        axes.axvline(side, color=canvas.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    for k, row in enumerate(ranked):
        e = row.effect
        colour, marker = VERDICTS[row.verdict].colour, VERDICTS[row.verdict].marker
        if row.noise is not None:
            axes.barh(
                k + 0.06,
                2 * row.noise,
                left=-row.noise,
                height=0.5,
                color=canvas.MUTED,
                alpha=0.16,
                linewidth=0,
            )
        largest = (k - 0.05, e.gain, e.ci_low, e.ci_high, True)
        mean = (k + 0.19, e.mean_gain, e.mean_ci_low, e.mean_ci_high, False)
        for y, value, low, high, filled in (largest, mean):
            axes.errorbar(
                [value],
                [y],
                xerr=[[max(value - low, 0)], [max(high - value, 0)]],
                fmt=marker,
                color=colour,
                markersize=8 if filled else 6,
                markerfacecolor=colour if filled else "none",
                elinewidth=1.6 if filled else 1.1,
                capsize=3,
            )
    labels = []
    for result in ranked:
        labels.append(result.label)
    heights = np.arange(len(ranked)) - 0.36
    canvas.names_above(axes, labels, heights.tolist())
    axes.set_ylim(len(ranked) - 0.5, -0.62)
    axes.grid(visible=True, axis="x")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda v, _: f"{100 * v:+.4g}".replace("-", "−") if v else "0")
    )
    axes.set_xlabel("Accuracy under noise minus clean accuracy, points")
    handles, names = [], []
    for w in present:
        handles.append(
            Line2D([], [], color=w.colour, marker=w.marker, linestyle="none", markersize=7)
        )
        names.append(w.name)
    figure.legend(handles, names, loc="upper left", frameon=False)
    return figure
