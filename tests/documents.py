"""Whole verdict.json documents for tests that say little of them: every field is there, with plain
values."""

from collections.abc import Mapping, Sequence
from typing import Any

from audit.config.audits import part_of
from audit.judging.decision import document_of
from audit.judging.document import Cell
from audit.judging.together import Document, parts_of

HEAD = {
    "headline": "h",
    "watermark": "",
    "reasons": ["why"],
    "what_to_do": [],
    "cannot_exclude": [],
    "gates": [],
}
CODES = {"calibration": None, "reason_codes": [], "advice_codes": []}
LIMITS = {"estimate": None, "low": None, "high": None}
OWN: Mapping[str, dict[str, Any]] = {
    "sweep": {"score": None, "effect": None},
    "perturb": {"evidence": None},
    "memory": {"score": None, "indicators": [], "evidence": {"gap": None}},
    "validity": {"evidence": None},
}

# An entry of a chronology.
ENTRY: dict[str, Any] = {
    "id": "T1",
    "failure_class": "F3c",
    "found": "2026-11-22",
    "found_by": "label mass per cell",
    "affected": ["m x toxigen"],
    "symptom": "both deltas exactly 0",
    "provenance": "introduced-in-repair",
    "fix": "labels are asked for by id",
    "test": "test_reference_scorers.py::test_targets_outside_the_top_are_no_answer",
    "deltas": [
        {
            "cell": "m x toxigen",
            "statistic": "delta of the attribute edits",
            "before": 0.2,
            "after": 0.7,
        }
    ],
    "status": "FIXED",
    "reason": "nothing is left of it",
}


def gate_of(name: str, status: str = "pass", **also: Any) -> dict[str, Any]:
    return {
        "name": name,
        "status": status,
        "number": None,
        "threshold": None,
        "source": "",
        "detail": "",
        **also,
    }


def cell_of(verdict: str, audit: str = "sweep", **also: Any) -> dict[str, Any]:
    """Return a cell of model m on benchmark b with the grade of its verdict."""
    cell = {
        "model": "m",
        "benchmark": "b",
        "verdict": verdict,
        **HEAD,
        **CODES,
        **OWN.get(audit, {}),
        **also,
    }
    words = part_of(audit, "vocabulary").VERDICTS
    if "grade" not in cell and verdict in words:
        archetype = (cell.get("evidence") or {}).get("archetype")
        cell["grade"] = str(words[verdict].of(archetype).grade)
    return cell


def verdict_of_cells(cells: Sequence[Any], audit: str = "sweep", **also: Any) -> dict[str, Any]:
    head = {
        "schema": f"{audit} verdict",
        "schema_version": "1",
        "audit": audit,
        "seed": 0,
        "n_resamples": 0,
    }
    return {**head, "thresholds": {}, "runs": [], "rows": [], "cells": list(cells), **also}


def verdict_named(*names: str, audit: str = "sweep", **also: Any) -> dict[str, Any]:
    """Return a verdict.json with a cell for each verdict."""
    return verdict_of_cells([cell_of(name, audit) for name in names], audit, **also)


def joint_of(parts: Mapping[str, Any], joint: Sequence[Any] = (), **also: Any) -> dict[str, Any]:
    head = {"schema": "joint verdict", "schema_version": "1"}
    entries = [
        {"model": "m", "benchmark": "b", "instruments": [], "together": [], "forms": None, **fields}
        for fields in joint
    ]
    return {**head, "joint": entries, "audits": dict(parts), **also}


def suite_rules(**also: Any) -> dict[str, Any]:
    """Return what a suite says of the verdicts."""
    model = {"name": "m", "stated": None, "found": None, "claimed": False}
    rules = {
        "audit_suite_id": "s",
        "suite_sha256": "0",
        "gate": "ours",
        "forms_required": {},
        "domain": None,
    }
    return {**rules, "model": model, "source": [], "sentences": [], **also}


def typed(plain: Any) -> Document:
    return document_of(plain)


def typed_cell(plain: dict[str, Any], audit: str = "sweep") -> Cell:
    """Return a cell as the typed model of its audit."""
    ((_, part),) = parts_of(document_of(verdict_of_cells([plain], audit)))
    return part.cells[0]
