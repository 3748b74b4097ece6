"""Test gains in accuracy by permutation tests over items.

If each condition was run once, the test flips the signs of the items' differences. If a condition
was run several times, the test exchanges runs between the conditions.

The sign-flip test requires only that the differences of a setting are symmetric about zero. For a
single setting with binary outcomes it *is* the exact McNemar test. Jointly over R settings, the
sign-flip test is exact if every item is as likely to be right as wrong, and asymptotic otherwise.
The unit tests measure its error rate at n=100 with hard and easy items and with nested draws.

A permutation of all R + 1 labels of an item is not used, because it requires that every arm is
exchangeable with every other arm. This condition fails if one setting truly differs. It also fails
with nested draws, whose runs resemble each other more than clean runs resemble noisy runs. Under
sign flips, the null distribution of a setting depends only on the differences of this setting
(subset pivotality). Therefore the step-down adjustment is valid (Westfall & Young 1993, section
2.8).

The statistic is studentised, and its denominator is recomputed in every relabelling. So with many
items the test has the nominal level even if noise changes answers in both directions and the mean
gain is 0 (Janssen 1997, Statistics & Probability Letters 36; Chung & Romano 2013, Annals of
Statistics 41).

Sign flips are not exact if runs were repeated. For example, if a model answers an item right nine
times in ten, the item mostly shows a small gain (1 minus a mean), and rarely a large loss. Sign
flips of such skewed differences reject too often. So the test exchanges runs instead, separately in
each setting. The settings are not relabelled together: since they share the base runs, their
permutation statistics would be too similar.

The permutation statistics of the settings are then sorted into a joint rank order: that of normal
draws with the correlation of the observed differences (Iman & Conover 1982, Communications in
Statistics B 11; for adjusted p-values, Conneely & Boehnke 2007, American Journal of Human Genetics
81).
"""

from dataclasses import dataclass
from itertools import combinations
from math import ceil, comb

import numpy as np

from audit.core.errors import DataError
from audit.statistics.drawing import (
    ITEMS,
    choice_totals,
    cluster_sums,
    flip_totals,
    patterns,
    patterns_of,
)
from audit.statistics.mcnemar import mcnemar_exact
from audit.statistics.paired import FloatArray, IntArray, checked_pair
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.values import average

MAX_PERMUTATIONS = 1_000_000
# Largest number of labellings (choices of the runs of an item that are labelled noisy) that are
# enumerated. If there are more labellings, a random sample of the labellings is used.
MAX_LABELLINGS = 500


@dataclass(frozen=True)
class MaxStatResult:
    """Report a max-statistic test of R settings, which is one-sided for a gain.

    Attributes
    ----------
    statistic : (R,) array
        Standardised gain of each setting.
    pvalue : float
        Family-wise p-value of a gain in any setting, corrected for the number of settings.
    pvalues : (R,) array
        Unadjusted p-value of each setting.
    adjusted : (R,) array
        Step-down adjusted p-value of each setting.
    """

    statistic: FloatArray
    pvalue: float
    pvalues: FloatArray
    adjusted: FloatArray


def _flipped(
    difference: FloatArray,
    cluster: IntArray,
    n_permutations: int,
    shifts: tuple[float, float],
    rng: np.random.Generator,
) -> MaxStatResult:
    """Return the sign-flip test of the item differences (R, n) between single runs.

    The array `difference` is overwritten to save memory.
    """
    n_pairs = np.sum(~np.isnan(difference), axis=1)
    scores = cluster_sums(np.nan_to_num(difference, nan=0.0, copy=False), cluster)
    observed, reference = _flip_test(scores, n_permutations, rng)
    se = np.sqrt(_squares(scores)) / np.maximum(n_pairs, 1)
    return _step_down(*_with_shifts(observed, reference, se, (1, 1), shifts, rng))


def max_statistic_exchange(
    noisy: FloatArray,
    base: FloatArray,
    cluster: IntArray | None = None,
    *,
    n_permutations: int = N_RESAMPLES,
    shifts: tuple[float, float] = (0.0, 0.0),
    rng: np.random.Generator,
) -> MaxStatResult:
    """Test the gains in R settings by a max-statistic permutation test.

    The result has a family-wise p-value, and an adjusted p-value for each setting.

    Parameters
    ----------
    noisy : (L, R, n) array
        Values 0, 1 or NaN (no answer) of L runs. A pair in which an answer is missing counts as no
        difference.
    base : (K, R, n) or (K, 1, n) array
        Values of K runs. Shape (K, 1, n) means that all R settings share one baseline.
    cluster : (n,) array or None
        Cluster of each item. The items of a cluster are exchanged together; None makes every item
        its own cluster.
    n_permutations : int
        Number of random labellings. The observed labelling is counted too, so p >= 1 /
        (n_permutations + 1).
    shifts : tuple of float
        Variance of the shift of a whole run, beyond the variance due to items, for a noisy run and
        for a base run. These variances widen the reference distribution (`_with_shifts`).
    rng : numpy.random.Generator
        Source of the labellings.

    Returns
    -------
    MaxStatResult
        Statistics and p-values.

    Raises
    ------
    DataError
        If the shapes do not fit, or if a value lies outside [0, 1].

    Notes
    -----
    The difference d of an item is the mean of its noisy runs minus the mean of its base runs. The
    statistic of a setting, with sums over clusters, is

      sum(d) / sqrt(sum(d^2)).

    For single runs this is McNemar's (improve - degrade) / sqrt(improve + degrade).

    Single runs (L = K = 1): under the null hypothesis, noisy and base are exchangeable within an
    item, so the signs of ALL its R differences flip together. So the permutations keep the
    correlation that the shared baseline and nested draws cause.

    Several runs: under the null hypothesis, every choice of L of an item's L + K runs as the noisy
    runs is equally likely. Each random labelling draws these L runs anew for each item (cluster).
    The test is exact for each setting if the runs of an item are independent given the item. If a
    worker's answers hardly vary between runs, base runs agree more than independent runs do, and
    they are not exchangeable with noisy runs. p is then too small, by a factor of up to about two.
    A verdict therefore also requires an interval above zero.
    """
    noisy, base = np.asarray(noisy, dtype=float), np.asarray(base, dtype=float)
    if noisy.ndim != 3 or base.ndim != 3 or base.shape[1] not in (1, noisy.shape[1]):
        raise DataError(
            f"The runs have shapes {noisy.shape} and {base.shape}. Expected noisy (L, R, n), and "
            "base (K, R, n) or (K, 1, n)."
        )
    _, _, groups = checked_pair(base[0, 0], noisy[0], cluster)
    # Differences of single runs are computed for each r and halved, so that they lie between -1/2
    # and 1/2.
    if len(noisy) == len(base) == 1:
        half = noisy[0] - base[0]
        half /= 2
        halved = shifts[0] / 4, shifts[1] / 4  # Halving a difference divides its variance by 4.
        return _flipped(half, groups, n_permutations, halved, rng)
    runs = np.concatenate([noisy, np.broadcast_to(base, (len(base), *noisy.shape[1:]))])
    labellings, differences = _labellings(len(noisy), len(runs), rng), []
    observed, se = np.zeros(noisy.shape[1]), np.zeros(noisy.shape[1])
    reference = np.zeros((n_permutations, noisy.shape[1]))
    for r in range(noisy.shape[1]):
        labelled = np.stack([_difference(runs[:, r], called_noisy) for called_noisy in labellings])
        scores = cluster_sums(np.nan_to_num(labelled, nan=0.0), groups)  # (labellings, clusters)
        differences.append(scores[0])
        # All labellings are equally likely, so the order of an item's values under them does not
        # matter. Sorted, many items have equal values, and such items are handled together.
        pattern, count = patterns(np.sort(scores[:, np.any(scores != 0, axis=0)], axis=0))
        total, square = choice_totals(np.stack([pattern, pattern**2]), count, n_permutations, rng).T
        reference[:, r] = total / np.sqrt(np.where(square > 0, square, 1.0))
        norm = np.sqrt(np.sum(scores[0] ** 2))
        observed[r] = scores[0].sum() / (norm or 1.0)
        se[r] = norm / max(np.sum(~np.isnan(labelled[0])), 1)
    reference = _in_joint_order(reference, np.stack(differences), rng)
    return _step_down(*_with_shifts(observed, reference, se, (len(noisy), len(base)), shifts, rng))


def paired_test(
    a: FloatArray,
    b: FloatArray,
    cluster: IntArray,
    *,
    rng: np.random.Generator,
    n_permutations: int = N_RESAMPLES,
) -> float:
    """Return the p-value of a gain of one condition over another on the same items.

    Parameters
    ----------
    a : (L, n) array
        Runs of the condition whose gain is tested.
    b : (K, n) array
        Runs of the other condition.
    cluster : (n,) array
        Cluster of each item.
    rng : numpy.random.Generator
        Source of the labellings.
    n_permutations : int
        Number of random labellings.

    Returns
    -------
    float
        One-sided p. Single runs of independent items are tested by McNemar's exact test. Repeated
        runs, or clustered items, are tested by exchanging runs within items (clusters).
    """
    if len(a) == len(b) == 1 and np.unique(cluster).size == a.shape[1]:
        return float(mcnemar_exact(np.sum(a > b), np.sum(a < b)))
    return max_statistic_exchange(
        a[:, None], b[:, None], cluster, n_permutations=n_permutations, rng=rng
    ).pvalue


def enough_permutations(tests: int, alpha: float, at_least: int) -> int:
    """Return the number B of random labellings that a test needs for a sufficiently small p-value.

    Parameters
    ----------
    tests : int
        Number of tests over which Holm's procedure corrects.
    alpha : float
        Level of all tests together.
    at_least : int
        Smallest B to return.

    Returns
    -------
    int
        B for which the smallest possible p, 1 / (B + 1), is a quarter of alpha after Holm's
        correction. B is at most MAX_PERMUTATIONS, since all labellings are in memory at the same
        time. A test that needs more labellings cannot reject.

    Examples
    --------
    >>> enough_permutations(9, 0.05, 10_000), enough_permutations(9, 1e-9, 10_000)
    (10000, 1000000)
    """
    return max(at_least, ceil(min(4 * tests / alpha, MAX_PERMUTATIONS)))


def can_reject(clusters: int, alpha: float) -> bool:
    """Return whether sign flips of a given number of clusters can give p <= alpha.

    Parameters
    ----------
    clusters : int
        Number of clusters.
    alpha : float
        Level of the test.

    Returns
    -------
    bool
        True if the smallest possible p, 2^-clusters, is at most alpha.
    """
    return bool(2.0**-clusters <= alpha)


def sign_flip_pvalue(
    scores: FloatArray,
    cluster: IntArray | None = None,
    *,
    n_permutations: int = N_RESAMPLES,
    two_sided: bool = False,
    rng: np.random.Generator,
) -> float:
    """Test whether scores are symmetric about zero, by random sign flips.

    Parameters
    ----------
    scores : (n,) array
        Score of each item; items with NaN are left out.
    cluster : (n,) array or None
        Cluster of each item; the signs of a cluster flip together.
    n_permutations : int
        Number of random flips.
    two_sided : bool
        True: two-sided test. False: one-sided test with the alternative of a mean above zero.
    rng : numpy.random.Generator
        Source of the signs.

    Returns
    -------
    float
        The p-value.
    """
    values = np.nan_to_num(np.asarray(scores, dtype=float), nan=0.0)[None]
    groups = np.arange(values.shape[1]) if cluster is None else np.asarray(cluster)
    observed, reference = _flip_test(cluster_sums(values, groups), n_permutations, rng)
    if two_sided:
        observed, reference = np.abs(observed), np.abs(reference)
    return float(_exceed(observed, reference)[0])


def _flip_test(
    scores: FloatArray, n_permutations: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Return the observed statistics (K,) and their sign-flip null draws (n_permutations, K).

    `scores` (K, G) holds the sums of the differences over each of G clusters.
    """
    scale = np.sqrt(_squares(scores))
    scale[scale == 0] = 1.0  # If no item differs, all statistics are 0 and p = 1.
    observed = scores.sum(axis=1) / scale

    # A pattern of differences and its negative have the same sign flips, so the two patterns are
    # merged. Items whose differences are all 0 are dropped.
    def led(block: FloatArray) -> FloatArray:
        lead = np.sign(block[np.argmax(block != 0, axis=0), np.arange(block.shape[1])])
        return (block * lead)[:, lead != 0]

    pattern, count = patterns_of(
        led(scores[:, k : k + ITEMS]) for k in range(0, scores.shape[1], ITEMS)
    )
    return observed, flip_totals(pattern, count, n_permutations, rng) / scale


def _squares(scores: FloatArray) -> FloatArray:
    """Return the (K,) sums of squares of (K, G) scores, computed by row to save memory."""
    return np.array([np.sum(row**2) for row in scores])


def _with_shifts(
    observed: FloatArray,
    reference: FloatArray,
    se: FloatArray,
    counts: tuple[int, int],
    shifts: tuple[float, float],
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray]:
    """Add the variance of whole runs to the statistics (R,) and to their null draws (B, R).

    The statistics are divided by the total standard error. Normally distributed shifts are added to
    the null draws: one shift for each setting, and one shift that all settings share (that of the
    baseline). `counts` holds the number of noisy runs and of base runs.
    """
    separate, shared = shifts[0] / counts[0], shifts[1] / counts[1]
    if separate + shared == 0:
        return observed, reference
    b, r = reference.shape
    total = np.sqrt(se**2 + separate + shared)
    moved = rng.standard_normal((b, r)) * np.sqrt(separate) + rng.standard_normal((b, 1)) * np.sqrt(
        shared
    )
    return observed * se / total, (reference * se + moved) / total


def _exceed(observed: FloatArray, reference: FloatArray) -> FloatArray:
    """Return the unadjusted p-values (R,), from statistics (R,) and null draws (B, R)."""
    return (1 + np.sum(reference >= observed - 1e-9, axis=0)) / (len(reference) + 1)


def _labellings(noisy: int, runs: int, rng: np.random.Generator) -> list[IntArray]:
    """Return, for each labelling, which runs of an item are labelled noisy.

    The true labelling comes first.

    There are at most MAX_LABELLINGS labellings.
    """
    if comb(runs, noisy) <= MAX_LABELLINGS:
        return [np.array(chosen) for chosen in combinations(range(runs), noisy)]
    drawn = [rng.permutation(runs)[:noisy] for _ in range(MAX_LABELLINGS - 1)]
    return [np.arange(noisy), *drawn]


def _difference(runs: FloatArray, called_noisy: IntArray) -> FloatArray:
    """Return the mean of the runs labelled noisy minus the mean of the remaining runs.

    The runs have shape (M, n), and the result has shape (n,). It is NaN for an item without one of
    the means.
    """
    is_noisy = np.zeros(len(runs), dtype=bool)
    is_noisy[called_noisy] = True
    return average(runs[is_noisy]) - average(runs[~is_noisy])


def _in_joint_order(
    reference: FloatArray, differences: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return the null draws (B, R) with each column reordered to induce correlation.

    Each column is sorted into the rank order of normal draws. The normal draws have the correlation
    between settings that the differences (R, G) have.
    """
    r = len(differences)
    if r == 1:
        return reference
    norm = np.sqrt(np.sum(differences**2, axis=1))
    unit = differences / np.where(norm > 0, norm, 1.0)[:, None]
    correlation = unit @ unit.T
    np.fill_diagonal(correlation, 1.0)
    value, vector = np.linalg.eigh(correlation)
    normal = (
        rng.standard_normal((len(reference), r)) @ (vector * np.sqrt(np.clip(value, 0, None))).T
    )
    rank = np.argsort(np.argsort(normal, axis=0), axis=0)
    return np.take_along_axis(np.sort(reference, axis=0), rank, axis=0)


def _step_down(observed: FloatArray, reference: FloatArray) -> MaxStatResult:
    """Return the step-down test, from statistics (R,) and joint null draws (B, R).

    The k-th largest observed statistic is compared with the null distribution of a maximum. The
    maximum is taken over the settings with the k-th largest and all smaller statistics.
    """
    order = np.argsort(-observed, kind="stable")
    tops = np.maximum.accumulate(reference[:, order[::-1]], axis=1)[:, ::-1]
    stepped = (1 + np.sum(tops >= observed[order] - 1e-9, axis=0)) / (len(reference) + 1)
    adjusted = np.empty_like(stepped)
    adjusted[order] = np.maximum.accumulate(stepped)
    return MaxStatResult(
        statistic=observed,
        pvalue=float(adjusted[order[0]]),
        pvalues=_exceed(observed, reference),
        adjusted=adjusted,
    )
