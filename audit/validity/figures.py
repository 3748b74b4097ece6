"""Draw the figures of a validity audit.

The figures are D of each cell, the share of answers that each kind of edit moves, and Figures 2 to
4 of li2026.

Figures 2 to 4 are drawn as in the paper, for the cells of any panel. Their colours show the status
by the paper's algorithm.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.judging.vocabulary import VerdictWord
from audit.report.canvas import (
    BLUE,
    GREEN,
    GRID,
    MUTED,
    ORANGE,
    PHONE,
    PURPLE,
    VERMILLION,
    names_above,
    plain,
    styled,
)
from audit.validity.as_paper import bucket_of
from audit.validity.edits.record import Family
from audit.validity.status import PAPER
from audit.validity.vocabulary import VERDICTS, ValidityResult

_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.4g} %")
_POINTS = FuncFormatter(lambda value, _: f"{100 * value:+.4g}".replace("-", "−") if value else "0")
_BARS = (
    (Family.FORMAT, "layout", MUTED),
    (Family.SEMANTIC, "wording", BLUE),
    (Family.ATTRIBUTE, "content", VERMILLION),
    (Family.PLACEBO, "neutral words", GREEN),
)


def label(r: ValidityResult) -> str:
    """Return the name of a cell for a figure.

    Parameters
    ----------
    r : ValidityResult
        The result of the cell.

    Returns
    -------
    str
        Model, benchmark and context.
    """
    return f"{r.model} on {r.benchmark}" + (f" ({r.context})" if r.context else "")


def shown_as(r: ValidityResult) -> VerdictWord:
    """Return the name, colour and marker of a cell's status, which depend on the cell's archetype.

    Parameters
    ----------
    r : ValidityResult
        The result of the cell.

    Returns
    -------
    VerdictWord
        Name, colour and marker.
    """
    return VERDICTS[r.verdict].of(r.evidence.archetype)


def _chart(lines: int, base: float, each: float, width: float = PHONE) -> tuple[Figure, Axes]:
    """Return an empty figure that is high enough for one line for each cell."""
    figure = Figure(figsize=(width, base + each * lines), layout="constrained")
    return figure, figure.add_subplot()


def _name(
    axes: Axes,
    names: Sequence[str],
    x: str,
    above: float = 0.0,
    ends: tuple[float, float] = (0.6, 0.4),
) -> None:
    """Label the horizontal lines of a chart with names, which are given from bottom to top.

    `x` is the label of the x axis. `ends` holds the margins below the lowest and above the highest
    line.
    """
    if above:
        names_above(axes, names, [y + above for y in range(len(names))])
    else:
        axes.set_yticks(range(len(names)), list(map(plain, names)))
    axes.set_ylim(-ends[0], len(names) - ends[1])
    axes.set_xlabel(x)
    axes.grid(axis="x", color=GRID, linewidth=0.6)


@styled()
def differences(results: Sequence[ValidityResult]) -> Figure:
    """Draw the difference D = attr - max(fmt, sem) of each cell, with the interval that belongs to
    its tests.

    Parameters
    ----------
    results : sequence of ValidityResult
        The results.

    Returns
    -------
    Figure
        The figure, with one line for each cell. The colour shows the status.
    """
    shown = [(r, r.evidence.primary) for r in reversed(results) if r.evidence.primary]
    figure, axes = _chart(len(shown), 1.0, 0.56)
    for y, (r, d) in enumerate(shown):
        word = shown_as(r)
        axes.plot([d.low, d.high], [y, y], color=word.colour, linewidth=1.6)
        axes.plot(d.difference, y, word.marker, color=word.colour, markersize=7)
    axes.axvline(0, color=MUTED, linewidth=0.8, linestyle=":")
    x = "answers moved by content less those moved by\nlayout or wording (points, 95 % interval)"
    _name(axes, [label(r) for r, _ in shown], x, 0.36, (0.4, 0.4))
    axes.xaxis.set_major_formatter(_POINTS)
    return figure


@styled()
def family_changes(results: Sequence[ValidityResult]) -> Figure:
    """Draw the share of answers that change for each cell and family of edits, with 95 % intervals.

    Parameters
    ----------
    results : sequence of ValidityResult
        The results.

    Returns
    -------
    Figure
        The figure, with one line for each cell. Figure 4 of the paper shows changes of the score
        instead (`family_deltas`).
    """
    shown = [(r, r.evidence.families) for r in reversed(results)]
    figure, axes = _chart(len(shown), 1.6, 0.95)
    for y, (_, families) in enumerate(shown):
        for k, (family, shown_name, colour) in enumerate(_BARS):
            mean = families[family].response_change
            if not mean.n:
                continue
            at = y + 0.27 - 0.18 * k
            axes.plot([mean.low, mean.high], [at, at], color=colour, linewidth=1.4)
            name = shown_name if y == 0 else None
            axes.plot(mean.estimate, at, "o", color=colour, markersize=5, label=name)
    _name(
        axes,
        [label(r) for r, _ in shown],
        "answers that change under an edit of ...",
        0.46,
        (0.42, 0.38),
    )
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(_PERCENT)
    figure.legend(loc="outside upper left", ncols=2)
    return figure


# The colour of each step of section 3 of li2026.
_COLOURS = {
    1: ORANGE,
    2: VERMILLION,
    3: PURPLE,
    4: ORANGE,
    5: MUTED,
    6: GREEN,
    7: BLUE,
}
_FAMILIES = ((Family.FORMAT, MUTED), (Family.SEMANTIC, BLUE), (Family.ATTRIBUTE, VERMILLION))
_LEAST = 0.01  # start of a logarithmic axis


class Ratio(NamedTuple):
    """Hold the published ratio of a cell with its interval.

    Attributes
    ----------
    label : str
        Name of the cell.
    status : str
        The status of the cell, as a bucket of the paper.
    step : int
        The step of section 3 (li2026) that decided the status. The colour shows this step.
    estimate, low, high : float
        The ratio and its interval.
    reported : bool
        Whether the denominator is large enough for the ratio to be reported.
    """

    label: str
    status: str
    step: int
    estimate: float
    low: float
    high: float
    reported: bool


def ratios_of(results: Sequence[ValidityResult]) -> list[Ratio]:
    """Return the ratio CSR of each cell, scored by the keys of the edits, with its interval over
    clusters.

    Parameters
    ----------
    results : sequence of ValidityResult
        The results.

    Returns
    -------
    list of Ratio
        Cells without a ratio are left out.
    """
    ratios = []
    for r in results:
        csr = r.evidence.csr.get("own key")
        if csr is not None:
            step = r.paper.step if r.paper else 5
            interval = (csr.estimate, csr.low, csr.high)
            ratios.append(Ratio(label(r), bucket_of(r), step, *interval, csr.reported))
    return ratios


def deltas_of(results: Sequence[ValidityResult]) -> dict[str, list[float]]:
    """Return, for each cell, the mean absolute change of the score under edits of layout, wording
    and content.

    Parameters
    ----------
    results : sequence of ValidityResult
        The results.

    Returns
    -------
    dict of str to list of float
        Maps the name of each cell to its three changes (0-1). A change is NaN without edits.
    """
    deltas = {}
    for r in results:
        families = r.evidence.families
        deltas[label(r)] = [families[family].score_change for family, _ in _FAMILIES]
    return deltas


@styled()
def ratios(shown: Sequence[Ratio]) -> Figure:
    """Draw Figure 2 of li2026: the published ratio of each cell.

    Parameters
    ----------
    shown : sequence of Ratio
        The ratios.

    Returns
    -------
    Figure
        One line for each cell.
    """
    figure, axes = _chart(len(shown), 1.1, 0.42, 7.6)
    for y, cell in enumerate(reversed(shown)):
        colour = _COLOURS[cell.step]
        axes.plot(
            [max(cell.low, _LEAST), max(cell.high, _LEAST)], [y, y], color=colour, linewidth=1.6
        )
        face = colour if cell.reported else "none"
        axes.plot(
            max(cell.estimate, _LEAST), y, "o", color=colour, markerfacecolor=face, markersize=7
        )
        axes.annotate(
            cell.status, (1.01, y), xycoords=("axes fraction", "data"), va="center", fontsize=8
        )
    axes.axvline(1, color=MUTED, linewidth=0.8, linestyle=":")
    axes.set_xscale("log")
    names = [cell.label for cell in reversed(shown)]
    _name(axes, names, "CSR as published (log scale); open: its denominator may be zero")
    return figure


@styled()
def before_and_after(results: Sequence[ValidityResult]) -> Figure:
    """Draw Figure 3 of li2026: the ratio before a repair (x) and after it (y).

    In the paper, the repair is to the pipeline. In this figure, the repair is to the key. x is the
    ratio as published, with answers scored by the key of each edit. y is the ratio computed from
    changes of the response, which does not depend on the key.

    Parameters
    ----------
    results : sequence of ValidityResult
        The results.

    Returns
    -------
    Figure
        The figure, with one point for each cell. The axes are logarithmic, but linear between -1
        and 1.
    """
    shown = [(r, r.evidence.csr) for r in results if {"own key", "response"} <= set(r.evidence.csr)]
    figure, axes = _chart(0, 4.6, 0, 5.6)
    top = max([1.0, *(max(c["own key"].estimate, c["response"].estimate) for _, c in shown)]) * 1.6
    axes.plot([0, top], [0, top], color=MUTED, linewidth=0.8, linestyle=":")
    for number, (r, csr) in enumerate(shown, start=1):
        at = csr["own key"].estimate, csr["response"].estimate
        colour = _COLOURS[r.paper.step] if r.paper else MUTED
        axes.plot(*at, "o", color=colour, markersize=6, label=f"{number}  {plain(label(r))}")
        axes.annotate(str(number), at, xytext=(5, 3), textcoords="offset points", fontsize=8)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_xlim(-0.1, top)
    axes.set_ylim(-0.1, top)
    axes.set_xlabel("CSR under each edit's own key, as published")
    axes.set_ylabel("CSR on responses")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


@styled()
def family_deltas(shown: Mapping[str, Sequence[float]]) -> Figure:
    """Draw Figure 4 of li2026: the mean absolute change of the score, with the limit of G3.

    Parameters
    ----------
    shown : mapping of str to sequence of float
        The result of `deltas_of`.

    Returns
    -------
    Figure
        The figure, with three bars for each cell.
    """
    figure, axes = _chart(len(shown), 1.3, 0.6, 7.6)
    for y, changes in enumerate([*shown.values()][::-1]):
        for k, ((family, colour), change) in enumerate(zip(_FAMILIES, changes, strict=True)):
            if np.isfinite(change):
                name = f"|Δ {family}|" if y == 0 else None
                axes.barh(y + 0.25 - 0.25 * k, change, height=0.22, color=colour, label=name)
    axes.axvline(PAPER.g3_denominator, color=MUTED, linewidth=0.8, linestyle=":")
    x = f"mean change of the score under each edit's own key; dotted: {PAPER.g3_denominator} (G3)"
    _name(axes, [*shown][::-1], x)
    axes.set_xlim(0, 1.02)
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, 1.2), ncols=3)
    return figure
