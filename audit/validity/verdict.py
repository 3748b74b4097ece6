"""The verdict of a run as plain data: what verdict.json holds. Scores and changes are 0-1; null: not computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audit.chronology import Chronology
from audit.records import CellRows
from audit.validity.record import ValidityCell
from audit.validity.result import ValidityResult
from audit.validity.vocabulary import GATES
from audit.verdict.result import json_ready, json_text

SCHEMA = "validity verdict"
SCHEMA_VERSION = "1.0"


@dataclass(frozen=True)
class RunVerdict:
    """All cells of a run. edits: what was counted when they were made. chronology: of the runs, None without any."""

    seed: int
    n_resamples: int
    thresholds: dict[str, float]
    edits: dict[str, Any]
    runs: tuple[dict[str, Any], ...]
    rows: tuple[CellRows, ...]
    cells: tuple[ValidityCell, ...]
    results: tuple[ValidityResult, ...]
    chronology: Chronology | None = None

    def to_dict(self) -> dict[str, Any]:
        marks = {(r.model, r.benchmark): r.watermark for r in self.rows}
        plain = json_ready(
            {
                "schema": SCHEMA,
                "schema_version": SCHEMA_VERSION,
                "audit": "validity",
                "seed": self.seed,
                "n_resamples": self.n_resamples,
                "thresholds": self.thresholds,
                "edits": self.edits,
                "runs": self.runs,
                "rows": self.rows,
                "gate_inputs": {name: word.reads for name, word in GATES.items()},
                "chronology": _told(self.chronology),
                "cells": [
                    _cell(cell, result, marks.get((result.model, result.benchmark), ""))
                    for cell, result in zip(self.cells, self.results, strict=True)
                ],
            }
        )
        assert isinstance(plain, dict)  # noqa: S101 - narrows the type for mypy
        return plain

    def to_json(self) -> str:
        """The bytes of verdict.json; no clock, no paths."""
        return json_text(self.to_dict())


def _told(chronology: Chronology | None) -> dict[str, Any] | None:
    """What Box 1 wants said of a chronology as a whole, by the entries' ids."""
    if chronology is None:
        return None
    return {
        "entries": [e.id for e in chronology.entries],
        "repair_introduced": [e.id for e in chronology.repair_introduced],
        "unfixed": [e.id for e in chronology.unfixed],
    }


def _cell(cell: ValidityCell, r: ValidityResult, watermark: str) -> dict[str, Any]:
    return {
        "model": r.model,
        "benchmark": r.benchmark,
        "context": r.context,
        "verdict": r.decision.status,
        "paper_status": r.paper,
        "headline": f"{watermark[0].upper()}{watermark[1:]}: {r.headline}" if watermark else r.headline,
        "watermark": watermark,
        "reasons": r.decision.reasons,
        "what_to_do": r.decision.what_to_do,
        "cannot_exclude": r.cannot_exclude,
        "gates": r.gates,
        "faults": r.faults,
        "above_p": r.above_p,
        "below_p": r.below_p,
        "calibration": r.calibration,
        "n_items": cell.n,
        "n_clusters": len(set(cell.cluster.tolist())),
        "wanted": cell.wanted,
        "applicable": dict(cell.applicable),
        "scorer": dict(cell.scorer),
        "evidence": r.evidence,
        "baseline": r.evidence.baseline if r.evidence else None,
    }
