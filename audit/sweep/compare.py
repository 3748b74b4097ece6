"""One arm against another over the same questions: gains, simultaneous limits and p-values over all r."""

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
from audit.statistics.resampling import Interval, Resamples, bootstrap_sweep, effective_number, expansion
from audit.statistics.run_variance import RunShifts
from audit.statistics.values import average

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """One arm minus another, at R router counts over the same questions: arrays (R,), p-values one-sided.

    low, high: simultaneous, they hold for all r together. pointwise: one BCa interval a router count, no shorter than
    `unseen_share`. upper: one-sided 95 % limits of the gain, at least the share of questions that could all improve
    unseen; 1 at an r of which nothing is known, NaN where none has a limit.
    mean: the gain averaged over r. family_p: one p for "any r".
    fall_p: for "the mean over r is below zero". improve, degrade: counts, fractions where replicates were averaged. n:
    pairs with both answers; effective: as how many independent ones they count.
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
        """Index of the router count with the largest gain."""
        return int(np.nanargmax(self.gain))

    def beats(self, alpha: float) -> frozenset[int]:
        """Router counts whose step-down adjusted p is at most alpha."""
        return frozenset(r for r, p in zip(self.routers, self.adjusted, strict=True) if p <= alpha + 1e-12)

    @property
    def above_zero(self) -> frozenset[int]:
        """Router counts whose simultaneous interval lies above zero."""
        return frozenset(r for r, low in zip(self.routers, self.low, strict=True) if low > 0)

    @property
    def largest_compatible(self) -> float:
        """A one-sided 95 % upper limit of the largest gain over r: the largest of the limits per r, which needs no
        correction for their number (an intersection-union argument; Berger & Hsu 1996, Statistical Science 11).
        """
        return float(self.upper.max())

    def highest(self, routers: Iterable[int]) -> float:
        """The largest upper limit at these router counts; 1 where one of them was not compared."""
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
    confidence: float = CONFIDENCE,
) -> Comparison:
    """Runs (L, R, n) of one arm minus runs (K, R, n) or (K, 1, n) of another: 0, 1 or NaN, paired by question.

    A run that repeats another answer for answer counts once. The bootstrap takes one shared baseline: a baseline of its
    own for each r is the same problem in the differences (1/2 + d/2 against 1/2 has half the interval).

    confidence: of the intervals. shifts: of whole runs (none where None). They make every interval longer, by the ratio
    of the standard error with them to that of the items alone; the test reckons with the plausible ones where a side
    was not repeated.
    Fewer than five clusters get the limits -1 and 1: resampling them shows no spread to speak of.
    """
    runs, other = distinct(runs), distinct(other)
    noisy, base = average(runs), average(other)
    shifts = shifts or RunShifts()
    drawn, tested = n_permutations or n_resamples, shifts.tested(repeated=len(runs) > 1)
    test = max_statistic_exchange(runs, other, cluster, n_permutations=drawn, shifts=tested, rng=rng)
    d = noisy - base  # after the test: of a million questions each such array is 8 MB an r
    counted = _counted(noisy, base, d, cluster)
    gain = counted["gain"]
    over_all = resampling.unseen_change(average(d), cluster, confidence)  # `d` is overwritten below
    there = cluster[np.any(~np.isnan(d), axis=0)]
    clusters, alike = np.unique(there).size, 1 + cluster_df(there)
    limits = _none(gain, confidence)
    if can_reject(clusters, 1 - confidence):
        answered = np.maximum(np.sum(np.any(~np.isnan(runs), axis=2), axis=0), 1)  # runs that were made at each r
        made = answered, len(other)
        limits = _bootstrapped(d, gain, cluster, alike, shifts, made, n_resamples, rng, confidence)
        unseen = resampling.unseen_share(counted["effective"], confidence).tolist()
        limits["pointwise"] = tuple(i.at_least(u) for i, u in zip(limits["pointwise"], unseen, strict=True))
        limits["low"] = np.maximum(np.minimum(limits["low"], gain - unseen), -1.0)
        limits["high"] = np.minimum(np.maximum(limits["high"], gain + unseen), 1.0)
        limits["mean"] = limits["mean"].at_least(over_all)
        limits["upper"] = _at_least_unseen(limits["upper"], gain, counted["effective"], 2 * confidence - 1)
    return Comparison(
        routers=routers, **counted, **limits, family_p=test.pvalue, pvalues=test.pvalues, adjusted=test.adjusted
    )


def _at_least_unseen(high: FloatArray, gain: FloatArray, effective: FloatArray, confidence: float) -> FloatArray:
    """Return upper limits (R,) that are no lower than what could all improve unseen; see `Comparison.upper`.

    None of m independent questions improves with probability 5 % where it is 1 - 0.05^(1/m) of them, and there a
    bootstrap of few or no changes sees nothing.
    """
    if np.isnan(high).all():
        return high
    unseen = resampling.unseen_share(effective, confidence)
    return np.where(np.isnan(high), 1.0, np.minimum(np.maximum(np.maximum(high, gain + unseen), unseen), 1.0))


def _counted(noisy: FloatArray, base: FloatArray, d: FloatArray, cluster: IntArray) -> dict[str, Any]:
    """What needs no draws, of d = noisy - base (R, n): pairs, gains, questions that became right and that became wrong
    (sums), independent pairs. A row at a time, for the memory."""
    n = np.sum(~np.isnan(d), axis=1).astype(np.int64)
    with np.errstate(invalid="ignore"):
        gain = np.array([np.nansum(row) for row in d]) / np.where(n > 0, n, np.nan)
    pairs = [(a, b, ~np.isnan(a - b)) for a, b in zip(noisy, np.broadcast_to(base, noisy.shape), strict=True)]
    return {
        "n": n,
        "gain": gain,
        "improve": np.array([np.sum(np.where(both, a * (1 - b), 0)) for a, b, both in pairs]),
        "degrade": np.array([np.sum(np.where(both, b * (1 - a), 0)) for a, b, both in pairs]),
        "effective": effective_number(d, cluster),
    }


def _none(gain: FloatArray, confidence: float) -> dict[str, Any]:
    """The limits -1 and 1 of gains (R,), of which nothing more is known."""
    pointwise = tuple(Interval(g, -1.0, 1.0, confidence, "bca", float("nan")) for g in gain.tolist())
    mean = Interval(float(np.nanmean(gain)), -1.0, 1.0, confidence, "bca", float("nan"))
    ones = np.ones_like(gain)
    return {"pointwise": pointwise, "upper": ones, "mean": mean, "fall_p": 1.0, "low": -ones, "high": ones}


def _bootstrapped(
    d: FloatArray,
    gain: FloatArray,
    cluster: IntArray,
    clusters: float,
    shifts: RunShifts,
    runs: tuple[IntArray, int],
    n_resamples: int,
    rng: Generator,
    confidence: float,
) -> dict[str, Any]:
    """Limits of differences (R, n), which are overwritten, of means (R,). runs: of one arm (R,), and of the other."""
    half = np.full(d.shape[1], 0.5)
    d /= 2
    d += half
    draws = bootstrap_sweep(half, d, cluster, n_resamples=n_resamples, rng=rng)
    of_each = draws.gain.intervals(confidence, units=clusters)
    one_sided = draws.gain.intervals(2 * confidence - 1, units=clusters)
    (of_mean,) = draws.mean_gain.intervals(confidence, units=clusters)
    (own, shared), (answered, others) = shifts.used, runs
    longer = _longer(np.array([2 * i.se for i in of_each]), own / answered + shared / others)
    whole = _longer(np.array([2 * of_mean.se]), np.array([own / answered.sum() + shared / others]))
    mean, fall_p = _doubled(of_mean, float(whole[0])), float("nan")
    se = (mean.high - mean.low) / (2 * scipy.stats.norm.ppf((1 + confidence) / 2))
    if se > 0:
        fall_p = float(scipy.stats.norm.cdf(mean.estimate / se))
    elif np.isfinite(mean.estimate):  # an r without a pair has no mean: no test, and none that Holm would count
        fall_p = 1.0 if mean.estimate >= 0 else 2.0**-clusters
    low, high = simultaneous(draws.gain, clusters, confidence)
    return {
        "pointwise": tuple(_doubled(i, float(f)) for i, f in zip(of_each, longer, strict=True)),
        "upper": np.array([_doubled(i, float(f)).high for i, f in zip(one_sided, longer, strict=True)]),
        "mean": mean,
        "fall_p": fall_p,
        "low": gain - 2 * (draws.gain.estimate - low) * longer,
        "high": gain + 2 * (high - draws.gain.estimate) * longer,
    }


def _longer(se: FloatArray, variance: FloatArray) -> FloatArray:
    """Factor (R,) by which intervals of standard errors `se` are lengthened for the shifts' variance (R,)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(se > 0, np.sqrt(se**2 + variance) / se, 1.0)


def distinct(runs: FloatArray) -> FloatArray:
    """Without the runs (axis 0) that equal an earlier one everywhere, as those of a deterministic worker do."""
    kept: list[FloatArray] = []
    for run in runs:
        if not any(np.array_equal(run, one, equal_nan=True) for one in kept):
            kept.append(run)
    return runs if len(kept) == len(runs) else np.stack(kept)


def simultaneous(
    gain: Resamples, units: float | None = None, confidence: float = CONFIDENCE
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


def _doubled(i: Interval, longer: float) -> Interval:
    """Twice the interval, its arms longer by a factor and inside -1 to 1."""
    low, high = (float(np.clip(2 * (i.estimate + longer * (end - i.estimate)), -1, 1)) for end in (i.low, i.high))
    return Interval(2 * i.estimate, low, high, i.confidence, i.method, 2 * i.se)
