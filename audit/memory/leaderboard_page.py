"""Render a leaderboard as a page, a figure, a table and JSON."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from audit.core.json_types import attributes, plain
from audit.judging.tables import columns
from audit.memory.leaderboard import Leaderboard, Row, cautions, sentence
from audit.memory.vocabulary import VERDICTS
from audit.report import canvas
from audit.report.page import render_page

_DIGITS = 6
_HEIGHT = 0.24  # height of the figure for each model, in inches


def page(
    board: Leaderboard,
    figures: Mapping[str, str],
    *,
    references: Sequence[str],
    families: bool,
    files: Sequence[Mapping[str, Any]],
    command: str,
    title: str = "",
) -> str:
    """Return the page as text.

    Parameters
    ----------
    board : Leaderboard
        The ranked rows.
    figures : mapping
        HTML elements of the figures, by name.
    references : sequence of str
        The references that the user named.
    families : bool
        Whether the families of the models are known.
    files : sequence of mapping
        The files that were read.
    command : str
        The command as the user typed it.
    title : str
        Heading of the page; the default names the benchmark.

    Returns
    -------
    str
        HTML.
    """
    return render_page(
        "memory/leaderboard.html.j2",
        rows=(),
        title=title or f"{board.benchmark}: score with and without memory",
        board=board,
        figures=figures,
        sentence=sentence(board),
        cautions=cautions(board),
        words=VERDICTS,
        references=references,
        families=families,
        files=files,
        command=command,
    )


def table(board: Leaderboard) -> str:
    """Return the rows as csv.

    Parameters
    ----------
    board : Leaderboard
        The ranked rows.

    Returns
    -------
    str
        The csv text. Scores are shares (0-1), and the gap is in points.
    """
    return columns(
        list(map(_flat, board.rows)),
        "model",
        "rank",
        "rank_without_memory",
        "score",
        "without_memory",
        "without_low",
        "without_high",
        "at_most",
        "gap",
        "gap_low",
        "gap_high",
        "p",
        "p_holm",
        "verdict",
        "grade",
        "references",
        "why",
    )


def document(board: Leaderboard, files: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the content of leaderboard.json as JSON types.

    Parameters
    ----------
    board : Leaderboard
        The ranked rows.
    files : sequence of mapping
        The files that were read.

    Returns
    -------
    dict
        The content, including the version of the schema.
    """
    content = {
        "schema": "leaderboard-1.0",
        "sentence": sentence(board),
        **attributes(board, "benchmark", "n", "n_held_out", "chance"),
        "references": "named" if board.chosen else "all others",
        "gap_blind_below_points": board.blind_below,
        "models": list(map(_flat, board.rows)),
        "does_not_say": cautions(board),
        "files": list(files),
    }
    rounded: dict[str, Any] = plain(content, _DIGITS)
    return rounded


def _flat(row: Row) -> dict[str, Any]:
    """Return a row with the limits of its intervals as separate fields."""
    low, high = (row.without.low, row.without.high) if row.without else (None, None)
    gap = row.gap or (None, None, None)
    return {
        "model": row.model,
        "rank": row.rank,
        "rank_without_memory": row.rank_without,
        "score": row.score.estimate if row.score else None,
        "without_memory": row.without.estimate if row.without else None,
        "without_low": low,
        "without_high": high,
        "at_most": row.at_most,
        "gap": gap[0],
        "gap_low": gap[1],
        "gap_high": gap[2],
        "p": row.pvalue,
        "p_holm": row.adjusted,
        "verdict": row.verdict.value,
        "grade": row.grade.value,
        "references": row.references,
        "why": row.why,
    }


@canvas.styled()
def figure(board: Leaderboard) -> Figure:
    """Draw the score and the score without memory of every model.

    Parameters
    ----------
    board : Leaderboard
        The ranked rows.

    Returns
    -------
    Figure
        One line for each model with a score, the best score at the top.
    """
    rows, labels, ends = [], [], []
    for row in board.rows:
        if row.score is not None:
            rows.append(row)
            labels.append(canvas.plain(row.model, 20))
            ends.append(max(row.score.estimate, row.without.high if row.without else 0.0))
    chart = Figure(figsize=(canvas.PHONE, 1.1 + _HEIGHT * len(rows)), layout="constrained")
    axes = chart.subplots()
    for y, row in enumerate(rows):
        _draw(axes, y, row)
    if board.chance > 0:
        axes.axvline(board.chance, color=canvas.MUTED, linewidth=0.9, linestyle=":")
    axes.set_yticks(range(len(rows)), labels)
    axes.set(
        xlim=(0, min(1.02, 1.05 * max(ends))),
        ylim=(len(rows) - 0.4, -0.6),
        xlabel="accuracy; dotted: guessing" if board.chance > 0 else "accuracy",
    )
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.4g} %"))
    axes.grid(visible=False, axis="y")
    return chart


def _draw(axes: Any, y: int, row: Row) -> None:
    """Draw both scores of one model at height y. Colour and marker show its grade."""
    score = row.score.estimate if row.score else float("nan")
    colour, marker = canvas.BLUE, "s"
    if row.doubtful:
        colour, marker = canvas.ORANGE, "v"
    if row.is_finding:
        colour, marker = canvas.VERMILLION, "D"
    if row.without is None:
        axes.plot([score], [y], "o", markerfacecolor="none", color=canvas.MUTED, markersize=6)
        return
    middle = row.without.high if row.at_most else row.without.estimate
    axes.plot(
        [middle, score], [y, y], color=canvas.GRID, linewidth=3, solid_capstyle="butt", zorder=1
    )
    axes.plot([row.without.low, row.without.high], [y, y], color=colour, linewidth=1.4, zorder=2)
    axes.plot([middle], [y], marker, color=colour, markersize=5, zorder=3)
    axes.plot([score], [y], "o", color=canvas.INK, markersize=6, zorder=4)
