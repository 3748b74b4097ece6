"""Cells -> results: statistics, gates, injected faults and statuses, corrected over the panel."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from audit.statistics.multiplicity import holm
from audit.statistics.selectivity import N_RESAMPLES
from audit.validity.calibrated import nearest
from audit.validity.decide import decide
from audit.validity.edits.record import Archetype, Family
from audit.validity.evidence import CellEvidence, measure
from audit.validity.faults import inject_all, regression_gate
from audit.validity.gates import all_gates, named
from audit.validity.record import ValidityCell
from audit.validity.result import NamedTests, PaperDecision, ValidityResult
from audit.validity.status import PaperCell, paper_status
from audit.validity.thresholds import ValidityThresholds
from audit.validity.words import cannot_exclude, headline
from audit.verdict.gates import failed
from audit.verdict.result import Status


def analyse(
    cells: Sequence[ValidityCell],
    thresholds: ValidityThresholds,
    *,
    seed: int,
    n_resamples: int = N_RESAMPLES,
    table: Mapping[str, Any] | None = None,
    tests: NamedTests | None = None,
) -> tuple[ValidityResult, ...]:
    """One result a cell, in order. Holm's correction is over cells and directions.

    A cell's random numbers depend on seed and names alone. table: of `shipped_table(SHIPPED)`.
    tests: those that the chronology names, where they were run.
    """
    evidence = []
    for cell in cells:
        rng = np.random.default_rng([seed, zlib.crc32(cell.name.encode())])
        evidence.append(measure(cell, margin=thresholds.margin, rng=rng, n_resamples=n_resamples))
    above, below = _adjusted(evidence)
    return tuple(
        _result(cell, e, thresholds, table, a, b, seed, tests)
        for cell, e, a, b in zip(cells, evidence, above, below, strict=True)
    )


def _adjusted(evidence: Sequence[CellEvidence]) -> tuple[list[float | None], list[float | None]]:
    """Holm over every cell and both directions of each."""
    raw = [
        p
        for e in evidence
        if e.primary is not None
        for p in (e.primary.above_p, 1.0 if e.non_selective_p is None else e.non_selective_p)
    ]
    adjusted = iter(holm(np.array(raw)).tolist() if raw else [])
    above: list[float | None] = []
    below: list[float | None] = []
    for e in evidence:
        above.append(next(adjusted) if e.primary is not None else None)
        below.append(next(adjusted) if e.primary is not None else None)
    return above, below


def _result(
    cell: ValidityCell,
    e: CellEvidence,
    t: ValidityThresholds,
    table: Mapping[str, Any] | None,
    above_p: float | None,
    below_p: float | None,
    seed: int,
    tests: NamedTests | None,
) -> ValidityResult:
    gates = all_gates(cell, e, t)
    injected = inject_all(cell, gates, t, np.random.default_rng([seed, 1]))
    gates = (*gates, regression_gate(injected, tests))
    decision = decide(e, gates, t, above_p, below_p)
    return ValidityResult(
        model=cell.model,
        benchmark=cell.benchmark,
        context=cell.context,
        decision=decision,
        paper=paper_decision(cell, e, gates, t),
        headline=headline(cell, decision, e, failed(gates)),
        cannot_exclude=cannot_exclude(cell, e),
        gates=gates,
        faults=injected,
        evidence=e,
        above_p=above_p,
        below_p=below_p,
        calibration=nearest(table, clusters=len(np.unique(cell.cluster)), change=_surface(e), thresholds=t.to_dict()),
    )


def _surface(e: CellEvidence) -> float:
    found = [e.families[f].response_change.estimate for f in (Family.FORMAT, Family.SEMANTIC)]
    return max((x for x in found if np.isfinite(x)), default=float("nan"))


def paper_decision(
    cell: ValidityCell, e: CellEvidence, gates: Sequence[Any], t: ValidityThresholds
) -> PaperDecision | None:
    """The paper's own algorithm on the same numbers: CSR under each edit's own key, guessing as baseline."""
    ratio = e.csr.get("own key")
    if ratio is None or not e.score.n:
        return None
    passed = {g.name: g.status == Status.PASS for g in gates}
    five, six = named(gates, "G5_archetype"), named(gates, "G6_repair_regression")
    found = paper_status(
        PaperCell(
            model=cell.model,
            benchmark=cell.benchmark,
            score=e.score.estimate,
            n=e.score.n,
            baseline=e.chance,
            delta_fmt=float(np.nan_to_num(e.families[Family.FORMAT].score_change)),
            delta_sem=float(np.nan_to_num(e.families[Family.SEMANTIC].score_change)),
            delta_attr=e.families[Family.ATTRIBUTE].score_change,
            ci_low=ratio.low,
            ci_high=ratio.high,
            instrumented=passed["G1_edits_reach_scorer"] and passed["G1_answers_readable"],  # li2026, Table 1
            scorer_validated=passed["scorer_valid"],
            archetype_aligned=e.archetype == Archetype.DIAGNOSTIC,
            g5=five is not None and five.status == Status.PASS,
            g6=six is not None and six.status == Status.PASS,
            paired=passed["G4_paired"],
        )
    )
    return PaperDecision(found.status.value, found.step, tuple(found.flags))
