"""Cells -> results: statistics, gates and verdicts, corrected over the panel."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from audit.memory.calibrated import nearest
from audit.memory.decide import decide
from audit.memory.evidence import Evidence, correct, measure
from audit.memory.gates import all_gates
from audit.memory.record import MemoryCell
from audit.memory.result import MemoryResult
from audit.memory.thresholds import MemoryThresholds
from audit.memory.words import cannot_exclude, headline
from audit.statistics.order_test import N_RESAMPLES
from audit.verdict.gates import failed


def analyse(
    cells: Sequence[MemoryCell],
    thresholds: MemoryThresholds,
    *,
    seed: int,
    n_resamples: int = N_RESAMPLES,
    table: Mapping[str, Any] | None = None,
) -> tuple[MemoryResult, ...]:
    """One result a cell, in order. Holm's correction is over every indicator of every cell that could be judged.

    A cell's random numbers depend on seed, model and benchmark alone, not on what else is in the panel. table: of
    `shipped_table(SHIPPED)`.
    """
    evidence = []
    for cell in cells:
        name = zlib.crc32(f"{cell.model}\0{cell.benchmark}".encode())
        rng = np.random.default_rng([seed, name])
        evidence.append(measure(cell, thresholds, rng=rng, n_resamples=n_resamples))
    return tuple(_result(c, e, thresholds, table) for c, e in zip(cells, correct(evidence), strict=True))


def _result(
    cell: MemoryCell, evidence: Evidence, thresholds: MemoryThresholds, table: Mapping[str, Any] | None
) -> MemoryResult:
    gates = all_gates(cell, evidence, thresholds)
    decision = decide(evidence, gates, thresholds)
    names = tuple(g.name for g in failed(gates)) or tuple(
        g.name for g in gates if g.name == "fresh_matched" and g.status == "fail"
    )
    return MemoryResult(
        model=cell.model,
        benchmark=cell.benchmark,
        decision=decision,
        headline=headline(cell, decision, evidence, names, thresholds),
        cannot_exclude=cannot_exclude(cell, evidence),
        gates=gates,
        evidence=evidence,
        calibration=nearest(
            table,
            n=cell.published.n,
            fresh=cell.fresh.n if cell.fresh else 0,
            references=len(cell.references),
            thresholds=thresholds.to_dict(),
        ),
    )
