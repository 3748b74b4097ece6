"""Compare a model's scores on a benchmark and on held-out items, relative to reference models.

If published items are easier for one model than for the references, the model may have learnt these
items. ConStat (Dekoninck, Mueller & Vechev 2024) defines contamination in this way: the model's
score on the benchmark is high, and the model does not reach this score on other items.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.between_models import Predictive, predictive
from audit.statistics.drawing import shared_se
from audit.statistics.estimate import mean_of
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.priors import TauPrior
from audit.statistics.set_difference import SetDifference, Sets, set_difference
from audit.statistics.unparsed import imputed, of_references, predict_right

N_RESAMPLES = 9999
_STRATA = 5
_TIE = 1e-12
_EXPECTED = 5


@dataclass(frozen=True)
class Matched:
    """Compare the tested model's scores on published and held-out items of equal difficulty.

    Difficulty is measured by the references' scores.

    Attributes
    ----------
    difference : float
        Score on published minus score on held-out items: the mean over strata, weighted by the
        number of published items.
    pvalue : float
        One-sided p-value; the alternative is difference > 0.
    share : float
        Share of published items in strata that also have held-out items.
    strata : tuple of (int, int)
        (number of published items, number of held-out items) of each stratum that has items of both
        sets.
    """

    difference: float
    pvalue: float
    share: float
    strata: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FreshGap:
    """Report a gap between the scores on published and on held-out items; scores are 0-1.

    Attributes
    ----------
    published, fresh : float
        Accuracy of the tested model on the published and on the held-out items.
    did : SetDifference
        Difference in differences: the tested model's gap minus the mean of the references' gaps.
    matched : Matched or None
        The tested model's gap among items of equal difficulty; None without references.
    reference_gap, reference_pvalue : float or None
        Mean over the references of their accuracy on published minus held-out items, and its
        two-sided p. These values show whether the two sets are equally hard. None without
        references.
    pvalue : float
        The larger of two p-values, since both tests must support a gap. One is the p of `matched`.
        The other is the p of `predicted`, or without a prior that of `did`. 1 without references.
    detectable : float
        Smallest true gap that the test detects with the required power at level alpha.
    predicted : Predictive or None
        Test of `did` that uses a prior distribution of the differences between clean models
        (`between_models`); None without a prior.
    """

    published: float
    fresh: float
    did: SetDifference
    matched: Matched | None
    reference_gap: float | None
    reference_pvalue: float | None
    pvalue: float
    detectable: float
    predicted: Predictive | None = None

    @property
    def low(self) -> float:
        """Return the lower limit of the gap.

        Returns
        -------
        float
            Lower limit of `predicted`; without a prior, the lower limit of `did`.
        """
        return self.did.low if self.predicted is None else self.predicted.low

    @property
    def high(self) -> float:
        """Return the upper limit of the gap.

        Returns
        -------
        float
            Upper limit of `predicted`; without a prior, the upper limit of `did`.
        """
        return self.did.high if self.predicted is None else self.predicted.high

    @property
    def between(self) -> float:
        """Return the part of `detectable` that is due to differences between models.

        More items do not reduce this part.

        Returns
        -------
        float
            This part of the gap, as a difference of accuracies (0-1).
        """
        se = self.did.se if self.predicted is None else self.predicted.se
        return (
            self.detectable * float(np.sqrt(max(0.0, 1 - (self.did.items_se / se) ** 2)))
            if se > 0
            else float("nan")
        )


def fresh_gap(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    power: float = 0.8,
    n_resamples: int = N_RESAMPLES,
    heights: Sequence[FloatArray] | None = None,
    prior: TauPrior | None = None,
) -> FreshGap:
    """Test whether a model scores higher on published than on equally hard held-out items.

    Parameters
    ----------
    tested, references : Sets
        Scores (published (n,), fresh (m,)) of each model, from 0 to 1, or NaN. A score between
        0 and 1 is an imputed probability.
    clusters : tuple of arrays or None
        Clusters of the items, as in `set_difference`.
    rng : numpy.random.Generator
        Source of the permutations.
    alpha, power : float
        Level and power for which the detectable gap is computed.
    n_resamples : int
        Number of permutations.
    heights : sequence of arrays or None
        Values (n,) and (m,) on which items are matched; None uses the references' mean score.
    prior : TauPrior or None
        Prior distribution of the differences between clean models; None uses the references alone.

    Returns
    -------
    FreshGap
        The one-sided test, with the values from which it is computed.

    Raises
    ------
    DataError
        If a score lies outside [0, 1], or a set has fewer than two clusters.
    """
    did = set_difference(tested, references, clusters)
    published, fresh = (
        np.array(side, dtype=float) for side in zip(tested, *references, strict=True)
    )
    complete = ~np.isnan(published).any(axis=0), ~np.isnan(fresh).any(axis=0)

    def of_complete(sides: Sequence[ArrayLike]) -> tuple[Any, Any]:
        return np.asarray(sides[0])[complete[0]], np.asarray(sides[1])[complete[1]]

    tested_scores = of_complete((published[0], fresh[0]))
    if any(np.any((x < 0) | (x > 1)) for x in tested_scores):
        raise DataError(
            "A score lies outside 0 to 1. Expected 0 (wrong), 1 (right), a probability between, or "
            "NaN (no answer)."
        )
    matched = None
    gap = gap_p = None
    if references:
        mean = of_complete((published[1:].mean(axis=0), fresh[1:].mean(axis=0)))
        groups = None if clusters is None else of_complete(clusters)
        # If items were asked several times in only one of the sets, the scores of this set would
        # form finer strata.
        levels = (
            [np.rint(side * len(references)) for side in mean]
            if heights is None
            else of_complete(heights)
        )
        matched = _matched(tested_scores, levels, groups, rng, n_resamples)
        gap, gap_p = _two_sided(set_difference(mean, (), groups))
    predicted = None
    if prior is not None and references and did.se > 0:
        parts = did.items_se, did.items_df, did.spread, did.sampling
        predicted = predictive(did.difference, *parts, len(references), prior)
    df, se = (did.df, did.se) if predicted is None else (did.items_df, predicted.se)
    quantiles = float(scipy.stats.t.ppf(1 - alpha, df) + scipy.stats.t.ppf(power, df))
    return FreshGap(
        published=float(tested_scores[0].mean()),
        fresh=float(tested_scores[1].mean()),
        did=did,
        matched=matched,
        reference_gap=gap,
        reference_pvalue=gap_p,
        pvalue=1.0 if matched is None else max((predicted or did).pvalue, matched.pvalue),
        detectable=quantiles * se if se > 0 else float("nan"),
        predicted=predicted,
    )


# The probability that a guess is right may differ by this much between two sets whose items have
# the same number of options.
GUESSES_MOVE = 0.20


def by_guessing(ahead: float, chance: float) -> tuple[float, float]:
    """Return the range of the gap that different success rates of guessing can produce.

    The gap is the tested model's gap (published minus held-out score) minus the references' gap.
    Guessing may succeed more or less often on held-out items than on published items, although both
    sets are equally hard.

    A guess on a held-out item is right with probability chance + move, where `move` is at most
    GUESSES_MOVE up or down. Let `k` be the share of items that the tested model knows minus the
    share that the references know. Then

        ahead = (1 - chance - move) * k
        gap   = move * k

    Parameters
    ----------
    ahead : float
        The tested model's score on held-out items minus the references' score.
    chance : float
        Probability that a guess on a published item is right.

    Returns
    -------
    tuple of float
        The lowest and the highest gap, as differences of accuracies (0-1).

    Examples
    --------
    >>> [round(one, 3) for one in by_guessing(0.25, 0.25)], by_guessing(0.0, 0.25)
    ([-0.053, 0.091], (0.0, 0.0))
    """
    ends = [move * ahead / max(1 - chance - move, 0.1) for move in (-GUESSES_MOVE, GUESSES_MOVE)]
    return min(ends) + 0.0, max(ends) + 0.0


def _two_sided(alone: SetDifference) -> tuple[float, float]:
    """Return the difference and its two-sided p-value."""
    p = (
        float(2 * scipy.stats.t.sf(abs(alone.difference) / alone.se, alone.df))
        if alone.se > 0
        else 1.0
    )
    return alone.difference, p


def agreement(references: Sequence[Sets]) -> float:
    """Test whether the references' answers agree better between the two sets than by chance.

    Parameters
    ----------
    references : sequence of Sets
        Answers of each reference to the published and the held-out items. Missing answers count as
        not right.

    Returns
    -------
    float
        The p-value (0-1): the probability of a smaller chi-squared if both sets are independent
        draws. Items are classified by the number of references that answer them right. The result
        is 1 if at most two classes remain, because two classes may agree by chance.

    Notes
    -----
    A value near 0 means that the references' answers agree better between the sets than in
    independent draws. The held-out items were then selected by these answers. If items are in
    clusters, or if the sets are not equally hard, the value only increases. A class with few items
    is merged with the next class, so that at least 5 items are expected in each set (Cochran 1954).

    Examples
    --------
    >>> agreement([([1, 1, 0, 0] * 50, [1, 1, 0, 0] * 25), ([1, 0, 1, 0] * 50, [1, 0, 1, 0] * 25)])
    0.0
    >>> agreement([([1, 1, 0, 0] * 50, [1, 1, 0] * 33), ([1, 0, 1, 0] * 50, [1, 0, 1] * 33)]) > 0.1
    True
    """
    right = []
    for side in zip(*references, strict=True):
        right.append(np.nansum(np.stack(side), axis=0).astype(int))
    counts = np.stack([np.bincount(side, minlength=len(references) + 1) for side in right])
    fewest = counts.sum(axis=1).min() / counts.sum()
    classes, some = [], np.zeros(2)
    for count in counts.T:
        some = some + count
        if some.sum() * fewest >= _EXPECTED:
            classes.append(some)
            some = np.zeros(2)
    if len(classes) < 3:
        return 1.0
    classes[-1] = classes[-1] + some
    test = scipy.stats.chi2_contingency(np.transpose(classes), correction=False)
    return float(scipy.stats.chi2.cdf(test.statistic, test.dof))


def unparsed_imputed(
    models: Sequence[Sets], unparsed: Sequence[Sequence[BoolArray]], gamma: float, *, against: bool
) -> tuple[list[tuple[FloatArray, FloatArray]], list[FloatArray]]:
    """Impute every unparsed answer, either for or against a gap.

    The values on which items are matched are returned too.

    Parameters
    ----------
    models : sequence of Sets
        Scores of all models; the tested model is the first.
    unparsed : sequence of sequence of bool arrays
        For each model, masks (n,) and (m,) of the answers that were requested and not parsed.
    gamma : float
        Odds ratio between the tested model's two sets (`imputed`).
    against : bool
        True imputes against a gap: the tested model's unparsed answers were right less often on
        published items and more often on held-out items. False is the reverse.

    Returns
    -------
    scores : list of tuple of arrays
        Scores of each model. An unparsed answer is replaced by the probability that it was
        right, predicted from the other models' answers to the item and the model's own
        accuracy.
    heights : list of arrays
        Values (n,) and (m,) on which items are matched. These values use the references' parsed
        answers only, because an imputed answer does not show how hard an item is.

    Notes
    -----
    In the worst case, the references' unparsed answers are imputed in the opposite direction.
    """
    sides = [np.stack(side).astype(float) for side in zip(*models, strict=True)]
    filled = []
    for k, lost in enumerate(unparsed):
        filled_sides = []
        for side in (0, 1):
            favour = against == (side == (0 if k else 1))
            odds_ratio = of_references(gamma) if k else gamma
            filled_sides.append(
                imputed(sides[side][k], lost[side], _predicted(sides[side], k), odds_ratio, favour)
            )
        filled.append((filled_sides[0], filled_sides[1]))
    return filled, _heights(sides)


def _predicted(scores: FloatArray, k: int) -> FloatArray:
    """Return the probability that model k (row k of `scores`) answers each of the n items right.

    The probabilities are predicted from the other models' answers, and shifted so that they fit the
    accuracy of model k.
    """
    model_scores, others = scores[k], np.delete(scores, k, axis=0)
    known = ~np.isnan(model_scores)
    mean = (np.sum(model_scores[known]) + 0.5) / (known.sum() + 1.0)
    if not len(others):
        return np.full(model_scores.size, mean)
    predicted = predict_right(others)
    typical = predicted[known].mean() if known.any() else predicted.mean()
    odds = predicted / (1 - predicted) * (mean / (1 - mean)) / (typical / (1 - typical))
    return odds / (1 + odds)


def _heights(sides: Sequence[FloatArray]) -> list[FloatArray]:
    """Return, for each item of both sets, the mean score of the references that answered it.

    The references are all rows but the first; the results have shapes (n,) and (m,).
    """
    heights = []
    references = [side[1:] for side in sides]
    if not len(references[0]):
        return [np.zeros(side.shape[1]) for side in sides]
    everything = np.concatenate([side.ravel() for side in references])
    for side in references:
        read = ~np.isnan(side)
        mean = np.where(read, side, 0.0).sum(axis=0) / np.maximum(read.sum(axis=0), 1)
        heights.append(np.where(read.any(axis=0), mean, np.nanmean(everything)))
    return heights


def _matched(
    tested: Sequence[FloatArray],
    height: Sequence[FloatArray],
    groups: Sequence[IntArray] | None,
    rng: np.random.Generator,
    n_resamples: int,
) -> Matched:
    """Compare the tested model's scores on both sets, within strata of the references' mean score.

    If items are independent and scores are 0 or 1, the test exchanges items within strata. This
    test is exact: given a stratum's number of right answers, the number in each set has a
    hypergeometric distribution. If items are in clusters, or if scores are imputed probabilities,
    the test is a t-test over clusters (or items).
    """
    strata = _strata(height)
    stratum_counts = []
    for k in range(int(max(map(np.max, strata))) + 1):
        stratum_counts.append([np.sum(s == k) for s in strata])
    counts = np.array(stratum_counts)
    both = counts.min(axis=1) > 0
    share = float(counts[both, 0].sum() / counts[:, 0].sum())
    if not both.any():
        return Matched(float("nan"), 1.0, 0.0, ())
    ks = np.flatnonzero(both)
    n, m = counts[both].T
    weight = n / n.sum()
    right_counts = []
    for k in ks:
        right_counts.append([tested[side][strata[side] == k].sum() for side in (0, 1)])
    right = np.array(right_counts)
    difference = float(weight @ (right[:, 0] / n - right[:, 1] / m))
    pairs = tuple((int(a), int(b)) for a, b in zip(n, m, strict=True))
    whole = all(np.all((x == 0) | (x == 1)) for x in tested)
    groups = [np.arange(x.size) for x in tested] if groups is None else groups
    if not whole or any(np.unique(g).size < g.size for g in groups):
        sides = []
        for side_parts in zip(tested, strata, groups, strict=True):
            sides.append(_in_strata(*side_parts, ks, weight))
        return Matched(difference, _clustered_p(difference, sides), share, pairs)
    total = right.sum(axis=1).astype(np.int64)
    drawn = rng.hypergeometric(total, n + m - total, n, size=(n_resamples, len(ks)))
    differences = (drawn / n - (total - drawn) / m) @ weight
    reached = int((differences >= difference - _TIE).sum())
    return Matched(difference, (reached + 1) / (n_resamples + 1), share, pairs)


def _in_strata(
    scores: FloatArray, strata: IntArray, group: IntArray, ks: IntArray, weight: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return each item's contribution to the mean over the strata `ks`, and each item's cluster."""
    parts, groups = [], []
    for k, w in zip(ks, weight, strict=True):
        inside = strata == k
        parts.append(w / inside.sum() * (scores[inside] - scores[inside].mean()))
        groups.append(group[inside])
    return np.concatenate(parts), np.concatenate(groups)


def _clustered_p(difference: float, sides: Sequence[tuple[FloatArray, IntArray]]) -> float:
    """Return the one-sided p-value of the t-test over clusters; 1 if a set has only one cluster."""
    if min(np.unique(cluster).size for _, cluster in sides) < 2:
        return 1.0
    shared, means = 0.0, []
    for moved, cluster in sides:
        scores = moved * cluster.size
        means.append(mean_of(scores, cluster))
        shared = float(np.hypot(shared, shared_se(scores, cluster)))
    error = means[0].less_independent(means[1])
    se = max(error.se, shared)
    return float(scipy.stats.t.sf(difference / se, error.df)) if se > 0 else 1.0


def _strata(height: Sequence[FloatArray]) -> list[IntArray]:
    """Return the stratum index, from 0, of each item.

    Each distinct value of the references' mean is a stratum. If there are too many distinct
    values, five strata of about equal size are formed.
    """
    everything = np.concatenate(list(height))
    levels = np.unique(everything)
    edges = (
        levels[1:]
        if levels.size <= _STRATA
        else np.unique(np.quantile(everything, np.arange(1, _STRATA) / _STRATA))
    )
    return [np.searchsorted(edges, side, side="right") for side in height]
