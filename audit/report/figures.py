"""Figures 2-5 of song2026 and the score/credibility chart, drawn by matplotlib without pyplot.

Plain numbers in, `Figure` out; `svg_text` and `png_bytes` turn a figure into bytes that are the same every time
(fixed id salt, no date). Colours are Okabe and Ito's, which colour-blind readers can tell apart, and every series has
a marker of its own as well. Sizes are in inches, accuracies in 0-1.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.ticker import FuncFormatter, MaxNLocator

# Okabe and Ito (2008), "Color Universal Design".
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"
INK, MUTED, GRID, PAPER = "#1b1f24", "#626a73", "#d8dce1", "#fefefe"

# Verdict (as in verdict.json) -> (colour, marker).
VERDICT_MARKS: dict[str, tuple[str, str]] = {
    "no_excess_detected": (GREEN, "o"),
    "excess_explained_by_ensembling": (SKY, "s"),
    "brittle": (PURPLE, "v"),
    "underpowered": (MUTED, "P"),
    "excess": (VERMILLION, "^"),
    "withheld": (ORANGE, "X"),
}
_RC = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "svg.hashsalt": "benchmark-audit",
    "svg.fonttype": "path",  # glyphs as outlines: the same layout on every machine
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.grid": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "savefig.facecolor": "none",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


@dataclass(frozen=True)
class RouterPoint:
    """One number of routers over the panel: a row of the paper's Table 3. `models` were measured at this r."""

    routers: int
    models: int
    violating: int
    mean_positive_excess: float
    improve: float  # whole, or expected counts where replicates were averaged
    degrade: float


@dataclass(frozen=True)
class Score:
    """An accuracy with its interval under one number of routers."""

    routers: int
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class ModelScores:
    """One cell's accuracies: noisy against the clean line, with the two controls where they were run."""

    label: str
    clean: Score | None
    noisy: tuple[Score, ...]
    ensemble: tuple[Score, ...] = ()
    direct: Score | None = None
    chance: float | None = None


@dataclass(frozen=True)
class Breadth:
    """How many of a model's noisy settings beat its clean baseline."""

    label: str
    violations: int
    settings: int


@dataclass(frozen=True)
class Standing:
    """One model in the score/credibility chart: accuracy with interval, credibility (0-1; None when withheld)."""

    label: str
    score: float
    low: float
    high: float
    credibility: float | None
    verdict: str


def plain(text: str, limit: int = 34) -> str:
    """A name as matplotlib can draw it: one line, no mathtext, only glyphs of the font, shortened in the middle."""
    with matplotlib.rc_context(_RC):
        font = get_font(findfont("DejaVu Sans"))
    shown = "".join(c if c.isprintable() and font.get_char_index(ord(c)) else "\N{WHITE SQUARE}" for c in text)
    if len(shown) > limit:
        keep = limit - 1
        shown = shown[: keep - keep // 2] + "…" + shown[-(keep // 2) :]
    return shown.replace("$", r"\$")


def violation_pattern(points: Sequence[RouterPoint]) -> Figure:
    """Figure 2: how many models beat their clean baseline at each r, and by how much on average when they do."""

    def draw() -> Figure:
        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        r = [p.routers for p in points]
        left.bar(r, [p.violating for p in points], color=BLUE, width=0.62)
        total = max(p.models for p in points)
        for p in points:
            left.annotate(
                f"{p.violating}/{p.models}", (p.routers, p.violating), (0, 2), textcoords="offset points",
                ha="center", va="bottom", fontsize=8,
            )  # fmt: skip
        left.set_ylim(0, total * 1.12 + 0.2)
        left.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        left.set(title="Models above their clean baseline", ylabel="Models")
        excess = [100 * p.mean_positive_excess for p in points]
        right.plot(r, excess, color=VERMILLION, marker="D", markersize=5, linewidth=1.6)
        right.set_ylim(0, max([*(e for e in excess if math.isfinite(e)), 1.0]) * 1.15)
        right.set(title="Mean positive excess of those models", ylabel="Percentage points")
        for axes in (left, right):
            _router_axis(axes, r)
        return figure

    return _styled(draw)


def small_multiples(models: Sequence[ModelScores]) -> Figure:
    """Figure 3: each model's noisy accuracies, with intervals, against its clean line and the two controls."""

    def draw() -> Figure:
        n = len(models)
        columns = min(n, 4) if n != 3 else 3
        rows = math.ceil(n / columns)
        width = {1: 6.4, 2: 8.6, 3: 9.4}.get(columns, 10.4)
        height = 3.4 if n == 1 else 2.05 * rows + 0.55
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        every_r = sorted({s.routers for m in models for s in (*m.noisy, *m.ensemble)}) or [1]
        for axes, model in zip(grid.flat, models, strict=False):
            _one_model(axes, model)
            axes.set_title(plain(model.label, 30 if columns > 2 else 60))
            _router_axis(axes, every_r, label=False)
        for index, axes in enumerate(grid.flat):
            if index >= n:
                axes.set_visible(False)
            if index + columns >= n and index < n:  # the lowest axes of each column carries the tick labels
                axes.tick_params(labelbottom=True)
        grid[0, 0].set_ylim(*_score_limits(models))
        grid[0, 0].yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{100 * v:.0f} %"))
        figure.supxlabel("Router messages (r)", fontsize=9, color=INK)
        figure.supylabel("Accuracy", fontsize=9, color=INK)
        handles: dict[str, Any] = {}
        for axes in grid.flat:
            handles |= {str(label): h for h, label in zip(*axes.get_legend_handles_labels(), strict=True)}
        figure.legend(
            list(handles.values()), list(handles), loc="outside upper left", ncols=3 if n == 1 else 5, fontsize=8.5
        )
        return figure

    return _styled(draw)


def transitions(points: Sequence[RouterPoint]) -> Figure:
    """Figure 4: questions that turned right (improve) and wrong (degrade) under noise, over r, and their balance."""

    def draw() -> Figure:
        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        left, right = figure.subplots(1, 2)
        r = [p.routers for p in points]
        left.plot(
            r, [p.improve for p in points], color=GREEN, marker="o", linewidth=1.6, label="improve: wrong → right"
        )
        left.plot(
            r, [p.degrade for p in points], color=VERMILLION, marker="s", linestyle="--", linewidth=1.6,
            label="degrade: right → wrong",
        )  # fmt: skip
        top = max([*(p.improve for p in points), *(p.degrade for p in points), 1])
        left.set_ylim(0, top * 1.32)
        left.set(title="Questions that changed, all models together", ylabel="Questions")
        left.legend(loc="upper left", fontsize=8.5, ncols=1)
        net = [p.improve - p.degrade for p in points]
        bars = right.bar(r, net, width=0.62, color=[GREEN if v >= 0 else VERMILLION for v in net])
        for bar, value in zip(bars, net, strict=True):
            if value < 0:
                bar.set_hatch("///")
                bar.set_edgecolor(PAPER)
            right.annotate(
                f"{value:+.3g}" if value else "0", (bar.get_x() + bar.get_width() / 2, value),
                (0, 2 if value >= 0 else -2), textcoords="offset points", ha="center",
                va="bottom" if value >= 0 else "top", fontsize=8,
            )  # fmt: skip
        span = max([abs(v) for v in net] + [1])
        right.set_ylim(-span * 1.25 if min(net) < 0 else 0, span * 1.25 if max(net) > 0 else span * 0.25)
        right.axhline(0, color=MUTED, linewidth=0.8)
        right.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        left.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        right.set(title="Net: improve minus degrade", ylabel="Questions")
        for axes in (left, right):
            _router_axis(axes, r)
        return figure

    return _styled(draw)


def breadth(bars: Sequence[Breadth]) -> Figure:
    """Figure 5: the share of each model's noisy settings above its clean baseline (the paper's violation breadth)."""

    def draw() -> Figure:
        ranked = sorted(bars, key=lambda b: (-b.violations / max(b.settings, 1), b.label))
        figure = Figure(figsize=(8.6, 0.9 + 0.27 * len(ranked)), layout="constrained")
        axes = figure.subplots()
        rate = [100 * b.violations / max(b.settings, 1) for b in ranked]
        y = range(len(ranked))
        axes.barh(y, rate, color=BLUE, height=0.62)
        for i, b in enumerate(ranked):
            axes.annotate(
                f"{b.violations}/{b.settings}", (rate[i], i), (4, 0), textcoords="offset points", va="center",
                fontsize=8,
            )  # fmt: skip
        axes.set_yticks(list(y), [plain(b.label) for b in ranked])
        axes.set_ylim(len(ranked) - 0.4, -0.6)
        axes.set_xlim(0, 112)
        axes.set_xticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("Noisy settings above the clean baseline (not a test: a clean model shows about half)")
        return figure

    return _styled(draw)


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

    return _styled(draw)


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


def svg_text(figure: Figure) -> str:
    """The figure as an SVG document, the same bytes for the same figure."""
    buffer = io.StringIO()
    with matplotlib.rc_context(_RC):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    return re.sub(r"[ \t]+\n", "\n", buffer.getvalue())


def png_bytes(figure: Figure, dpi: int = 160) -> bytes:
    """The figure as a PNG on white."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({**_RC, "savefig.facecolor": "white", "figure.facecolor": "white"}):
        figure.set_facecolor("white")
        figure.set_dpi(dpi)
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
        figure.set_facecolor("none")
    return buffer.getvalue()


_STYLE_SPLIT = re.compile(r"\s*;\s*")


def inline_svg(document: str, prefix: str, label: str) -> str:
    """An SVG document as an element for the page: no inline styles (the page's policy forbids them), own ids, a name.

    Style attributes become presentation attributes, which mean the same and which the page's style sheet can override
    in the dark. `label` must already be escaped for an attribute.
    """
    body = re.sub(r"<!--.*?-->", "", document, flags=re.DOTALL)  # comments hold names of models
    body = body[body.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<style[^>]*>.*?</style>", "", body, flags=re.DOTALL)
    body = re.sub(r'\bstyle="([^"]*)"', lambda m: _attributes(m[1]), body)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    size = re.search(r'<svg[^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"', body)
    if size is None:
        raise ValueError("No viewBox in the SVG document; expected one written by svg_text.")
    width, height = float(size[1]), float(size[2])
    opening = (
        f'<svg class="fig" role="img" aria-label="{label}" viewBox="0 0 {size[1]} {size[2]}" '
        f'width="{width * 1.25:.0f}" height="{height * 1.25:.0f}" stroke-linejoin="round" stroke-linecap="butt" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return re.sub(r"\n\s*", "\n", opening + body[body.index(">") + 1 :].strip())


def _attributes(style: str) -> str:
    pairs = (part.split(":", 1) for part in _STYLE_SPLIT.split(style) if ":" in part)
    return " ".join(f'{name.strip()}="{value.strip()}"' for name, value in pairs)


def _styled(draw: Callable[[], Figure]) -> Figure:
    with matplotlib.rc_context(_RC):
        return draw()


def _router_axis(axes: Axes, routers: Sequence[int], *, label: bool = True) -> None:
    shown = list(routers) if len(routers) <= 12 else list(routers)[:: math.ceil(len(routers) / 12)]
    axes.set_xticks(shown, [str(r) for r in shown])
    axes.set_xlim(min(routers) - 0.6, max(routers) + 0.6)
    axes.grid(visible=False, axis="x")
    if label:
        axes.set_xlabel("Router messages (r)")


def _one_model(axes: Axes, model: ModelScores) -> None:
    if model.clean is not None:
        axes.axhspan(model.clean.low, model.clean.high, color=BLUE, alpha=0.13, linewidth=0)
        axes.axhline(model.clean.value, color=BLUE, linewidth=1.5, label="clean baseline, 95 % interval")
    if model.direct is not None:
        axes.axhline(model.direct.value, color=INK, linewidth=1.1, linestyle=":", label="direct (no router)")
    if model.chance is not None:
        axes.axhline(model.chance, color=MUTED, linewidth=0.9, linestyle=(0, (5, 4)), label="chance")
    if model.ensemble:
        _points(axes, model.ensemble, SKY, "s", "ensemble control", 0.14)
    if model.noisy:
        _points(axes, model.noisy, VERMILLION, "o", "noisy", -0.14 if model.ensemble else 0.0)


def _points(axes: Axes, scores: Sequence[Score], colour: str, marker: str, label: str, shift: float) -> None:
    axes.errorbar(
        [s.routers + shift for s in scores],
        [s.value for s in scores],
        yerr=[[max(s.value - s.low, 0.0) for s in scores], [max(s.high - s.value, 0.0) for s in scores]],
        fmt=marker, color=colour, markersize=3.8, elinewidth=1.0, capsize=1.6, label=label,
    )  # fmt: skip


def _score_limits(models: Sequence[ModelScores]) -> tuple[float, float]:
    values = [v for m in models for s in (m.clean, m.direct, *m.noisy, *m.ensemble) if s for v in (s.low, s.high)]
    values += [m.chance for m in models if m.chance is not None]
    low, high = min(values, default=0.0), max(values, default=1.0)
    pad = max(0.05 * (high - low), 0.02)
    return max(low - pad, -0.02), min(high + pad, 1.02)
