"""The verdict of a run as plain data: what verdict.json holds. Accuracies and drops are 0-1; null: not computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from audit.perturb.record import PerturbCell
from audit.perturb.result import PerturbResult
from audit.variants.record import Library
from audit.verdict.result import MAX_ITEMS, json_ready
from audit.verdict.run import JudgedRun, cell_head


@dataclass(frozen=True, kw_only=True)
class RunVerdict(JudgedRun[PerturbCell, PerturbResult]):
    """All judged cells of a run. library: what `library_facts` gives; control_library: the same of the fresh items,
    None without."""

    audit = "perturb"
    schema_version = "1.2"

    library: dict[str, Any]
    control_library: dict[str, Any] | None = None

    def own(self) -> dict[str, Any]:
        cells = [
            cell_dict(cell, result, self.marks.get((result.model, result.benchmark), ""))
            for cell, result in zip(self.cells, self.results, strict=True)
        ]
        return {"library": self.library, "control_library": self.control_library, "cells": cells}


def cell_dict(cell: PerturbCell, result: PerturbResult, watermark: str = "") -> dict[str, Any]:
    """One cell of verdict.json: the decision and every statistic; of the items the flagged and the most conspicuous."""
    decision, evidence = result.decision, result.evidence
    tested = cell.tested
    out: dict[str, Any] = {
        **cell_head(result, decision.verdict, watermark),
        "doubt": decision.doubt,
        "found_p": result.found_p,
        "beyond_p": result.beyond_p,
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
