"""Test exactly, by permutation, whether the original wording is like the other N wordings.

If nothing is special about the original, then which of an item's N + 1 wordings is called the
original is arbitrary. Given that an item is right under s of its M answered wordings, its original
is right with probability s / M. The number T of items that are right as published is then a sum of
independent yes/no draws with these probabilities (Poisson-binomial). Its tail is the p-value, exact
at any n. With one variant an item it is the exact McNemar test.

A small p says that the original wording is easier than the others. Memory of it makes it so; so do
variants that are harder, or broken, for every model: see `audit.statistics.references`.
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
        Items right under the original wording.
    expected : float
        Items expected right of the n compared, if wordings are exchangeable.
    pvalue : float
        One-sided, P(T >= right).
    exact : bool
        True if p is from the Poisson-binomial distribution, False if it is from random relabelling
        of whole clusters.
    n : int
        Items answered under the original and at least one variant.
    units : int
        Independent items or clusters.
    """

    right: float
    expected: float
    pvalue: float
    exact: bool
    n: int
    units: int


@dataclass(frozen=True)
class AffectedItems:
    """Bound how many items are easier in the original wording than exchangeable wordings allow.

    Attributes
    ----------
    lower : int
        Lower bound of that number.
    confidence : float
        Confidence of the bound.
    estimate : float
        right - expected, the excess of items right as published.
    n : int
        Items compared.
    """

    lower: int
    confidence: float
    estimate: float
    n: int


def first_answered(original: FloatArray) -> FloatArray:
    """Return the first answered replicate of each original.

    Parameters
    ----------
    original : (K, n) or (n,) array
        Answers of K replicates, NaN if missing.

    Returns
    -------
    (n,) array
        First answers; NaN if every replicate is missing.

    Notes
    -----
    Replicates of one wording are more alike than different wordings, so they are not further
    wordings to exchange: a test that counted them as such would reject too often.
    """
    runs = np.atleast_2d(np.asarray(original, dtype=float))
    first = np.argmax(~np.isnan(runs), axis=0)
    return runs[first, np.arange(runs.shape[1])]


def right_share(original: FloatArray, variants: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the original's answer and the share of an item's wordings that are right.

    Parameters
    ----------
    original : (n,) or (K, n) array
        0, 1 or NaN. The first answered replicate counts.
    variants : (N, n) array
        0, 1 or NaN.

    Returns
    -------
    first : (n,) array
        Answer to the original.
    share : (n,) array
        Share of answered wordings that are right, the original included; NaN if the original or
        every variant is unanswered.

    Raises
    ------
    DataError
        If the numbers of items differ, or a value lies between 0 and 1.
    """
    first, others = first_answered(original), np.atleast_2d(np.asarray(variants, dtype=float))
    if first.shape[0] != others.shape[1]:
        raise DataError(
            f"The original has {first.shape[0]} items and the variants {others.shape[1]}: expected (n,) and (N, n) "
            "over the same items."
        )
    everything = np.concatenate([first[None], others])
    answered_here = ~np.isnan(everything)
    if np.any(answered_here & (everything != 0) & (everything != 1)):
        raise DataError(
            "An exchange of wordings needs answers that are 0, 1 or NaN; found a value between."
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
    """Test that the original wording is right more often than the other wordings of the same items.

    Parameters
    ----------
    original : (n,) or (K, n) array
        1, 0 or NaN; the first answered replicate counts.
    variants : (N, n) array
        1, 0 or NaN; an item may have fewer variants.
    cluster : (n,) array or None
        Cluster of items that share a text which was reworded for all of them at once.
    rng : numpy.random.Generator
        Source of relabellings; unused without clusters of several items.
    n_permutations : int
        Number of relabellings.

    Returns
    -------
    ExchangeResult
        One-sided test.

    Raises
    ------
    DataError
        If no item has an answer under the original and a variant.

    Notes
    -----
    With clusters of more than one item, it is drawn for the whole cluster which of its wordings is
    called the original (items whose wordings are independent may be exchanged so too). A wording
    that some of its items lack counts as if all had it, which is conservative. Otherwise the test
    is exact up to the Monte-Carlo error of `n_permutations`.

    Examples
    --------
    Ten items right as published and wrong in their one other wording, two the other way round:
    McNemar's p.

    >>> o, v = np.repeat([1.0, 0.0], [10, 2]), np.repeat([0.0, 1.0], [10, 2])
    >>> round(exchange_test(o, v, rng=np.random.default_rng(0)).pvalue, 6)
    0.019287
    """
    first, share = right_share(original, variants)
    compared = ~np.isnan(share)
    if not compared.any():
        raise DataError(
            "Not one item has an answer under the original and a variant: nothing can be exchanged."
        )
    chance = share[compared]
    total, expected, n = float(first[compared].sum()), float(chance.sum()), int(compared.sum())
    groups = None if cluster is None else np.asarray(cluster)[compared]
    units = n if groups is None else int(np.unique(groups).size)
    if groups is None or units == n:
        return ExchangeResult(total, expected, tail(chance, total), True, n, units)
    everything = np.concatenate([first[None], np.atleast_2d(variants)])[:, compared]
    made = cluster_sums((~np.isnan(everything)).astype(float), groups)  # (N + 1, clusters)
    deviation = cluster_sums(np.nan_to_num(everything - chance, nan=0.0), groups)
    deviation *= made[0] / np.where(made > 0, made, np.nan)  # as if every item had the wording
    drawn = np.zeros(n_permutations)
    # 0: the cluster has nothing to draw.
    wordings = np.sum(made > 0, axis=0) * (np.nansum(deviation**2, axis=0) > 0)
    for k in np.unique(wordings[wordings > 0]).tolist():
        pattern, count = patterns(np.sort(deviation[:, wordings == k], axis=0)[:k])
        drawn += choice_totals(pattern[None], count, n_permutations, rng)[:, 0]
    p = (1 + int(np.sum(drawn >= deviation[0].sum() - 1e-9))) / (n_permutations + 1)
    return ExchangeResult(total, expected, p, False, n, units)


def tail(chances: FloatArray, at_least: float) -> float:
    """Return P(X >= at_least) for a sum X of independent yes/no draws (Poisson-binomial, exact).

    Parameters
    ----------
    chances : (n,) array
        Probability of each draw.
    at_least : float
        The sum to reach.

    Returns
    -------
    float
        The probability.

    Notes
    -----
    Draws with equal chances are taken together as a binomial, and the few binomials are convolved.
    """
    value, count = np.unique(np.asarray(chances, dtype=float), return_counts=True)
    pmf = np.ones(1)
    for p, c in zip(value, count, strict=True):
        pmf = np.asarray(np.convolve(pmf, _binomial(int(c), float(p))), dtype=np.float64)
    from_ = max(int(np.ceil(at_least - 1e-9)), 0)
    return float(min(pmf[from_:].sum(), 1.0))


def _binomial(n: int, p: float) -> FloatArray:
    """Return the (n + 1,) probabilities of 0..n.

    SciPy's own function takes ten times as long to check its arguments.
    """
    k = np.arange(n + 1)
    chosen = (
        scipy.special.gammaln(n + 1)
        - scipy.special.gammaln(k + 1)
        - scipy.special.gammaln(n - k + 1)
    )
    return np.exp(chosen + scipy.special.xlogy(k, p) + scipy.special.xlog1py(n - k, -p))


def item_pvalues(original: FloatArray, variants: FloatArray) -> FloatArray:
    """Return the exact p of each item.

    Parameters
    ----------
    original : (n,) or (K, n) array
        0, 1 or NaN. The first answered replicate counts.
    variants : (N, n) array
        0, 1 or NaN.

    Returns
    -------
    (n,) array
        s / M if the original is right, 1 if it is wrong, NaN if it is not compared.

    Raises
    ------
    DataError
        If the numbers of items differ, or a value lies between 0 and 1.

    Notes
    -----
    p is never below 1 / (N + 1), which is reached if the original alone is right: with one answer a
    wording, an item cannot say more. p <= .05 needs N = 19.
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
        0, 1 or NaN. The first answered replicate counts.
    variants : (N, n) array
        0, 1 or NaN.
    confidence : float
        Confidence of the bound.

    Returns
    -------
    AffectedItems
        Bound and estimate.

    Raises
    ------
    DataError
        If the numbers of items differ, or a value lies between 0 and 1.

    Notes
    -----
    If at most m items are affected, then without these the rest is exchangeable. So m is refuted if
    the permutation test rejects after any m items were taken out. Taking out an item that is wrong
    as published never helps. Of those that are right, taking out the ones with the smallest s / M
    leaves the largest total for the rest (stochastically). So that one choice is the worst case,
    and `lower` is the smallest m that is not refuted.

    The bound is simultaneous over all m (closed testing), and it is the "attributable effect" of
    Rosenbaum (2001), Biometrika 88, in one-sided form. It counts what the original wording gains,
    whatever the reason; items must have been reworded independently.
    """
    first, share = right_share(original, variants)
    compared = ~np.isnan(share)
    chance, is_right = share[compared], first[compared] == 1
    # The first m of `taken` are the worst case for m.
    wrong, taken = (
        chance[~is_right],
        np.sort(chance[is_right]),
    )
    alpha = 1 - confidence

    def allowed(m: int) -> bool:
        return tail(np.concatenate([wrong, taken[m:]]), float(taken.size - m)) > alpha

    lower = bisect_left(range(taken.size), True, key=allowed)
    return AffectedItems(lower, confidence, float(taken.size - chance.sum()), int(compared.sum()))
