"""Test exactly, by permutation, whether the original wording is as hard as the other N wordings.

Under the null hypothesis, any of an item's N + 1 wordings could have been the original. Let a model
answer s of an item's M answered wordings right. Its answer to the original is then right with
probability s / M.

The statistic T is the number of items that are answered right in the original wording. T is a sum
of independent yes/no draws with the probabilities s / M, so it has a Poisson-binomial distribution.
The p-value is the upper tail of this distribution. It is exact for any number of items. With one
variant per item, the test is the exact McNemar test.

A small p means that the original wording is easier than the others. Memory of the original is one
possible cause. Another possible cause is that the variants are harder for every model, or have lost
their right answer (see `audit.statistics.references`).
"""

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.drawing import choice_totals, cluster_sums, patterns
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.resampling import N_RESAMPLES


@dataclass(frozen=True)
class ExchangeResult:
    """Report the exchange test of the original wording.

    Attributes
    ----------
    right : float
        Number of items that are answered right in the original wording.
    expected : float
        Expected number of such items, out of the n compared items, if all wordings are
        exchangeable.
    pvalue : float
        One-sided p-value P(T >= right).
    exact : bool
        True if p is computed from the Poisson-binomial distribution. False if it is estimated by
        random relabelling of whole clusters.
    n : int
        Number of items with an answer to the original and to at least one variant.
    units : int
        Number of independent items or clusters.
    """

    right: float
    expected: float
    pvalue: float
    exact: bool
    n: int
    units: int


@dataclass(frozen=True)
class AffectedItems:
    """Report a lower bound on the number of items that are easier in the original wording.

    Attributes
    ----------
    lower : int
        Lower confidence bound of the number of items that are easier in the original wording.
    confidence : float
        Confidence of the bound.
    estimate : float
        Observed minus expected number of items that are answered right in the original wording.
    n : int
        Number of items compared.
    """

    lower: int
    confidence: float
    estimate: float
    n: int


def first_answered(original: FloatArray) -> FloatArray:
    """Return, for each item, the answer in the first replicate that has an answer.

    Parameters
    ----------
    original : (K, n) or (n,) array
        Answers of K replicates, NaN if missing.

    Returns
    -------
    (n,) array
        First answer to each item; NaN if every replicate is missing.

    Notes
    -----
    Answers to replicates of one wording are more alike than answers to different wordings. A test
    that treated replicates as further wordings would reject a true null hypothesis too often.
    """
    runs = np.atleast_2d(np.asarray(original, dtype=float))
    first = np.argmax(~np.isnan(runs), axis=0)
    return runs[first, np.arange(runs.shape[1])]


def right_share(original: FloatArray, variants: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return, for each item, the answer to the original and the share of wordings answered right.

    Parameters
    ----------
    original : (n,) or (K, n) array
        0, 1 or NaN. Of K replicates, the first with an answer is used.
    variants : (N, n) array
        0, 1 or NaN.

    Returns
    -------
    first : (n,) array
        Answer to the original.
    share : (n,) array
        Share of right answers among the answered wordings, including the original. It is NaN if the
        original or every variant is unanswered.

    Raises
    ------
    DataError
        If the numbers of items differ, or a value lies strictly between 0 and 1.
    """
    first, others = first_answered(original), np.atleast_2d(np.asarray(variants, dtype=float))
    if first.shape[0] != others.shape[1]:
        raise DataError(
            f"The original has {first.shape[0]} items and the variants have {others.shape[1]}. "
            "Expected shapes (n,) and (N, n) over the same n items."
        )
    everything = np.concatenate([first[None], others])
    answered_here = ~np.isnan(everything)
    if np.any(answered_here & (everything != 0) & (everything != 1)):
        raise DataError(
            "An answer is neither 0, 1 nor NaN. The exchange of wordings needs single answers, not "
            "means of several."
        )
    answered = answered_here.sum(axis=0)
    compared = answered_here[0] & (answered > 1)
    return first, np.where(
        compared, np.nansum(everything, axis=0) / np.maximum(answered, 1), np.nan
    )


def exchange_test(
    original: FloatArray,
    variants: FloatArray,
    cluster: IntArray | None = None,
    *,
    rng: np.random.Generator,
    n_permutations: int = N_RESAMPLES,
) -> ExchangeResult:
    """Test whether original wordings are answered right more often than the items' rewordings.

    Parameters
    ----------
    original : (n,) or (K, n) array
        1, 0 or NaN. Of K replicates, the first with an answer is used.
    variants : (N, n) array
        1, 0 or NaN. An item may have fewer than N variants.
    cluster : (n,) array or None
        Cluster of each item. Items share a cluster if they share a text that was reworded for all
        of them together. None makes every item its own cluster.
    rng : numpy.random.Generator
        Source of the relabellings; not used if every item is its own cluster.
    n_permutations : int
        Number of relabellings.

    Returns
    -------
    ExchangeResult
        One-sided test.

    Raises
    ------
    DataError
        If no item has an answer to the original and to a variant.

    Notes
    -----
    If clusters hold several items, a whole cluster is relabelled together: one of its wordings is
    drawn as the original. This test is also valid if the wordings of the items are independent. If
    some items of a cluster lack a wording, the sum over the other items is scaled up to the whole
    cluster, which is conservative. Such a test is exact up to the Monte-Carlo error of
    `n_permutations`. Without such clusters the test is exact.

    Examples
    --------
    Ten items are answered right in the original wording and wrong in their only variant. For two
    items the reverse holds. The p-value is that of McNemar's exact test.

    >>> o, v = np.repeat([1.0, 0.0], [10, 2]), np.repeat([0.0, 1.0], [10, 2])
    >>> round(exchange_test(o, v, rng=np.random.default_rng(0)).pvalue, 6)
    0.019287
    """
    first, share = right_share(original, variants)
    compared = ~np.isnan(share)
    if not compared.any():
        raise DataError(
            "The number of items with an answer both to the original and to a variant is 0. "
            "Expected at least 1: the test exchanges these answers."
        )
    chance = share[compared]
    total, expected, n = float(first[compared].sum()), float(chance.sum()), int(compared.sum())
    groups = None if cluster is None else np.asarray(cluster)[compared]
    units = n if groups is None else int(np.unique(groups).size)
    if groups is None or units == n:
        return ExchangeResult(total, expected, tail(chance, total), True, n, units)
    everything = np.concatenate([first[None], np.atleast_2d(variants)])[:, compared]
    # number of answered items, an array of shape (N + 1, clusters)
    made = cluster_sums((~np.isnan(everything)).astype(float), groups)
    deviation = cluster_sums(np.nan_to_num(everything - chance, nan=0.0), groups)
    # The deviations are scaled up to the whole cluster, as if every item had an answer in the
    # wording.
    deviation *= made[0] / np.where(made > 0, made, np.nan)
    drawn = np.zeros(n_permutations)
    # If the count is 0, relabelling cannot change the cluster's contribution.
    wordings = np.sum(made > 0, axis=0) * (np.nansum(deviation**2, axis=0) > 0)
    for k in np.unique(wordings[wordings > 0]).tolist():
        pattern, count = patterns(np.sort(deviation[:, wordings == k], axis=0)[:k])
        drawn += choice_totals(pattern[None], count, n_permutations, rng)[:, 0]
    p = (1 + int(np.sum(drawn >= deviation[0].sum() - 1e-9))) / (n_permutations + 1)
    return ExchangeResult(total, expected, p, False, n, units)


def tail(chances: FloatArray, at_least: float) -> float:
    """Return the exact P(X >= at_least) for a sum X of independent yes/no draws (Poisson-binomial).

    Parameters
    ----------
    chances : (n,) array
        Probability of "yes" in each draw.
    at_least : float
        The smallest sum that counts.

    Returns
    -------
    float
        The probability.

    Notes
    -----
    The sum of draws with equal probabilities has a binomial distribution. These few distributions
    are convolved.
    """
    value, count = np.unique(np.asarray(chances, dtype=float), return_counts=True)
    pmf = np.ones(1)
    for p, c in zip(value, count, strict=True):
        pmf = np.asarray(np.convolve(pmf, _binomial(int(c), float(p))), dtype=np.float64)
    from_ = max(int(np.ceil(at_least - 1e-9)), 0)
    return float(min(pmf[from_:].sum(), 1.0))


def _binomial(n: int, p: float) -> FloatArray:
    """Return the (n + 1,) probabilities of 0..n successes.

    The function of SciPy takes ten times as long, because it checks its arguments.
    """
    k = np.arange(n + 1)
    chosen = (
        scipy.special.gammaln(n + 1)
        - scipy.special.gammaln(k + 1)
        - scipy.special.gammaln(n - k + 1)
    )
    return np.exp(chosen + scipy.special.xlogy(k, p) + scipy.special.xlog1py(n - k, -p))


def item_pvalues(original: FloatArray, variants: FloatArray) -> FloatArray:
    """Return the exact one-sided p-value of each item, taken alone.

    Parameters
    ----------
    original : (n,) or (K, n) array
        0, 1 or NaN. Of K replicates, the first with an answer is used.
    variants : (N, n) array
        0, 1 or NaN.

    Returns
    -------
    (n,) array
        The p-value of each item. It is s / M if the original is answered right, where s is the
        number of right answers to the item's M answered wordings. It is 1 if the original is
        answered wrong, and NaN if the original or every variant is unanswered.

    Raises
    ------
    DataError
        If the numbers of items differ, or a value lies strictly between 0 and 1.

    Notes
    -----
    With one answer per wording, the p-value of a single item cannot be below 1 / (N + 1). It has
    this value if only the original is answered right. For p <= .05, N = 19 variants are needed.
    """
    first, share = right_share(original, variants)
    return np.where(np.isnan(share) | (first == 1), share, 1.0)


def affected_items(
    original: FloatArray, variants: FloatArray, confidence: float = 0.95
) -> AffectedItems:
    """Return a lower bound on how many items are easier in the original wording.

    Parameters
    ----------
    original : (n,) or (K, n) array
        0, 1 or NaN. Of K replicates, the first with an answer is used.
    variants : (N, n) array
        0, 1 or NaN.
    confidence : float
        Confidence of the bound.

    Returns
    -------
    AffectedItems
        The bound and the estimate.

    Raises
    ------
    DataError
        If the numbers of items differ, or a value lies strictly between 0 and 1.

    Notes
    -----
    Items that are easier in the original wording are called affected. If at most m items are
    affected, the wordings of all other items are exchangeable. A number m is therefore refuted if
    the permutation test still rejects, whichever m items are removed. Removing an item whose
    original is answered wrong never makes the test less significant. Of the other items, removing
    those with the smallest s / M leaves the stochastically largest total for the rest. This choice
    is therefore the worst case, and `lower` is the smallest m that is not refuted.

    The bound is simultaneous over all m (closed testing). It is the "attributable effect" of
    Rosenbaum (2001), Biometrika 88, in one-sided form. It includes items that are easier in the
    original wording for a reason other than memory. Items must have been reworded independently.
    """
    first, share = right_share(original, variants)
    compared = ~np.isnan(share)
    chance, is_right = share[compared], first[compared] == 1
    # In the worst case for m, the first m items of `right` are removed.
    wrong, right = (
        chance[~is_right],
        np.sort(chance[is_right]),
    )
    alpha = 1 - confidence

    def allowed(m: int) -> bool:
        return tail(np.concatenate([wrong, right[m:]]), float(right.size - m)) > alpha

    lower = bisect_left(range(right.size), True, key=allowed)
    return AffectedItems(lower, confidence, float(right.size - chance.sum()), int(compared.sum()))
