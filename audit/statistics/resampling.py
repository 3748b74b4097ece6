"""The bootstrap over items, with every arm of an item carried together, and its intervals."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.drawing import ITEMS, bootstrap_totals, cluster_sums, patterns, patterns_of
from audit.statistics.paired import FloatArray, IntArray, checked_pair

Method = Literal["percentile", "bca"]
N_RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """A confidence interval; every number in the unit of the estimate (accuracy 0-1 unless said otherwise).

    se: standard deviation over resamples.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    method: Method
    se: float

    def at_least(self, arm: float, within: float = 1.0) -> "Interval":
        """With arms no shorter than `arm` (`unseen_change`), inside -within to within."""
        low, high = min(self.low, self.estimate - arm), max(self.high, self.estimate + arm)
        return replace(self, low=max(low, -within), high=min(high, within))


@dataclass(frozen=True)
class Resamples:
    """One statistic (K values): its estimate (K,), resamples (B, K), and jackknife (J, K) with weights (J,)."""

    estimate: FloatArray
    draws: FloatArray
    jackknife: FloatArray
    jackknife_weight: FloatArray

    def intervals(
        self, confidence: float = 0.95, method: Method = "bca", units: float | None = None
    ) -> tuple[Interval, ...]:
        """One interval for each of the K values.

        "percentile" takes quantiles of the resamples; "bca" corrects them for bias and skewness (Efron 1987, JASA 82).
        units: how many items, or clusters of one size (`cluster_df` + 1), were resampled, to widen the interval as
        `expansion` says.
        """
        if not 0 < confidence < 1:
            raise DataError(f"A confidence lies between 0 and 1, such as 0.95; found {confidence}.")
        tail = float(scipy.stats.norm.cdf(scipy.stats.norm.ppf((1 - confidence) / 2) * expansion(confidence, units)))
        out = []
        for k, estimate in enumerate(self.estimate):
            draws = self.draws[:, k]
            draws = draws[np.isfinite(draws)]  # a resample without a single complete pair has no value
            ends, low, high, se = np.array([tail, 1 - tail]), np.nan, np.nan, np.nan
            if draws.size and np.isfinite(estimate):
                ends = self._bca(k, draws, ends) if method == "bca" else ends
                if np.isfinite(ends).all():  # else two units or so: the correction has no meaning
                    low, high = np.quantile(draws, ends)
                    se = float(draws.std(ddof=1)) if draws.size > 1 else np.nan
            out.append(Interval(float(estimate), float(low), float(high), confidence, method, se))
        return tuple(out)

    def _bca(self, k: int, draws: FloatArray, probabilities: FloatArray) -> FloatArray:
        below = np.mean(draws < self.estimate[k] - 1e-12) + 0.5 * np.mean(np.abs(draws - self.estimate[k]) <= 1e-12)
        bias = scipy.stats.norm.ppf(np.clip(below, 0.5 / draws.size, 1 - 0.5 / draws.size))
        w, jack = self.jackknife_weight, self.jackknife[:, k]
        finite = np.isfinite(jack)
        w, jack = w[finite], jack[finite]
        deviation = np.average(jack, weights=w) - jack if w.size else np.zeros(1)
        spread = float(np.sum(w * deviation**2)) if w.size else 0.0
        skew = float(np.sum(w * deviation**3) / (6 * spread**1.5)) if spread > 0 else 0.0
        z = bias + scipy.stats.norm.ppf(probabilities)
        with np.errstate(invalid="ignore"):  # an infinite z: the caller sees the NaN
            return scipy.stats.norm.cdf(bias + z / (1 - skew * z))


def expansion(confidence: float, units: float | None) -> float:
    """How much wider than a normal quantile an interval must be: sqrt(m / (m - 1)) t_(m-1) / z for m units.

    A bootstrap of m units spreads sqrt((m - 1) / m) times as much as it should, and knows its own spread no better than
    a t statistic does (Hesterberg 2015, The American Statistician 69, the expanded percentile interval). 1 for None.
    """
    if units is None or units < 2:
        return 1.0
    upper = (1 + confidence) / 2
    return float(np.sqrt(units / (units - 1)) * scipy.stats.t.ppf(upper, units - 1) / scipy.stats.norm.ppf(upper))


def effective_number(values: FloatArray, cluster: IntArray) -> FloatArray:
    """(R,) values that are there of (R, n) over their design effect (1 or more): robust variance over that of values.

    As many as clusters where nothing differs from the mean: items of one text may all change, or none.
    """
    if np.unique(cluster).size == cluster.size:
        return np.array([float(np.sum(~np.isnan(row))) for row in values])
    found = []
    for row in values:
        there = ~np.isnan(row)
        _, place = np.unique(cluster[there], return_inverse=True)
        n = place.size
        g = int(place.max()) + 1 if n else 0
        effect = 1.0
        if 1 < g < n:
            off = row[there] - row[there].mean()
            alone = float(np.sum(off**2)) * n / (n - 1)
            robust = float(np.sum(np.bincount(place, off) ** 2)) * g / (g - 1)
            effect = max(1.0, robust / alone) if alone > 0 else n / g
        elif g == 1:
            effect = float(n)
        found.append(n / effect)
    return np.array(found)


def unseen_share(number: FloatArray, confidence: float = 0.95) -> FloatArray:
    """The share that none of so many independent values has with probability (1 - confidence) / 2; 1 for none.

    >>> unseen_share(np.array([0.0, 72.0])).round(3).tolist()
    [1.0, 0.05]
    """
    with np.errstate(divide="ignore"):
        return 1 - ((1 - confidence) / 2) ** (1 / np.asarray(number, dtype=float))


def unseen_change(values: FloatArray, cluster: IntArray, confidence: float = 0.95) -> float:
    """The share of items (n,) that may change without one of these showing it: no interval is shorter to either side.

    Where few or none differ, resampling them shows no spread. NaN values are left out.
    """
    return float(unseen_share(effective_number(values[None], cluster), confidence)[0])


@dataclass(frozen=True)
class SweepResamples:
    """R conditions against a baseline: all statistics over the same resamples, for any function of them.

    clean: K=1. noisy, gain: K=R. mean_gain: K=1.
    """

    clean: Resamples
    noisy: Resamples
    gain: Resamples
    mean_gain: Resamples


def _sweep_sums(clean: FloatArray, noisy: FloatArray) -> FloatArray:
    """(2 + 4R, n): what the statistics of `bootstrap_sweep` are ratios of."""
    seen_clean, seen = ~np.isnan(clean), ~np.isnan(noisy)
    both = seen & seen_clean
    of_clean, of_noisy = np.where(seen_clean, clean, 0)[None], np.where(seen, noisy, 0)
    return np.concatenate([of_clean, seen_clean[None], of_noisy, seen, np.where(both, noisy - clean, 0), both])


def _sweep_means(totals: FloatArray) -> FloatArray:
    """Totals (B, 2 + 4R) -> clean, R noisy accuracies, R gains, mean gain."""
    noisy_sum, noisy_n, gain_sum, gain_n = np.split(totals[:, 2:], 4, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        gains = gain_sum / gain_n
        return np.column_stack([totals[:, 0] / totals[:, 1], noisy_sum / noisy_n, gains, gains.mean(axis=1)])


def bootstrap_sweep(
    clean: FloatArray,
    noisy: FloatArray,
    cluster: IntArray | None = None,
    *,
    n_resamples: int = N_RESAMPLES,
    rng: np.random.Generator,
) -> SweepResamples:
    """Resample whole clusters (items where `cluster` is None) and recompute every accuracy and gain.

    Parameters
    ----------
    clean : (n,) values in [0, 1], NaN where there is no answer
    noisy : (R, n) values of the same items
    cluster : (n,) cluster of each item, or None
    n_resamples : B

    Notes
    -----
    Accuracies are over the items answered in that arm; a gain is over the pairs with both answers. Both are ratios of
    sums over clusters, so that clusters of different sizes and missing answers need no special case.
    """
    clean, noisy, cluster = checked_pair(clean, noisy, cluster)
    r = noisy.shape[0]

    n = clean.size
    if np.unique(cluster).size == n:  # a block of items at a time: all their sums are many times the outcomes
        parts = (slice(start, start + ITEMS) for start in range(0, n, ITEMS))
        pattern, count = patterns_of(_sweep_sums(clean[part], noisy[:, part]) for part in parts)
    else:
        pattern, count = patterns(cluster_sums(_sweep_sums(clean, noisy), cluster))
    total = pattern @ count
    draws = _sweep_means(bootstrap_totals(pattern, count, n_resamples, rng))
    estimate = _sweep_means(total[None])[0]
    jackknife = _sweep_means((total[:, None] - pattern).T)

    def part(columns: slice) -> Resamples:
        return Resamples(estimate[columns], draws[:, columns], jackknife[:, columns], count.astype(float))

    end = 1 + 2 * r
    return SweepResamples(
        clean=part(slice(0, 1)),
        noisy=part(slice(1, 1 + r)),
        gain=part(slice(1 + r, end)),
        mean_gain=part(slice(end, end + 1)),
    )


def studentised_pvalue(
    scores: FloatArray, cluster: IntArray | None = None, *, n_resamples: int = N_RESAMPLES, rng: np.random.Generator
) -> float:
    """One-sided p-value that the scores (n,) of items have mean zero, by the bootstrap-t; NaN scores are left out.

    The statistic is the mean over its (clustered) standard error, its null distribution that of resamples around the
    observed mean (Efron & Tibshirani 1993, section 16.4). For means over settings, which are neither symmetric around
    zero (no sign flips) nor runs that can be exchanged.
    """
    there = ~np.isnan(scores)
    groups = np.arange(scores.size) if cluster is None else np.asarray(cluster)
    if not there.any():
        return 1.0
    sums = cluster_sums(scores[there][None], groups[there])
    g = sums.shape[1]

    def studentised(total: FloatArray, square: FloatArray, centre: float) -> FloatArray:
        spread = np.sqrt(np.maximum(square - total**2 / g, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (total - centre) / spread
        at_centre = np.abs(total - centre) < 1e-12  # without any spread: nothing to tell there, and far off elsewhere
        return np.where(spread > 1e-12, t, np.where(at_centre, 0.0, np.copysign(np.inf, total - centre)))

    observed = studentised(sums.sum(axis=1), (sums**2).sum(axis=1), 0.0)[0]
    pattern, count = patterns(sums)
    total, square = bootstrap_totals(np.stack([pattern[0], pattern[0] ** 2]), count, n_resamples, rng).T
    reference = studentised(total, square, float(sums.sum()))
    return float((1 + np.sum(reference >= observed - 1e-9)) / (n_resamples + 1))
