"""Judge every cell (model and benchmark) of a panel.

The module does no I/O: its caller reads the shards and writes the files.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from audit.core.errors import DataError
from audit.core.number_text import percent
from audit.core.records import CellRows
from audit.judge.record import Case, Judge, Settings, cell_rng, holm_rows, judge_cells
from audit.judging.ladder import grade
from audit.judging.result import Calibration, Gate, Reason, because, failed, sentence, sentences
from audit.judging.shipped import apart, nearest_design
from audit.judging.simulated import rate_text
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
from audit.sweep.texts import tipping as tipping_text
from audit.sweep.vocabulary import (
    Contrast,
    Decision,
    Effect,
    Hypothesis,
    RunVerdict,
    Slope,
    SweepResult,
    Verdict,
)

TIPPING_RESAMPLES = 999


@dataclass(frozen=True)
class SweepSettings(Settings[SweepThresholds]):
    """Hold the settings with which all cells of a panel are judged.

    Attributes
    ----------
    shifts : RunShifts
        The variances of the shifts that whole runs have in common, estimated over the panel.
    tests : int
        The number of tests of the panel: the number of cells multiplied by the largest number of
        router counts of a cell.
    """

    shifts: RunShifts = field(kw_only=True)
    tests: int = field(kw_only=True)


@dataclass(frozen=True)
class CellInputs:
    """Hold the data from which one cell is judged.

    Attributes
    ----------
    cell : CellOutcomes
        The outcomes.
    texts : TextMeasures or None
        The measures of the cell's router messages and prompts.
    control : CellOutcomes or None
        The same model on the control benchmark.
    reference : CellOutcomes or None
        Another model that answered from the same messages.
    noise_p : float or None
        The p-value of `noise_floor_p`, corrected by Holm's procedure over the panel.
    """

    cell: CellOutcomes
    texts: TextMeasures | None
    control: CellOutcomes | None
    reference: CellOutcomes | None
    noise_p: float | None

    @property
    def without_leak(self) -> BoolArray | None:
        """Mark the questions whose noisy messages do not state the answer.

        Returns
        -------
        array (R, n) of bool or None
            One row for each router count; None if no message states the answer.
        """
        if self.texts is None or not self.texts.leaks:
            return None
        return self._outside(self.texts.leaks)

    @property
    def unaided(self) -> BoolArray | None:
        """Mark the questions for which no message of a control states an answer.

        The controls here are the clean baseline, and the ensemble control at the same router count.

        Returns
        -------
        array (R, n) of bool or None
            One row for each router count; None if no message states an answer.
        """
        if self.texts is None or not self.texts.aided:
            return None
        aided = set(self.texts.aided)
        for routers, question in self.texts.aided:
            # The clean baseline (r=1) is compared with the noisy arm at every r.
            if routers == 1:
                aided.update((r, question) for r in levels_of(self.cell, Arm.NOISY_REWRITE))
        return self._outside(aided)

    def _outside(self, excluded: Collection[tuple[int, str]]) -> BoolArray:
        """Return an array (R, n) that is False for the excluded (router count, question)."""
        counts = levels_of(self.cell, Arm.NOISY_REWRITE)
        outside = np.ones((len(counts), self.cell.n), dtype=bool)
        for row, r in enumerate(counts):
            outside[row] = [(r, question) not in excluded for question in self.cell.question_ids]
        return outside


@dataclass(frozen=True)
class _Measured:
    """Hold the evidence of a cell or, without evidence, the reason why (`why`).

    `remeasure` is a function that computes the evidence again, for another number of resamples and
    another gamma (odds ratio of unparsed answers).
    """

    evidence: Evidence | None
    why: str
    remeasure: Callable[..., Evidence]


_CellAnalysis = Case[CellInputs, _Measured, Corrected]


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
    """Judge every cell of one run, or of several runs merged into one panel.

    Parameters
    ----------
    cells : sequence of CellOutcomes
        The outcomes, as `shards.cells` pairs them. If the cells also contain the answers, the
        self-test can shift the gold labels.
    texts : MeasuredTexts, optional
        Measures of the router messages and worker prompts.
    thresholds : SweepThresholds, optional
        The thresholds; the defaults if None.
    seed : int
        Seed of all resamples. The random numbers of a cell depend on the seed and the cell's name.
    n_resamples : int
        Size of every bootstrap and permutation test. The tests of a verdict use more permutations
        if Holm's correction over r and the panel needs p-values smaller than 1 / (n_resamples + 1).
    runs : sequence of mapping
        The models of each run, which are copied into the result.
    rows : sequence of CellRows
        The numbers of rows stored and expected, which are copied into the result.
    control_benchmark : str, optional
        Name of a benchmark of held-out items of the same models.
    calibration : mapping, optional
        The table of `audit calibrate`.
    references : mapping, optional
        Maps (model, benchmark) to the outcomes of another model that answered from the same router
        messages.

    Returns
    -------
    RunVerdict
        The verdicts of all cells. Equal cells, texts and seed give an equal result.

    Raises
    ------
    DataError
        If a model has no outcomes on the control benchmark.

    Notes
    -----
    If a model is added to the panel, three things change for the other models: the correction for
    multiple tests, the run variance, and the number of permutations.
    """
    thresholds = thresholds or SweepThresholds()
    texts = texts or MeasuredTexts()
    router_counts = [len(levels_of(cell, Arm.NOISY_REWRITE)) for cell in cells]
    tests = len(cells) * max(router_counts, default=1)
    shifts = run_shifts(cells, thresholds.run_sd_plausible)
    settings = SweepSettings(thresholds, seed, n_resamples, calibration, shifts=shifts, tests=tests)
    noise_p = holm_rows([[noise_floor_p(cell)] for cell in cells])
    inputs: list[CellInputs] = []
    injected: list[Any] = []
    for cell, (cell_noise_p,) in zip(cells, noise_p, strict=True):
        key = (cell.model, cell.benchmark)
        control = _control_cell(cell, cells, control_benchmark)
        measures, sent = texts.measures.get(key), texts.clean_sent.get(key)
        reference = (references or {}).get(key)
        inputs.append(CellInputs(cell, measures, control, reference, cell_noise_p))
        rng = cell_rng(seed, *key, "self_test")
        injected += self_test(cell, thresholds, rng=rng, texts=measures, clean_sent=sent)
    results = judge_cells(JUDGE, inputs, settings)
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


def _measure(inputs: CellInputs, s: SweepSettings, rng: Generator) -> _Measured:
    remeasure = partial(
        measure,
        inputs.cell,
        without_leak=inputs.without_leak,
        unaided=inputs.unaided,
        shifts=cell_shifts(inputs.cell, s.shifts),
        reference=inputs.reference,
    )
    permutations = enough_permutations(s.tests, s.thresholds.alpha, s.n_resamples)
    try:
        evidence = remeasure(rng=rng, n_resamples=s.n_resamples, n_permutations=permutations)
    # If the clean or the noisy arm was not run or has no answer, the verdict is withheld, and the
    # error states the reason.
    except DataError as error:
        return _Measured(None, str(error), remeasure)
    return _Measured(evidence, "", remeasure)


def _gates(case: _CellAnalysis) -> tuple[Gate, ...]:
    inputs, evidence, s = case.cell, case.evidence.evidence, case.settings
    limit = evidence.largest_compatible if evidence else None
    return all_gates(
        inputs.cell, inputs.texts, s.thresholds, limit, inputs.noise_p, max(1, s.tests)
    )


def _result(case: _CellAnalysis) -> SweepResult:
    """Return the verdict on one cell with its estimates."""
    inputs, e, s = case.cell, case.evidence.evidence, case.settings
    cell, texts = inputs.cell, inputs.texts or TextMeasures()
    contrasts = _contrasts(case)
    held = decide.held_out(contrasts)
    decision = _decided(case, held)
    tipping = _tipping(case, decision, held)
    failing = (decision.gate,) if decision.gate else tuple(g.name for g in failed(case.gates))
    missing = not_run(cell.settings, referred=e is not None and e.hints is not None)
    reasons = (
        *decision.reasons,
        *decide.unparsed(e, tipping),
        *_further_reasons(case, decision, held),
    )
    head = decide.headline(cell.model, cell.benchmark, decision, e, failing)
    sample_sizes = {}
    for setting in cell.settings:
        sample_sizes[label(setting)] = int(np.sum(cell.row(setting) >= State.WRONG))
    state_counts = {}
    for state in State:
        state_counts[state.name.lower()] = int(np.sum(cell.state == state))
    return SweepResult(
        model=cell.model,
        benchmark=cell.benchmark,
        decision=replace(decision, reasons=reasons),
        headline=sentence(head, TEXTS),
        gates=decide.asked_enough(case.gates, decision.verdict),
        evidence=e,
        p_adjusted=case.panel.excess,
        unparsed_tipping=tipping_text(tipping),
        contrasts=contrasts,
        controls_missing=sentences(missing, NOT_RUN),
        cannot_exclude=sentences(missing, CANNOT_EXCLUDE),
        by_routers=texts.by_routers,
        information=texts.slope,
        noise_floor=noise_floor(
            cell, rng=_rng(case, "noise"), alpha=s.thresholds.alpha, n_permutations=s.n_resamples
        ),
        calibration=_calibration(case),
        n_questions=cell.n,
        routers=levels_of(cell, Arm.NOISY_REWRITE),
        reading=cell.reading,
        draws=cell.draws,
        sample_sizes=sample_sizes,
        states=state_counts,
        **_figures(case),
        **_shares(case, decision.verdict, contrasts),
    )


def _decided(case: _CellAnalysis, held: Sequence[Reason]) -> Decision:
    if case.evidence.evidence is None:
        why = Reason("not_comparable", {}, case.evidence.why)
        return Decision(
            Verdict.WITHHELD,
            grade((), ["not_comparable"]).grade,
            (why,),
            (because("run_both_arms"),),
        )
    e, thresholds = case.evidence.evidence, case.settings.thresholds
    return decide.decide(e, case.gates, thresholds, case.panel, held)


def _tipping(case: _CellAnalysis, decided: Decision, held: Sequence[Reason]) -> float | None:
    """Return the largest odds ratio gamma of unparsed answers with an unchanged verdict.

    gamma states how far unparsed answers may differ from their predictions
    (`audit.statistics.unparsed`). The result is None if the verdict is neither an excess nor a
    clearance, or if all answers were parsed.
    """
    e, thresholds = case.evidence.evidence, case.settings.thresholds
    if e is None or e.adverse is None or decided.verdict not in (Verdict.EXCESS, Verdict.NO_EXCESS):
        return None
    permutations = enough_permutations(case.settings.tests, thresholds.alpha, TIPPING_RESAMPLES)

    def holds(gamma: float) -> bool:
        if gamma <= DECIDE_AT:  # The verdict itself was reached with this gamma.
            return True
        rng = _rng(case, "tipping")
        imputed = case.evidence.remeasure(
            rng=rng, n_resamples=TIPPING_RESAMPLES, n_permutations=permutations, gamma=gamma
        )
        again = decide.decide(imputed, case.gates, thresholds, case.panel, held)
        return again.verdict == decided.verdict

    return tipping_point(holds)


def _contrasts(case: _CellAnalysis) -> tuple[Contrast, ...]:
    if case.evidence.evidence is None:
        return ()
    without_leak = case.cell.without_leak
    return contrast_rows(
        case.cell.cell,
        case.evidence.evidence,
        keep=None if without_leak is None else np.all(without_leak, axis=0),
        control=case.cell.control,
        rng=_rng(case, "contrasts"),
        n_resamples=case.settings.n_resamples,
    )


def _further_reasons(
    case: _CellAnalysis, decision: Decision, held: Sequence[Reason]
) -> tuple[Reason, ...]:
    """Return the verdict's reasons about held-out questions and about shifts of whole runs."""
    e = case.evidence.evidence
    reasons: tuple[Reason, ...] = ()
    if decision.verdict in (Verdict.EXCESS, Verdict.UNCONTROLLED):
        reasons = tuple(reason for reason in held if reason not in decision.reasons)
    if e is not None and decision.verdict != Verdict.WITHHELD:
        reasons += decide.shift_reasons(e.shifts, repeated=e.repeated)
    return reasons


def _calibration(case: _CellAnalysis) -> Calibration | None:
    cell, e = case.cell.cell, case.evidence.evidence
    if e is None:
        return None
    run = design_of(cell, e.clean_accuracy, e.discordance, case.panel.cells)
    run = replace(run, noisy_replicates=2 if e.repeated else 1)
    clusters = int(np.unique(cell.cluster).size)
    return nearest(case.settings.table, run, clusters, case.settings.thresholds.to_dict())


def _figures(case: _CellAnalysis) -> dict[str, Any]:
    """Return the estimates of a compared cell as fields of `SweepResult`. An empty dict leaves the
    default values of the fields."""
    e = case.evidence.evidence
    if e is None:
        return {}
    c, k, mean = e.clean, e.clean.best, e.clean.mean
    gain, low, high = float(c.gain[k]), float(c.low[k]), float(c.high[k])
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


def _shares(case: _CellAnalysis, verdict: Verdict, contrasts: Sequence[Contrast]) -> dict[str, Any]:
    """Return the score, and the share of the score that remains after each of two deductions.

    The first deduction is the upper confidence limit of the gain. The second deduction is the upper
    confidence limit of the gap to held-out questions.
    """
    e, chance = case.evidence.evidence, chance_level(case.cell.cell.n_options)
    score, beyond = e.score if e else None, None
    if e is not None and verdict != Verdict.WITHHELD:
        beyond = share_left(score, chance, e.largest_compatible)
    gap_limits = []
    for contrast in contrasts:
        if contrast.name == "score_gap":
            gap_limits.append(contrast.ci_high)
    credibility = share_left(score, chance, gap_limits[0] if gap_limits else None)
    return {
        "score": score,
        "chance": chance,
        "share_beyond_gains": beyond,
        "credibility": credibility,
        "credibility_category": category(credibility, case.settings.thresholds),
    }


def share_left(score: float | None, chance: float, taken: float | None) -> float | None:
    """Return the share of the score above chance that remains after a deduction.

    Parameters
    ----------
    score : float or None
        Accuracy, 0-1.
    chance : float
        Accuracy of a guesser, 0-1.
    taken : float or None
        The deduction, 0-1; a negative one counts as 0.

    Returns
    -------
    float or None
        The share, 0-1. None if the score is not above chance or the deduction has no bound.

    Examples
    --------
    >>> share_left(0.75, 0.25, 0.1)
    0.8
    """
    if score is None or taken is None or not np.isfinite(taken) or score <= chance:
        return None
    return float(np.clip(1 - max(taken, 0.0) / (score - chance), 0, 1))


def category(credibility: float | None, thresholds: SweepThresholds) -> str:
    """Return the class of a credibility: high, moderate or low.

    Parameters
    ----------
    credibility : float or None
        The share of the score above chance, 0-1.
    thresholds : SweepThresholds
        The limits of the classes.

    Returns
    -------
    str
        "high", "moderate" or "low"; "none" if the credibility is None.
    """
    if credibility is None:
        return "none"
    if credibility >= thresholds.credibility_high:
        return "high"
    return "moderate" if credibility >= thresholds.credibility_moderate else "low"


def _slope(case: _CellAnalysis) -> Slope | None:
    cell = case.cell.cell
    sweep = sweep_of(cell).answered()
    if len(sweep.routers) < 2:
        return None
    slope = paper.sensitivity_slope(
        sweep, rng=_rng(case, "slope"), n_resamples=case.settings.n_resamples
    )
    # With few groups, a bootstrap over groups underestimates the standard error of the slope.
    few_groups = not can_reject(np.unique(sweep.cluster).size, 1 - CONFIDENCE)
    if few_groups:
        trend = "few_groups"
    elif slope.low > 0:
        trend = "rises"
    else:
        trend = "falls" if slope.high < 0 else "flat"
    reason = because(f"slope_{trend}", slope=slope.estimate, low=slope.low, high=slope.high)
    low, high = (None, None) if few_groups else (slope.low, slope.high)
    return Slope(slope.estimate, low, high, sentence(reason, TEXTS))


def _paper(cells: Sequence[CellOutcomes], results: Sequence[SweepResult]) -> dict[str, list[Any]]:
    """Compute the tables of the paper from the compared cells."""
    rows: list[paper.SettingRow] = []
    for cell, result in zip(cells, results, strict=True):
        if result.evidence is not None:
            rows += paper.setting_rows(sweep_of(cell).answered())
    return {
        "model_summary": paper.model_summary(rows),
        "router_summary": paper.router_summary(rows),
        "cells": rows,
    }


def _hypotheses(
    cells: Sequence[CellOutcomes], results: Sequence[SweepResult], s: SweepSettings
) -> tuple[Hypothesis, ...]:
    """Test the paper's hypotheses H1 to H3 over the cells whose verdict is not withheld.

    A cell that failed a gate cannot support a hypothesis.
    """
    alpha = s.thresholds.alpha
    # H1 is tested with the p-values of the verdicts, since other p-values could contradict the
    # verdicts.
    pvalues: dict[str, float] = {}
    sweeps = []
    for cell, result in zip(cells, results, strict=True):
        if result.evidence and result.verdict != Verdict.WITHHELD:
            pvalues[f"{result.model} on {result.benchmark}"] = result.evidence.p_value
            sweeps.append(sweep_of(cell))
    excess = []
    for r in results:
        if r.verdict == Verdict.EXCESS:
            excess.append(f"{r.model} on {r.benchmark}")
    benchmarks = sorted({sweep.benchmark for sweep in sweeps})
    hypotheses = [_tested("H1", paper.h1_any_excess, pvalues, excess, alpha=alpha)]
    for benchmark in benchmarks or [""]:  # H2 compares models on the same questions.
        name = f"H2 on {benchmark}" if len(benchmarks) > 1 else "H2"
        same_benchmark = []
        for sweep in sweeps:
            if sweep.benchmark == benchmark:
                same_benchmark.append(sweep)
        hypotheses.append(_tested(name, paper.h2_heterogeneity, same_benchmark, alpha=alpha))
    options = {
        "rng": np.random.default_rng([s.seed, 1]),
        "n_permutations": s.n_resamples,
        "alpha": alpha,
    }
    return (*hypotheses, _tested("H3", paper.h3_direction, sweeps, **options))


def _tested(
    name: str, test: Callable[..., paper.HypothesisResult], *data: Any, **options: Any
) -> Hypothesis:
    try:
        result = test(*data, **options)
    # A hypothesis cannot be tested with one model or with one router count. The report then states
    # the reason.
    except DataError as error:
        return Hypothesis(
            name, None, None, sentence(because("not_tested", name=name, error=error), TEXTS)
        )
    return Hypothesis(name, result.pvalue, result.effect, sentence(result.reason, TEXTS))


def _control_cell(
    cell: CellOutcomes, cells: Sequence[CellOutcomes], benchmark: str | None
) -> CellOutcomes | None:
    if benchmark is None or cell.benchmark == benchmark:
        return None
    for other in cells:
        if (other.model, other.benchmark) == (cell.model, benchmark):
            return other
    known = sorted({c.benchmark for c in cells})
    raise DataError(
        f"The control benchmark {benchmark!r} has no outcomes of {cell.model}. Expected a benchmark of this panel: "
        f"{', '.join(known)}."
    )


def _rng(case: _CellAnalysis, purpose: str) -> Generator:
    return cell_rng(case.settings.seed, case.cell.cell.model, case.cell.cell.benchmark, purpose)


JUDGE = Judge(
    name=lambda inputs: (inputs.cell.model, inputs.cell.benchmark, "evidence"),
    measure=_measure,
    over_panel=lambda panel: decide.over_panel([measured.evidence for measured in panel]),
    gates=_gates,
    result=_result,
    shipped="calibration.json",
)


# The rates of a calibrated design are quoted for a run only up to this distance between the design
# and the run. For example, a design with twice as many questions and half the discordance has about
# this distance.
NEAR = 1.0


def nearest(
    table: Mapping[str, Any] | None,
    run: Design,
    clusters: int | None = None,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """Return the error rates of the calibrated design that is most similar to a run.

    Parameters
    ----------
    table : mapping or None
        The table of `audit calibrate`.
    run : Design
        The design of the run.
    clusters : int, optional
        Number of clusters, which replaces n if questions are grouped.
    thresholds : mapping, optional
        Thresholds of the run. The result names the thresholds that differ from the table's.

    Returns
    -------
    Calibration or None
        The rates of the nearest design. The rates are left out if its distance is above NEAR. None
        without a table.

    Notes
    -----
    The distance is a sum of two kinds of terms:

    - absolute log ratios: of the numbers of questions, of router counts and of models, and of the
      discordance;
    - absolute differences of the quantities that are shares.
    """
    units = min(clusters or run.n, run.n)

    def distance(d: Mapping[str, Any]) -> float:
        total = (
            apart(units, d["n"])
            + apart(run.routers, d["routers"]) / 2
            + apart(run.panel, d["panel"]) / 4
        )
        total += 0.5 * (d["draws"] != run.draws) + 0.5 * (
            (d["clean_replicates"] > 1) != (run.clean_replicates > 1)
        )
        total += 0.5 * ((d["noisy_replicates"] > 1) != (run.noisy_replicates > 1))
        total += 2 * abs(run.clean_accuracy - d["clean_accuracy"])
        return total + apart(run.discordance, d["discordance"], 1e-3) / 2

    size = f"{units} {'questions' if units == run.n else 'groups of questions'}"
    none_near = (
        f"No calibrated design is near: {size}, {run.routers} router counts, {run.draws} draws, clean accuracy "
        f"{percent(run.clean_accuracy)}, discordance {percent(run.discordance)}, panel of {run.panel}. Measure "
        "the rates of this design: audit calibrate --observed RUN_DIR."
    )
    return nearest_design(
        table, distance, NEAR, sentence=rates_sentence, none_near=none_near, thresholds=thresholds
    )


def rates_sentence(entry: Mapping[str, Any]) -> str:
    """Describe one calibrated design: false positive and false negative rates, then power.

    Parameters
    ----------
    entry : mapping
        An entry of the table, with `design` and `rates`.

    Returns
    -------
    str
        Several sentences.
    """
    d, r = entry["design"], entry["rates"]
    runs, noisy = d["clean_replicates"], d["noisy_replicates"]
    text = (
        f"Nearest calibrated design: {d['n']} questions, {d['routers']} router counts, {d['draws']} draws, {runs} "
        f"clean and {noisy} noisy {'replicate' if noisy == 1 else 'replicates'}, accuracy "
        f"{percent(d['clean_accuracy'])}, both controls and a hint reference. "
        "False positives: of models whose accuracy noise does not change, this procedure calls "
        f"{rate_text(r, 'clean_excess')} an excess (the paper's rule: {rate_text(r, 'clean_paper_model')}). "
        "False negatives: of models that gain 5 points from noise at one router count, it clears "
        f"{rate_text(r, 'gain_one_r_cleared')}. It clears {rate_text(r, 'clean_cleared')} of the models that "
        "noise does not change"
    )
    powers = []
    for gain, rate in ((5, "gain_5_excess"), (10, "gain_10_excess")):
        if r.get(rate) is not None:
            powers.append(f"{gain} points in {percent(r[rate])}")
    if powers:
        text += f", and finds a true gain of {', '.join(powers)} of models"
    text += "."
    if r.get("clean_coverage_mean") is not None:
        coverage = f"{percent(r['clean_coverage_gain'])} (per r) and {percent(r['clean_coverage_mean'])} (mean over r)"
        text += f" Its 95 % intervals contained the true gain in {coverage}."
    return text + " No simulated model has memory that helps intact and damaged questions alike."
