"""Test whether one fall of a model's log-odds explains what rewording costs it.

A model that is sensitive to wording loses the same log-odds on every item. A model that remembers
items loses more on those that other models seldom know.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from audit.statistics.estimate import ROUNDING, above_pvalue, mean_of
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.values import average

# The prior's standard deviation, in log-odds. It keeps a fall finite if all answers that differ do
# so in one direction.
_PRIOR_SD = 5.0


@dataclass(frozen=True)
class CommonFall:
    """Report what rewording takes from log-odds, by how well the references know an item.

    Attributes
    ----------
    unknown, known : float
        Fall of the tested model's log-odds on the half of the items that the references know least,
        and on the other half.
    references_unknown, references_known : float
        Means of the same falls over the references; NaN if no reference's answers vary.
    pvalue : float
        One-sided: rewording takes more the less an item is known, and by more than it takes from
        the references.
    """

    unknown: float
    known: float
    references_unknown: float
    references_known: float
    pvalue: float


def common_fall(
    tested: tuple[FloatArray, FloatArray],
    references: Sequence[tuple[FloatArray, FloatArray]],
    cluster: IntArray,
) -> CommonFall | None:
    """Test that rewording takes the same log-odds from every item.

    Parameters
    ----------
    tested : tuple of arrays
        Answers of the tested model, original (K, n) and variants (N, n), in {0, 1, NaN}.
    references : sequence of tuples of arrays
        The same of each reference, on the same n items.
    cluster : (n,) array
        Cluster of each item, 0..G-1.

    Returns
    -------
    CommonFall or None
        None if the answers cannot tell: the tested model's answers do not differ, all items are
        alike, or there is no reference.

    Notes
    -----
    If rewording takes one amount f from the log-odds of every item, an item's difficulty tells
    nothing more once its number of right answers is known (Rasch 1960; Andersen 1970). With t of 1
    + N right, the published one is right with odds e^f t / (N + 1 - t).

    Memory makes the published one right where it would not be. The test therefore asks whether f is
    larger the less an item is known to the other models. The statistic is the score's slope on 1 /
    (their share of right answers), the most powerful weight if few items are remembered. The tested
    model's own rewordings are no part of its weight, as it may remember an item in some of them.

    The references' mean slope is subtracted, as rewordings may be harder for all models just where
    items are. Each reference is weighted by the other models (the tested model counts with its
    rewordings). Runs of one published wording are not rewordings: each is tested alone, and their
    parts are averaged. The error is that of whole clusters.

    Examples
    --------
    Two answers in three are right to known items and one in ten to the others. One model has learnt
    a third of the published answers; from another, rewording takes an amount of log-odds.

    >>> rng = np.random.default_rng(0)
    >>> odds = np.repeat([0.7, -2.2], 500)
    >>> def answers(taken=0.0, learnt=0.0):
    ...     chances = [1 / (1 + np.exp(-odds + lost)) for lost in (0.0, taken)]
    ...     original, variants = (rng.random((k, 1000)) < p for k, p in zip((1, 3), chances))
    ...     return (original | (rng.random(1000) < learnt)) * 1.0, variants * 1.0
    >>> for tested in answers(learnt=1 / 3), answers(taken=1.0):
    ...     fall = common_fall(tested, [answers() for _ in range(3)], np.arange(1000))
    ...     round(fall.unknown, 1), round(fall.known, 1), fall.pvalue < 0.05
    (1.7, 0.5, True)
    (1.0, 0.9, False)
    """
    right = [average(tested[1]), *(average(np.concatenate(each)) for each in references)]
    slopes = []
    for k, (original, variants) in enumerate((tested, *references)):
        other_shares = []
        for j, share in enumerate(right):
            if j != k:
                other_shares.append(share)
        others = np.stack(other_shares or [np.full(len(cluster), 0.5)])
        # 1 / their share, of Laplace's rule.
        weight = (len(others) + 2) / (len(others) * average(others) + 1)
        run_slopes = [_slope(row, variants, weight) for row in original]
        slopes.append([slope for slope in run_slopes if slope is not None])
    if not slopes[0]:
        return None
    parts, falls = [], []
    for each in slopes:
        if each:
            rows, *halves = zip(*each, strict=True)
            parts.append(np.stack(rows))
            falls.append(np.mean(halves, axis=1))
    answered = np.any([~np.isnan(rows).all(axis=0) for rows in parts], axis=0)
    tested_parts, *reference_parts = (np.nansum(rows, axis=0) / len(rows) for rows in parts)
    reference_mean = sum(reference_parts) / max(len(reference_parts), 1)
    gap = np.where(answered, tested_parts - reference_mean, np.nan) * answered.sum()
    beside = np.mean(falls[1:], axis=0) if reference_parts else (np.nan, np.nan)
    unknown, known, references_unknown, references_known = map(float, (*falls[0], *beside))
    pvalue = above_pvalue(mean_of(gap, cluster))
    return CommonFall(unknown, known, references_unknown, references_known, pvalue)


def _slope(
    original: FloatArray, variants: FloatArray, weight: FloatArray
) -> tuple[FloatArray, float, float] | None:
    """Return the slope's (n,) parts by item and the falls of the two halves; None if all items are
    alike.

    The parts sum to the slope, and are NaN if an item was not answered. original, weight: (n,).
    """
    answered = np.sum(~np.isnan(variants), axis=0)
    right = np.where(answered > 0, original, np.nan) + np.nansum(variants, axis=0)
    some = (right > 0) & (right <= answered) & ~np.isnan(weight)
    o, t, n, weight = original[some], right[some], answered[some], weight[some]

    def expected(fall: float) -> FloatArray:
        return np.asarray(expit(fall + np.log(t / (n + 1 - t))))

    def fall(kept: BoolArray) -> float:
        return float(
            brentq(
                lambda f: (o - expected(f))[kept].sum() - f / _PRIOR_SD**2,
                -(_PRIOR_SD**2),
                _PRIOR_SD**2,
            )
        )

    if not some.any():
        return None
    mean = expected(fall(weight > 0))
    spread = mean * (1 - mean)
    weight -= (weight * spread).sum() / spread.sum()
    information = (weight**2 * spread).sum()
    if information <= ROUNDING:
        return None
    parts = np.where(np.isnan(right), np.nan, 0.0)
    parts[some] = weight * (o - mean) / information
    half = weight > np.median(weight)
    if not half.any():  # more than half of the items have the largest weight
        half = weight == weight.max()
    return parts, fall(half), fall(~half)
