"""The verdict of a run as plain data: what verdict.json holds (verdict.schema.json). null: not computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.memory.record import MemoryCell
from audit.memory.result import MemoryResult
from audit.memory.vocabulary import INDICATORS
from audit.records import CellRows
from audit.verdict.result import json_ready, json_text

SCHEMA = "memory verdict"
SCHEMA_VERSION = "1.0"


@dataclass(frozen=True)
class RunVerdict:
    """All judged cells of a run. runs, rows: as in the sweep's verdict. orders: how the orders were made."""

    seed: int
    n_resamples: int
    thresholds: dict[str, float]
    orders: dict[str, int]
    runs: tuple[dict[str, Any], ...]
    rows: tuple[CellRows, ...]
    cells: tuple[MemoryCell, ...]
    results: tuple[MemoryResult, ...]

    def to_dict(self) -> dict[str, Any]:
        marks = {(r.model, r.benchmark): r.watermark for r in self.rows}
        cells = [
            cell_dict(cell, result, mark_of(cell, marks)) for cell, result in zip(self.cells, self.results, strict=True)
        ]
        plain = json_ready(
            {
                "schema": SCHEMA,
                "schema_version": SCHEMA_VERSION,
                "audit": "memory",
                "seed": self.seed,
                "n_resamples": self.n_resamples,
                "thresholds": self.thresholds,
                "orders": self.orders,
                "runs": self.runs,
                "rows": self.rows,
                "cells": cells,
            }
        )
        assert isinstance(plain, dict)  # noqa: S101 - narrows the type for mypy
        return plain

    def to_json(self) -> str:
        """The bytes of verdict.json; no clock, no paths."""
        return json_text(self.to_dict())


def mark_of(cell: MemoryCell, marks: dict[tuple[str, str], str]) -> str:
    """The watermark of a cell: rows of the benchmark, or of the fresh items, that are missing."""
    names = [cell.benchmark] + ([cell.fresh.name] if cell.fresh else [])
    return next((marks[cell.model, name] for name in names if marks.get((cell.model, name))), "")


def cell_dict(cell: MemoryCell, result: MemoryResult, watermark: str = "") -> dict[str, Any]:
    """One cell of verdict.json: the decision and every statistic."""
    decision, evidence, own = result.decision, result.evidence, cell.tested[0]
    scores = own.score[~np.isnan(own.score)]
    return {
        "model": result.model,
        "benchmark": result.benchmark,
        "fresh": cell.fresh.name if cell.fresh else None,
        "verdict": decision.verdict,
        "headline": f"{watermark[0].upper()}{watermark[1:]}: {result.headline}" if watermark else result.headline,
        "watermark": watermark,
        "reasons": decision.reasons,
        "what_to_do": decision.what_to_do,
        "cannot_exclude": result.cannot_exclude,
        "gates": result.gates,
        "indicators": [{**json_ready(one), "test": INDICATORS[one.name].level} for one in evidence.indicators],
        "calibration": result.calibration,
        "sensitivity": result.sensitivity,
        "score": float(scores.mean()) if scores.size else None,
        "chance": cell.published.chance,
        "n_questions": cell.published.n,
        "n_fresh": cell.fresh.n if cell.fresh else 0,
        "references": [one[0].model for one in cell.references],
        "reads": own.reads,
        "evidence": {
            "order": evidence.order,
            "options": evidence.options,
            "fresh_order": evidence.fresh_order,
            "exchangeable": evidence.exchangeable,
            "completion": evidence.completion,
            "aucs": {name: {"own": a, "beyond_references": b} for name, (a, b) in evidence.aucs.items()},
            "gap": evidence.gap,
            "left_out": evidence.left_out,
        },
    }
