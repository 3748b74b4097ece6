"""Compute bootstrap intervals by resampling items.

An item is resampled with its answers under all arms.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.drawing import ITEMS, bootstrap_totals, cluster_sums, patterns, patterns_of
from audit.statistics.paired import FloatArray, IntArray, checked_pair

Method = Literal["percentile", "bca"]
N_RESAMPLES = 10_000


@dataclass(frozen=True)
class Interval:
    """Hold a confidence interval, in the unit of the estimate.

    The unit is accuracy (0-1) unless stated otherwise.

    Attributes
    ----------
    estimate, low, high : float
        The estimate and the ends of its interval.
    confidence : float
        Confidence level of the interval, such as 0.95.
    method : str
        "percentile" or "bca".
    se : float
        Standard deviation of the estimate over resamples.
    """

    estimate: float
    low: float
    high: float
    confidence: float
    method: Method
    se: float

    def at_least(self, arm: float, within: float = 1.0) -> "Interval":
        """Return the interval, widened so that each end has a minimum distance from the estimate.

        Parameters
        ----------
        arm : float
            Smallest allowed distance from the estimate to either end (`unseen_change`).
        within : float
            The ends are cut at -within and within.

        Returns
        -------
        Interval
            The interval, widened if necessary.
        """
        low, high = min(self.low, self.estimate - arm), max(self.high, self.estimate + arm)
        return replace(self, low=max(low, -within), high=min(high, within))


@dataclass(frozen=True)
class Resamples:
    """Hold K statistics of the whole sample and of B resamples.

    Attributes
    ----------
    estimate : (K,) array
        Statistics of the whole sample.
    draws : (B, K) array
        Statistics of each resample.
    jackknife : (J, K) array
        Statistics of the sample with one unit left out. One row represents all units that have the
        same pattern of outcomes.
    jackknife_weight : (J,) array
        Number of units that each row of `jackknife` represents.
    """

    estimate: FloatArray
    draws: FloatArray
    jackknife: FloatArray
    jackknife_weight: FloatArray

    def intervals(
        self, confidence: float = 0.95, method: Method = "bca", units: float | None = None
    ) -> tuple[Interval, ...]:
        """Return one interval for each of the K values.

        Parameters
        ----------
        confidence : float
            Coverage, between 0 and 1.
        method : {"percentile", "bca"}
            "percentile" uses quantiles of the resamples. "bca" corrects them for bias and skewness.
        units : float or None
            Number of resampled items, or number of resampled clusters of equal size (`cluster_df` +
            1). The interval is widened by the factor `expansion`. None does not widen the interval.

        Returns
        -------
        tuple of Interval
            K intervals. The ends of an interval are NaN if the resamples do not determine them.

        Raises
        ------
        DataError
            If the confidence does not lie between 0 and 1.

        Notes
        -----
        The corrected method is BCa (Efron 1987, JASA 82).
        """
        if not 0 < confidence < 1:
            raise DataError(
                f"The confidence is {confidence}. Expected a value between 0 and 1. Example: 0.95."
            )
        tail = float(
            scipy.stats.norm.cdf(
                scipy.stats.norm.ppf((1 - confidence) / 2) * expansion(confidence, units)
            )
        )
        out = []
        for k, estimate in enumerate(self.estimate):
            draws = self.draws[:, k]
            # A resample without any complete pair of answers gives NaN.
            draws = draws[np.isfinite(draws)]
            ends, low, high, se = np.array([tail, 1 - tail]), np.nan, np.nan, np.nan
            if draws.size and np.isfinite(estimate):
                ends = self._bca(k, draws, ends) if method == "bca" else ends
                # With only about two units, the BCa limits are not defined, and remain NaN.
                if np.isfinite(ends).all():
                    low, high = np.quantile(draws, ends)
                    se = float(draws.std(ddof=1)) if draws.size > 1 else np.nan
            out.append(Interval(float(estimate), float(low), float(high), confidence, method, se))
        return tuple(out)

    def _bca(self, k: int, draws: FloatArray, probabilities: FloatArray) -> FloatArray:
        below = np.mean(draws < self.estimate[k] - 1e-12) + 0.5 * np.mean(
            np.abs(draws - self.estimate[k]) <= 1e-12
        )
        bias = scipy.stats.norm.ppf(np.clip(below, 0.5 / draws.size, 1 - 0.5 / draws.size))
        w, jack = self.jackknife_weight, self.jackknife[:, k]
        finite = np.isfinite(jack)
        w, jack = w[finite], jack[finite]
        deviation = np.average(jack, weights=w) - jack if w.size else np.zeros(1)
        spread = float(np.sum(w * deviation**2)) if w.size else 0.0
        skew = float(np.sum(w * deviation**3) / (6 * spread**1.5)) if spread > 0 else 0.0
        z = bias + scipy.stats.norm.ppf(probabilities)
        with np.errstate(invalid="ignore"):  # z may be infinite; the caller handles the NaN.
            return scipy.stats.norm.cdf(bias + z / (1 - skew * z))


def expansion(confidence: float, units: float | None) -> float:
    """Return the factor by which a normal quantile is multiplied to widen a bootstrap interval.

    Parameters
    ----------
    confidence : float
        Coverage of the interval.
    units : float or None
        Number m of resampled units.

    Returns
    -------
    float
        The factor sqrt(m / (m - 1)) t / z, where t is the quantile with m - 1 degrees of freedom.
        It is 1 if units is None or below 2.

    Notes
    -----
    The bootstrap standard error of m units is too small by a factor sqrt((m - 1) / m). It is also
    an estimate with at most m - 1 degrees of freedom. The returned factor corrects for the bias and
    for the uncertainty of this estimate (expanded percentile interval, Hesterberg 2015, The
    American Statistician 69).
    """
    if units is None or units < 2:
        return 1.0
    upper = (1 + confidence) / 2
    return float(
        np.sqrt(units / (units - 1))
        * scipy.stats.t.ppf(upper, units - 1)
        / scipy.stats.norm.ppf(upper)
    )


def effective_number(values: FloatArray, cluster: IntArray) -> FloatArray:
    """Return the effective number of independent values in each row.

    Parameters
    ----------
    values : (R, n) array
        Values of n items, NaN if missing.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    (R,) array
        Number of values that are not missing, divided by the design effect (at least 1). The design
        effect is the cluster-robust variance of the mean divided by its variance for independent
        values.

    Notes
    -----
    If all values of a row are equal, the effective number is the number of clusters. The reason is
    that the items of a cluster (such as the questions on one text) may all change together.
    """
    if np.unique(cluster).size == cluster.size:
        return np.array([float(np.sum(~np.isnan(row))) for row in values])
    numbers = []
    for row in values:
        known = ~np.isnan(row)
        _, place = np.unique(cluster[known], return_inverse=True)
        n = place.size
        g = int(place.max()) + 1 if n else 0
        effect = 1.0
        if 1 < g < n:
            off = row[known] - row[known].mean()
            alone = float(np.sum(off**2)) * n / (n - 1)
            robust = float(np.sum(np.bincount(place, off) ** 2)) * g / (g - 1)
            effect = max(1.0, robust / alone) if alone > 0 else n / g
        elif g == 1:
            effect = float(n)
        numbers.append(n / effect)
    return np.array(numbers)


def unseen_share(number: FloatArray, confidence: float = 0.95) -> FloatArray:
    """Return the largest share of cases that may exist although the independent observed values
    contain no case.

    Parameters
    ----------
    number : array
        Number of independent values.
    confidence : float
        Two-sided confidence.

    Returns
    -------
    array
        The share p. If a share p of all values are cases, the observed values contain no case with
        probability (1 - confidence) / 2. The share is 1 if there are no values.

    Examples
    --------
    >>> unseen_share(np.array([0.0, 72.0])).round(3).tolist()
    [1.0, 0.05]
    """
    with np.errstate(divide="ignore"):
        return 1 - ((1 - confidence) / 2) ** (1 / np.asarray(number, dtype=float))


def unseen_change(values: FloatArray, cluster: IntArray, confidence: float = 0.95) -> float:
    """Return the largest share of items that may change although no observed item shows a change.

    Parameters
    ----------
    values : (n,) array
        Values of the items; items with NaN are left out.
    cluster : (n,) array
        Cluster of each item.
    confidence : float
        Two-sided confidence.

    Returns
    -------
    float
        The share, 0-1. Intervals extend at least this far from the estimate to either side.

    Notes
    -----
    If few or no observed items change, the bootstrap distribution has almost no spread, and its
    interval is too short.
    """
    return float(unseen_share(effective_number(values[None], cluster), confidence)[0])


@dataclass(frozen=True)
class SweepResamples:
    """Hold the resamples of R conditions and of their baseline.

    All statistics are computed from the same resamples.

    Attributes
    ----------
    clean : Resamples
        Accuracy of the baseline (K = 1).
    noisy, gain : Resamples
        Accuracies and gains of the conditions (K = R).
    mean_gain : Resamples
        Mean gain over the conditions (K = 1).
    """

    clean: Resamples
    noisy: Resamples
    gain: Resamples
    mean_gain: Resamples


def _sweep_sums(clean: FloatArray, noisy: FloatArray) -> FloatArray:
    """Return an array (2 + 4R, n) of terms, one column for each item.

    The statistics of `bootstrap_sweep` are ratios of sums of these terms over items.
    """
    seen_clean, seen = ~np.isnan(clean), ~np.isnan(noisy)
    both = seen & seen_clean
    of_clean, of_noisy = np.where(seen_clean, clean, 0)[None], np.where(seen, noisy, 0)
    return np.concatenate(
        [of_clean, seen_clean[None], of_noisy, seen, np.where(both, noisy - clean, 0), both]
    )


def _sweep_means(totals: FloatArray) -> FloatArray:
    """Compute accuracies and gains from the summed terms (B, 2 + 4R) of B resamples.

    Return the clean accuracy, R noisy accuracies, R gains and the mean gain.
    """
    noisy_sum, noisy_n, gain_sum, gain_n = np.split(totals[:, 2:], 4, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        gains = gain_sum / gain_n
        return np.column_stack(
            [totals[:, 0] / totals[:, 1], noisy_sum / noisy_n, gains, gains.mean(axis=1)]
        )


def bootstrap_sweep(
    clean: FloatArray,
    noisy: FloatArray,
    cluster: IntArray | None = None,
    *,
    n_resamples: int = N_RESAMPLES,
    rng: np.random.Generator,
) -> SweepResamples:
    """Resample whole clusters and recompute every accuracy and gain.

    Parameters
    ----------
    clean : (n,) array
        Values in [0, 1], NaN without an answer.
    noisy : (R, n) array
        Values of the same items under R conditions.
    cluster : (n,) array or None
        Cluster of each item; None resamples items.
    n_resamples : int
        Number B of resamples.
    rng : numpy.random.Generator
        Source of the resamples.

    Returns
    -------
    SweepResamples
        The accuracies and gains, all computed from the same resamples.

    Raises
    ------
    DataError
        If the shapes do not fit or a value lies outside [0, 1].

    Notes
    -----
    The accuracy of an arm is the mean over the items answered in that arm. A gain is the mean
    difference over the items that were answered in the two arms. Accuracies and gains are ratios of
    sums over clusters, so clusters of different sizes and missing answers need no special
    treatment.
    """
    clean, noisy, cluster = checked_pair(clean, noisy, cluster)
    r = noisy.shape[0]

    n = clean.size
    # Items are processed in blocks, because the sums need many times the memory of the outcomes.
    if np.unique(cluster).size == n:
        parts = (slice(start, start + ITEMS) for start in range(0, n, ITEMS))
        pattern, count = patterns_of(_sweep_sums(clean[part], noisy[:, part]) for part in parts)
    else:
        pattern, count = patterns(cluster_sums(_sweep_sums(clean, noisy), cluster))
    total = pattern @ count
    draws = _sweep_means(bootstrap_totals(pattern, count, n_resamples, rng))
    estimate = _sweep_means(total[None])[0]
    jackknife = _sweep_means((total[:, None] - pattern).T)

    def part(columns: slice) -> Resamples:
        return Resamples(
            estimate[columns], draws[:, columns], jackknife[:, columns], count.astype(float)
        )

    end = 1 + 2 * r
    return SweepResamples(
        clean=part(slice(0, 1)),
        noisy=part(slice(1, 1 + r)),
        gain=part(slice(1 + r, end)),
        mean_gain=part(slice(end, end + 1)),
    )


def studentised_pvalue(
    scores: FloatArray,
    cluster: IntArray | None = None,
    *,
    n_resamples: int = N_RESAMPLES,
    rng: np.random.Generator,
) -> float:
    """Test whether the mean of the scores is above zero, by the bootstrap-t.

    Parameters
    ----------
    scores : (n,) array
        Score of each item; items with NaN are left out.
    cluster : (n,) array or None
        Cluster of each item; If None, each item is a separate cluster.
    n_resamples : int
        Number of resamples.
    rng : numpy.random.Generator
        Source of the resamples.

    Returns
    -------
    float
        One-sided p-value for a mean above zero. It is 1 if there are no scores.

    Notes
    -----
    The statistic is the mean divided by its (clustered) standard error. Its null distribution is
    computed from resamples: (mean of the resample - observed mean) / standard error of the resample
    (Efron & Tibshirani 1993, section 16.4).

    The test is intended for scores that are means over settings. A sign-flip test does not suit
    such scores, because they are not symmetric around zero. A permutation test does not suit them
    either, because there are no single runs to exchange.
    """
    known = ~np.isnan(scores)
    groups = np.arange(scores.size) if cluster is None else np.asarray(cluster)
    if not known.any():
        return 1.0
    sums = cluster_sums(scores[known][None], groups[known])
    g = sums.shape[1]

    def studentised(total: FloatArray, square: FloatArray, centre: float) -> FloatArray:
        spread = np.sqrt(np.maximum(square - total**2 / g, 0))
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (total - centre) / spread
        # If the standard error is 0, the statistic is 0 for a mean at the centre, and infinite for
        # any other mean.
        at_centre = np.abs(total - centre) < 1e-12
        return np.where(
            spread > 1e-12, t, np.where(at_centre, 0.0, np.copysign(np.inf, total - centre))
        )

    observed = studentised(sums.sum(axis=1), (sums**2).sum(axis=1), 0.0)[0]
    pattern, count = patterns(sums)
    total, square = bootstrap_totals(
        np.stack([pattern[0], pattern[0] ** 2]), count, n_resamples, rng
    ).T
    reference = studentised(total, square, float(sums.sum()))
    return float((1 + np.sum(reference >= observed - 1e-9)) / (n_resamples + 1))
