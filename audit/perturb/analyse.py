"""Cells -> results: statistics, gates and verdicts, corrected over the panel."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from audit.errors import DataError
from audit.perturb.calibrated import nearest
from audit.perturb.decide import decide
from audit.perturb.evidence import Evidence, measure, panel_pvalues
from audit.perturb.gates import all_gates
from audit.perturb.record import PerturbCell
from audit.perturb.result import Decision, PerturbResult, PerturbVerdict
from audit.perturb.thresholds import PerturbThresholds
from audit.perturb.words import cannot_exclude, headline
from audit.statistics.performance_curve import N_CURVES
from audit.statistics.resampling import N_RESAMPLES
from audit.verdict.gates import failed


def analyse(
    cells: Sequence[PerturbCell],
    thresholds: PerturbThresholds,
    *,
    seed: int,
    n_resamples: int = N_RESAMPLES,
    n_draws: int = N_CURVES,
    table: Mapping[str, Any] | None = None,
) -> tuple[PerturbResult, ...]:
    """One result a cell, in order. Holm's correction is over the cells that can be compared.

    A cell's random numbers depend on seed, model and benchmark alone, not on what else is in the panel. table: of
    `shipped_table(SHIPPED)`.
    """
    evidence: list[Evidence | None] = []
    for cell in cells:
        name = zlib.crc32(f"{cell.tested.model}\0{cell.benchmark}".encode())
        try:
            rng = np.random.default_rng([seed, name])
            evidence.append(measure(cell, thresholds, rng=rng, n_resamples=n_resamples, n_draws=n_draws))
        except DataError:
            if _comparable(cell):
                raise
            evidence.append(None)  # not one item with both answers: withheld, and said so
    tests = [e.tests for e in evidence if e is not None]
    adjusted = iter(zip(*(p.tolist() for p in panel_pvalues(tests)), strict=True)) if tests else iter(())
    return tuple(
        _result(cell, e, thresholds, table, *(next(adjusted) if e is not None else (float("nan"),) * 2))
        for cell, e in zip(cells, evidence, strict=True)
    )


def _result(
    cell: PerturbCell,
    evidence: Evidence | None,
    thresholds: PerturbThresholds,
    table: Mapping[str, Any] | None,
    found_p: float,
    beyond_p: float,
) -> PerturbResult:
    gates = all_gates(cell, thresholds, evidence.detectable if evidence else None)
    beyond = None if np.isnan(beyond_p) else beyond_p
    if evidence is None:
        reason = "Not one item has an answer to its original and to a variant: nothing can be compared."
        decision = Decision(PerturbVerdict.WITHHELD, (reason,))
    else:
        decision = decide(evidence, gates, thresholds, found_p, beyond)
    model = cell.tested.model
    return PerturbResult(
        model=model,
        benchmark=cell.benchmark,
        decision=decision,
        headline=headline(model, cell.benchmark, decision, evidence, tuple(g.name for g in failed(gates))),
        cannot_exclude=cannot_exclude(cell, evidence),
        gates=gates,
        evidence=evidence,
        found_p=None if evidence is None else found_p,
        beyond_p=beyond,
        calibration=nearest(
            table,
            n=cell.n,
            variants=len(cell.tested.variants),
            references=len(evidence.tests.references) if evidence else len(cell.references),
            checked=cell.broken.checked if cell.broken else 0,
            replicates=cell.tested.runs_that_differ,
            control=bool(evidence and evidence.tests.control and evidence.tests.control.asked),
            thresholds=thresholds.to_dict(),
        ),
    )


def _comparable(cell: PerturbCell) -> bool:
    """Whether some item has an answer to its original and to a variant."""
    original, variants = cell.tested.pair
    return bool(np.any(~np.isnan(original).all(axis=0) & ~np.isnan(variants).all(axis=0)))
