"""Test whether rewording lowers a model's log-odds by the same amount on every item.

If a model is only sensitive to wording, its log-odds fall by the same amount on every item. If a
model remembers items, its log-odds fall more on items that other models seldom answer right.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from audit.statistics.estimate import ROUNDING, above_pvalue, mean_of
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.values import average

# Standard deviation of the prior of the fall, in log-odds. The prior keeps the estimated fall
# finite if all answers that change do so in the same direction.
_PRIOR_SD = 5.0


@dataclass(frozen=True)
class CommonFall:
    """Report the fall of a model's log-odds through rewording, on two halves of the items.

    The first half has the items that the references know least. The second half has the other
    items.

    Attributes
    ----------
    unknown, known : float
        Fall of the tested model's log-odds on the first half, and on the second half.
    references_unknown, references_known : float
        The mean fall of the references on the same two halves; NaN if no reference's answers vary.
    pvalue : float
        One-sided p-value. The alternative is that the fall is larger on items that other models
        know less, and that this trend is stronger in the tested model than in the references.
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
    """Test whether rewording lowers the log-odds by the same amount on every item.

    Parameters
    ----------
    tested : tuple of arrays
        Answers of the tested model to the originals (K, n) and to the variants (N, n): 0, 1 or NaN.
    references : sequence of tuples of arrays
        Answers of each reference to the same n items, as two arrays of the same form.
    cluster : (n,) array
        Cluster of each item, 0..G-1.

    Returns
    -------
    CommonFall or None
        The falls and the p-value. None if the test is not possible, because the tested model
        answers all wordings alike, all items are equally hard, or there is no reference.

    Notes
    -----
    The null hypothesis is that rewording lowers the log-odds of every item by the same amount f. An
    item's number t of right answers, out of 1 + N, then contains all information about its
    difficulty (Rasch 1960; Andersen 1970). Given t, the odds that the answer to the original is
    right are

          e^f * t / (N + 1 - t).

    Memory makes the answer to the original right although the model does not know the item. The
    test therefore asks whether f is larger on items that the other models know less. The statistic
    is the slope of the score on a weight:

          weight = 1 / (the other models' share of right answers)

    This weight gives the most powerful test if few items are remembered. The tested model's own
    answers are not part of its weight, because this model may remember an item under some
    rewordings too.

    The references' mean slope is subtracted, because rewordings of hard items may be harder for all
    models. The weight for a reference is computed from all other models; of the tested model, only
    the answers to rewordings are used.

    Replicates of the published wording are not rewordings. Each replicate is tested alone, and the
    results are averaged. The standard error is clustered.

    Examples
    --------
    Models answer known items right with probability 2/3, and the other items with probability 1/10.
    The first tested model has learnt a third of the published answers. The log-odds of the second
    model fall by 1 through rewording.

    >>> rng = np.random.default_rng(0)
    >>> odds = np.repeat([0.7, -2.2], 500)
    >>> def answers(fallen=0.0, learnt=0.0):
    ...     chances = [1 / (1 + np.exp(-odds + lost)) for lost in (0.0, fallen)]
    ...     original, variants = (rng.random((k, 1000)) < p for k, p in zip((1, 3), chances))
    ...     return (original | (rng.random(1000) < learnt)) * 1.0, variants * 1.0
    >>> for tested in answers(learnt=1 / 3), answers(fallen=1.0):
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
        # The weight is 1 / the other models' share of right answers, smoothed by Laplace's rule.
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
    """Return each item's contribution to the slope, as an array (n,), and the falls on both halves.

    The contributions sum to the slope; the contribution of an unanswered item is NaN. `original`
    and `weight` have shape (n,). Return None if the weights do not differ between items.
    """
    answered = np.sum(~np.isnan(variants), axis=0)
    right = np.where(answered > 0, original, np.nan) + np.nansum(variants, axis=0)
    some = (right > 0) & (right <= answered) & ~np.isnan(weight)
    o, t, n, weight = original[some], right[some], answered[some], weight[some]

    def expected(fall: float) -> FloatArray:
        return np.asarray(expit(fall + np.log(t / (n + 1 - t))))

    def fall(half: BoolArray) -> float:
        return float(
            brentq(
                lambda f: (o - expected(f))[half].sum() - f / _PRIOR_SD**2,
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
    if not half.any():  # More than half of the items share the largest weight.
        half = weight == weight.max()
    return parts, fall(half), fall(~half)
