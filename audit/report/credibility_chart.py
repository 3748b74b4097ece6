"""The score/credibility chart: how high is each model's score against how credible it is. Accuracies are 0-1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from audit.report.canvas import GREEN, MUTED, ORANGE, PURPLE, SKY, VERMILLION, plain, styled

# Verdict (as in verdict.json) -> (colour, marker).
VERDICT_MARKS: dict[str, tuple[str, str]] = {
    "no_excess_detected": (GREEN, "o"),
    "excess_explained_by_ensembling": (SKY, "s"),
    "brittle": (PURPLE, "v"),
    "underpowered": (MUTED, "P"),
    "excess": (VERMILLION, "^"),
    "withheld": (ORANGE, "X"),
}


@dataclass(frozen=True)
class Standing:
    """One model in the score/credibility chart: accuracy with interval, credibility (0-1; None when withheld)."""

    label: str
    score: float
    low: float
    high: float
    credibility: float | None
    verdict: str


def score_and_credibility(standings: Sequence[Standing]) -> Figure:
    """Over models: how high is the score (x, with interval) against how credible it is (y).

    Models are numbered from the highest score down and named in the key on the right; numbers look for a free place
    next to their marker. A withheld verdict has no credibility: those models stand in a strip of their own below.
    """
    unknown = {s.verdict for s in standings} - set(VERDICT_MARKS)
    if unknown:
        raise ValueError(f"Unknown verdicts {sorted(unknown)}; expected some of {list(VERDICT_MARKS)}.")
    ranked = sorted(standings, key=lambda s: (-s.score, s.label))

    def draw() -> Figure:
        figure = Figure(figsize=(9.6, max(4.2, 0.62 + 0.2 * (len(ranked) + len({s.verdict for s in ranked})))))
        axes = figure.add_axes((0.105, 0.6 / figure.get_figheight(), 0.5, 1 - 0.95 / figure.get_figheight()))
        unrated = [s for s in ranked if s.credibility is None]
        bottom = -0.09 * max(len(unrated), 1) - 0.03 if unrated else -0.04
        axes.set_ylim(max(bottom, -0.6), 1.06)
        low, high = min(s.low for s in ranked), max(s.high for s in ranked)
        pad = max((high - low) * 0.08, 0.02)
        axes.set_xlim(max(low - pad, -0.02), min(high + pad, 1.02))
        step = (0.0 - max(bottom, -0.6)) / (len(unrated) + 1) if unrated else 0.0
        heights = [-step * (unrated.index(s) + 1) if s.credibility is None else s.credibility for s in ranked]
        for s, y in zip(ranked, heights, strict=True):
            colour, marker = VERDICT_MARKS[s.verdict]
            axes.errorbar(
                [s.score], [y], xerr=[[max(s.score - s.low, 0)], [max(s.high - s.score, 0)]], fmt=marker, color=colour,
                markersize=7, elinewidth=1.1, capsize=2, alpha=0.95,
            )  # fmt: skip
        if unrated:
            axes.axhspan(max(bottom, -0.6), -step * 0.45, color=MUTED, alpha=0.09, linewidth=0)
        for text, (x, y), anchor in _free_places(axes, [(s.score, h) for s, h in zip(ranked, heights, strict=True)]):
            axes.annotate(
                text, anchor, (x, y), textcoords="offset points", fontsize=8, fontweight="bold", ha="center",
                va="center",
            )  # fmt: skip
        marks = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
        strip = [(max(bottom, -0.6) - step * 0.45) / 2] if unrated else []
        axes.set_yticks([*marks, *strip], [*(f"{100 * m:.0f} %" for m in marks), *(["withheld"] if unrated else [])])
        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f} %"))
        axes.set_xlabel("How high is the score (accuracy, 95 % interval)")
        axes.set_ylabel("How credible is it", loc="top")
        axes.grid(visible=True, axis="both")
        _key(figure, ranked)
        return figure

    return styled(draw)


def _free_places(
    axes: Axes, points: Sequence[tuple[float, float]]
) -> list[tuple[str, tuple[float, float], tuple[float, float]]]:
    """(number, offset in points, anchor in data) for each point: the first offset that meets no marker or number."""
    to_points = 72 / axes.figure.dpi
    at = [tuple(v * to_points for v in axes.transData.transform(p)) for p in points]
    taken: list[tuple[float, float]] = list(at)
    placed = []
    for number, ((x, y), point) in enumerate(zip(at, points, strict=True), start=1):
        ring = [
            (radius * math.cos(math.radians(a)), radius * math.sin(math.radians(a)))
            for radius in (11, 17, 24, 32, 42)
            for a in (50, 130, 230, 310, 90, 270)
        ]
        free = (o for o in ring if all(abs(x + o[0] - u) > 11 or abs(y + o[1] - v) > 9.5 for u, v in taken))
        offset = next(free, ring[0])
        taken.append((x + offset[0], y + offset[1]))
        placed.append((str(number), offset, point))
    return placed


def _key(figure: Figure, ranked: Sequence[Standing]) -> None:
    """The key on the right: each verdict once with its marker, under it the numbered names that have it."""
    axes = figure.add_axes((0.635, 0.0, 0.36, 1.0))
    axes.set_axis_off()
    lines: list[tuple[str, str | None]] = []
    for verdict in VERDICT_MARKS:
        members = [(i, s) for i, s in enumerate(ranked, start=1) if s.verdict == verdict]
        if members:
            lines.append((verdict.replace("_", " "), verdict))
            lines += [(f"{i:>2}  {plain(s.label)}  {100 * s.score:.0f} %", None) for i, s in members]
    height = figure.get_figheight()
    axes.set_xlim(0, 1)
    axes.set_ylim(height, 0)
    for k, (text, kind) in enumerate(lines):
        y = 0.32 + 0.19 * k
        if kind:
            colour, marker = VERDICT_MARKS[kind]
            axes.plot([0.02], [y], marker=marker, color=colour, markersize=7, linestyle="none")
        axes.text(0.06, y, text, va="center", fontsize=8.5, fontweight="bold" if kind else "normal")
