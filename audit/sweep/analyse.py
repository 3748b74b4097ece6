"""How the sweep judges a cell, and what is said of a whole panel. Pure: the caller reads shards and writes files."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from audit.errors import DataError
from audit.judge.record import Case, Judge, Settings, cell_rng, holm_rows, judge_cells
from audit.judging.ladder import grade
from audit.records import CellRows
from audit.statistics.chance import chance_level
from audit.statistics.paired import BoolArray, CellOutcomes, State
from audit.statistics.permutation import can_reject, enough_permutations
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.run_variance import RunShifts
from audit.statistics.unparsed import DECIDE_AT, tipping_point
from audit.statistics.values import levels_of
from audit.sweep import decide, paper
from audit.sweep.compare import CONFIDENCE
from audit.sweep.contrasts import contrast_rows
from audit.sweep.decide import Corrected
from audit.sweep.design import Arm, SweepThresholds, not_run
from audit.sweep.evidence import Evidence, measure
from audit.sweep.gates import all_gates, noise_floor_p
from audit.sweep.messages import MeasuredTexts, TextMeasures
from audit.sweep.record import cell_shifts, label, noise_floor, run_shifts, sweep_of
from audit.sweep.self_test import self_test
from audit.sweep.simulation import Design, design_of
from audit.sweep.texts import CANNOT_EXCLUDE, NOT_RUN, TEXTS
from audit.sweep.texts import tipping as tipping_said
from audit.sweep.vocabulary import Contrast, Decision, Effect, Hypothesis, RunVerdict, Slope, SweepResult, Verdict
from audit.verdict.result import Calibration, Gate, Reason, because, failed, percent, sentence, sentences
from audit.verdict.shipped import apart, nearest_design
from audit.verdict.simulated import told

TIPPING_RESAMPLES = 999


@dataclass(frozen=True)
class SweepSettings(Settings[SweepThresholds]):
    """shifts: of whole runs, estimated over the panel. tests: of the panel, one a cell and router count."""

    shifts: RunShifts = field(kw_only=True)
    tests: int = field(kw_only=True)


@dataclass(frozen=True)
class Beside:
    """A cell, and what it is judged beside. noise_p: `noise_floor_p` after Holm over the panel."""

    cell: CellOutcomes
    texts: TextMeasures | None
    control: CellOutcomes | None
    reference: CellOutcomes | None
    noise_p: float | None

    @property
    def without_leak(self) -> BoolArray | None:
        """(R, n) questions of which no message at a router count states the answer; None where all are such."""
        if self.texts is None or not self.texts.leaks:
            return None
        return self._free(self.texts.leaks)

    @property
    def unaided(self) -> BoolArray | None:
        """(R, n) questions of which no message of the clean baseline, nor of the ensemble control at a router count,
        names an answer; None where all are such."""
        if self.texts is None or not self.texts.aided:
            return None
        aided = self.texts.aided
        baseline = {(r, q) for one, q in aided if one == 1 for r in levels_of(self.cell, Arm.NOISY_REWRITE)}
        return self._free(aided | baseline)

    def _free(self, of: Collection[tuple[int, str]]) -> BoolArray:
        counts = levels_of(self.cell, Arm.NOISY_REWRITE)
        return np.array([[(r, q) not in of for q in self.cell.question_ids] for r in counts], dtype=bool)


@dataclass(frozen=True)
class _Measured:
    """found: None when clean and noisy cannot be compared (why says it). again: with other resamples and gamma."""

    found: Evidence | None
    why: str
    again: Callable[..., Evidence]


_Case = Case[Beside, _Measured, Corrected]


def analyse(
    cells: Sequence[CellOutcomes],
    texts: MeasuredTexts | None = None,
    *,
    thresholds: SweepThresholds | None = None,
    seed: int = 42,
    n_resamples: int = N_RESAMPLES,
    runs: Sequence[Mapping[str, Any]] = (),
    rows: Sequence[CellRows] = (),
    control_benchmark: str | None = None,
    calibration: Mapping[str, Any] | None = None,
    references: Mapping[tuple[str, str], CellOutcomes] | None = None,
) -> RunVerdict:
    """The verdict on every cell of one run, or of several merged into one panel.

    Parameters
    ----------
    cells : as `shards.cells` pairs them; where they hold answers too, the self-test can shift the labels
    n_resamples : of every bootstrap and permutation; the tests of a verdict take more where Holm over r and the panel
        asks for smaller p-values than these can give
    runs, rows : models of each run, and the rows found and expected, copied into the result; no times, no paths
    control_benchmark : name of a benchmark of held-out items of the same models
    calibration : the table of `audit calibrate`
    references : by (model, benchmark), another model's outcomes from the same router messages

    Same cells, texts and seed give the same result. A cell's randomness comes from the seed and its own name: another
    model in the panel changes corrections, the run variance and the number of permutations, and nothing else.
    """
    thresholds = thresholds or SweepThresholds()
    texts = texts or MeasuredTexts()
    tests = len(cells) * max((len(levels_of(c, Arm.NOISY_REWRITE)) for c in cells), default=1)
    shifts = run_shifts(cells, thresholds.run_sd_plausible)
    settings = SweepSettings(thresholds, seed, n_resamples, calibration, shifts=shifts, tests=tests)
    noise = (p for (p,) in holm_rows([[noise_floor_p(c)] for c in cells]))
    beside: list[Beside] = []
    injected: list[Any] = []
    for cell in cells:
        key = (cell.model, cell.benchmark)
        control, measures = _control_cell(cell, cells, control_benchmark), texts.measures.get(key)
        beside.append(Beside(cell, measures, control, (references or {}).get(key), next(noise)))
        rng, sent = cell_rng(seed, *key, "self_test"), texts.clean_sent.get(key)
        injected += self_test(cell, thresholds, rng=rng, texts=measures, clean_sent=sent)
    results = judge_cells(JUDGE, beside, settings)
    return RunVerdict(
        seed=seed,
        n_resamples=n_resamples,
        runs=tuple(dict(r) for r in runs),
        rows=tuple(rows),
        thresholds=thresholds.to_dict(),
        cells=tuple(cells),
        results=results,
        paper=_paper(cells, results),
        hypotheses=_hypotheses(cells, results, settings),
        calibration=min(results, key=lambda r: r.n_questions).calibration if results else None,
        self_test=tuple(injected),
    )


def _measure(beside: Beside, s: SweepSettings, rng: Generator) -> _Measured:
    again = partial(
        measure,
        beside.cell,
        without_leak=beside.without_leak,
        unaided=beside.unaided,
        shifts=cell_shifts(beside.cell, s.shifts),
        reference=beside.reference,
    )
    permutations = enough_permutations(s.tests, s.thresholds.alpha, s.n_resamples)
    try:
        return _Measured(again(rng=rng, n_resamples=s.n_resamples, n_permutations=permutations), "", again)
    except DataError as error:  # an arm was not run or has no answer: the verdict is withheld and says so
        return _Measured(None, str(error), again)


def _gates(case: _Case) -> tuple[Gate, ...]:
    beside, found, s = case.cell, case.evidence.found, case.settings
    limit = found.largest_compatible if found else None
    return all_gates(beside.cell, beside.texts, s.thresholds, limit, beside.noise_p, max(1, s.tests))


def _result(case: _Case) -> SweepResult:
    """The verdict on one cell, and all that is said of it."""
    beside, e, s = case.cell, case.evidence.found, case.settings
    cell, texts = beside.cell, beside.texts or TextMeasures()
    decision = _decided(case)
    tipping = _tipping(case, decision)
    contrasts = _contrasts(case)
    failing = (decision.gate,) if decision.gate else tuple(g.name for g in failed(case.gates))
    missing = not_run(cell.settings, referred=e is not None and e.hints is not None)
    reasons = (*decision.reasons, *decide.unparsed(e, tipping), *_further(case, decision, contrasts))
    head = decide.headline(cell.model, cell.benchmark, decision, e, failing)
    return SweepResult(
        model=cell.model,
        benchmark=cell.benchmark,
        decision=replace(decision, reasons=reasons),
        headline=sentence(head, TEXTS),
        gates=decide.asked_enough(case.gates, decision.verdict),
        evidence=e,
        p_adjusted=case.panel.excess,
        unparsed_tipping=tipping_said(tipping),
        contrasts=contrasts,
        controls_missing=sentences(missing, NOT_RUN),
        cannot_exclude=sentences(missing, CANNOT_EXCLUDE),
        by_routers=texts.by_routers,
        information=texts.slope,
        noise_floor=noise_floor(cell, rng=_rng(case, "noise"), alpha=s.thresholds.alpha, n_permutations=s.n_resamples),
        calibration=_calibration(case),
        n_questions=cell.n,
        routers=levels_of(cell, Arm.NOISY_REWRITE),
        reading=cell.reading,
        draws=cell.draws,
        sample_sizes={label(s): int(np.sum(cell.row(s) >= State.WRONG)) for s in cell.settings},
        states={state.name.lower(): int(np.sum(cell.state == state)) for state in State},
        **_figures(case),
        **_shares(case, decision.verdict, contrasts),
    )


def _decided(case: _Case) -> Decision:
    if case.evidence.found is None:
        why = Reason("not_comparable", {}, case.evidence.why)
        return Decision(Verdict.WITHHELD, grade((), ["not_comparable"]).grade, (why,), (because("run_both_arms"),))
    return decide.decide(case.evidence.found, case.gates, case.settings.thresholds, case.panel)


def _tipping(case: _Case, decided: Decision) -> float | None:
    """The largest odds ratio up to which unparsed answers leave an excess or a clearance as it is; None for another
    verdict, or where all were parsed."""
    e, thresholds = case.evidence.found, case.settings.thresholds
    if e is None or e.adverse is None or decided.verdict not in (Verdict.EXCESS, Verdict.NO_EXCESS):
        return None
    permutations = enough_permutations(case.settings.tests, thresholds.alpha, TIPPING_RESAMPLES)

    def holds(gamma: float) -> bool:
        if gamma <= DECIDE_AT:  # as it was decided
            return True
        again = case.evidence.again(
            rng=_rng(case, "tipping"), n_resamples=TIPPING_RESAMPLES, n_permutations=permutations, gamma=gamma
        )
        return decide.decide(again, case.gates, thresholds, case.panel).verdict == decided.verdict

    return tipping_point(holds)


def _contrasts(case: _Case) -> tuple[Contrast, ...]:
    if case.evidence.found is None:
        return ()
    sound = case.cell.without_leak
    return contrast_rows(
        case.cell.cell,
        case.evidence.found,
        keep=None if sound is None else np.all(sound, axis=0),
        control=case.cell.control,
        rng=_rng(case, "contrasts"),
        n_resamples=case.settings.n_resamples,
    )


def _further(case: _Case, decision: Decision, contrasts: Sequence[Contrast]) -> tuple[Reason, ...]:
    """What is said beside the reasons for the verdict."""
    e = case.evidence.found
    said = decide.held_out(contrasts) if decision.verdict in (Verdict.EXCESS, Verdict.UNCONTROLLED) else ()
    if e is not None and decision.verdict != Verdict.WITHHELD:
        said += decide.shifts_said(e.shifts, repeated=e.repeated)
    return said


def _calibration(case: _Case) -> Calibration | None:
    cell, e = case.cell.cell, case.evidence.found
    if e is None:
        return None
    run = design_of(cell, e.clean_accuracy, e.discordance, case.panel.cells)
    run = replace(run, noisy_replicates=2 if e.repeated else 1)
    clusters = int(np.unique(cell.cluster).size)
    return nearest(case.settings.table, run, clusters, case.settings.thresholds.to_dict())


def _figures(case: _Case) -> dict[str, Any]:
    """Figures of a cell that could be compared; else those of `SweepResult`, which are none."""
    e = case.evidence.found
    if e is None:
        return {}
    c, k, mean = e.clean, e.clean.best, e.clean.mean
    gain, low, high = (float(one[k]) for one in (c.gain, c.low, c.high))
    return {
        "effect": Effect(c.routers[k], gain, low, high, mean.estimate, mean.low, mean.high),
        "p_value": e.p_value,
        "largest_compatible_gain": e.largest_compatible,
        "run_sd": float(np.sqrt(e.shifts.used[1])),
        "run_sd_df": e.shifts.controls.df,
        "noisy_run_sd": float(np.sqrt(e.shifts.tested(repeated=e.repeated)[0])),
        "noisy_run_sd_df": e.shifts.noisy.df,
        "worst_case_gain": e.worst_case,
        "slope": _slope(case),
    }


def _shares(case: _Case, verdict: Verdict, contrasts: Sequence[Contrast]) -> dict[str, Any]:
    """The score, and the shares of it above chance that gains and the gap to held-out questions leave."""
    e, chance = case.evidence.found, chance_level(case.cell.cell.n_options)
    score, beyond = e.score if e else None, None
    if e is not None and verdict != Verdict.WITHHELD:
        beyond = share_left(score, chance, e.largest_compatible)
    gap = next((c.ci_high for c in contrasts if c.name == "score_gap"), None)
    credibility = share_left(score, chance, gap)
    return {
        "score": score,
        "chance": chance,
        "share_beyond_gains": beyond,
        "credibility": credibility,
        "credibility_category": category(credibility, case.settings.thresholds),
    }


def share_left(score: float | None, chance: float, taken: float | None) -> float | None:
    """Share of the score above chance that stays when `taken` (0-1) is taken off, cut to 0-1. None where the score is
    not above chance, or nothing bounds what is to be taken off."""
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


def _slope(case: _Case) -> Slope | None:
    cell = case.cell.cell
    sweep = sweep_of(cell).answered()
    if len(sweep.routers) < 2:
        return None
    found = paper.sensitivity_slope(sweep, rng=_rng(case, "slope"), n_resamples=case.settings.n_resamples)
    few = not can_reject(np.unique(sweep.cluster).size, 1 - CONFIDENCE)  # their resamples show no spread to speak of
    trend = "rises" if found.low > 0 else "falls" if found.high < 0 else "flat"
    how = "few_groups" if few else trend
    said = because(f"slope_{how}", slope=found.estimate, low=found.low, high=found.high)
    low, high = (None, None) if few else (found.low, found.high)
    return Slope(found.estimate, low, high, sentence(said, TEXTS))


def _paper(cells: Sequence[CellOutcomes], results: Sequence[SweepResult]) -> dict[str, list[Any]]:
    """The paper's own tables, of the cells that could be compared."""
    compared = [sweep_of(c) for c, r in zip(cells, results, strict=True) if r.evidence is not None]
    rows = [row for sweep in compared for row in paper.setting_rows(sweep.answered())]
    return {
        "model_summary": paper.model_summary(rows), "router_summary": paper.router_summary(rows), "cells": rows,
    }  # fmt: skip


def _hypotheses(
    cells: Sequence[CellOutcomes], results: Sequence[SweepResult], s: SweepSettings
) -> tuple[Hypothesis, ...]:
    """Over the cells whose verdict is not withheld: what failed a gate says nothing about a hypothesis either."""
    alpha, both = s.thresholds.alpha, zip(cells, results, strict=True)
    judged = [(cell, r, r.evidence) for cell, r in both if r.evidence and r.verdict != Verdict.WITHHELD]
    # H1 is the verdicts' own conjunction over controls: other p-values could contradict them.
    tests = {f"{r.model} on {r.benchmark}": e.p_value for _, r, e in judged}
    excess = [f"{r.model} on {r.benchmark}" for r in results if r.verdict == Verdict.EXCESS]
    sweeps = [sweep_of(cell) for cell, _, _ in judged]
    benchmarks = sorted({one.benchmark for one in sweeps})
    found = [_tested("H1", paper.h1_any_excess, tests, excess, alpha=alpha)]
    for benchmark in benchmarks or [""]:  # models are compared on the same questions
        name = f"H2 on {benchmark}" if len(benchmarks) > 1 else "H2"
        there = [one for one in sweeps if one.benchmark == benchmark]
        found.append(_tested(name, paper.h2_heterogeneity, there, alpha=alpha))
    how = {"rng": np.random.default_rng([s.seed, 1]), "n_permutations": s.n_resamples, "alpha": alpha}
    return (*found, _tested("H3", paper.h3_direction, sweeps, **how))


def _tested(name: str, test: Callable[..., paper.HypothesisResult], *of: Any, **how: Any) -> Hypothesis:
    try:
        found = test(*of, **how)
    except DataError as error:  # one model, one r: the hypothesis cannot be tested, which is a finding to print
        return Hypothesis(name, None, None, sentence(because("not_tested", name=name, error=error), TEXTS))
    return Hypothesis(name, found.pvalue, found.effect, sentence(found.reason, TEXTS))


def _control_cell(cell: CellOutcomes, cells: Sequence[CellOutcomes], benchmark: str | None) -> CellOutcomes | None:
    if benchmark is None or cell.benchmark == benchmark:
        return None
    for one in cells:
        if (one.model, one.benchmark) == (cell.model, benchmark):
            return one
    raise DataError(
        f"No outcomes of {cell.model} on the control benchmark {benchmark!r}. Benchmarks of this panel: "
        f"{', '.join(sorted({c.benchmark for c in cells}))}."
    )


def _rng(case: _Case, purpose: str) -> Generator:
    return cell_rng(case.settings.seed, case.cell.cell.model, case.cell.cell.benchmark, purpose)


JUDGE = Judge(
    name=lambda beside: (beside.cell.model, beside.cell.benchmark, "evidence"),
    measure=_measure,
    over_panel=lambda panel: decide.over_panel([one.found for one in panel]),
    gates=_gates,
    result=_result,
    shipped="calibration.json",
)


NEAR = 1.0  # the largest distance at which a design is called near: twice the questions and half the discordance, say


def nearest(
    table: Mapping[str, Any] | None,
    run: Design,
    clusters: int | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """The clean-world design with the smallest distance; none near is said, with no rates, where it is above NEAR.

    The distance is that of logarithms and shares; n stands for the number of clusters where questions are grouped.
    None where there is no table. thresholds: of the run; those that are not the table's are named.
    """
    units = min(clusters or run.n, run.n)

    def distance(d: Mapping[str, Any]) -> float:
        far = apart(units, d["n"]) + apart(run.routers, d["routers"]) / 2 + apart(run.panel, d["panel"]) / 4
        far += 0.5 * (d["draws"] != run.draws) + 0.5 * ((d["clean_replicates"] > 1) != (run.clean_replicates > 1))
        far += 0.5 * ((d["noisy_replicates"] > 1) != (run.noisy_replicates > 1))
        far += 2 * abs(run.clean_accuracy - d["clean_accuracy"])
        return far + apart(run.discordance, d["discordance"], 1e-3) / 2

    of = f"{units} {'questions' if units == run.n else 'groups of questions'}"
    none_near = (
        f"No calibrated design is near: {of}, {run.routers} router counts, {run.draws} draws, clean accuracy "
        f"{percent(run.clean_accuracy)}, discordance {percent(run.discordance)}, panel of {run.panel}. Measure your "
        "own: audit calibrate --observed RUN_DIR."
    )
    return nearest_design(table, distance, NEAR, sentence=rates_said, none_near=none_near, thresholds=thresholds)


def rates_said(entry: Mapping[str, Any]) -> str:
    """The rates of one design in words: both errors, then what it finds."""
    d, r = entry["design"], entry["rates"]
    runs, noisy = d["clean_replicates"], d["noisy_replicates"]
    text = (
        f"Nearest calibrated design: {d['n']} questions, {d['routers']} router counts, {d['draws']} draws, {runs} "
        f"clean and {noisy} noisy {'replicate' if noisy == 1 else 'replicates'}, accuracy "
        f"{percent(d['clean_accuracy'])}, both controls and a hint reference. "
        f"False positives: of models that noise does nothing for, this procedure calls {told(r, 'clean_excess')} an "
        f"excess (the paper's rule: {told(r, 'clean_paper_model')}). False negatives: of models that noise lifts by 5 "
        f"points at one router count, it clears {told(r, 'gain_one_r_cleared')}. It clears "
        f"{told(r, 'clean_cleared')} of the former"
    )
    powers = [(g, r[k]) for g, k in ((5, "gain_5_excess"), (10, "gain_10_excess")) if r.get(k) is not None]
    if powers:
        text += f", and finds a true gain of {', '.join(f'{g} points in {percent(v)}' for g, v in powers)} of models"
    text += "."
    if r.get("clean_coverage_mean") is not None:
        held = f"{percent(r['clean_coverage_gain'])} (per r) and {percent(r['clean_coverage_mean'])} (mean over r)"
        text += f" Its 95 % intervals held the truth in {held}."
    return text + " None of these models remembers in a way that helps intact and damaged questions alike."
