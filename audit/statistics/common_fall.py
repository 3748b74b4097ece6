"""Memory, or a model that is touchy about wording? Whether one fall of its log-odds makes what rewording costs it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from audit.statistics.estimate import ROUNDING, above_pvalue, mean_of
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.values import average

_PRIOR_SD = 5.0  # of the fall, in log-odds: it keeps a fall finite where every answer that differs differs one way


@dataclass(frozen=True)
class CommonFall:
    """unknown, known: what rewording takes from the tested model's log-odds, on the half of the items that the
    references know least, and on the other; references_*: the references' mean. pvalue: one-sided, that it takes more
    the less an item is known, and by more than from the references."""

    unknown: float
    known: float
    references_unknown: float
    references_known: float
    pvalue: float


def common_fall(
    tested: tuple[FloatArray, FloatArray], references: Sequence[tuple[FloatArray, FloatArray]], cluster: IntArray
) -> CommonFall | None:
    """Tests that rewording takes one amount of log-odds from every item, as from a model that is touchy about wording.

    tested, references: (original (K, n), variants (N, n)) of each model, in {0, 1, NaN}, on the same n items. cluster:
    (n,) index 0..G-1. None where the answers cannot tell: the tested model's do not differ, all items are alike, or
    there is no reference.

    Notes
    -----
    If rewording takes one amount f from the log-odds of every item, an item's difficulty tells nothing more once its
    number of right answers is known (Rasch 1960; Andersen 1970): with t of 1 + N right, the published one is right with
    odds e^f t / (N + 1 - t). Memory makes it right where it would not be, so what is tested is whether f is larger the
    less an item is known to the other models: the score's slope on 1 / their share of right answers, the most powerful
    weight where few items are remembered. The tested model's own rewordings are no part of its weight, as it may
    remember an item in some of them. The references' mean slope is taken off, each weighted by the other models (of the
    tested one the rewordings), as rewordings may be harder for all just where items are. Runs of one published wording
    are no rewordings: each is tested alone, and their parts are averaged. The error is that of whole clusters.

    Examples
    --------
    Two answers in three are right to known items and one in ten to the others. One model has learnt a third of the
    published answers; from another, rewording takes an amount of log-odds.

    >>> rng = np.random.default_rng(0)
    >>> odds = np.repeat([0.7, -2.2], 500)
    >>> def answers(taken=0.0, learnt=0.0):
    ...     chances = [1 / (1 + np.exp(-odds + lost)) for lost in (0.0, taken)]
    ...     original, variants = (rng.random((k, 1000)) < p for k, p in zip((1, 3), chances))
    ...     return (original | (rng.random(1000) < learnt)) * 1.0, variants * 1.0
    >>> for tested in answers(learnt=1 / 3), answers(taken=1.0):
    ...     found = common_fall(tested, [answers() for _ in range(3)], np.arange(1000))
    ...     round(found.unknown, 1), round(found.known, 1), found.pvalue < 0.05
    (1.7, 0.5, True)
    (1.0, 0.9, False)
    """
    right = [average(tested[1]), *(average(np.concatenate(each)) for each in references)]
    slopes = []
    for k, (original, variants) in enumerate((tested, *references)):
        others = np.stack([one for j, one in enumerate(right) if j != k] or [np.full(len(cluster), 0.5)])
        weight = (len(others) + 2) / (len(others) * average(others) + 1)  # 1 / their share, of Laplace's rule
        slopes.append([one for row in original if (one := _slope(row, variants, weight)) is not None])
    if not slopes[0]:
        return None
    own, *theirs = (np.stack([one[0] for one in each]) for each in slopes if each)
    asked = np.any([~np.isnan(rows).all(axis=0) for rows in (own, *theirs)], axis=0)
    own, *theirs = (np.nansum(rows, axis=0) / len(rows) for rows in (own, *theirs))
    gap = np.where(asked, own - sum(theirs) / max(len(theirs), 1), np.nan) * asked.sum()
    falls = [np.mean([one[1:] for one in each], axis=0) for each in slopes if each]
    beside = np.mean(falls[1:], axis=0) if theirs else (np.nan, np.nan)
    unknown, known, references_unknown, references_known = map(float, (*falls[0], *beside))
    pvalue = above_pvalue(mean_of(gap, cluster))
    return CommonFall(unknown, known, references_unknown, references_known, pvalue)


def _slope(original: FloatArray, variants: FloatArray, weight: FloatArray) -> tuple[FloatArray, float, float] | None:
    """The slope's (n,) parts by item, whose sum it is, NaN where an item was not answered, and the falls of the two
    halves; None where all items are alike. original, weight: (n,)."""
    asked = np.sum(~np.isnan(variants), axis=0)
    right = np.where(asked > 0, original, np.nan) + np.nansum(variants, axis=0)
    some = (right > 0) & (right <= asked) & ~np.isnan(weight)
    o, t, n, weight = original[some], right[some], asked[some], weight[some]

    def expected(fall: float) -> FloatArray:
        return np.asarray(expit(fall + np.log(t / (n + 1 - t))))

    def fall(kept: BoolArray) -> float:
        return float(brentq(lambda f: (o - expected(f))[kept].sum() - f / _PRIOR_SD**2, -(_PRIOR_SD**2), _PRIOR_SD**2))

    if not some.any():
        return None
    mean = expected(fall(weight > 0))
    spread = mean * (1 - mean)
    weight -= (weight * spread).sum() / spread.sum()
    if (information := (weight**2 * spread).sum()) <= ROUNDING:
        return None
    parts = np.where(np.isnan(right), np.nan, 0.0)
    parts[some] = weight * (o - mean) / information
    half = weight > np.median(weight)
    if not half.any():  # more than half are known as little as any
        half = weight == weight.max()
    return parts, fall(half), fall(~half)
