"""Compare one arm with another over the same questions: gains, limits and p-values at each r."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from audit.statistics import resampling
from audit.statistics.drawing import cluster_df
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.permutation import can_reject, max_statistic_exchange
from audit.statistics.resampling import (
    Interval,
    Resamples,
    bootstrap_sweep,
    effective_number,
    expansion,
)
from audit.statistics.run_variance import RunShifts
from audit.statistics.values import average

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """Hold the gain of one arm over another arm at each of R router counts.

    The gain is computed over questions with an answer in both arms.

    Attributes
    ----------
    routers : tuple of int
        The R router counts.
    n : array (R,)
        The number of questions with an answer in both arms at each r.
    gain : array (R,)
        The accuracy of the first arm minus the accuracy of the other arm.
    low, high : array (R,)
        Limits of the simultaneous 95 % intervals: with this probability, the intervals contain the
        true gains at all r.
    pointwise : tuple of Interval
        A BCa interval (bias-corrected bootstrap) for each r, widened if necessary to the length
        that `unseen_share` requires.
    upper : array (R,)
        One-sided 95 % upper limits of the gain. A limit is at least the share of all questions that
        could improve although no question of the sample does. At an r without an answered pair, the
        limit is 1. All limits are NaN if no r has a limit.
    mean : Interval
        The mean gain over r.
    family_p : float
        Family-wise p-value. Alternative: there is a gain at one or more r.
    fall_p : float
        One-sided p-value. Alternative: the mean gain over r is below zero.
    pvalues, adjusted : array (R,)
        One-sided p-values of a gain at each r, without and with step-down adjustment over r.
    improve, degrade : array (R,)
        The number of questions that only the first arm answers right (improve), and the number that
        only the other arm answers right (degrade). They may be fractions if replicates were
        averaged.
    effective : array (R,)
        The effective number of questions: the number of independent questions with the same
        information.
    """

    routers: tuple[int, ...]
    n: IntArray
    gain: FloatArray
    low: FloatArray
    high: FloatArray
    pointwise: tuple[Interval, ...]
    upper: FloatArray
    mean: Interval
    family_p: float
    fall_p: float
    pvalues: FloatArray
    adjusted: FloatArray
    improve: FloatArray
    degrade: FloatArray
    effective: FloatArray

    @property
    def best(self) -> int:
        """Return the index of the router count with the largest gain."""
        return int(np.nanargmax(self.gain))

    def beats(self, alpha: float) -> frozenset[int]:
        """Return the router counts at which the test finds a gain.

        Parameters
        ----------
        alpha : float
            The level of the test.

        Returns
        -------
        frozenset of int
            The router counts whose adjusted p-value is at most alpha.
        """
        tested = zip(self.routers, self.adjusted, strict=True)
        return frozenset(r for r, p in tested if p <= alpha + 1e-12)

    @property
    def above_zero(self) -> frozenset[int]:
        """Return the router counts at which the simultaneous interval of the gain lies above
        zero."""
        return frozenset(r for r, low in zip(self.routers, self.low, strict=True) if low > 0)

    @property
    def largest_compatible(self) -> float:
        """Return the one-sided 95 % upper limit of the largest gain over r.

        Returns
        -------
        float
            The largest of the upper limits at single r.

        Notes
        -----
        The number of router counts needs no correction, by the intersection-union principle (Berger
        & Hsu 1996, Statistical Science 11).
        """
        return float(self.upper.max())

    def highest(self, routers: Iterable[int]) -> float:
        """Return the largest upper limit at some router counts.

        Parameters
        ----------
        routers : iterable of int
            The router counts.

        Returns
        -------
        float
            The limit; 1 if one of the router counts was not compared.
        """
        limits = dict(zip(self.routers, np.nan_to_num(self.upper, nan=1.0).tolist(), strict=True))
        return max(limits.get(r, 1.0) for r in routers)


def compare(
    runs: FloatArray,
    other: FloatArray,
    routers: tuple[int, ...],
    cluster: IntArray,
    *,
    rng: Generator,
    n_resamples: int,
    n_permutations: int | None = None,
    shifts: RunShifts | None = None,
) -> Comparison:
    """Compare runs of one arm with runs of another arm, paired by question.

    Parameters
    ----------
    runs : array (L, R, n)
        Outcomes of one arm: 0, 1 or NaN.
    other : array (K, R, n) or (K, 1, n)
        Outcomes of the other arm; (K, 1, n) means that all router counts share one baseline.
    routers : tuple of int
        The R router counts.
    cluster : array (n,)
        Index of the cluster of each question.
    rng : Generator
        Source of randomness.
    n_resamples : int
        Resamples of the bootstrap.
    n_permutations : int, optional
        Permutations of the test; n_resamples if None.
    shifts : RunShifts, optional
        Variances of whole runs; zero if None.

    Returns
    -------
    Comparison
        The comparison. With fewer than five clusters its limits are -1 and 1, since resamples of so
        few clusters understate the spread.

    Notes
    -----
    Runs with exactly the same answers count as one run.

    The bootstrap function expects one baseline for all r. So a difference d is passed as the pair
    of values 1/2 + d/2 and 1/2. The resulting interval is half as long, and is doubled afterwards.

    Shifts of whole runs lengthen every interval by a factor: the standard error with shifts divided
    by the standard error without shifts. For a side that was run once, the test assumes the largest
    plausible shift.
    """
    runs, other = distinct(runs), distinct(other)
    noisy, base = average(runs), average(other)
    shifts = shifts or RunShifts()
    drawn, tested = n_permutations or n_resamples, shifts.tested(repeated=len(runs) > 1)
    test = max_statistic_exchange(
        runs, other, cluster, n_permutations=drawn, shifts=tested, rng=rng
    )
    # The difference is computed after the test to save memory (8 MB for each r and a million
    # questions).
    d = noisy - base
    counted = _counted(noisy, base, d, cluster)
    gain = counted["gain"]
    # `_bootstrapped` overwrites d, so this value is computed first.
    over_all = resampling.unseen_change(average(d), cluster, CONFIDENCE)
    answered_clusters = cluster[np.any(~np.isnan(d), axis=0)]
    clusters, units = np.unique(answered_clusters).size, 1 + cluster_df(answered_clusters)
    limits = _unlimited(gain)
    if can_reject(clusters, 1 - CONFIDENCE):
        has_answers = np.any(~np.isnan(runs), axis=2)
        run_counts = np.maximum(np.sum(has_answers, axis=0), 1), len(other)
        limits = _bootstrapped(d, gain, cluster, units, shifts, run_counts, n_resamples, rng)
        unseen = resampling.unseen_share(counted["effective"], CONFIDENCE).tolist()
        pointwise = []
        for interval, bound in zip(limits["pointwise"], unseen, strict=True):
            pointwise.append(interval.at_least(bound))
        limits["pointwise"] = tuple(pointwise)
        limits["low"] = np.maximum(np.minimum(limits["low"], gain - unseen), -1.0)
        limits["high"] = np.minimum(np.maximum(limits["high"], gain + unseen), 1.0)
        limits["mean"] = limits["mean"].at_least(over_all)
        limits["upper"] = _at_least_unseen(
            limits["upper"], gain, counted["effective"], 2 * CONFIDENCE - 1
        )
    return Comparison(
        routers=routers,
        **counted,
        **limits,
        family_p=test.pvalue,
        pvalues=test.pvalues,
        adjusted=test.adjusted,
    )


def _at_least_unseen(
    high: FloatArray, gain: FloatArray, effective: FloatArray, confidence: float
) -> FloatArray:
    """Raise upper limits (R,) to at least the share of improvements that a sample could miss.

    Let m be the number of independent questions. If a share p = 1 - 0.05^(1/m) of all questions
    improves, the sample shows no improvement with probability 5 %. So p is a lower bound of the
    upper limit. The bootstrap does not include this bound if few or no questions change. See
    `Comparison.upper`.
    """
    if np.isnan(high).all():
        return high
    unseen = resampling.unseen_share(effective, confidence)
    raised = np.maximum(np.maximum(high, gain + unseen), unseen)
    return np.where(np.isnan(high), 1.0, np.minimum(raised, 1.0))


def _counted(
    noisy: FloatArray, base: FloatArray, d: FloatArray, cluster: IntArray
) -> dict[str, Any]:
    """Return the fields of a `Comparison` that need no resampling, from d = noisy - base (R, n).

    The arrays are processed row by row to save memory.
    """
    n = np.sum(~np.isnan(d), axis=1).astype(np.int64)
    with np.errstate(invalid="ignore"):
        gain = np.array([np.nansum(row) for row in d]) / np.where(n > 0, n, np.nan)
    improve, degrade = [], []
    for a, b in zip(noisy, np.broadcast_to(base, noisy.shape), strict=True):
        answered = ~np.isnan(a - b)
        improve.append(np.sum(np.where(answered, a * (1 - b), 0)))
        degrade.append(np.sum(np.where(answered, b * (1 - a), 0)))
    return {
        "n": n,
        "gain": gain,
        "improve": np.array(improve),
        "degrade": np.array(degrade),
        "effective": effective_number(d, cluster),
    }


def _unlimited(gain: FloatArray) -> dict[str, Any]:
    """Return the limits -1 and 1 for gains (R,) that the data cannot bound."""
    pointwise = []
    for estimate in gain.tolist():
        pointwise.append(Interval(estimate, -1.0, 1.0, CONFIDENCE, "bca", float("nan")))
    mean = Interval(float(np.nanmean(gain)), -1.0, 1.0, CONFIDENCE, "bca", float("nan"))
    ones = np.ones_like(gain)
    return {
        "pointwise": pointwise,
        "upper": ones,
        "mean": mean,
        "fall_p": 1.0,
        "low": -ones,
        "high": ones,
    }


def _bootstrapped(
    d: FloatArray,
    gain: FloatArray,
    cluster: IntArray,
    units: float,
    shifts: RunShifts,
    run_counts: tuple[IntArray, int],
    n_resamples: int,
    rng: Generator,
) -> dict[str, Any]:
    """Return the limits of the mean differences (R,) by a bootstrap.

    `d` holds the differences (R, n) and is overwritten. `run_counts` holds the numbers of runs: of
    the first arm at each r (R,), and of the other arm.
    """
    half = np.full(d.shape[1], 0.5)
    d /= 2
    d += half
    draws = bootstrap_sweep(half, d, cluster, n_resamples=n_resamples, rng=rng)
    two_sided = draws.gain.intervals(CONFIDENCE, units=units)
    one_sided = draws.gain.intervals(2 * CONFIDENCE - 1, units=units)
    (of_mean,) = draws.mean_gain.intervals(CONFIDENCE, units=units)
    (arm_variance, other_variance), (arm_runs, other_runs) = shifts.used, run_counts
    variance = arm_variance / arm_runs + other_variance / other_runs
    longer = _longer(np.array([2 * interval.se for interval in two_sided]), variance)
    mean_variance = np.array([arm_variance / arm_runs.sum() + other_variance / other_runs])
    mean_longer = _longer(np.array([2 * of_mean.se]), mean_variance)
    mean, fall_p = _doubled(of_mean, float(mean_longer[0])), float("nan")
    se = (mean.high - mean.low) / (2 * scipy.stats.norm.ppf((1 + CONFIDENCE) / 2))
    if se > 0:
        fall_p = float(scipy.stats.norm.cdf(mean.estimate / se))
    # If the standard error is 0, the p-value is that of a sign test. Without an answered pair, the
    # p-value remains NaN.
    elif np.isfinite(mean.estimate):
        fall_p = 1.0 if mean.estimate >= 0 else 2.0**-units
    low, high = simultaneous(draws.gain, units)
    pointwise, upper_limits = [], []
    for factor, interval, limit in zip(longer.tolist(), two_sided, one_sided, strict=True):
        pointwise.append(_doubled(interval, factor))
        upper_limits.append(_doubled(limit, factor).high)
    return {
        "pointwise": tuple(pointwise),
        "upper": np.array(upper_limits),
        "mean": mean,
        "fall_p": fall_p,
        "low": gain - 2 * (draws.gain.estimate - low) * longer,
        "high": gain + 2 * (high - draws.gain.estimate) * longer,
    }


def _longer(se: FloatArray, variance: FloatArray) -> FloatArray:
    """Return the factors (R,) by which the variance of shifts of whole runs lengthens intervals.

    `se` holds the standard errors without shifts (R,).
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(se > 0, np.sqrt(se**2 + variance) / se, 1.0)


def distinct(runs: FloatArray) -> FloatArray:
    """Drop runs with exactly the answers of an earlier run.

    A deterministic worker repeats its answers in every run.

    Parameters
    ----------
    runs : array (K, R, n)
        The values of K runs.

    Returns
    -------
    array
        The distinct runs, along the first axis.
    """
    distinct_runs: list[FloatArray] = []
    for run in runs:
        if not any(np.array_equal(run, earlier, equal_nan=True) for earlier in distinct_runs):
            distinct_runs.append(run)
    return runs if len(distinct_runs) == len(runs) else np.stack(distinct_runs)


def simultaneous(gain: Resamples, units: float) -> tuple[FloatArray, FloatArray]:
    """Return simultaneous limits of R gains: estimate - c * se and estimate + c * se.

    Parameters
    ----------
    gain : Resamples
        Estimates (R,) and resamples (B, R).
    units : float
        Number of independent units. If it is small, the limits are widened (`expansion`).

    Returns
    -------
    low, high : array (R,)
        The limits. If a gain is the same in all resamples, its limits are equal to its estimate.

    Notes
    -----
    c is the quantile over resamples of the largest |resample - estimate| / se. This is a bootstrap
    max-t interval (Romano & Wolf 2005, Econometrica 73).
    """
    has_pairs = np.sum(np.isfinite(gain.draws), axis=0) > 1
    se = np.full(gain.estimate.size, np.nan)
    se[has_pairs] = np.nanstd(gain.draws[:, has_pairs], axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(gain.draws - gain.estimate) / np.where(se > 0, se, np.nan)
    finite = np.where(np.isnan(t), -np.inf, t).max(axis=1)
    moved = finite[np.isfinite(finite)]
    c = float(np.quantile(moved, CONFIDENCE)) if moved.size else 0.0
    c *= expansion(CONFIDENCE, units)
    return gain.estimate - c * se, gain.estimate + c * se


def _doubled(i: Interval, longer: float) -> Interval:
    """Return the interval multiplied by 2 and lengthened by the factor `longer`.

    The ends are cut at -1 and 1.
    """
    ends = 2 * (i.estimate + longer * (np.array([i.low, i.high]) - i.estimate))
    low, high = np.clip(ends, -1, 1).tolist()
    return Interval(2 * i.estimate, low, high, i.confidence, i.method, 2 * i.se)
