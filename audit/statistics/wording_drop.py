"""How much accuracy is lost from the original wording to the others: estimates, intervals, margins, equivalence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.drawing import bootstrap_totals, cluster_df, cluster_sums, patterns
from audit.statistics.estimate import Estimate, above_pvalue, mean_of
from audit.statistics.mcnemar import cochran_q
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.resampling import N_RESAMPLES, Interval, Resamples, unseen_change
from audit.statistics.values import average


@dataclass(frozen=True)
class WordingDrop:
    """Accuracies 0-1 over the items with an original and a variant answered.

    drop: original - variants. cs: the contamination score as a ratio of accuracies, drop / original. Both 95 %, BCa
    over items (clusters), no shorter than `unseen_change`. largest: the largest drop still compatible, one-sided 95 %.
    n items, units clusters.
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
    """Two one-sided tests (Schuirmann 1987, J Pharmacokinet Biopharm 15) that the drop lies within +-delta.

    p_no_larger: for drop < delta, which is the claim "no drop larger than delta"; p_no_smaller: for drop > -delta.
    pvalue: the larger of the two.
    """

    delta: float
    p_no_larger: float
    p_no_smaller: float
    pvalue: float


@dataclass(frozen=True)
class RunNoise:
    """Original against original: what differs between replicates of one wording is noise.

    flipped: mean share of items whose outcome differs between two replicates. sd_difference: root mean square
    difference in accuracy between two. pvalue: Cochran's Q over the items answered in all. NaN where fewer than two.
    """

    replicates: int
    flipped: float
    sd_difference: float
    pvalue: float


def item_means(original: FloatArray, variants: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(K, n) and (N, n) -> (n,) and (n,): means over answered replicates and variants, NaN in both where either is."""
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
    """Accuracies, drop and CS with bootstrap intervals over items or clusters.

    CS = (accuracy_original - accuracy_variants) / accuracy_original, of accuracies: unlike the mean of item scores it
    is 0 on average where nothing is special about the original.
    """
    o, v = item_means(original, variants)
    there = ~np.isnan(o)
    d = mean_of(o - v, cluster)
    _, index = np.unique(cluster[there], return_inverse=True)
    units = int(index.max()) + 1
    pattern, count = patterns(cluster_sums(np.stack([o[there], v[there], np.ones(there.sum())]), index))
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
    unseen, accuracy = unseen_change((o - v)[there], index), float(o[there].mean())
    drop = drop.at_least(unseen)
    cs = cs.at_least(unseen / accuracy, within=np.inf) if accuracy > 0 else cs
    n = int(there.sum())
    return WordingDrop(accuracy, float(v[there].mean()), drop, cs, largest_drop(d), n, units)


def largest_drop(drop: Estimate) -> float:
    """One-sided 95 % limit by t over the units and one that drops; at least what none of G units would show with that
    confidence."""
    units, drop = drop.units, _with_a_drop(drop)
    unseen = 1 - (1 - 0.95) ** (1 / max(units, 1))
    return float(max(drop.value + scipy.special.stdtrit(drop.df, 0.95) * drop.se, unseen))


def _with_a_drop(drop: Estimate) -> Estimate:
    """With one more unit, which drops by 1. Where one item in twenty drops, a sample that shows few of them has a short
    error too, and t would clear 10 to 12 % of such models with 60 or 100 items."""
    g = drop.units
    shift = (1 - drop.value) / (g + 1)
    told = drop.influence[np.argsort(np.abs(drop.influence))[drop.empty :]]  # units with nothing in them have none
    return Estimate(drop.value + shift, np.append(told * g - shift, g * shift) / (g + 1), uneven=drop.uneven)


def above_broken(
    original: FloatArray, variants: FloatArray, chance: FloatArray, cluster: IntArray, broken_share: float
) -> tuple[float, Estimate]:
    """(p, excess) for a drop larger than what a share of broken variants makes: share x (accuracy - chance).

    A variant whose gold answer is lost is answered right by luck, so it costs accuracy - chance. p <= alpha is the same
    as a one-sided lower bound of drop - share x (accuracy - chance) above 0. chance: (n,) of each item.
    """
    o, v = item_means(original, variants)
    excess = mean_of(o - v, cluster).plus(mean_of(o - np.where(np.isnan(o), np.nan, chance), cluster), -broken_share)
    return above_pvalue(excess), excess


def equivalence(drop: Estimate, delta: float) -> Equivalence:
    """TOST by t over the units, and one that drops for "no larger". Where next to nothing varies, p is at least
    (1 - delta)^G: the probability that none of G units shows a drop that a share delta of them has.

    >>> equivalence(Estimate(0.0, np.repeat([0.001, -0.001], 500)), 0.05).p_no_larger < 0.07
    True
    """
    if not 0 < delta < 1:
        raise DataError(f"The largest drop that counts as none lies between 0 and 1, such as 0.05; found {delta}.")
    unseen = (1 - delta) ** drop.units
    padded = _with_a_drop(drop)
    sides = []
    for estimate in (padded.scaled(-1.0), drop):  # -drop > -delta, and drop > -delta
        p = above_pvalue(estimate, -delta) if estimate.se > 0 else float(estimate.value <= -delta)
        sides.append(max(p, unseen))
    return Equivalence(delta, sides[0], sides[1], max(sides))


def run_noise(original: FloatArray, cluster: IntArray) -> RunNoise:
    """What replicates (K, n) of the original wording differ by. cluster: (n,)."""
    runs = np.atleast_2d(np.asarray(original, dtype=float))
    there = ~np.isnan(runs).any(axis=0)
    complete = runs[:, there]
    k = len(runs)
    if k < 2 or not complete.size:
        return RunNoise(k, float("nan"), float("nan"), float("nan"))
    flips = [np.mean(complete[a] != complete[b]) for a in range(k) for b in range(a)]
    gaps = [complete[a].mean() - complete[b].mean() for a in range(k) for b in range(a)]
    p = cochran_q(complete, cluster[there])
    return RunNoise(k, float(np.mean(flips)), float(np.sqrt(np.mean(np.square(gaps)))), p)


def wording_flips(variants: FloatArray, original: FloatArray) -> float:
    """Chance that two wordings of an item disagree: over pairs of variants, or original against variant where no item
    has two answered variants (an effect on the original is then in it). NaN where there is no pair at all."""
    v = np.atleast_2d(np.asarray(variants, dtype=float))
    answered, right = np.sum(~np.isnan(v), axis=0), np.nansum(v, axis=0)
    pairs = answered >= 2
    if pairs.any():
        m, s = answered[pairs], right[pairs]
        return float(np.mean(2 * s * (m - s) / (m * (m - 1))))
    o, mean = item_means(original, v)
    there = ~np.isnan(o)
    return float(np.mean(o * (1 - mean) + (1 - o) * mean, where=there)) if there.any() else float("nan")
