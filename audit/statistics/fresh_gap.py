"""Compare the score on a benchmark with that on matched held-out items, against reference models.

If published items are easier for one model than for others, it has learnt them. ConStat (Dekoninck,
Mueller & Vechev 2024) defines contamination in this way: a score on the benchmark that does not
carry over.
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
    """Report the tested model's published - fresh score among items of one difficulty, as the
    references see it.

    Attributes
    ----------
    difference : float
        Mean over strata, weighted by the published items.
    pvalue : float
        One-sided.
    share : float
        Share of published items whose stratum has held-out items too.
    strata : tuple of (int, int)
        (published items, held-out items) of each stratum that has both.
    """

    difference: float
    pvalue: float
    share: float
    strata: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FreshGap:
    """Report a gap between scores on published and held-out items; scores 0-1.

    Attributes
    ----------
    published, fresh : float
        The tested model's accuracies.
    did : SetDifference
        Their difference against the references.
    matched : Matched or None
        The same among items of one difficulty; None without references.
    reference_gap, reference_pvalue : float or None
        The references' own mean published - fresh, with its two-sided p: whether the sets are
        equally hard. None without references.
    pvalue : float
        The larger of matched's and predicted's (did's without a prior), as both must speak for a
        gap. 1 without references: nothing is shown.
    detectable : float
        The gap that is found with the given power at level alpha.
    predicted : Predictive or None
        `did` with what is known of how models differ (`between_models`); None without a prior.
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
            Of `predicted`, or of `did` without a prior.
        """
        return self.did.low if self.predicted is None else self.predicted.low

    @property
    def high(self) -> float:
        """Return the upper limit of the gap.

        Returns
        -------
        float
            Of `predicted`, or of `did` without a prior.
        """
        return self.did.high if self.predicted is None else self.predicted.high

    @property
    def between(self) -> float:
        """Return the part of `detectable` that more items do not lessen: how much models differ.

        Returns
        -------
        float
            Accuracy 0-1.
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
    """Test that the tested model does better on published items than on held-out ones of the same
    difficulty.

    Parameters
    ----------
    tested, references : Sets
        (published (n,), fresh (m,)) scores 0 to 1 (between: imputed chances), or NaN.
    clusters : tuple of arrays or None
        As in `set_difference`.
    rng : numpy.random.Generator
        Source of the permutations.
    alpha, power : float
        Level and power of the detectable gap.
    n_resamples : int
        Number of permutations.
    heights : sequence of arrays or None
        Values (n,), (m,) that items are matched on; None takes the references' mean score.
    prior : TauPrior or None
        How much models differ; None: the references alone tell.

    Returns
    -------
    FreshGap
        One-sided test and its parts.

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

    def kept(sides: Sequence[ArrayLike]) -> tuple[Any, Any]:
        return np.asarray(sides[0])[complete[0]], np.asarray(sides[1])[complete[1]]

    tested_scores = kept((published[0], fresh[0]))
    if any(np.any((x < 0) | (x > 1)) for x in tested_scores):
        raise DataError(
            "A score is 0 (wrong) to 1 (right) or NaN (no answer); found another value."
        )
    matched = None
    gap = gap_p = None
    if references:
        mean = kept((published[1:].mean(axis=0), fresh[1:].mean(axis=0)))
        groups = None if clusters is None else kept(clusters)
        # Several trials of an item in one set only would give it finer strata of its own.
        levels = (
            [np.rint(side * len(references)) for side in mean] if heights is None else kept(heights)
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


GUESSES_MOVE = (
    0.20  # chance of a lucky answer that may differ between the sets beyond what their options say
)


def by_guessing(ahead: float, chance: float) -> tuple[float, float]:
    """Return the lowest and highest gap beyond the references that another rate of lucky answers
    makes, 0-1.

    ahead: the tested model's score on held-out items less the references'. chance: of a guess
    there. Right answers are chance + (1 - chance) known. If lucky ones are a share `move` more
    frequent on held-out items, and these are as hard for the references, a model that knows `k`
    more gains move * k less there. `move` is at most GUESSES_MOVE either way.

    >>> [round(one, 3) for one in by_guessing(0.25, 0.25)], by_guessing(0.0, 0.25)
    ([-0.053, 0.091], (0.0, 0.0))
    """
    ends = [move * ahead / max(1 - chance - move, 0.1) for move in (-GUESSES_MOVE, GUESSES_MOVE)]
    return min(ends) + 0.0, max(ends) + 0.0


def _two_sided(alone: SetDifference) -> tuple[float, float]:
    """Return the difference, and its p in both directions."""
    p = (
        float(2 * scipy.stats.t.sf(abs(alone.difference) / alone.se, alone.df))
        if alone.se > 0
        else 1.0
    )
    return alone.difference, p


def agreement(references: Sequence[Sets]) -> float:
    """Return how unlikely it is that the references' answers agree so well between the sets.

    Parameters
    ----------
    references : sequence of Sets
        Answers of each reference. Missing answers count as not right.

    Returns
    -------
    float
        P(a smaller chi-squared | both sets are independent draws) of items by how many references
        were right (0-1). 1 if two classes or fewer are left, as these may agree by chance.

    Notes
    -----
    Near 0, the references' answers agree better between the sets than draws do: held-out items were
    chosen by these answers. Clusters and sets that are not equally hard only raise it. Numbers that
    few items have are joined to the next (5 expected in each set: Cochran 1954).

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


def unparsed_held(
    models: Sequence[Sets], unparsed: Sequence[Sequence[BoolArray]], gamma: float, *, against: bool
) -> tuple[list[tuple[FloatArray, FloatArray]], list[FloatArray]]:
    """Return the scores of all models with unparsed answers held against a gap, or for one, and the
    matching heights.

    Parameters
    ----------
    models : sequence of Sets
        Scores of all models, the tested one first.
    unparsed : sequence of sequence of bool arrays
        By model, masks (n,), (m,) of answers that were asked for and not parsed.
    gamma : float
        Between the tested model's sets (`imputed`).
    against : bool
        True holds them against a gap: the tested model's published ones were right less often and
        its held-out ones more often.

    Returns
    -------
    scores : list of tuple of arrays
        Scores, each unparsed answer as the chance that it was right, predicted from the other
        models' answers to the item and the model's own accuracy.
    heights : list of arrays
        Values (n,), (m,) that items are matched on: the answers of the references that were parsed,
        as what is imputed tells no difficulty.

    Notes
    -----
    In the worst case the references' are held the other way round.
    """
    sides = [np.stack(side).astype(float) for side in zip(*models, strict=True)]
    filled = []
    for k, lost in enumerate(unparsed):
        filled_sides = []
        for side in (0, 1):
            favour = against == (side == (0 if k else 1))
            held = of_references(gamma) if k else gamma
            filled_sides.append(
                imputed(sides[side][k], lost[side], _predicted(sides[side], k), held, favour)
            )
        filled.append((filled_sides[0], filled_sides[1]))
    return filled, _heights(sides)


def _predicted(scores: FloatArray, k: int) -> FloatArray:
    """Return model k's probabilities of a right answer (n,), from the others' answers, with its own
    accuracy."""
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
    """Return the mean over the references (all rows but the first) that answered an item, (n,) and
    (m,)."""
    heights = []
    theirs = [side[1:] for side in sides]
    if not len(theirs[0]):
        return [np.zeros(side.shape[1]) for side in sides]
    everything = np.concatenate([side.ravel() for side in theirs])
    for side in theirs:
        read = ~np.isnan(side)
        mean = np.where(read, side, 0.0).sum(axis=0) / np.maximum(read.sum(axis=0), 1)
        heights.append(np.where(read.any(axis=0), mean, np.nanmean(everything)))
    return heights


def _matched(
    own: Sequence[FloatArray],
    height: Sequence[FloatArray],
    groups: Sequence[IntArray] | None,
    rng: np.random.Generator,
    n_resamples: int,
) -> Matched:
    """Return the test within strata of the references' mean score.

    Items by themselves: an exact test that exchanges items within strata (conditional on the right
    answers of each, their split is hypergeometric). Clusters, or imputed chances: a t-test over
    clusters, or items.
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
        right_counts.append([own[side][strata[side] == k].sum() for side in (0, 1)])
    right = np.array(right_counts)
    difference = float(weight @ (right[:, 0] / n - right[:, 1] / m))
    pairs = tuple((int(a), int(b)) for a, b in zip(n, m, strict=True))
    whole = all(np.all((x == 0) | (x == 1)) for x in own)
    groups = [np.arange(x.size) for x in own] if groups is None else groups
    if not whole or any(np.unique(g).size < g.size for g in groups):
        sides = []
        for side_parts in zip(own, strata, groups, strict=True):
            sides.append(_in_strata(*side_parts, ks, weight))
        return Matched(difference, _clustered_p(difference, sides), share, pairs)
    total = right.sum(axis=1).astype(np.int64)
    drawn = rng.hypergeometric(total, n + m - total, n, size=(n_resamples, len(ks)))
    differences = (drawn / n - (total - drawn) / m) @ weight
    reached = int((differences >= difference - _TIE).sum())
    return Matched(difference, (reached + 1) / (n_resamples + 1), share, pairs)


def _in_strata(
    own: FloatArray, strata: IntArray, group: IntArray, ks: IntArray, weight: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return how much each item of the strata `ks` moves their weighted mean, and its group."""
    parts, groups = [], []
    for k, w in zip(ks, weight, strict=True):
        inside = strata == k
        parts.append(w / inside.sum() * (own[inside] - own[inside].mean()))
        groups.append(group[inside])
    return np.concatenate(parts), np.concatenate(groups)


def _clustered_p(difference: float, sides: Sequence[tuple[FloatArray, IntArray]]) -> float:
    """Return the one-sided p of the t-test over clusters; 1 if one side is a single cluster, which
    tells nothing."""
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
    """Return the index 0.. of each item's stratum.

    Each level of the references' mean is a stratum by itself, or there are five of about equal
    size.
    """
    everything = np.concatenate(list(height))
    levels = np.unique(everything)
    edges = (
        levels[1:]
        if levels.size <= _STRATA
        else np.unique(np.quantile(everything, np.arange(1, _STRATA) / _STRATA))
    )
    return [np.searchsorted(edges, side, side="right") for side in height]
