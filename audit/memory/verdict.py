"""The verdict of a run as plain data: what verdict.json holds (verdict.schema.json). null: not computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.memory.record import MemoryCell
from audit.memory.result import MemoryResult
from audit.memory.vocabulary import INDICATORS
from audit.verdict.result import json_ready
from audit.verdict.run import JudgedRun, cell_head


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun[MemoryCell, MemoryResult]):
    """All judged cells of a run. orders: how the orders were made."""

    audit = "memory"
    schema_version = "1.0"

    orders: dict[str, int]

    def own(self) -> dict[str, Any]:
        cells = [
            cell_dict(cell, result, mark_of(cell, self.marks))
            for cell, result in zip(self.cells, self.results, strict=True)
        ]
        return {"orders": self.orders, "cells": cells}


def mark_of(cell: MemoryCell, marks: dict[tuple[str, str], str]) -> str:
    """The watermark of a cell: rows of the benchmark, or of the fresh items, that are missing."""
    names = [cell.benchmark] + ([cell.fresh.name] if cell.fresh else [])
    return next((marks[cell.model, name] for name in names if marks.get((cell.model, name))), "")


def cell_dict(cell: MemoryCell, result: MemoryResult, watermark: str = "") -> dict[str, Any]:
    """One cell of verdict.json: the decision and every statistic."""
    evidence, own = result.evidence, cell.tested[0]
    scores = own.score[~np.isnan(own.score)]
    return {
        **cell_head(result, result.decision.verdict, watermark),
        "fresh": cell.fresh.name if cell.fresh else None,
        "indicators": [{**json_ready(one), "test": INDICATORS[one.name].level} for one in evidence.indicators],
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
            "gap_adverse": evidence.gap_adverse,
            "gap_favourable": evidence.gap_favourable,
            "left_out": evidence.left_out,
        },
    }
