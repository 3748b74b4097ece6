"""A panel of scripted models as the report takes it: cells, results, a verdict, and the rows behind
them. No engine."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scripted_models as models

from audit.governance.chronology import Chronology
from audit.judge.record import Settings
from audit.report.page import RunFacts
from audit.validity.analyse import RunVerdict, analyse
from audit.validity.as_paper import paper_tables
from audit.validity.cells import ItemRows, small_table
from audit.validity.design import ValidityThresholds
from audit.validity.edits.record import Family
from audit.validity.page import render
from audit.validity.record import Cell

HOSTILE = "<img src=x onerror=\"document.body.dataset.broken='1'\"> <script>document.body.dataset.broken='1'</script>"
LEVELS = {Family.FORMAT: 2, Family.SEMANTIC: 1, Family.ATTRIBUTE: 1}


def cells(benchmark: str = "contrast", n: int = 60) -> list[Cell]:
    """A follower (selective), one that ignores its input (failed) and a scorer that nothing
    validates."""
    made = []
    for name, model, validated in (
        ("follower", models.shaky, True),
        ("deaf", models.ignores_input, True),
        ("unproven", models.follower, False),
    ):
        base = models.cell(model, n=n, validated=validated)
        scorer = {
            **base.scorer,
            "benchmark": benchmark,
            "injected": [],
            "self_test": {
                "passed": True,
                "faults": [],
                "baseline": 1 / 3,
                **{
                    k: {"score": v, "unread": 0.0}
                    for k, v in (
                        ("oracle", 1.0),
                        ("anti_oracle", 0.0),
                        ("constant", None),
                        ("ignoring", 0.3),
                    )
                },
            },
        }
        far = np.tile([[4.0], [5.0], [4.0], [9.0]], n)
        made.append(replace(base, model=name, benchmark=benchmark, scorer=scorer, distances=far))
    return made


def verdict(measured: Sequence[Cell], chronology: Chronology | None = None) -> RunVerdict:
    t = ValidityThresholds()
    results = analyse(measured, Settings(t, 1, 100))
    return RunVerdict(
        seed=1,
        n_resamples=100,
        thresholds=t.to_dict(),
        edits={"replaced": {}},
        runs=(),
        rows=(),
        cells=tuple(measured),
        results=results,
        chronology=chronology,
    )


def rows(measured: Sequence[Cell], text: str = "Which pet barks?") -> ItemRows:
    """Rows of the first five items of each cell; the first format edit of each is the original's
    very request."""
    made: dict[Any, list[dict[str, Any]]] = {}
    for cell in measured:
        for i in range(5):
            settings: list[tuple[str, int]] = [("original", 0)]
            settings += [
                (family.value, k) for family, levels in LEVELS.items() for k in range(1, levels + 1)
            ]
            made[cell.model, cell.benchmark, cell.context, cell.question_ids[i]] = [
                _row(cell, i, arm, level, text) for arm, level in settings
            ]
    return ItemRows(small_table(made.values()), lambda keys: {key: made[key] for key in keys})


def _row(cell: Cell, i: int, arm: str, level: int, text: str) -> dict[str, Any]:
    edited = text if arm == "original" else f"{text} ({arm} {level})"
    same = arm == "format" and level == 1
    return {
        "model": cell.model,
        "benchmark": cell.benchmark,
        "context": cell.context,
        "question_id": cell.question_ids[i],
        "group": "",
        "question": text,
        "gold": 0,
        "label_mass": None,
        "arm": arm,
        "variant": level,
        "replicate": 0,
        "edit": None if arm == "original" else f"{arm}_{level}",
        "contract": {"original": None, "attribute": "directional"}.get(arm, "invariant"),
        "asked": True,
        "edited": edited,
        "prompt": f"Answer. {edited}",
        "options": ["dog", "cat", text],
        "option_order": [0, 1, 2],
        "key_before": 0,
        "key_after": 1 if arm == "attribute" else 0,
        "answer": 0,
        "response": f"{text} indeed",
        "correct": arm != "attribute",
        "parsed": True,
        "unread_why": "",
        "error": None,
        "request_sha256": f"tokens:{i}" if arm == "original" or same else f"tokens:{i}{arm}{level}",
    }


def page(made: RunVerdict, behind: ItemRows) -> str:
    """The page as text, without figures."""
    return render(made, [RunFacts("run")], {}, behind, paper_tables(made, behind))


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path
