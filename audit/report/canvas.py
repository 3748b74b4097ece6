"""Define the common parts of all figures: colours, style, safe labels, and reproducible files.

All audits draw two figures with this module. `ruled_out` shows the effects that a run excludes.
`power_curve` shows how many questions are needed to find an effect. Effects are between 0 and 1.
"""

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
ORANGE, SKY, GREEN, BLUE, VERMILLION, PURPLE = (
    "#e69f00",
    "#56b4e9",
    "#009e73",
    "#0072b2",
    "#d55e00",
    "#cc79a7",
)
INK, MUTED, GRID, PAPER = "#1b1f24", "#626a73", "#d8dce1", "#fefefe"

RC = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "svg.hashsalt": "benchmark-audit",
    # glyphs are drawn as outlines, so the layout is the same on every machine
    "svg.fonttype": "path",
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
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.handlelength": 1.5,
    "legend.handletextpad": 0.5,
    "legend.columnspacing": 1.2,
    "savefig.facecolor": "none",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


PHONE = 4.1  # width in inches; on a page, 390 px wide at 1.17 px for each point


@contextmanager
def styled() -> Iterator[None]:
    """Apply the common style of all figures, as a context manager or as a decorator."""
    with matplotlib.rc_context(RC):
        yield


def names_above(axes: Axes, names: Sequence[str], at: Sequence[float], limit: int = 44) -> None:
    """Write a name above each line of a chart.

    Names beside the lines would make the chart narrower.

    Parameters
    ----------
    axes : Axes
        Axes of the chart.
    names : sequence of str
        Names of the lines.
    at : sequence of float
        The height of each name.
    limit : int
        Largest number of characters of a name.
    """
    axes.set_yticks(list(at), [plain(name, limit) for name in names])
    axes.yaxis.set_zorder(4)
    axes.tick_params(axis="y", length=0, pad=-2, direction="in")
    for label in axes.get_yticklabels():
        label.set_horizontalalignment("left")
        label.set_bbox({"facecolor": PAPER, "edgecolor": "none", "pad": 1.5})
    axes.spines["left"].set_visible(False)
    axes.grid(visible=False, axis="y")


def plain(text: str, limit: int = 34) -> str:
    """Convert a name to a text that matplotlib can draw.

    Parameters
    ----------
    text : str
        Name of a model or benchmark, with any characters.
    limit : int
        Largest number of characters. A longer name is shortened in the middle.

    Returns
    -------
    str
        The name in one line, without characters that matplotlib interprets as formulas. Characters
        that the font lacks are replaced by squares.
    """
    with matplotlib.rc_context(RC):
        font = get_font(findfont("DejaVu Sans"))
    shown = ""
    for c in text:
        drawable = c.isprintable() and font.get_char_index(ord(c))
        shown += c if drawable else "\N{WHITE SQUARE}"
    if len(shown) > limit:
        keep = limit - 1
        shown = shown[: keep - keep // 2] + "…" + shown[-(keep // 2) :]
    return shown.replace("$", r"\$")


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG document. Equal figures give documents with equal bytes."""
    buffer = io.StringIO()
    with matplotlib.rc_context(RC):
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(buffer, metadata=nothing)
    return re.sub(r"[ \t]+\n", "\n", buffer.getvalue())


def png_bytes(figure: Figure) -> bytes:
    """Return a figure as a PNG file with a white background."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({**RC, "savefig.facecolor": "white", "figure.facecolor": "white"}):
        figure.set_facecolor("white")
        figure.set_dpi(160)
        FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
        figure.set_facecolor("none")
    return buffer.getvalue()


def inline_svg(document: str, prefix: str, label: str) -> str:
    """Convert an SVG document to an svg element for the page.

    Parameters
    ----------
    document : str
        The SVG document.
    prefix : str
        Prefix for each id in the element.
    label : str
        Name of the figure. It must be escaped for an HTML attribute.

    Returns
    -------
    str
        An svg element without inline styles, which the page's security policy forbids. Styles
        become attributes, which the page's style sheet can override in dark mode.
    """
    # Comments contain names of models, so all comments are removed.
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
    attributes = []
    for part in style.split(";"):
        name, colon, value = part.partition(":")
        if colon:
            attributes.append(f'{name.strip()}="{value.strip()}"')
    return " ".join(attributes)


_POINTS = FuncFormatter(lambda value, _: f"{100 * value:.4g}")


@styled()
def ruled_out(rows: Sequence[tuple[str, float, float]], matters: float, effect: str) -> Figure:
    """Draw, for each model, a bar that covers the effects which the data do not exclude.

    Parameters
    ----------
    rows : sequence of (str, float, float)
        For each model, its label and the lower and upper confidence limits of its effect (0-1). At
        least one model is required.
    matters : float
        The smallest effect that matters.
    effect : str
        The name of the effect, such as "gain".

    Returns
    -------
    Figure
        The chart. A bar begins at zero, or at the lower limit if this limit is positive.
    """
    figure = Figure(figsize=(PHONE, 1.35 + 0.62 * len(rows)), layout="constrained")
    axes = figure.subplots()
    right = min(1.0, 1.35 * max(matters, *(high for _, _, high in rows)))
    names, heights = [], []
    for y, (label, low, high) in enumerate(reversed(rows)):
        heights.append(y + 0.36)
        least, most = low if low > 0 else 0.0, max(high, 0.0)
        axes.barh(y, right, height=0.34, color=GRID)
        axes.barh(
            y, most - least, left=least, height=0.34, color=GREEN if high <= matters else ORANGE
        )
        possible = f"above {100 * high:.1f} ruled out" if high < 1 else "nothing ruled out"
        if low > 0:
            possible = f"{100 * low:.1f} to {100 * high:.1f} possible"
        names.append(f"{plain(label, 24)}: {possible}")
    axes.axvline(matters, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
    axes.set_title(f"dashed: {100 * matters:g} points matter")
    names_above(axes, names, heights, 60)
    axes.set(
        xlim=(0, right),
        ylim=(-0.35, len(rows) - 0.35),
        xlabel=f"{effect}, points; filled: still possible",
    )
    axes.xaxis.set_major_formatter(_POINTS)
    axes.grid(visible=False)
    return figure


@styled()
def power_curve(
    effect_at: Callable[[int], float],
    n_questions: int,
    needed: int | None,
    matters: float,
    effect: str,
    *,
    instead: str = "models differ as much on two such sets",
    decided: bool = False,
) -> Figure:
    """Draw the smallest effect that the audit can detect, against the number of questions.

    A mark shows the number of questions of this run.

    Parameters
    ----------
    effect_at : callable
        Returns the smallest effect (0-1) that is detected with a given number of questions; NaN if
        no effect can be detected.
    n_questions : int
        Number of questions of the run.
    needed : int or None
        The smallest number of questions with which an effect of size `matters` is detected; None if
        no number suffices.
    matters : float
        The smallest effect that matters.
    effect : str
        The name of the effect.
    instead : str
        Text for the title if `needed` is None, which states why no number of questions suffices.
    decided : bool
        Whether the run reached its decisions, so that no more questions are needed.

    Returns
    -------
    Figure
        The chart.
    """
    far = needed or 20 * n_questions
    figure = Figure(figsize=(PHONE, 2.9), layout="constrained")
    axes = figure.subplots()
    n = np.unique(
        np.geomspace(min(n_questions, far) / 2, 2 * max(n_questions, far), 24).astype(int).clip(5)
    )
    axes.plot(n, [effect_at(k) for k in n.tolist()], color=BLUE, linewidth=1.8)
    axes.axhline(matters, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))
    marks = [(n_questions, effect_at(n_questions), f"you are here: {n_questions:,}", "o", ORANGE)]
    if needed is not None and not decided:
        marks.append((needed, matters, f"{needed:,} needed", "D", GREEN))
    for k, y, text, marker, colour in marks:
        axes.plot([k], [y], marker, color=colour, markersize=8, zorder=3)
        # On the right half of the axis, the text is written to the left of the mark and below the
        # curve.
        late = k * k > float(n[0]) * float(n[-1])
        at, ha = ((-6, -14), "right") if late else ((6, 8), "left")
        axes.annotate(text, (k, y), at, textcoords="offset points", ha=ha, annotation_clip=False)
    if decided:
        axes.set_title("decided: no more questions are needed")
    elif needed is None:
        axes.set_title(f"more questions alone are not enough:\n{instead}")
    axes.set_xscale("log")
    steps = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
    ticks = [k for k in steps if n[0] <= k <= n[-1]]
    # With more than about five labels, neighbouring labels would touch.
    ticks = ticks[:: math.ceil(len(ticks) / 5)]
    axes.set_xticks(ticks, [f"{k:,}" for k in ticks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(_POINTS)
    axes.set(xlabel="questions", ylabel=f"smallest {effect} found, points")
    axes.spines["left"].set_color(MUTED)
    return figure
