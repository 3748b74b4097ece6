"""The verdict of a run as plain data: what verdict.json holds. Scores and changes are 0-1; null: not computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audit.chronology import Chronology
from audit.validity.record import ValidityCell
from audit.validity.result import ValidityResult
from audit.validity.vocabulary import GATES
from audit.verdict.run import JudgedRun, cell_head


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun[ValidityCell, ValidityResult]):
    """All cells of a run. edits: what was counted when they were made. chronology: of the runs, None without any."""

    audit = "validity"
    schema_version = "1.0"

    edits: dict[str, Any]
    chronology: Chronology | None = None

    def own(self) -> dict[str, Any]:
        return {
            "edits": self.edits,
            "gate_inputs": {name: word.reads for name, word in GATES.items()},
            "chronology": _told(self.chronology),
            "cells": [
                _cell(cell, result, self.marks.get((result.model, result.benchmark), ""))
                for cell, result in zip(self.cells, self.results, strict=True)
            ],
        }


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
        **cell_head(r, r.decision.status, watermark),
        "context": r.context,
        "paper_status": r.paper,
        "faults": r.faults,
        "above_p": r.above_p,
        "below_p": r.below_p,
        "n_items": cell.n,
        "n_clusters": len(set(cell.cluster.tolist())),
        "wanted": cell.wanted,
        "applicable": dict(cell.applicable),
        "scorer": dict(cell.scorer),
        "evidence": r.evidence,
        "baseline": r.evidence.baseline if r.evidence else None,
    }
