"""What every figure shares: colours, style, names as they can be drawn, and the way from a figure to bytes (the same
every time). Two pictures are of every audit: what a run can rule out, and how many questions it would take. Effects:
0-1."""

import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont, get_font
from matplotlib.ticker import FuncFormatter

# Okabe and Ito (2008), "Color Universal Design".
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = "#e69f00", "#56b4e9", "#009e73", "#0072b2", "#d55e00", "#cc79a7"
INK, MUTED, GRID, PAPER = "#1b1f24", "#626a73", "#d8dce1", "#fefefe"

RC = {
    "font.family": "DejaVu Sans", "font.size": 10, "svg.hashsalt": "benchmark-audit",
    "svg.fonttype": "path",  # glyphs as outlines: the same layout on every machine
    "axes.edgecolor": MUTED, "axes.labelcolor": INK, "axes.titlecolor": INK, "text.color": INK, "xtick.color": MUTED,
    "ytick.color": MUTED, "xtick.labelcolor": INK, "ytick.labelcolor": INK, "axes.grid": True, "grid.color": GRID,
    "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.spines.top": False, "axes.spines.right": False,
    "axes.titlesize": 10, "axes.titlelocation": "left", "legend.frameon": False, "legend.handlelength": 1.5,
    "legend.handletextpad": 0.5, "legend.columnspacing": 1.2, "savefig.facecolor": "none",
    "figure.facecolor": "none", "axes.facecolor": "none",
}  # fmt: skip


PHONE = 4.1  # inches: fits 390 px, at 1.17 px a point


@contextmanager
def styled() -> Iterator[None]:
    """The style of every figure: as a decorator of what draws one, or for a block."""
    with matplotlib.rc_context(RC):
        yield


def names_above(axes: Axes, names: Sequence[str], at: Sequence[float], limit: int = 44) -> None:
    """Names of a chart's lines above them, from its left edge on: beside them they would take its room."""
    axes.set_yticks(list(at), [plain(name, limit) for name in names])
    axes.yaxis.set_zorder(4)
    axes.tick_params(axis="y", length=0, pad=-2, direction="in")
    for label in axes.get_yticklabels():
        label.set_horizontalalignment("left")
        label.set_bbox({"facecolor": PAPER, "edgecolor": "none", "pad": 1.5})
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")


def plain(text: str, limit: int = 34) -> str:
    """A name as matplotlib can draw it: one line, no mathtext, only glyphs of the font, shortened in the middle."""
    with matplotlib.rc_context(RC):
        font = get_font(findfont("DejaVu Sans"))
    shown = "".join(c if c.isprintable() and font.get_char_index(ord(c)) else "\N{WHITE SQUARE}" for c in text)
    if len(shown) > limit:
        keep = limit - 1
        shown = shown[: keep - keep // 2] + "…" + shown[-(keep // 2) :]
    return shown.replace("$", r"\$")


def svg_text(figure: Figure) -> str:
    """The figure as an SVG document, the same bytes for the same figure."""
    buffer = io.StringIO()
    with matplotlib.rc_context(RC):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    return re.sub(r"[ \t]+\n", "\n", buffer.getvalue())


def png_bytes(figure: Figure) -> bytes:
    """The figure as a PNG on white."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({**RC, "savefig.facecolor": "white", "figure.facecolor": "white"}):
        figure.set_facecolor("white")
        figure.set_dpi(160)
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
        figure.set_facecolor("none")
    return buffer.getvalue()


def inline_svg(document: str, prefix: str, label: str) -> str:
    """An SVG document as an element for the page: no inline styles (the page's policy forbids them, and its style sheet
    can override attributes in the dark), own ids, a name. `label` must already be escaped for an attribute."""
    # comments hold names of models
    body = re.sub(r"(?s)<!--.*?-->|<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", document)
    body = body[body.index("<svg") :]
    body = re.sub(r'\bstyle="([^"]*)"', lambda m: _attributes(m[1]), body)
    body = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', body)
    body = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', body)
    body = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", body)
    ((width, height),) = re.findall(r'<svg[^>]*viewBox="0 0 ([\d.]+) ([\d.]+)"', body)
    kind = "fig phone" if float(width) <= 72 * PHONE else "fig"
    shown = f'width="{float(width) * 1.4:.0f}" height="{float(height) * 1.4:.0f}"'
    opening = (
        f'<svg class="{kind}" role="img" aria-label="{label}" viewBox="0 0 {width} {height}" '
        f'{shown} stroke-linejoin="round" stroke-linecap="butt" '
        'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    )
    return re.sub(r"\n\s*", "\n", opening + body[body.index(">") + 1 :].strip())


def _attributes(style: str) -> str:
    pairs = (part.split(":", 1) for part in style.split(";") if ":" in part)
    return " ".join(f'{name.strip()}="{value.strip()}"' for name, value in pairs)


_POINTS = FuncFormatter(lambda value, _: f"{100 * value:.4g}")


@styled()
def ruled_out(rows: Sequence[tuple[str, float, float]], matters: float, what: str) -> Figure:
    """A bar a model over the effects that are still possible: from none, or from the smallest where there is one.

    rows: (label, lower limit, upper limit), at least one. matters: the smallest effect that matters. what: its name,
    such as "gain".
    """
    figure = Figure(figsize=(PHONE, 1.35 + 0.62 * len(rows)), layout="constrained")
    axes = figure.subplots()
    right = min(1.0, 1.35 * max(matters, *(high for _, _, high in rows)))
    names = []
    for y, (label, low, high) in enumerate(reversed(rows)):
        least, most = low if low > 0 else 0.0, max(high, 0.0)
        axes.barh(y, right, height=0.34, color=GRID)
        axes.barh(y, most - least, left=least, height=0.34, color=GREEN if high <= matters else ORANGE)
        said = f"above {100 * high:.1f} ruled out" if high < 1 else "nothing ruled out"
        if low > 0:
            said = f"{100 * low:.1f} to {100 * high:.1f} possible"
        names.append(f"{plain(label, 24)}: {said}")
    axes.axvline(matters, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
    axes.set_title(f"dashed: {100 * matters:g} points matter")
    names_above(axes, names, [y + 0.36 for y in range(len(rows))], 60)
    axes.set(xlim=(0, right), ylim=(-0.35, len(rows) - 0.35), xlabel=f"{what}, points; filled: still possible")
    axes.xaxis.set_major_formatter(_POINTS)
    axes.grid(visible=False)
    return figure


@styled()
def power_curve(
    found: Callable[[int], float], asked: int, needed: int | None, matters: float, what: str, *,
    instead: str = "models differ as much on two such sets",
) -> Figure:  # fmt: skip
    """The smallest effect that is found with the power asked for, over the number of questions, and where the run is.

    found: questions -> that effect, NaN where none is. needed: questions from which on it is `matters`; None where no
    number would do, and `instead` says why, or what would.
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
        late = k * k > float(n[0]) * float(n[-1])  # its name stands left of it, below the curve
        at, ha = ((-6, -14), "right") if late else ((6, 8), "left")
        axes.annotate(text, (k, y), at, textcoords="offset points", ha=ha, annotation_clip=False)
    if needed is None:
        axes.set_title(f"more questions alone are not enough:\n{instead}")
    axes.set_xscale("log")
    ticks = [k for k in (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000) if n[0] <= k <= n[-1]]
    ticks = ticks[:: math.ceil(len(ticks) / 5)]  # more would touch
    axes.set_xticks(ticks, [f"{k:,}" for k in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_POINTS)
    axes.set(xlabel="questions", ylabel=f"smallest {what} found, points")
    axes.spines["left"].set_color(MUTED)
    return figure
