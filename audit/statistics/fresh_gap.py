"""The score on a benchmark against matched fresh items: is what is published easier for one model than for others?

As ConStat (Dekoninck, Mueller & Vechev 2024) takes contamination: a score on the benchmark that does not carry over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.set_difference import SetDifference, Sets, set_difference

N_RESAMPLES = 9999
_STRATA = 5
_TIE = 1e-12


@dataclass(frozen=True)
class Matched:
    """The tested model's published - fresh score among items of one difficulty, as the references see it.

    difference: mean over strata, weighted by the published items. pvalue: one-sided. share: of published items whose
    stratum has fresh items too. strata: (published items, fresh items) of each that has both.
    """

    difference: float
    pvalue: float
    share: float
    strata: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class FreshGap:
    """Scores 0-1. published, fresh: the tested model's accuracy. did: against the references; matched: see `Matched`.

    reference_gap: the references' own mean published - fresh, with its two-sided p: are the sets equally hard?
    pvalue: the larger of did's and matched's, as both must speak for a gap. detectable: the gap that is found with the
    power asked for at level alpha. matched, reference_gap and its p are None without references, and pvalue is 1:
    nothing is shown.
    """

    published: float
    fresh: float
    did: SetDifference
    matched: Matched | None
    reference_gap: float | None
    reference_pvalue: float | None
    pvalue: float
    detectable: float


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
) -> FreshGap:
    """One-sided test that the tested model does better on published items than on fresh ones of the same difficulty.

    tested, references: (published (n,), fresh (m,)) scores 1, 0 or NaN; clusters: as in `set_difference`. heights:
    (n,), (m,) what items are matched on; None: the references' mean score.
    """
    did = set_difference(tested, references, clusters)
    models = [[np.asarray(side, dtype=float) for side in one] for one in (tested, *references)]
    there = [~np.isnan(np.stack([one[side] for one in models])).any(axis=0) for side in (0, 1)]
    own = [models[0][side][there[side]] for side in (0, 1)]
    if any(np.any((x != 0) & (x != 1)) for x in own):
        raise DataError("A score is 1 (right), 0 (wrong) or NaN (no answer); found another value.")
    found = None
    gap = gap_p = None
    if references:
        mean = [np.stack([one[side][there[side]] for one in models[1:]]).mean(axis=0) for side in (0, 1)]
        groups = None if clusters is None else [np.asarray(clusters[side])[there[side]] for side in (0, 1)]
        height = mean if heights is None else [heights[side][there[side]] for side in (0, 1)]
        found = _matched(own, height, groups, rng, n_resamples)
        alone = set_difference((mean[0], mean[1]), (), None if groups is None else (groups[0], groups[1]))
        gap = alone.difference
        gap_p = float(2 * scipy.stats.t.sf(abs(gap) / alone.se, alone.df)) if alone.se > 0 else 1.0
    quantiles = float(scipy.stats.t.ppf(1 - alpha, did.df) + scipy.stats.t.ppf(power, did.df))
    return FreshGap(
        published=float(own[0].mean()),
        fresh=float(own[1].mean()),
        did=did,
        matched=found,
        reference_gap=gap,
        reference_pvalue=gap_p,
        pvalue=1.0 if found is None else max(did.pvalue, found.pvalue),
        detectable=quantiles * did.se if did.se > 0 else float("nan"),
    )


def held_gaps(
    tested: Sets,
    references: Sequence[Sets],
    unread: Sequence[Sequence[BoolArray]],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    rng: np.random.Generator,
    alpha: float = 0.05,
    power: float = 0.8,
    n_resamples: int = N_RESAMPLES,
) -> tuple[FreshGap, FreshGap] | None:
    """`fresh_gap` with every unread answer held against a gap, and for one; None where all were read.

    unread: by model, the tested one first, masks (n,), (m,) of answers that were asked for and not read. Against a gap
    the tested model's published ones are wrong and its fresh ones right, those of the references the other way round.
    Items are matched on the answers of the references that were read: what is held for an answer tells no difficulty.
    An item that no reference answered has the references' mean.
    """
    if not any(np.any(side) for one in unread for side in one):
        return None
    models = [[np.asarray(side, dtype=float) for side in one] for one in (tested, *references)]
    heights = _heights(models[1:]) if references else None

    def held(against: bool) -> FreshGap:
        filled = []
        for k, (one, lost) in enumerate(zip(models, unread, strict=True)):
            right = float(against != (k == 0))  # what an unread published answer counts
            filled.append((np.where(lost[0], right, one[0]), np.where(lost[1], 1 - right, one[1])))
        return fresh_gap(
            filled[0], filled[1:], clusters, rng=rng, alpha=alpha, power=power, n_resamples=n_resamples,
            heights=heights,
        )  # fmt: skip

    return held(True), held(False)


def _heights(references: Sequence[Sequence[FloatArray]]) -> list[FloatArray]:
    """(n,), (m,) the mean over the references that answered an item."""
    found = []
    sides = [np.stack([one[side] for one in references]) for side in (0, 1)]
    everything = np.concatenate([side.ravel() for side in sides])
    for side in sides:
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
    (conditional on the right answers of each, their split is hypergeometric). Clusters: a t-test over them."""
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
    if groups is not None and any(np.unique(g).size < g.size for g in groups):
        residual, cluster = [], []
        for side, size in ((0, n), (1, m)):
            for i, k in enumerate(ks):
                inside = strata[side] == k
                mean = own[side][inside].mean()
                sign = 1 - 2 * side
                residual.append(sign * weight[i] * (own[side][inside] - mean) / size[i])
                cluster.append(groups[side][inside] + side * (1 + groups[0].max()))
        sums = np.bincount(np.unique(np.concatenate(cluster), return_inverse=True)[1], np.concatenate(residual))
        se = float(np.sqrt(np.sum(sums**2) * sums.size / (sums.size - 1)))
        pvalue = float(scipy.stats.t.sf(difference / se, sums.size - 1)) if se > 0 else 1.0
        return Matched(difference, pvalue, share, pairs)
    total = right.sum(axis=1).astype(np.int64)
    drawn = rng.hypergeometric(total, n + m - total, n, size=(n_resamples, len(ks)))
    differences = (drawn / n - (total - drawn) / m) @ weight
    reached = int((differences >= difference - _TIE).sum())
    return Matched(difference, (reached + 1) / (n_resamples + 1), share, pairs)


def _strata(height: Sequence[FloatArray]) -> list[IntArray]:
    """Index 0.. of each item's stratum: each level of the references' mean by itself, or five of about equal size."""
    everything = np.concatenate(list(height))
    levels = np.unique(everything)
    edges = (
        levels[1:] if levels.size <= _STRATA else np.unique(np.quantile(everything, np.arange(1, _STRATA) / _STRATA))
    )
    return [np.searchsorted(edges, side, side="right") for side in height]
