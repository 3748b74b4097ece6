"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `measure`.

Comparisons, each over all r at once: noisy against the clean baseline, against `direct`, and against the ensemble
control at the same r; and the ensemble control against the clean baseline. Each gives one family-wise p and step-down
adjusted p per r (max-statistic permutation). Replicates of a setting are all used, by estimates, intervals and tests.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.errors import DataError
from audit.statistics.chance import chance_level
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray, State
from audit.statistics.permutation import can_reject, max_statistic_exchange
from audit.statistics.power import discordance_of, minimum_detectable_gain
from audit.statistics.resampling import Interval, Resamples, bootstrap_sweep, expansion
from audit.statistics.values import Sweep, average, replicates_of, runs_of, sweep_of
from audit.sweep.design import Arm
from audit.verdict.thresholds import Thresholds

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """One arm minus another, at R router counts over the same questions.

    gain, pvalues, adjusted, low, high: (R,). low and high are simultaneous: they hold for all r together with 95 %.
    pointwise: one BCa interval a router count. mean: the gain averaged over r, with its interval. family_p: one p for
    "any r". improve, degrade: (R,) counts, fractions where replicates were averaged. n: (R,) pairs with both answers.
    p-values are one-sided.
    """

    routers: tuple[int, ...]
    n: IntArray
    gain: FloatArray
    low: FloatArray
    high: FloatArray
    pointwise: tuple[Interval, ...]
    mean: Interval
    family_p: float
    pvalues: FloatArray
    adjusted: FloatArray
    improve: FloatArray
    degrade: FloatArray

    @property
    def best(self) -> int:
        """Index of the router count with the largest gain."""
        return int(np.nanargmax(self.gain))


@dataclass(frozen=True)
class Evidence:
    """Everything that `decide` looks at, apart from the gates. A comparison is None where its control was not run.

    without_leak: against clean, each r without the questions of which a noisy message at that r states the answer; None
    when there are no leaks or nothing is left. mde: smallest detectable gain (NaN: none). Accuracies are 0-1.
    ensemble_gain: the ensemble control against clean, for what repetition alone gains. adverse: against clean with
    every reply that could not be read held against an excess (noisy ones wrong, clean ones right); None when all were.
    """

    clean: Comparison
    direct: Comparison | None
    ensemble: Comparison | None
    without_leak: Comparison | None
    clean_accuracy: float
    direct_accuracy: float | None
    chance: float
    discordance: float
    mde: float
    ensemble_gain: Comparison | None = None
    adverse: Comparison | None = None

    @property
    def largest_compatible(self) -> float:
        """The upper end of the simultaneous interval, the largest over r; NaN without intervals.

        At least the share of questions that could all improve unseen: none of n improves with probability 2.5 % where
        it is 1 - 0.025^(1/n) of them, and there a bootstrap of few or no changes sees nothing.
        """
        high = self.clean.high[np.isfinite(self.clean.high)]
        unseen = 1 - ((1 - CONFIDENCE) / 2) ** (1 / max(int(self.clean.n.max()), 1))
        return max(float(high.max()), unseen) if high.size else float("nan")


def measure(
    cell: CellOutcomes,
    thresholds: Thresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    without_leak: BoolArray | None = None,
    mde: float | None = None,
    intervals: bool = True,
    panel: int = 1,
) -> Evidence:
    """All comparisons of one cell.

    without_leak: (n,), or (R, n) for each router count, true for questions without an answer leak. panel: cells over
    which the verdict is corrected; the detectable gain is that of the corrected test. mde: given by a caller that knows
    it (calibration), else computed from the observed discordance. intervals=False skips every bootstrap (their limits
    are then NaN).
    Raises DataError when the clean or the noisy arm was not run or shares no answered question.
    """
    sweep = sweep_of(cell)
    noisy, base = runs_of(cell, Arm.NOISY_REWRITE, sweep.routers), runs_of(cell, Arm.FORWARD_FULL, (1,))

    def against(runs: FloatArray, other: FloatArray, routers: tuple[int, ...] = sweep.routers) -> Comparison | None:
        if not np.any(~np.isnan(average(runs) - average(other))):
            return None
        return compare(runs, other, routers, sweep.cluster, rng=rng, n_resamples=n_resamples, intervals=intervals)

    clean = against(noisy, base)
    if clean is None:
        raise DataError("Not one question has an answer in both arms: nothing can be compared.")
    direct = ensemble = ensemble_gain = leakless = None
    direct_accuracy = None
    if replicates_of(cell, Arm.DIRECT, 0):
        original = runs_of(cell, Arm.DIRECT, (0,))
        direct_accuracy = float(np.nanmean(average(original))) if np.any(~np.isnan(original)) else None
        direct = against(noisy, original)
    shared = tuple(r for r in sweep.routers if replicates_of(cell, Arm.FORWARD_FULL, r))
    if any(r > 1 for r in shared):
        control = runs_of(cell, Arm.FORWARD_FULL, shared)
        ensemble = against(noisy[:, [sweep.routers.index(r) for r in shared]], control, shared)
        more = tuple(r for r in shared if r > 1)
        ensemble_gain = against(runs_of(cell, Arm.FORWARD_FULL, more), base, more)
    if without_leak is not None and not np.all(without_leak):
        leakless = against(np.where(without_leak, noisy, np.nan), base)
    adverse = None
    used = [s.arm == Arm.NOISY_REWRITE or (s.arm == Arm.FORWARD_FULL and s.routers == 1) for s in cell.settings]
    if np.isin(cell.state[used], (State.UNPARSED, State.TRUNCATED)).any():
        adverse = against(
            runs_of(cell, Arm.NOISY_REWRITE, sweep.routers, "wrong"), runs_of(cell, Arm.FORWARD_FULL, (1,), "right")
        )
    discordance = discordance_of(sweep.clean, sweep.noisy)
    return Evidence(
        clean=clean,
        direct=direct,
        ensemble=ensemble,
        without_leak=leakless,
        clean_accuracy=float(np.nanmean(sweep.clean)),
        direct_accuracy=direct_accuracy,
        chance=chance_level(cell.n_options),
        discordance=discordance,
        mde=detectable_gain(sweep, discordance, thresholds, panel) if mde is None else mde,
        ensemble_gain=ensemble_gain,
        adverse=adverse,
    )


def detectable_gain(sweep: Sweep, discordance: float, thresholds: Thresholds, panel: int = 1) -> float:
    """Minimum detectable gain of this sweep, each r tested at alpha / (2 R x panel).

    A bound for the max-statistic test, whose two-sided interval must lie above zero too, and Holm over the cells of a
    panel. It is the gain against the clean baseline alone, at one r.

    With clusters, n is divided by the design effect of the observed differences, so that 100 questions on five passages
    do not pass for 100 independent ones; with so few clusters that no flip of signs can reject, no gain is detectable.
    """
    difference = sweep.noisy - sweep.clean
    n = int(np.median(np.sum(~np.isnan(difference), axis=1)))
    if n < 1 or not can_reject(np.unique(sweep.cluster).size, thresholds.alpha / (2 * panel)):
        return float("nan")
    if np.unique(sweep.cluster).size < sweep.n:
        d = np.nan_to_num(average(difference))
        d = d - d.mean()
        summed = np.bincount(sweep.cluster, weights=d)
        effect = float(np.sum(summed**2) / np.sum(d**2)) if np.any(d) else 1.0
        n = max(int(n / max(effect, 1.0)), 1)
    return minimum_detectable_gain(
        n, discordance, alpha=thresholds.alpha / 2, n_tests=len(sweep.routers) * panel, power=thresholds.power
    )


def compare(
    runs: FloatArray,
    other: FloatArray,
    routers: tuple[int, ...],
    cluster: IntArray,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    intervals: bool = True,
) -> Comparison:
    """Runs (L, R, n) of one arm minus runs (K, R, n) or (K, 1, n) of another: 0, 1 or NaN, paired by question.

    A run that repeats another answer for answer adds nothing, and would not be an exchange for a run that differs: it
    is counted once.

    The bootstrap takes one shared baseline. A baseline of its own for each r is the same problem in the differences:
    1/2 + d/2 against 1/2 has half the difference and half the interval.

    Fewer than five clusters (one subject, say) get the limits -1 and 1: resampling them shows no spread to speak of,
    and the zero width of a single one would clear any model.
    """
    runs, other = _distinct(runs), _distinct(other)
    noisy, base = average(runs), average(other)
    d = noisy - base
    n = np.sum(~np.isnan(d), axis=1).astype(np.int64)
    half = np.full(d.shape[1], 0.5)
    test = max_statistic_exchange(runs, other, cluster, n_permutations=n_resamples, rng=rng)
    with np.errstate(invalid="ignore"):
        gain = np.nansum(d, axis=1) / np.where(n > 0, n, np.nan)
    nothing = Interval(float("nan"), float("nan"), float("nan"), CONFIDENCE, "bca", float("nan"))
    pointwise: tuple[Interval, ...] = (nothing,) * len(routers)
    mean = Interval(float(np.nanmean(gain)), float("nan"), float("nan"), CONFIDENCE, "bca", float("nan"))
    low = high = np.full(len(routers), np.nan)
    clusters = np.unique(cluster[np.any(~np.isnan(d), axis=0)]).size
    enough = can_reject(clusters, 1 - CONFIDENCE)
    if intervals and enough:
        draws = bootstrap_sweep(half, half + d / 2, cluster, routers=routers, n_resamples=n_resamples, rng=rng)
        pointwise = tuple(_doubled(i) for i in draws.gain.intervals(CONFIDENCE, units=clusters))
        mean = _doubled(draws.mean_gain.intervals(CONFIDENCE, units=clusters)[0])
        low, high = simultaneous(draws.gain, units=clusters)
        low, high = 2 * low, 2 * high
    elif intervals:
        pointwise = tuple(Interval(float(g), -1.0, 1.0, CONFIDENCE, "bca", float("nan")) for g in gain)
        mean = Interval(mean.estimate, -1.0, 1.0, CONFIDENCE, "bca", float("nan"))
        low, high = np.full(len(routers), -1.0), np.full(len(routers), 1.0)
    a, b = np.nan_to_num(noisy), np.nan_to_num(np.broadcast_to(base, noisy.shape))
    both = ~np.isnan(d)
    return Comparison(
        routers=routers,
        n=n,
        gain=gain,
        low=low,
        high=high,
        pointwise=pointwise,
        mean=mean,
        family_p=test.pvalue,
        pvalues=test.pvalues,
        adjusted=test.adjusted,
        improve=np.sum(np.where(both, a * (1 - b), 0), axis=1),
        degrade=np.sum(np.where(both, b * (1 - a), 0), axis=1),
    )


def _distinct(runs: FloatArray) -> FloatArray:
    """Without the runs (axis 0) that equal an earlier one everywhere, as those of a deterministic worker do."""
    kept: list[FloatArray] = []
    for run in runs:
        if not any(np.array_equal(run, one, equal_nan=True) for one in kept):
            kept.append(run)
    return np.stack(kept)


def simultaneous(
    gain: Resamples, confidence: float = CONFIDENCE, units: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Limits (R,), (R,) that hold for all R gains together: estimate +- c * se, widened for few units (`expansion`).

    c is the quantile over resamples of the largest |resample - estimate| / se (a bootstrap max-t interval; Romano &
    Wolf 2005, Econometrica 73). A gain whose resamples never move has limits equal to its estimate.
    """
    there = np.sum(np.isfinite(gain.draws), axis=0) > 1  # not so for an r without one answered pair
    se = np.full(gain.estimate.size, np.nan)
    se[there] = np.nanstd(gain.draws[:, there], axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(gain.draws - gain.estimate) / np.where(se > 0, se, np.nan)
    finite = np.where(np.isnan(t), -np.inf, t).max(axis=1)
    moved = finite[np.isfinite(finite)]
    c = float(np.quantile(moved, confidence)) if moved.size else 0.0
    c *= expansion(confidence, units)
    return gain.estimate - c * se, gain.estimate + c * se


def _doubled(i: Interval) -> Interval:
    return Interval(2 * i.estimate, 2 * i.low, 2 * i.high, i.confidence, i.method, 2 * i.se)
