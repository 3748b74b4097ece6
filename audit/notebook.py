"""What a notebook shows of a run: the page of its report, a figure of it, its settings on axes of one's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # figures need matplotlib
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class Report:
    """The page of a report, as its file (a path to `open`). A notebook shows it in a frame of its own."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        page = escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe sandbox="allow-scripts" width="100%" height="700" srcdoc="{page}"></iframe>'


@dataclass(frozen=True)
class Figure:
    """One figure of a report, as its file. A notebook shows it."""

    path: Path

    def _repr_svg_(self) -> str:
        return self.path.read_text(encoding="utf-8")


def plot(settings: Sequence[Mapping[str, Any]], ax: Axes | None = None) -> Axes:
    """Accuracy of each setting with its 95 % interval (1.96 standard errors), a line each, on `ax` or a figure of its
    own. settings: rows of `Run.settings`; those without an accuracy are left out."""
    rows = [row for row in settings if row["n"] and row["standard_error"] is not None]
    if ax is None:
        from matplotlib.figure import Figure as Canvas

        ax = Canvas(figsize=(7, 1 + 0.3 * len(rows)), layout="constrained").subplots()
    half = [1.96 * row["standard_error"] for row in rows]
    ax.errorbar([row["accuracy"] for row in rows], range(len(rows)), xerr=half, fmt="o", capsize=3)
    several = len({(row["model"], row["benchmark"]) for row in rows}) > 1
    name = ("{model} on {benchmark}: " if several else "") + "{arm} {level}, {replicate}"
    ax.set_yticks(range(len(rows)), [name.format(**row) for row in rows])
    ax.invert_yaxis()
    ax.set_xlabel("accuracy, 95 % interval")
    return ax
