"""Resampling over items with every arm of an item carried together: bootstrap intervals and a max-statistic test."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from audit.errors import DataError
from audit.statistics.drawing import bootstrap_totals, cluster_sums, flip_totals, patterns
from audit.statistics.paired import FloatArray, IntArray

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


@dataclass(frozen=True)
class Resamples:
    """One statistic (K values): its estimate (K,), resamples (B, K), and jackknife (J, K) with weights (J,)."""

    estimate: FloatArray
    draws: FloatArray
    jackknife: FloatArray
    jackknife_weight: FloatArray

    def intervals(self, confidence: float = 0.95, method: Method = "bca") -> tuple[Interval, ...]:
        """One interval for each of the K values.

        "percentile" takes quantiles of the resamples; "bca" corrects them for bias and skewness (Efron 1987, JASA 82).
        """
        if not 0 < confidence < 1:
            raise DataError(f"A confidence lies between 0 and 1, such as 0.95; found {confidence}.")
        tail = (1 - confidence) / 2
        out = []
        for k, estimate in enumerate(self.estimate):
            draws = self.draws[:, k]
            draws = draws[np.isfinite(draws)]  # a resample without a single complete pair has no value
            if draws.size == 0 or not np.isfinite(estimate):
                out.append(Interval(float(estimate), np.nan, np.nan, confidence, method, np.nan))
                continue
            probabilities = np.array([tail, 1 - tail])
            if method == "bca":
                probabilities = self._bca(k, draws, probabilities)
            low, high = np.quantile(draws, probabilities)
            se = float(draws.std(ddof=1)) if draws.size > 1 else np.nan
            out.append(Interval(float(estimate), float(low), float(high), confidence, method, se))
        return tuple(out)

    def _bca(self, k: int, draws: FloatArray, probabilities: FloatArray) -> FloatArray:
        below = np.mean(draws < self.estimate[k] - 1e-12) + 0.5 * np.mean(np.abs(draws - self.estimate[k]) <= 1e-12)
        bias = stats.norm.ppf(np.clip(below, 0.5 / draws.size, 1 - 0.5 / draws.size))
        w, jack = self.jackknife_weight, self.jackknife[:, k]
        finite = np.isfinite(jack)
        w, jack = w[finite], jack[finite]
        deviation = np.average(jack, weights=w) - jack if w.size else np.zeros(1)
        spread = float(np.sum(w * deviation**2)) if w.size else 0.0
        skew = float(np.sum(w * deviation**3) / (6 * spread**1.5)) if spread > 0 else 0.0
        z = bias + stats.norm.ppf(probabilities)
        adjusted: FloatArray = stats.norm.cdf(bias + z / (1 - skew * z))
        return adjusted


@dataclass(frozen=True)
class SweepResamples:
    """The bootstrap of a sweep: each statistic over the same resamples, so that any function of them can be formed.

    clean: K=1. noisy, gain: K=R. mean_gain: K=1.
    """

    routers: tuple[int, ...]
    clean: Resamples
    noisy: Resamples
    gain: Resamples
    mean_gain: Resamples


@dataclass(frozen=True)
class BootstrapResult:
    """Intervals of a sweep. noisy_accuracy, gain and positive_excess hold one interval per router count."""

    routers: tuple[int, ...]
    clean_accuracy: Interval
    noisy_accuracy: tuple[Interval, ...]
    gain: tuple[Interval, ...]
    positive_excess: tuple[Interval, ...]
    mean_gain: Interval
    n_resamples: int
    n_clusters: int


@dataclass(frozen=True)
class MaxStatResult:
    """A max-statistic test over R settings.

    statistic: (R,) standardised gains, signed so that large speaks for the alternative. pvalue: family-wise p of the
    cell. pvalues: (R,) unadjusted. adjusted: (R,) step-down adjusted. best: index of the largest statistic.
    n_pairs: (R,) complete pairs.
    """

    statistic: FloatArray
    pvalue: float
    pvalues: FloatArray
    adjusted: FloatArray
    best: int
    n_pairs: IntArray
    n_permutations: int
    alternative: str


def bootstrap_sweep(
    clean: FloatArray,
    noisy: FloatArray,
    cluster: IntArray | None = None,
    *,
    routers: tuple[int, ...] | None = None,
    n_resamples: int = N_RESAMPLES,
    rng: np.random.Generator,
) -> SweepResamples:
    """Resample whole clusters (items where `cluster` is None) and recompute every accuracy and gain.

    Parameters
    ----------
    clean : (n,) values in [0, 1], NaN where there is no answer
    noisy : (R, n) values of the same items
    cluster : (n,) cluster of each item, or None
    routers : router count of each noisy row; 1..R where None
    n_resamples : B

    Notes
    -----
    Accuracies are over the items answered in that arm; a gain is over the pairs with both answers. Both are ratios of
    sums over clusters, so that clusters of different sizes and missing answers need no special case.
    """
    clean, noisy, cluster = _checked(clean, noisy, cluster)
    r = noisy.shape[0]
    seen_clean, seen = ~np.isnan(clean), ~np.isnan(noisy)
    both = seen & seen_clean
    rows = np.concatenate(
        [
            np.where(seen_clean, clean, 0)[None],
            seen_clean[None],
            np.where(seen, noisy, 0),
            seen,
            np.where(both, noisy - clean, 0),
            both,
        ]
    )

    def statistics(totals: FloatArray) -> FloatArray:
        """Totals (B, 2 + 4R) -> clean, R noisy accuracies, R gains, mean gain."""
        noisy_sum, noisy_n, gain_sum, gain_n = np.split(totals[:, 2:], 4, axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            gains = gain_sum / gain_n
            return np.column_stack(
                [totals[:, 0] / totals[:, 1], noisy_sum / noisy_n, gains, gains.mean(axis=1)],
            )

    pattern, count = patterns(cluster_sums(rows, cluster))
    total = pattern @ count
    draws = statistics(bootstrap_totals(pattern, count, n_resamples, rng))
    estimate = statistics(total[None])[0]
    jackknife = statistics((total[:, None] - pattern).T)

    def part(columns: slice) -> Resamples:
        return Resamples(estimate[columns], draws[:, columns], jackknife[:, columns], count.astype(float))

    end = 1 + 2 * r
    return SweepResamples(
        routers=routers or tuple(range(1, r + 1)),
        clean=part(slice(0, 1)),
        noisy=part(slice(1, 1 + r)),
        gain=part(slice(1 + r, end)),
        mean_gain=part(slice(end, end + 1)),
    )


def paired_bootstrap(
    clean: FloatArray,
    noisy: FloatArray,
    cluster: IntArray | None = None,
    *,
    routers: tuple[int, ...] | None = None,
    n_resamples: int = N_RESAMPLES,
    confidence: float = 0.95,
    method: Method = "bca",
    rng: np.random.Generator,
) -> BootstrapResult:
    """Item-paired bootstrap intervals of a sweep (see `bootstrap_sweep` for the arguments).

    The interval of a positive excess max(gain, 0) is the gain's interval cut at 0: both methods respect monotone
    transformations, and a resample's excess is the cut of its gain.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> clean = np.repeat([1.0, 0.0], 50)
    >>> noisy = np.roll(clean, 5)[None]  # 5 improve, 5 degrade
    >>> gain = paired_bootstrap(clean, noisy, rng=rng).gain[0]
    >>> gain.estimate, gain.low < 0 < gain.high
    (0.0, True)
    """
    resamples = bootstrap_sweep(clean, noisy, cluster, routers=routers, n_resamples=n_resamples, rng=rng)
    return sweep_intervals(resamples, confidence, method)


def sweep_intervals(resamples: SweepResamples, confidence: float = 0.95, method: Method = "bca") -> BootstrapResult:
    """The intervals of resamples that are already drawn (so that a slope can use the same ones)."""
    gain = resamples.gain.intervals(confidence, method)
    return BootstrapResult(
        routers=resamples.routers,
        clean_accuracy=resamples.clean.intervals(confidence, method)[0],
        noisy_accuracy=resamples.noisy.intervals(confidence, method),
        gain=gain,
        positive_excess=_cut(gain, resamples.gain.draws),
        mean_gain=resamples.mean_gain.intervals(confidence, method)[0],
        n_resamples=len(resamples.gain.draws),
        n_clusters=int(resamples.gain.jackknife_weight.sum()),
    )


def max_statistic_permutation(
    clean: FloatArray,
    noisy: FloatArray,
    cluster: IntArray | None = None,
    *,
    n_permutations: int = N_RESAMPLES,
    alternative: Literal["greater", "less", "two-sided"] = "greater",
    rng: np.random.Generator,
) -> MaxStatResult:
    """One family-wise p over all R settings that share a clean baseline, and step-down adjusted p per setting.

    The statistic of a setting is McNemar's (improve - degrade) / sqrt(improve + degrade), in general
    sum(d) / sqrt(sum(d^2)) over clusters of differences d = noisy - clean. Under the null, clean and noisy are
    exchanged within an item (a cluster): the signs of ALL its R differences flip together, so the correlation that the
    shared baseline and nested draws create is kept as observed.

    Parameters
    ----------
    clean : (n,) values in [0, 1], NaN where there is no answer
    noisy : (R, n) values of the same items; pairs without both answers count as no difference
    cluster : (n,) cluster of each item, flipped as one, or None
    n_permutations : random flips; the observed labelling is counted too, so p >= 1 / (n_permutations + 1)
    alternative : "greater" (noisy beats clean), "less", or "two-sided"

    Notes
    -----
    Why not permute all R + 1 labels of an item: that needs every arm exchangeable with every other. It fails when one
    noisy setting really differs (its effect leaks into the null of the others) and with nested draws (noisy arms are
    more alike than clean and noisy, so their spread would be too small). A sign flip needs only that a setting's
    differences are symmetric about zero: for a single setting with binary outcomes it *is* the exact McNemar test.
    Jointly over R settings it is exact where items are as likely to be answered as not, and otherwise asymptotic (the
    flips have the differences' own covariance, whatever it is); the tests measure its level at n=100 with hard and
    easy items and with nested draws. Each setting's null distribution depends on its own differences only (subset
    pivotality), which is what makes the step-down adjustment valid (Westfall & Young 1993, section 2.8).
    """
    clean, noisy, cluster = _checked(clean, noisy, cluster)
    difference = noisy - clean
    n_pairs = np.sum(~np.isnan(difference), axis=1)
    scores = cluster_sums(np.nan_to_num(difference, nan=0.0), cluster)
    observed, exceed, reference = _flip_test(scores, n_permutations, alternative, rng)
    order = np.argsort(-observed, kind="stable")
    # Step-down: the k-th largest statistic is compared with the maximum over itself and all smaller ones.
    tops = np.maximum.accumulate(reference[:, order[::-1]], axis=1)[:, ::-1]
    stepped = (1 + np.sum(tops >= observed[order] - 1e-9, axis=0)) / (n_permutations + 1)
    adjusted = np.empty_like(stepped)
    adjusted[order] = np.maximum.accumulate(stepped)
    return MaxStatResult(
        statistic=observed,
        pvalue=float(adjusted[order[0]]),
        pvalues=exceed,
        adjusted=adjusted,
        best=int(order[0]),
        n_pairs=n_pairs.astype(np.int64),
        n_permutations=n_permutations,
        alternative=alternative,
    )


def sign_flip_pvalue(
    scores: FloatArray,
    cluster: IntArray | None = None,
    *,
    n_permutations: int = N_RESAMPLES,
    alternative: Literal["greater", "less", "two-sided"] = "greater",
    rng: np.random.Generator,
) -> float:
    """p-value that the scores (n,) of items are symmetric about zero, by random sign flips; NaN scores are left out."""
    values = np.nan_to_num(np.asarray(scores, dtype=float), nan=0.0)[None]
    groups = np.arange(values.shape[1]) if cluster is None else np.asarray(cluster)
    _, pvalues, _ = _flip_test(cluster_sums(values, groups), n_permutations, alternative, rng)
    return float(pvalues[0])


def _flip_test(
    scores: FloatArray, n_permutations: int, alternative: str, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scores (K, G) -> observed statistics (K,), unadjusted p (K,), reference statistics (n_permutations, K)."""
    if alternative not in ("greater", "less", "two-sided"):
        raise DataError(f"Unknown alternative {alternative!r}; expected greater, less or two-sided.")
    scale = np.sqrt(np.sum(scores**2, axis=1))
    scale[scale == 0] = 1.0  # no difference anywhere: statistic 0 in every permutation, p = 1
    observed = scores.sum(axis=1) / scale
    # A pattern and its negative have the same flips: keep one of the two, and drop items without any difference.
    lead = np.sign(scores[np.argmax(scores != 0, axis=0), np.arange(scores.shape[1])])
    pattern, count = patterns((scores * lead)[:, lead != 0])
    reference = flip_totals(pattern, count, n_permutations, rng) / scale
    if alternative == "less":
        observed, reference = -observed, -reference
    elif alternative == "two-sided":
        observed, reference = np.abs(observed), np.abs(reference)
    exceed = (1 + np.sum(reference >= observed - 1e-9, axis=0)) / (n_permutations + 1)
    return observed, exceed, reference


def _cut(gain: tuple[Interval, ...], draws: FloatArray) -> tuple[Interval, ...]:
    excess = np.maximum(draws, 0)
    return tuple(
        Interval(
            max(i.estimate, 0.0),
            max(i.low, 0.0),
            max(i.high, 0.0),
            i.confidence,
            i.method,
            float(np.nanstd(excess[:, k], ddof=1)) if np.isfinite(i.se) else np.nan,
        )
        for k, i in enumerate(gain)
    )


def _checked(clean: FloatArray, noisy: FloatArray, cluster: IntArray | None) -> tuple[FloatArray, FloatArray, IntArray]:
    clean, noisy = np.asarray(clean, dtype=float), np.atleast_2d(np.asarray(noisy, dtype=float))
    n = clean.size
    groups = np.arange(n) if cluster is None else np.asarray(cluster)
    if clean.ndim != 1 or n == 0 or noisy.shape[1] != n or groups.shape != (n,):
        raise DataError(
            f"Paired outcomes need clean (n,), noisy (R, n) and cluster (n,) with n >= 1; "
            f"found {clean.shape}, {noisy.shape}, {groups.shape}."
        )
    for name, values in (("clean", clean), ("noisy", noisy)):
        outside = values[~np.isnan(values)]
        if outside.size and (outside.min() < 0 or outside.max() > 1):
            raise DataError(f"Outcomes lie in [0, 1] (NaN: no answer); {name} has {outside.min()} to {outside.max()}.")
    return clean, noisy, groups
