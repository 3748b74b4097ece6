"""Everything together: paired outcomes in, `RunVerdict` out. Pure: the caller reads shards and writes files.

cells -> run variance over the panel -> evidence (measure) -> gates -> Holm over the panel
        -> decide -> words
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from audit.errors import DataError
from audit.statistics.chance import chance_level
from audit.statistics.multiplicity import holm
from audit.statistics.paired import BoolArray, CellOutcomes, State
from audit.statistics.permutation import can_reject, enough_permutations
from audit.statistics.run_variance import RunVariance, pooled_run_variance
from audit.statistics.values import levels_of, replicates_of
from audit.sweep import words
from audit.sweep.calibrated import nearest
from audit.sweep.compare import CONFIDENCE, Comparison
from audit.sweep.contrast_rows import contrast_rows
from audit.sweep.decide import Corrected, Decision, decide, over_panel
from audit.sweep.design import Arm
from audit.sweep.evidence import Evidence, measure
from audit.sweep.gates import all_gates, noise_floor_p
from audit.sweep.gates.common import label
from audit.sweep.hypotheses import HypothesisResult, h1_any_excess, h2_heterogeneity, h3_direction, sensitivity_slope
from audit.sweep.paper import model_summary, router_summary, setting_rows
from audit.sweep.record import sweep_of
from audit.sweep.result import CellVerdict, Contrast, Effect, Hypothesis, SelfTest, Slope, Verdict
from audit.sweep.runs import noise_floor, run_contrasts
from audit.sweep.self_test import self_test
from audit.sweep.texts import TextMeasures, Texts
from audit.sweep.thresholds import SweepThresholds
from audit.sweep.verdict import RunVerdict
from audit.verdict.gates import failed
from audit.verdict.result import Calibration, Gate

N_RESAMPLES = 10_000


@dataclass(frozen=True)
class _Measured:
    """One cell on its way to a verdict. evidence is None when clean and noisy cannot be compared (why says it)."""

    cell: CellOutcomes
    texts: TextMeasures | None
    keep: BoolArray | None  # questions without an answer leak
    evidence: Evidence | None
    gates: tuple[Gate, ...]
    why: str


def analyse(
    cells: Sequence[CellOutcomes],
    texts: Texts | None = None,
    *,
    thresholds: SweepThresholds | None = None,
    seed: int = 42,
    n_resamples: int = N_RESAMPLES,
    runs: Sequence[Mapping[str, Any]] = (),
    control_benchmark: str | None = None,
    calibration: Mapping[str, Any] | None = None,
    early: Mapping[tuple[str, str], int] | None = None,
) -> RunVerdict:
    """The verdict on every cell of one run, or of several merged into one panel.

    Parameters
    ----------
    cells : as `shards.cells` pairs them; where they hold answers too, the self-test can shift the labels
    texts : their measures; None leaves the text gates not applicable
    n_resamples : of every bootstrap and permutation; the tests of a verdict take more where Holm over r and the panel
        asks for smaller p-values than these can give
    runs : fingerprint and models of each run, copied into the result; must hold no times or paths
    control_benchmark : name of a benchmark of fresh items of the same models, for difference-in-differences
    calibration : the table of `audit.calibrate` (`load_calibration()`)
    early : (model, benchmark) of cells whose run may have stopped early, with the questions of the benchmark's largest
        group: their tests and limits hold at any stop, and those that do not are left out

    Same cells, texts and seed give the same result, whatever the order of the rows. A cell's randomness comes from
    the seed and its own name: adding a model to the panel changes the others' corrections and the run variance, which
    is estimated over the panel, and (in a panel of dozens) the number of permutations, and nothing else.
    """
    thresholds = thresholds or SweepThresholds()
    texts = texts or Texts()
    run_variance = pooled_run_variance(map(run_contrasts, cells), thresholds.run_sd_plausible)
    floors = _holm([noise_floor_p(c) for c in cells])
    stops = early or {}
    counts = max((len(levels_of(c, Arm.NOISY_REWRITE)) for c in cells), default=1)
    permutations = enough_permutations(counts * len(cells), thresholds.alpha, n_resamples)
    measured = [
        _measure(
            c,
            texts.measures.get((c.model, c.benchmark)),
            thresholds,
            seed,
            n_resamples,
            permutations,
            run_variance,
            floor,
            stops.get((c.model, c.benchmark)),
        )
        for c, floor in zip(cells, floors, strict=True)
    ]
    panel = over_panel([m.evidence for m in measured])
    verdicts: list[CellVerdict] = []
    tests: list[SelfTest] = []
    for m, corrected in zip(measured, panel, strict=True):
        control = _control_cell(m.cell, cells, control_benchmark)
        verdicts.append(_cell_verdict(m, corrected, thresholds, seed, n_resamples, control, calibration))
        key = (m.cell.model, m.cell.benchmark)
        rng = _rng(seed, m.cell, "self_test")
        tests += self_test(m.cell, thresholds, rng=rng, texts=m.texts, clean_sent=texts.clean_sent.get(key))
    judged = [m for m, v in zip(measured, verdicts, strict=True) if v.verdict != Verdict.WITHHELD]
    smallest = min(verdicts, key=lambda v: v.n_questions, default=None)
    sweeps = [sweep_of(m.cell, first_only=True) for m in measured if m.evidence is not None]
    rows = [row for s in sweeps for row in setting_rows(s.answered())]
    return RunVerdict(
        seed=seed,
        n_resamples=n_resamples,
        runs=tuple(dict(r) for r in runs),
        thresholds=thresholds.to_dict(),
        cells=tuple(verdicts),
        paper={
            "model_summary": [asdict(r) for r in model_summary(rows)] if rows else [],
            "router_summary": [asdict(r) for r in router_summary(rows)] if rows else [],
            "cells": [asdict(r) for r in rows],
        },
        hypotheses=_hypotheses(judged, verdicts, thresholds.alpha, seed, n_resamples),
        calibration=smallest.calibration if smallest else None,
        self_test=tuple(tests),
    )


def _measure(
    cell: CellOutcomes,
    texts: TextMeasures | None,
    thresholds: SweepThresholds,
    seed: int,
    n_resamples: int,
    n_permutations: int,
    run_variance: RunVariance,
    noise_floor_adjusted: float | None,
    largest_cluster: int | None,
) -> _Measured:
    keep: BoolArray | None = None
    by_routers: BoolArray | None = None
    if texts is not None and texts.leaks:
        leaking = {question for _, _, question in texts.leaks}
        keep = np.array([q not in leaking for q in cell.question_ids])
        at = {(routers, question) for routers, _, question in texts.leaks}
        counts = levels_of(cell, Arm.NOISY_REWRITE)
        by_routers = np.array([[(r, q) not in at for q in cell.question_ids] for r in counts], dtype=bool)
    evidence, why = None, ""
    try:
        evidence = measure(
            cell,
            rng=_rng(seed, cell, "evidence"),
            n_resamples=n_resamples,
            n_permutations=n_permutations,
            without_leak=by_routers,
            run_variance=run_variance,
            largest_cluster=largest_cluster,
        )
    except DataError as error:  # an arm was not run or has no answer: the verdict is withheld and says so
        why = str(error)
    limit = evidence.largest_compatible if evidence else None
    gates = all_gates(cell, texts, thresholds, limit, noise_floor_adjusted)
    return _Measured(cell, texts, keep, evidence, gates, why)


def _holm(pvalues: Sequence[float]) -> list[float | None]:
    """Holm's adjusted p-values; None where there was none."""
    return [None if np.isnan(p) else float(p) for p in holm(pvalues)] if pvalues else []


def _cell_verdict(
    m: _Measured,
    corrected: Corrected,
    thresholds: SweepThresholds,
    seed: int,
    n_resamples: int,
    control: CellOutcomes | None,
    calibration: Mapping[str, Any] | None,
) -> CellVerdict:
    cell, evidence = m.cell, m.evidence
    if evidence is None:
        decision = Decision(Verdict.WITHHELD, (m.why,), ("Run the clean and the noisy arm on the same questions.",))
    else:
        decision = decide(evidence, m.gates, thresholds, corrected)
    failing = tuple(g.name for g in failed(m.gates))
    if decision.gate:
        failing = (decision.gate,)
    missing, open_ = words.controls(cell)
    limit = evidence.largest_compatible if evidence else None
    chance = chance_level(cell.n_options)
    score = None
    if evidence:
        score = evidence.clean_accuracy if evidence.direct_accuracy is None else evidence.direct_accuracy
    noisy = tuple(sorted({s.level for s in cell.settings_of(Arm.NOISY_REWRITE)}))
    design: Calibration | None = None
    early = evidence is not None and evidence.at_any_stop
    if evidence is not None and not early:  # the table is of tests for a fixed number of questions
        design = nearest(
            calibration,
            n=cell.n,
            clusters=int(np.unique(cell.cluster).size),
            routers=len(noisy),
            draws=cell.draws,
            clean_accuracy=evidence.clean_accuracy,
            discordance=evidence.discordance,
            clean_replicates=len(replicates_of(cell, Arm.FORWARD_FULL, 1)),
            panel=corrected.cells,
            thresholds=thresholds.to_dict(),
        )
    contrasts: tuple[Contrast, ...] = ()
    if evidence is not None:
        rng = _rng(seed, cell, "contrasts")
        contrasts = contrast_rows(cell, evidence, keep=m.keep, control=control, rng=rng, n_resamples=n_resamples)
    reasons = decision.reasons
    if decision.verdict in (Verdict.EXCESS, Verdict.UNCONTROLLED):
        reasons += words.fresh_items(contrasts)
    if evidence is not None and early:
        reasons += (words.at_any_stop(evidence, cell.n),)
    elif evidence is not None and decision.verdict != Verdict.WITHHELD:
        reasons += (words.run_variance(evidence.run_variance),)
    beyond = None
    if decision.verdict not in (Verdict.WITHHELD, Verdict.BRITTLE):  # damage that costs much bounds no memory
        beyond = share_left(score, chance, limit)
    gap = next((c for c in contrasts if c.name == "score_gap"), None)
    credibility = share_left(score, chance, gap.ci_high if gap else None)
    return CellVerdict(
        model=cell.model,
        benchmark=cell.benchmark,
        verdict=decision.verdict,
        headline=words.headline(cell.model, cell.benchmark, decision, evidence, failing),
        reasons=reasons,
        what_to_do=decision.what_to_do,
        effect=_effect(evidence.clean) if evidence else None,
        p_value=evidence.p_value if evidence else None,
        p_adjusted=corrected.excess,
        largest_compatible_gain=limit,
        run_sd=float(np.sqrt(evidence.run_variance.used)) if evidence else 0.0,
        run_sd_df=evidence.run_variance.df if evidence else 0,
        gates=m.gates,
        contrasts=contrasts,
        controls_missing=missing,
        cannot_exclude=open_,
        slope=_slope(cell, seed, n_resamples, early) if evidence else None,
        noise_floor=noise_floor(
            cell, rng=_rng(seed, cell, "noise"), alpha=thresholds.alpha, n_permutations=n_resamples
        ),
        calibration=design,
        score=score,
        chance=chance,
        share_beyond_gains=beyond,
        credibility=credibility,
        credibility_category=category(credibility, thresholds),
        n_questions=cell.n,
        routers=noisy,
        reading=cell.reading,
        draws=cell.draws,
        sample_sizes={label(s): int(np.sum(cell.row(s) >= State.WRONG)) for s in cell.settings},
        states={state.name.lower(): int(np.sum(cell.state == state)) for state in State},
    )


def share_left(score: float | None, chance: float, taken: float | None) -> float | None:
    """Share of the score above chance that stays when `taken` (0-1) is taken off: 1 - taken / (score - chance), cut to
    0-1. None where the score is not above chance, or nothing bounds what is to be taken off."""
    if score is None or taken is None or not np.isfinite(taken) or score <= chance:
        return None
    return float(np.clip(1 - max(taken, 0.0) / (score - chance), 0, 1))


def category(credibility: float | None, thresholds: SweepThresholds) -> str:
    """high, moderate or low; none without a credibility."""
    if credibility is None:
        return "none"
    if credibility >= thresholds.credibility_high:
        return "high"
    return "moderate" if credibility >= thresholds.credibility_moderate else "low"


def _effect(c: Comparison) -> Effect:
    k = c.best
    return Effect(
        c.routers[k],
        float(c.gain[k]),
        float(c.low[k]),
        float(c.high[k]),
        c.mean.estimate,
        c.mean.low,
        c.mean.high,
    )


def _slope(cell: CellOutcomes, seed: int, n_resamples: int, early: bool) -> Slope | None:
    sweep = sweep_of(cell).answered()
    if len(sweep.routers) < 2:
        return None
    found = sensitivity_slope(sweep, rng=_rng(seed, cell, "slope"), n_resamples=n_resamples)
    if early:
        text = (
            f"{cell.model}: noisy accuracy changes by {100 * found.slope:+.2f} points a router (no interval: the run "
        )
        return Slope(found.slope, None, None, text + "could stop early).")
    if not can_reject(np.unique(sweep.cluster).size, 1 - CONFIDENCE):  # their resamples show no spread to speak of
        text = f"{cell.model}: noisy accuracy changes by {100 * found.slope:+.2f} points a router (too few groups of "
        return Slope(found.slope, None, None, text + "questions for an interval).")
    return Slope(found.slope, found.interval.low, found.interval.high, found.sentence)


def _hypotheses(
    measured: Sequence[_Measured], verdicts: Sequence[CellVerdict], alpha: float, seed: int, n_resamples: int
) -> tuple[Hypothesis, ...]:
    """Over the cells whose verdict is not withheld: what failed a gate says nothing about a hypothesis either."""
    # H2 and H3 are tests for a fixed number of questions.
    sweeps = [sweep_of(m.cell) for m in measured if m.evidence is not None and not m.evidence.at_any_stop]
    rng = np.random.default_rng([seed, 1])
    out = []
    # H1 is the verdicts' own conjunction over controls: other p-values could contradict them.
    tests = {f"{m.cell.model} on {m.cell.benchmark}": m.evidence.p_value for m in measured if m.evidence}
    excess = [f"{v.model} on {v.benchmark}" for v in verdicts if v.verdict == Verdict.EXCESS]
    benchmarks = sorted({s.benchmark for s in sweeps})
    computed: list[tuple[str, Callable[[], HypothesisResult]]] = [("H1", partial(h1_any_excess, tests, excess, alpha))]
    for benchmark in benchmarks or [""]:  # models are compared on the same questions
        name = f"H2 on {benchmark}" if len(benchmarks) > 1 else "H2"
        computed.append((name, partial(h2_heterogeneity, [s for s in sweeps if s.benchmark == benchmark], alpha)))
    computed.append(("H3", partial(h3_direction, sweeps, rng=rng, n_permutations=n_resamples, alpha=alpha)))
    for name, compute in computed:
        try:
            found = compute()
        except DataError as error:  # one model, one r: the hypothesis cannot be tested, which is a finding to print
            out.append(Hypothesis(name, None, None, f"{name} was not tested: {error}"))
        else:
            out.append(Hypothesis(name, found.pvalue, found.effect, found.sentence))
    return tuple(out)


def _control_cell(cell: CellOutcomes, cells: Sequence[CellOutcomes], benchmark: str | None) -> CellOutcomes | None:
    if benchmark is None or cell.benchmark == benchmark:
        return None
    found = [c for c in cells if c.model == cell.model and c.benchmark == benchmark]
    if not found:
        raise DataError(
            f"No outcomes of {cell.model} on the control benchmark {benchmark!r}. Benchmarks of this panel: "
            f"{', '.join(sorted({c.benchmark for c in cells}))}."
        )
    return found[0]


def _rng(seed: int, cell: CellOutcomes, purpose: str) -> np.random.Generator:
    name = zlib.crc32(f"{cell.model}\x00{cell.benchmark}\x00{purpose}".encode())
    return np.random.default_rng([seed, name])
