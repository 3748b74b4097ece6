"""The figures of the report: the difference D by cell, and how many answers each kind of edit moves."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.report.canvas import BLUE, GREEN, GRID, MUTED, PHONE, PHONE_FONT, VERMILLION, names_above, styled
from audit.validity.edits.record import Family
from audit.validity.result import ValidityResult
from audit.validity.vocabulary import VERDICTS
from audit.verdict.vocabulary import VerdictWord

_PERCENT = FuncFormatter(lambda value, _: f"{100 * value:.4g} %")
_POINTS = FuncFormatter(lambda value, _: f"{100 * value:+.4g}".replace("-", "−") if value else "0")
_FAMILIES = (
    (Family.FORMAT, "layout", MUTED), (Family.SEMANTIC, "wording", BLUE), (Family.ATTRIBUTE, "content", VERMILLION),
    (Family.PLACEBO, "neutral words", GREEN),
)  # fmt: skip


def label(r: ValidityResult) -> str:
    return f"{r.model} / {r.benchmark}" + (f" {r.context}" if r.context else "")


def shown_as(r: ValidityResult) -> VerdictWord:
    """The word of a cell's status, by its archetype."""
    return VERDICTS[r.verdict].of(r.evidence.archetype if r.evidence else None)


@styled(PHONE_FONT)
def differences(results: Sequence[ValidityResult]) -> Figure:
    """D = attr - max(fmt, sem) with the interval that agrees with its tests; colour by status."""
    shown = [r for r in results if r.evidence is not None and r.evidence.primary is not None]
    figure = Figure(figsize=(PHONE, 1.0 + 0.56 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for y, r in enumerate(reversed(shown)):
        assert r.evidence is not None and r.evidence.primary is not None  # noqa: S101 - filtered above
        d, word = r.evidence.primary, shown_as(r)
        axes.plot([d.low, d.high], [y, y], color=word.colour, linewidth=1.6)
        axes.plot(d.difference, y, word.marker, color=word.colour, markersize=7)
    axes.axvline(0, color=MUTED, linewidth=0.8, linestyle=":")
    names_above(axes, [label(r) for r in reversed(shown)], [y + 0.36 for y in range(len(shown))])
    axes.set_ylim(-0.4, len(shown) - 0.4)
    axes.xaxis.set_major_formatter(_POINTS)
    axes.set_xlabel("answers moved by content less those moved by\nlayout or wording (points, 95 % interval)")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    return figure


@styled(PHONE_FONT)
def family_changes(results: Sequence[ValidityResult]) -> Figure:
    """Change of response by family and cell, with 95 % intervals (the paper's Figure 4 has scores: `paper_figures`)."""
    shown = [r for r in results if r.evidence is not None]
    figure = Figure(figsize=(PHONE, 1.4 + 0.95 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for y, r in enumerate(reversed(shown)):
        assert r.evidence is not None  # noqa: S101 - filtered above
        for k, (family, shown_name, colour) in enumerate(_FAMILIES):
            mean = r.evidence.families[family].response_change
            if not mean.n:
                continue
            at = y + 0.27 - 0.18 * k
            axes.plot([mean.low, mean.high], [at, at], color=colour, linewidth=1.4)
            name = shown_name if y == 0 else None
            axes.plot(mean.estimate, at, "o", color=colour, markersize=5, label=name)
    names_above(axes, [label(r) for r in reversed(shown)], [y + 0.46 for y in range(len(shown))])
    axes.set_ylim(-0.42, len(shown) - 0.38)
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(_PERCENT)
    axes.set_xlabel("answers that change under an edit of ...")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    figure.legend(loc="outside upper left", ncols=4)
    return figure
