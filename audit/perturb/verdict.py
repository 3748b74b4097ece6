"""The verdict of a run as plain data: what verdict.json holds. Accuracies and drops are 0-1; null: not computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audit.perturb.record import PerturbCell
from audit.perturb.result import PerturbResult
from audit.records import CellRows
from audit.variants.record import Library
from audit.verdict.result import MAX_ITEMS, json_ready, json_text

SCHEMA = "perturb verdict"
SCHEMA_VERSION = "1.1"


@dataclass(frozen=True)
class RunVerdict:
    """All judged cells of a run. runs, rows: as in the sweep's verdict. library: what `library_facts` gives;
    control_library: the same of the fresh items, None without."""

    seed: int
    n_resamples: int
    thresholds: dict[str, float]
    library: dict[str, Any]
    runs: tuple[dict[str, Any], ...]
    rows: tuple[CellRows, ...]
    cells: tuple[PerturbCell, ...]
    results: tuple[PerturbResult, ...]
    control_library: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        marks = {(r.model, r.benchmark): r.watermark for r in self.rows}
        cells = [
            cell_dict(cell, result, marks.get((result.model, result.benchmark), ""))
            for cell, result in zip(self.cells, self.results, strict=True)
        ]
        plain = json_ready(
            {
                "schema": SCHEMA,
                "schema_version": SCHEMA_VERSION,
                "audit": "perturb",
                "seed": self.seed,
                "n_resamples": self.n_resamples,
                "thresholds": self.thresholds,
                "library": self.library,
                "control_library": self.control_library,
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


def cell_dict(cell: PerturbCell, result: PerturbResult, watermark: str = "") -> dict[str, Any]:
    """One cell of verdict.json: the decision and every statistic; of the items the flagged and the most conspicuous."""
    decision, evidence = result.decision, result.evidence
    tested = cell.tested
    out: dict[str, Any] = {
        "model": result.model,
        "benchmark": result.benchmark,
        "verdict": decision.verdict,
        "headline": f"{watermark[0].upper()}{watermark[1:]}: {result.headline}" if watermark else result.headline,
        "watermark": watermark,
        "reasons": decision.reasons,
        "what_to_do": decision.what_to_do,
        "doubt": decision.doubt,
        "cannot_exclude": result.cannot_exclude,
        "gates": result.gates,
        "found_p": result.found_p,
        "beyond_p": result.beyond_p,
        "calibration": result.calibration,
        "sensitivity": result.sensitivity,
        "chance": cell.chance,
        "n_questions": cell.n,
        "variants": len(tested.variants),
        "original_replicates": len(tested.original),
        "not_asked": int((~tested.was_asked).sum()),
        "references": [w.model for w in cell.references],
        "broken": cell.broken,
        "requests": cell.requests,
        "evidence": None,
    }
    if evidence is not None:
        plain: dict[str, Any] = json_ready(evidence)
        items = evidence.items
        plain["items"] = {
            "method": items.method,
            "smallest_p": items.smallest_p,
            "can_flag": items.can_flag,
            "affected": items.affected,
            "flagged": [cell.question_ids[i] for i in items.order if items.flagged[i]],
            "most_conspicuous": [cell.question_ids[i] for i in items.order[:MAX_ITEMS]],
        }
        out["evidence"] = plain
    return out


def library_facts(library: Library) -> dict[str, Any]:
    """What a reader of the verdict must know of the library."""
    header = library.header
    return {
        "name": header.name,
        "sha256": library.sha256,
        "benchmark": header.benchmark,
        "strategy": header.strategy,
        "window": header.window,
        "review": header.review,
        "candidates": library.counts,
    }
