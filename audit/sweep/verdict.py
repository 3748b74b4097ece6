"""The verdict of a run as plain data: what verdict.json holds (`verdict.schema.json` describes it)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit.records import CellRows
from audit.sweep.result import CellVerdict, Hypothesis, SelfTest
from audit.verdict.result import Calibration, json_ready
from audit.verdict.run import marked
from audit.verdict.watermark import COMPLETE_IT

SCHEMA_VERSION = "2.0"


@dataclass(frozen=True)
class RunVerdict:
    """All cells of a run or of several runs merged into one panel: verdict.json, with no clock and no paths."""

    seed: int
    n_resamples: int
    runs: tuple[dict[str, Any], ...]  # fingerprint and models of each run, as the caller gives them
    thresholds: dict[str, float]
    cells: tuple[CellVerdict, ...]
    paper: dict[str, list[dict[str, Any]]]  # as the paper counts, replicate 0: model_summary, router_summary, cells
    hypotheses: tuple[Hypothesis, ...]
    calibration: Calibration | None  # of the cell with the fewest questions
    self_test: tuple[SelfTest, ...]
    schema_version: str = SCHEMA_VERSION
    rows: tuple[CellRows, ...] = ()  # of every model and benchmark that the runs asked for, those without a row too

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready: enums as strings, tuples as lists, floats rounded, NaN and infinities as null."""
        plain = json_ready(self)
        assert isinstance(plain, dict)  # noqa: S101 - narrows the type for mypy
        return plain


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
        headline=marked(cell.headline, mark),
        what_to_do=(COMPLETE_IT, *cell.what_to_do),
    )
