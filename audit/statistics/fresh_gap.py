"""The score on a benchmark against matched held-out items: is what is published easier for one model than for others?

As ConStat (Dekoninck, Mueller & Vechev 2024) takes contamination: a score on the benchmark that does not carry over.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.errors import DataError
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
    """The tested model's published - fresh score among items of one difficulty, as the references see it.

    difference: mean over strata, weighted by the published items. pvalue: one-sided. share: of published items whose
    stratum has held-out items too. strata: (published items, held-out items) of each that has both.
    """

    difference: float
    pvalue: float
    share: float
    strata: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FreshGap:
    """Scores 0-1. published, fresh: the tested model's accuracy. did: against the references; matched: see `Matched`.

    predicted: did with what is known of how models differ (`between_models`), None without such a prior. reference_gap:
    the references' own mean published - fresh, with its two-sided p: are the sets equally hard? pvalue: the larger of
    matched's and predicted's (did's without a prior), as both must speak for a gap. detectable: the gap that is found
    with the power asked for at level alpha. matched, reference_gap and its p are None without references, and pvalue
    is 1: nothing is shown.
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
        return self.did.low if self.predicted is None else self.predicted.low

    @property
    def high(self) -> float:
        return self.did.high if self.predicted is None else self.predicted.high

    @property
    def between(self) -> float:
        """The part of `detectable` that more items do not lessen: how much models differ."""
        se = self.did.se if self.predicted is None else self.predicted.se
        return self.detectable * float(np.sqrt(max(0.0, 1 - (self.did.items_se / se) ** 2))) if se > 0 else float("nan")


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
    """One-sided test that the tested model does better on published items than on held-out ones of the same difficulty.

    tested, references: (published (n,), fresh (m,)) scores 0 to 1 (between: imputed chances), or NaN; clusters: as in
    `set_difference`. heights: (n,), (m,) what items are matched on; None: the references' mean score. prior: of how
    much models differ; None: the references alone tell.
    """
    did = set_difference(tested, references, clusters)
    published, fresh = (np.array(side, dtype=float) for side in zip(tested, *references, strict=True))
    there = ~np.isnan(published).any(axis=0), ~np.isnan(fresh).any(axis=0)

    def kept(sides: Sequence[ArrayLike]) -> tuple[Any, Any]:
        return np.asarray(sides[0])[there[0]], np.asarray(sides[1])[there[1]]

    own = kept((published[0], fresh[0]))
    if any(np.any((x < 0) | (x > 1)) for x in own):
        raise DataError("A score is 0 (wrong) to 1 (right) or NaN (no answer); found another value.")
    found = None
    gap = gap_p = None
    if references:
        mean = kept((published[1:].mean(axis=0), fresh[1:].mean(axis=0)))
        groups = None if clusters is None else kept(clusters)
        # Several trials of an item in one set alone would tell its difficulty finer there, in strata of its own.
        levels = [np.rint(side * len(references)) for side in mean] if heights is None else kept(heights)
        found = _matched(own, levels, groups, rng, n_resamples)
        gap, gap_p = _two_sided(set_difference(mean, (), groups))
    predicted = None
    if prior is not None and references and did.se > 0:
        parts = did.items_se, did.items_df, did.spread, did.sampling
        predicted = predictive(did.difference, *parts, len(references), prior)
    df, se = (did.df, did.se) if predicted is None else (did.items_df, predicted.se)
    quantiles = float(scipy.stats.t.ppf(1 - alpha, df) + scipy.stats.t.ppf(power, df))
    return FreshGap(
        published=float(own[0].mean()),
        fresh=float(own[1].mean()),
        did=did,
        matched=found,
        reference_gap=gap,
        reference_pvalue=gap_p,
        pvalue=1.0 if found is None else max((predicted or did).pvalue, found.pvalue),
        detectable=quantiles * se if se > 0 else float("nan"),
        predicted=predicted,
    )


GUESSES_MOVE = 0.20  # chance of a lucky answer that may differ between the sets beyond what their options say


def by_guessing(ahead: float, chance: float) -> tuple[float, float]:
    """Return the lowest and highest gap beyond the references that another rate of lucky answers makes, 0-1.

    ahead: the tested model's score on held-out items less the references'. chance: of a guess there. Right answers are
    chance + (1 - chance) known. If lucky ones are a share `move` more frequent on held-out items, and these are as hard
    for the references, a model that knows `k` more gains move * k less there. `move` is at most GUESSES_MOVE either way.

    >>> [round(one, 3) for one in by_guessing(0.25, 0.25)], by_guessing(0.0, 0.25)
    ([-0.053, 0.091], (0.0, 0.0))
    """
    ends = [move * ahead / max(1 - chance - move, 0.1) for move in (-GUESSES_MOVE, GUESSES_MOVE)]
    return min(ends) + 0.0, max(ends) + 0.0


def _two_sided(alone: SetDifference) -> tuple[float, float]:
    """The difference, and its p in both directions."""
    p = float(2 * scipy.stats.t.sf(abs(alone.difference) / alone.se, alone.df)) if alone.se > 0 else 1.0
    return alone.difference, p


def agreement(references: Sequence[Sets]) -> float:
    """P(a smaller chi-squared | both sets are independent draws) of items by how many references were right (0-1).

    Near 0, the references' answers agree better between the sets than draws do: held-out items were chosen by these
    answers. Clusters and sets that are not equally hard only raise it. Answers that are missing count as not right.
    Numbers that few items have are joined to the next (5 expected in each set: Cochran 1954). 1 where two classes or
    fewer are left, as these may agree by chance.

    >>> agreement([([1, 1, 0, 0] * 50, [1, 1, 0, 0] * 25), ([1, 0, 1, 0] * 50, [1, 0, 1, 0] * 25)])
    0.0
    >>> agreement([([1, 1, 0, 0] * 50, [1, 1, 0] * 33), ([1, 0, 1, 0] * 50, [1, 0, 1] * 33)]) > 0.1
    True
    """
    right = [np.nansum(np.stack([one[side] for one in references]), axis=0).astype(int) for side in (0, 1)]
    counts = np.stack([np.bincount(side, minlength=len(references) + 1) for side in right])
    fewest = counts.sum(axis=1).min() / counts.sum()
    classes, some = [], np.zeros(2)
    for one in counts.T:
        some = some + one
        if some.sum() * fewest >= _EXPECTED:
            classes.append(some)
            some = np.zeros(2)
    if len(classes) < 3:
        return 1.0
    classes[-1] = classes[-1] + some
    found = scipy.stats.chi2_contingency(np.transpose(classes), correction=False)
    return float(scipy.stats.chi2.cdf(found.statistic, found.dof))


def unparsed_held(
    models: Sequence[Sets], unparsed: Sequence[Sequence[BoolArray]], gamma: float, *, against: bool
) -> tuple[list[tuple[FloatArray, FloatArray]], list[FloatArray]]:
    """The scores of all models, the tested one first, with unparsed answers held against a gap, or for one; and the
    heights that items are matched on.

    unparsed: by model, masks (n,), (m,) of answers that were asked for and not parsed. Each counts as the chance that
    it was right, predicted from the other models' answers to the item and the model's own accuracy. gamma is between
    the tested model's sets (`imputed`): against a gap its published ones were right less often and its held-out ones
    more often. In the worst case the references' are held the other way round. Items are matched on the answers of the
    references that were parsed: what is imputed tells no difficulty.
    """
    sides = [np.stack([np.asarray(one[side], dtype=float) for one in models]) for side in (0, 1)]
    filled = []
    for k, lost in enumerate(unparsed):
        one = []
        for side in (0, 1):
            favour = against == (side == (0 if k else 1))
            held = of_references(gamma) if k else gamma
            one.append(imputed(sides[side][k], lost[side], _predicted(sides[side], k), held, favour))
        filled.append((one[0], one[1]))
    return filled, _heights(sides)


def _predicted(scores: FloatArray, k: int) -> FloatArray:
    """(n,) P(right) of model k: from the others' answers, with odds moved so that k's accuracy is its own."""
    own, others = scores[k], np.delete(scores, k, axis=0)
    there = ~np.isnan(own)
    mean = (np.sum(own[there]) + 0.5) / (there.sum() + 1.0)
    if not len(others):
        return np.full(own.size, mean)
    found = predict_right(others)
    typical = found[there].mean() if there.any() else found.mean()
    odds = found / (1 - found) * (mean / (1 - mean)) / (typical / (1 - typical))
    return odds / (1 + odds)


def _heights(sides: Sequence[FloatArray]) -> list[FloatArray]:
    """(n,), (m,) the mean over the references (all rows but the first) that answered an item."""
    found = []
    theirs = [side[1:] for side in sides]
    if not len(theirs[0]):
        return [np.zeros(side.shape[1]) for side in sides]
    everything = np.concatenate([side.ravel() for side in theirs])
    for side in theirs:
        read = ~np.isnan(side)
        mean = np.where(read, side, 0.0).sum(axis=0) / np.maximum(read.sum(axis=0), 1)
        found.append(np.where(read.any(axis=0), mean, np.nanmean(everything)))
    return found


def _matched(
    own: Sequence[FloatArray],
    height: Sequence[FloatArray],
    groups: Sequence[IntArray] | None,
    rng: np.random.Generator,
    n_resamples: int,
) -> Matched:
    """Strata of the references' mean score. Items by themselves: an exact test that exchanges items within strata
    (conditional on the right answers of each, their split is hypergeometric). Clusters, or imputed chances: a t-test
    over clusters, or items."""
    strata = _strata(height)
    counts = np.array([[np.sum(s == k) for s in strata] for k in range(int(max(map(np.max, strata))) + 1)])
    both = counts.min(axis=1) > 0
    share = float(counts[both, 0].sum() / counts[:, 0].sum())
    if not both.any():
        return Matched(float("nan"), 1.0, 0.0, ())
    ks = np.flatnonzero(both)
    n, m = counts[both].T
    weight = n / n.sum()
    right = np.array([[own[side][strata[side] == k].sum() for side in (0, 1)] for k in ks])
    difference = float(weight @ (right[:, 0] / n - right[:, 1] / m))
    pairs = tuple((int(a), int(b)) for a, b in zip(n, m, strict=True))
    whole = all(np.all((x == 0) | (x == 1)) for x in own)
    groups = [np.arange(x.size) for x in own] if groups is None else groups
    if not whole or any(np.unique(g).size < g.size for g in groups):
        sides = [_in_strata(*one, ks, weight) for one in zip(own, strata, groups, strict=True)]
        return Matched(difference, _clustered_p(difference, sides), share, pairs)
    total = right.sum(axis=1).astype(np.int64)
    drawn = rng.hypergeometric(total, n + m - total, n, size=(n_resamples, len(ks)))
    differences = (drawn / n - (total - drawn) / m) @ weight
    reached = int((differences >= difference - _TIE).sum())
    return Matched(difference, (reached + 1) / (n_resamples + 1), share, pairs)


def _in_strata(
    own: FloatArray, strata: IntArray, group: IntArray, ks: IntArray, weight: FloatArray
) -> tuple[FloatArray, IntArray]:
    """(what each item of the strata `ks` moves their weighted mean by, its group)."""
    parts, groups = [], []
    for k, w in zip(ks, weight, strict=True):
        inside = strata == k
        parts.append(w / inside.sum() * (own[inside] - own[inside].mean()))
        groups.append(group[inside])
    return np.concatenate(parts), np.concatenate(groups)


def _clustered_p(difference: float, sides: Sequence[tuple[FloatArray, IntArray]]) -> float:
    """One-sided, by the t-test over clusters; 1 where one side is a single cluster, which tells nothing."""
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
    """Index 0.. of each item's stratum: each level of the references' mean by itself, or five of about equal size."""
    everything = np.concatenate(list(height))
    levels = np.unique(everything)
    edges = (
        levels[1:] if levels.size <= _STRATA else np.unique(np.quantile(everything, np.arange(1, _STRATA) / _STRATA))
    )
    return [np.searchsorted(edges, side, side="right") for side in height]
