"""Estimate the drop in a model's accuracy from the original wording to other wordings.

The module estimates drops with intervals, tests whether a drop exceeds a margin, and tests whether
a drop is negligible (equivalence).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.drawing import bootstrap_totals, cluster_df, cluster_sums, patterns
from audit.statistics.estimate import Estimate, above_pvalue, mean_of
from audit.statistics.mcnemar import cochran_q
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.resampling import N_RESAMPLES, Interval, Resamples, unseen_change
from audit.statistics.values import average


@dataclass(frozen=True)
class WordingDrop:
    """Report the drop in accuracy (0-1) over the items answered under the original and a variant.

    Attributes
    ----------
    original, variants : float
        Accuracy under the original wording and under the variants.
    drop : Interval
        `original` minus `variants`, with a 95 % BCa interval over items (clusters).
    cs : Interval
        Contamination score: the ratio `drop` / `original`, with a 95 % BCa interval.
    largest : float
        Largest drop that is compatible with the data (one-sided 95 % upper limit).
    n, units : int
        Number of items, and number of clusters.

    Notes
    -----
    The intervals of `drop` and `cs` extend to either side of the estimate at least by
    `audit.statistics.resampling.unseen_change`.
    """

    original: float
    variants: float
    drop: Interval
    cs: Interval
    largest: float
    n: int
    units: int


@dataclass(frozen=True)
class Equivalence:
    """Report an equivalence test. Its alternative: the drop lies between -delta and delta.

    Attributes
    ----------
    delta : float
        Smallest drop that matters.
    p_no_larger : float
        p-value of the one-sided test with the alternative drop < delta (non-inferiority).
    p_no_smaller : float
        p-value of the one-sided test with the alternative drop > -delta.
    pvalue : float
        The larger of `p_no_larger` and `p_no_smaller`.

    Notes
    -----
    The method is the two one-sided tests procedure (TOST): Schuirmann (1987), J Pharmacokinet
    Biopharm 15.
    """

    delta: float
    p_no_larger: float
    p_no_smaller: float
    pvalue: float


@dataclass(frozen=True)
class RunNoise:
    """Report how much the outcomes of replicates of the same wording differ.

    Attributes
    ----------
    replicates : int
        Number of replicates K.
    flipped : float
        Share of items whose outcome differs between two replicates, averaged over pairs of
        replicates.
    sd_difference : float
        Root mean square difference in accuracy between two replicates.
    pvalue : float
        p-value of Cochran's Q test over the items that every replicate answered.

    Notes
    -----
    With fewer than two replicates, `flipped`, `sd_difference` and `pvalue` are NaN.
    """

    replicates: int
    flipped: float
    sd_difference: float
    pvalue: float


def item_means(original: FloatArray, variants: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return each item's mean outcome under the original and under the variants.

    Parameters
    ----------
    original : (K, n) array
        Answers of K replicates, NaN if missing.
    variants : (N, n) array
        Answers to N variants, NaN if missing.

    Returns
    -------
    tuple of (n,) arrays
        Means over answered replicates, and over answered variants. Both means are NaN for an item
        without an answer to the original, or without an answer to a variant.
    """
    o, v = average(np.atleast_2d(original)), average(np.atleast_2d(variants))
    missing = np.isnan(o) | np.isnan(v)
    return np.where(missing, np.nan, o), np.where(missing, np.nan, v)


def wording_drop(
    original: FloatArray,
    variants: FloatArray,
    cluster: IntArray,
    *,
    n_resamples: int = N_RESAMPLES,
    rng: np.random.Generator,
) -> WordingDrop:
    """Return a model's accuracies, drop and contamination score.

    The intervals are bootstrap intervals over items or clusters.

    Parameters
    ----------
    original : (K, n) array
        Answers of K replicates, NaN if missing.
    variants : (N, n) array
        Answers to N variants, NaN if missing.
    cluster : (n,) array
        Cluster of each item, 0..G-1.
    n_resamples : int
        Number of bootstrap resamples.
    rng : numpy.random.Generator
        Source of the resamples.

    Returns
    -------
    WordingDrop
        Estimates and intervals.

    Raises
    ------
    DataError
        If no item has both an original and a variant answered.

    Notes
    -----
    The contamination score is computed from the accuracies over all items:

      CS = (accuracy_original - accuracy_variants) / accuracy_original.

    If all wordings are equally hard, this ratio is 0 on average. The mean of the contamination
    scores of single items would not be 0 on average.
    """
    o, v = item_means(original, variants)
    compared = ~np.isnan(o)
    d = mean_of(o - v, cluster)
    _, index = np.unique(cluster[compared], return_inverse=True)
    units = int(index.max()) + 1
    pattern, count = patterns(
        cluster_sums(np.stack([o[compared], v[compared], np.ones(compared.sum())]), index)
    )
    total = pattern @ count

    def statistics(totals: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", divide="ignore"):
            gap = totals[:, 0] - totals[:, 1]
            return np.column_stack([gap / totals[:, 2], gap / totals[:, 0]])

    resamples = Resamples(
        statistics(total[None])[0],
        statistics(bootstrap_totals(pattern, count, n_resamples, rng)),
        statistics((total[:, None] - pattern).T),
        count.astype(float),
    )
    drop, cs = resamples.intervals(units=1 + cluster_df(index))
    unseen, accuracy = unseen_change((o - v)[compared], index), float(o[compared].mean())
    drop = drop.at_least(unseen)
    cs = cs.at_least(unseen / accuracy, within=np.inf) if accuracy > 0 else cs
    n = int(compared.sum())
    return WordingDrop(accuracy, float(v[compared].mean()), drop, cs, largest_drop(d), n, units)


def largest_drop(drop: Estimate) -> float:
    """Return the one-sided 95 % upper limit of a drop.

    Parameters
    ----------
    drop : Estimate
        The drop, estimated over G units (items or clusters).

    Returns
    -------
    float
        Upper limit by Student's t over the G units and one added unit with a drop of 1. The limit
        is at least p, where p solves (1 - p)^G = 5 %: if a share p of all units drops, a sample of
        G units shows no drop with probability 5 %.
    """
    units, drop = drop.units, _with_a_drop(drop)
    unseen = 1 - (1 - 0.95) ** (1 / max(units, 1))
    return float(max(drop.value + scipy.special.stdtrit(drop.df, 0.95) * drop.se, unseen))


def _with_a_drop(drop: Estimate) -> Estimate:
    """Return the estimate with one added unit that has a drop of 1.

    Suppose that one item in twenty drops. A sample that contains few such items then has a small
    drop and also a small standard error. With 60 or 100 items and without the added unit, the
    t-test would wrongly find no relevant drop in 10 to 12 % of such models.
    """
    g = drop.units
    shift = (1 - drop.value) / (g + 1)
    # An influence of 0 marks a unit without a value, which is not counted.
    influence = drop.influence[np.argsort(np.abs(drop.influence))[drop.empty :]]
    return Estimate(
        drop.value + shift,
        np.append(influence * g - shift, g * shift) / (g + 1),
        uneven=drop.uneven,
    )


def above_broken(
    original: FloatArray,
    variants: FloatArray,
    chance: FloatArray,
    cluster: IntArray,
    broken_share: float,
) -> tuple[float, Estimate]:
    """Test whether the drop is larger than a given share of broken variants can explain.

    Parameters
    ----------
    original : (K, n) array
        Answers of K replicates, NaN if missing.
    variants : (N, n) array
        Answers to N variants, NaN if missing.
    chance : (n,) array
        Probability that a guess at each item is right.
    cluster : (n,) array
        Cluster of each item, 0..G-1.
    broken_share : float
        Share (0-1) of variants whose gold answer is no longer right.

    Returns
    -------
    p : float
        One-sided p-value. p <= alpha if and only if the one-sided lower confidence limit of the
        excess is above 0.
    excess : Estimate
        The drop minus broken_share * (accuracy - chance).

    Raises
    ------
    DataError
        If no item has both an original and a variant answered.

    Notes
    -----
    If the gold answer of a variant is no longer right, an answer to this variant matches the gold
    only by chance. The expected accuracy on this variant is lower by (accuracy - chance).
    """
    o, v = item_means(original, variants)
    excess = mean_of(o - v, cluster).plus(
        mean_of(o - np.where(np.isnan(o), np.nan, chance), cluster), -broken_share
    )
    return above_pvalue(excess), excess


def equivalence(drop: Estimate, delta: float) -> Equivalence:
    """Test the claim that a drop lies between -delta and delta (two one-sided tests).

    Parameters
    ----------
    drop : Estimate
        The drop, estimated over G units (items or clusters).
    delta : float
        Smallest drop that matters, between 0 and 1.

    Returns
    -------
    Equivalence
        The two p-values, and the larger of them.

    Raises
    ------
    DataError
        If delta does not lie between 0 and 1.

    Notes
    -----
    The tests are by Student's t over the units. The test of `p_no_larger` adds one unit with a drop
    of 1. If almost nothing varies, p is at least (1 - delta)^G. This is the probability that G
    sampled units show no drop if a share delta of all units drops.

    Examples
    --------
    >>> equivalence(Estimate(0.0, np.repeat([0.001, -0.001], 500)), 0.05).p_no_larger < 0.07
    True
    """
    if not 0 < delta < 1:
        raise DataError(
            f"The smallest drop that matters is {delta}. Expected a value between 0 and 1. "
            "Example: 0.05."
        )
    unseen = (1 - delta) ** drop.units
    padded = _with_a_drop(drop)
    sides = []
    # The first test has the alternative -drop > -delta, and the second has drop > -delta.
    for estimate in (padded.scaled(-1.0), drop):
        p = above_pvalue(estimate, -delta) if estimate.se > 0 else float(estimate.value <= -delta)
        sides.append(max(p, unseen))
    return Equivalence(delta, sides[0], sides[1], max(sides))


def run_noise(original: FloatArray, cluster: IntArray) -> RunNoise:
    """Return how much replicates of the original wording differ.

    Parameters
    ----------
    original : (K, n) array
        Answers of K replicates, NaN if missing.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    RunNoise
        Differences between replicates, over the items that every replicate answered.
    """
    runs = np.atleast_2d(np.asarray(original, dtype=float))
    complete_items = ~np.isnan(runs).any(axis=0)
    complete = runs[:, complete_items]
    k = len(runs)
    if k < 2 or not complete.size:
        return RunNoise(k, float("nan"), float("nan"), float("nan"))
    flips = []
    gaps = []
    for a in range(k):
        for b in range(a):
            flips.append(np.mean(complete[a] != complete[b]))
            gaps.append(complete[a].mean() - complete[b].mean())
    p = cochran_q(complete, cluster[complete_items])
    return RunNoise(k, float(np.mean(flips)), float(np.sqrt(np.mean(np.square(gaps)))), p)


def wording_flips(variants: FloatArray, original: FloatArray) -> float:
    """Return the probability that two wordings of an item get different outcomes.

    Parameters
    ----------
    variants : (N, n) array
        Answers to N variants, NaN if missing.
    original : (K, n) array
        Answers of K replicates, NaN if missing.

    Returns
    -------
    float
        Mean over pairs of variants of the same item. If no item has two answered variants, the mean
        over pairs of an original and a variant, which includes any effect of memory of the
        original. NaN without any pair.
    """
    v = np.atleast_2d(np.asarray(variants, dtype=float))
    answered, right = np.sum(~np.isnan(v), axis=0), np.nansum(v, axis=0)
    pairs = answered >= 2
    if pairs.any():
        m, s = answered[pairs], right[pairs]
        return float(np.mean(2 * s * (m - s) / (m * (m - 1))))
    o, mean = item_means(original, v)
    compared = ~np.isnan(o)
    return (
        float(np.mean(o * (1 - mean) + (1 - o) * mean, where=compared))
        if compared.any()
        else float("nan")
    )
