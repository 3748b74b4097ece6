"""A verdict over incomplete data says so before it says anything else (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit.records import CellRows
from audit.verdict.result import CellVerdict, RunVerdict

COMPLETE_IT = "Type the sweep's command again: it runs what is missing. Then build the report again."


def watermarked(run: RunVerdict, rows: Sequence[CellRows]) -> RunVerdict:
    """The same verdict with the rows that were found and expected, and with a watermark on every incomplete cell."""
    marks = {(r.model, r.benchmark): r.watermark for r in rows if not r.complete}
    return replace(
        run, rows=tuple(rows), cells=tuple(_marked(c, marks.get((c.model, c.benchmark), "")) for c in run.cells)
    )


def _marked(cell: CellVerdict, mark: str) -> CellVerdict:
    if not mark:
        return cell
    return replace(
        cell,
        watermark=mark,
        headline=f"{mark[0].upper()}{mark[1:]}: {cell.headline}",
        what_to_do=(COMPLETE_IT, *cell.what_to_do),
    )
