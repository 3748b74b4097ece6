"""One arm against another over the same questions: gains, simultaneous limits and p-values over all r."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from audit.statistics import resampling
from audit.statistics.drawing import cluster_df
from audit.statistics.eprocess import Differences, adjusted, at_any_stop
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.permutation import can_reject, max_statistic_exchange
from audit.statistics.resampling import Interval, Resamples, bootstrap_sweep, effective_number, expansion
from audit.statistics.run_variance import RunShifts
from audit.statistics.values import average

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """One arm minus another, at R router counts over the same questions: arrays (R,), p-values one-sided.

    low, high: simultaneous, they hold for all r together with 95 %. pointwise: one BCa interval a router count, no
    shorter than `unseen_share`. mean: the gain averaged over r. family_p: one p for "any r". fall_p: for "the mean over
    r is below zero". improve, degrade: counts, fractions where replicates were averaged. n: pairs with both answers;
    effective: as how many independent ones they count. log_e: log e-values of a gain, where every p and limit holds at
    any stop (`compare_at_any_stop`); else None.
    """

    routers: tuple[int, ...]
    n: IntArray
    gain: FloatArray
    low: FloatArray
    high: FloatArray
    pointwise: tuple[Interval, ...]
    mean: Interval
    family_p: float
    fall_p: float
    pvalues: FloatArray
    adjusted: FloatArray
    improve: FloatArray
    degrade: FloatArray
    effective: FloatArray
    log_e: FloatArray | None = None

    @property
    def best(self) -> int:
        """Index of the router count with the largest gain."""
        return int(np.nanargmax(self.gain))

    def beats(self, alpha: float) -> frozenset[int]:
        """Router counts whose step-down adjusted p is at most alpha."""
        return frozenset(r for r, p in zip(self.routers, self.adjusted, strict=True) if p <= alpha + 1e-12)

    @property
    def above_zero(self) -> frozenset[int]:
        """Router counts whose simultaneous interval lies above zero; all where the test is the interval turned
        round."""
        every = zip(self.routers, self.low, strict=True)
        return frozenset(r for r, low in every if self.log_e is not None or low > 0)

    @property
    def upper(self) -> FloatArray:
        """(R,) 97.5 % upper limits of the gain: at least the share of questions that could all improve unseen.

        None of m independent ones improves with probability 2.5 % where it is 1 - 0.025^(1/m) of them, and there a
        bootstrap of few or no changes sees nothing. 1 at an r of which nothing is known; NaN where none has a limit.
        """
        high = np.array([i.high for i in self.pointwise])
        if np.isnan(high).all():
            return high
        return np.where(np.isnan(high), 1.0, np.maximum(high, resampling.unseen_share(self.effective, CONFIDENCE)))

    @property
    def largest_compatible(self) -> float:
        """A 97.5 % upper limit of the largest gain over r: the largest of the upper limits per r, which needs no
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
) -> Comparison:
    """Runs (L, R, n) of one arm minus runs (K, R, n) or (K, 1, n) of another: 0, 1 or NaN, paired by question.

    A run that repeats another answer for answer counts once. The bootstrap takes one shared baseline: a baseline of its
    own for each r is the same problem in the differences (1/2 + d/2 against 1/2 has half the interval).

    shifts: of whole runs (none where None). They make every interval longer, by the ratio of the standard error with
    them to that of the items alone; the test reckons with the plausible ones where a side was not repeated.
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
    over_all = resampling.unseen_change(average(d), cluster)  # `d` is overwritten below
    there = cluster[np.any(~np.isnan(d), axis=0)]
    clusters, alike = np.unique(there).size, 1 + cluster_df(there)
    limits = _none(gain)
    if can_reject(clusters, 1 - CONFIDENCE):
        answered = np.maximum(np.sum(np.any(~np.isnan(runs), axis=2), axis=0), 1)  # runs that were made at each r
        limits = _bootstrapped(d, gain, cluster, alike, shifts, (answered, len(other)), n_resamples, rng)
        unseen = resampling.unseen_share(counted["effective"], CONFIDENCE).tolist()
        limits["pointwise"] = tuple(i.at_least(u) for i, u in zip(limits["pointwise"], unseen, strict=True))
        limits["low"] = np.maximum(np.minimum(limits["low"], gain - unseen), -1.0)
        limits["high"] = np.minimum(np.maximum(limits["high"], gain + unseen), 1.0)
        limits["mean"] = limits["mean"].at_least(over_all)
    return Comparison(
        routers=routers, **counted, **limits, family_p=test.pvalue, pvalues=test.pvalues, adjusted=test.adjusted
    )


def _counted(noisy: FloatArray, base: FloatArray, d: FloatArray, cluster: IntArray) -> dict[str, Any]:
    """What needs no draws, of d = noisy - base (R, n): pairs, gains, what changed, independent pairs."""
    n = np.sum(~np.isnan(d), axis=1).astype(np.int64)
    with np.errstate(invalid="ignore"):
        gain = np.array([np.nansum(row) for row in d]) / np.where(n > 0, n, np.nan)
    improve, degrade = _changed(noisy, base)
    effective = effective_number(d, cluster)
    return {"n": n, "gain": gain, "improve": improve, "degrade": degrade, "effective": effective}


def _none(gain: FloatArray) -> dict[str, Any]:
    """The limits -1 and 1 of gains (R,), of which nothing more is known."""
    pointwise = tuple(Interval(g, -1.0, 1.0, CONFIDENCE, "bca", float("nan")) for g in gain.tolist())
    mean = Interval(float(np.nanmean(gain)), -1.0, 1.0, CONFIDENCE, "bca", float("nan"))
    return {"pointwise": pointwise, "mean": mean, "fall_p": 1.0, "low": -np.ones_like(gain), "high": np.ones_like(gain)}


def _bootstrapped(
    d: FloatArray,
    gain: FloatArray,
    cluster: IntArray,
    clusters: float,
    shifts: RunShifts,
    runs: tuple[IntArray, int],
    n_resamples: int,
    rng: Generator,
) -> dict[str, Any]:
    """Limits of differences (R, n), which are overwritten, of means (R,). runs: of one arm (R,), and of the other."""
    half = np.full(d.shape[1], 0.5)
    d /= 2
    d += half
    draws = bootstrap_sweep(half, d, cluster, n_resamples=n_resamples, rng=rng)
    of_each = draws.gain.intervals(CONFIDENCE, units=clusters)
    (of_mean,) = draws.mean_gain.intervals(CONFIDENCE, units=clusters)
    (own, shared), (answered, others) = shifts.used, runs
    longer = _longer(np.array([2 * i.se for i in of_each]), own / answered + shared / others)
    whole = _longer(np.array([2 * of_mean.se]), np.array([own / answered.sum() + shared / others]))
    mean, fall_p = _doubled(of_mean, float(whole[0])), float("nan")
    se = (mean.high - mean.low) / (2 * scipy.stats.norm.ppf((1 + CONFIDENCE) / 2))
    if se > 0:
        fall_p = float(scipy.stats.norm.cdf(mean.estimate / se))
    elif np.isfinite(mean.estimate):  # an r without a pair has no mean: no test, and none that Holm would count
        fall_p = 1.0 if mean.estimate >= 0 else 2.0**-clusters
    low, high = simultaneous(draws.gain, units=clusters)
    return {
        "pointwise": tuple(_doubled(i, float(f)) for i, f in zip(of_each, longer, strict=True)),
        "mean": mean,
        "fall_p": fall_p,
        "low": gain - 2 * (draws.gain.estimate - low) * longer,
        "high": gain + 2 * (high - draws.gain.estimate) * longer,
    }


def compare_at_any_stop(
    runs: FloatArray,
    other: FloatArray,
    routers: tuple[int, ...],
    cluster: IntArray,
    largest_cluster: int,
    shifts: RunShifts | None = None,
) -> Comparison:
    """As `compare`, by betting: every p and limit holds however often the data were looked at (`statistics.eprocess`).

    p-values are 1 / e; "any r" is the mean e-value, each r is adjusted by closed testing, `low` and `high` by
    Bonferroni. What whole runs vary by is in `pointwise` and `mean` alone, which clear a model.
    """
    runs, other = distinct(runs), distinct(other)
    noisy, base = average(runs), average(other)
    d = noisy - base
    counted = _counted(noisy, base, d, cluster)
    bets = Differences.of(d, cluster, largest_cluster)
    over_r = average(d)[None]  # a question's mean over r
    mean = Differences.of(over_r, cluster, largest_cluster)
    log_e = bets.log_e()
    each, tail = adjusted(log_e), (1 - CONFIDENCE) / 2
    lows, highs = bets.lower_limit(tail), bets.upper_limit(tail)
    (mean_low,), (mean_high,) = mean.lower_limit(tail), mean.upper_limit(tail)
    own, shared = (shifts or RunShifts()).used
    made = np.maximum(np.sum(np.any(~np.isnan(runs), axis=2), axis=0), 1)
    of_mean = float(np.nanmean(over_r)), float(mean_low), float(mean_high)
    return Comparison(
        routers=routers,
        **counted,
        low=bets.lower_limit(tail / len(routers)),
        high=bets.upper_limit(tail / len(routers)),
        pointwise=tuple(
            _shifted(float(g), float(low), float(high), own / k + shared / len(other))
            for g, low, high, k in zip(counted["gain"], lows, highs, made.tolist(), strict=True)
        ),
        mean=_shifted(*of_mean, own / int(made.sum()) + shared / len(other)),
        family_p=float(at_any_stop(each).min()),
        fall_p=float(at_any_stop(mean.negated().log_e())[0]),
        pvalues=at_any_stop(log_e),
        adjusted=at_any_stop(each),
        log_e=log_e,
    )


def _shifted(gain: float, low: float, high: float, variance: float) -> Interval:
    """Limits at any stop, their arms longer by a normal shift of that variance (root of the sum of squares)."""
    z = scipy.stats.norm.ppf((1 + CONFIDENCE) / 2)
    down, up = (float(np.sqrt(arm**2 + z**2 * variance)) for arm in (gain - low, high - gain))
    return Interval(gain, max(gain - down, -1.0), min(gain + up, 1.0), CONFIDENCE, "betting", float("nan"))


def _changed(noisy: FloatArray, base: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(R,) sums over questions of what became right and of what became wrong; a row at a time, for the memory."""
    pairs = [(a, b, ~np.isnan(a - b)) for a, b in zip(noisy, np.broadcast_to(base, noisy.shape), strict=True)]
    improve = [np.sum(np.where(both, a * (1 - b), 0)) for a, b, both in pairs]
    degrade = [np.sum(np.where(both, b * (1 - a), 0)) for a, b, both in pairs]
    return np.array(improve), np.array(degrade)


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


def simultaneous(gain: Resamples, units: float | None = None) -> tuple[FloatArray, FloatArray]:
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
    c = float(np.quantile(moved, CONFIDENCE)) if moved.size else 0.0
    c *= expansion(CONFIDENCE, units)
    return gain.estimate - c * se, gain.estimate + c * se


def _doubled(i: Interval, longer: float) -> Interval:
    """Twice the interval, its arms longer by a factor and inside -1 to 1."""
    low, high = (float(np.clip(2 * (i.estimate + longer * (end - i.estimate)), -1, 1)) for end in (i.low, i.high))
    return Interval(2 * i.estimate, low, high, i.confidence, i.method, 2 * i.se)
