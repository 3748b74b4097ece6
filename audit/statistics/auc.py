"""How well one number tells two groups of items apart: the area under the ROC curve, its interval and its test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from audit.errors import DataError
from audit.statistics.paired import FloatArray


@dataclass(frozen=True)
class Auc:
    """auc: chance that a random item of the first group has the larger value (ties count half); low, high: 95 %.

    pvalue: one-sided, for larger values in the first group (Mann-Whitney, with ties). n_first, n_second: items that
    have a value.
    """

    auc: float
    low: float
    high: float
    pvalue: float
    n_first: int
    n_second: int


def auc(first: FloatArray, second: FloatArray) -> Auc:
    """Area under the ROC curve of two groups of values; NaN values are left out.

    The interval is Newcombe's score interval (2006, Statistics in Medicine 25, part 2, method 5): it stays inside 0-1
    and has a length at 0 and 1 too. With many ties it is wider than need be. Raises DataError for fewer than two
    values in a group.

    >>> round(auc(np.array([3.0, 4, 5]), np.array([1.0, 2, 3])).auc, 3)
    0.944
    """
    a, b = (np.asarray(x, dtype=float) for x in (first, second))
    a, b = a[~np.isnan(a)], b[~np.isnan(b)]
    if min(a.size, b.size) < 2:
        raise DataError(f"An AUC needs at least two values in each group; found {a.size} and {b.size}.")
    if np.unique(np.concatenate([a, b])).size == 1:
        return Auc(0.5, *_interval(0.5, a.size, b.size), 0.5, a.size, b.size)
    test = stats.mannwhitneyu(a, b, alternative="greater", method="asymptotic")
    area = float(test.statistic) / (a.size * b.size)
    return Auc(area, *_interval(area, a.size, b.size), float(test.pvalue), a.size, b.size)


def _interval(area: float, m: int, n: int) -> tuple[float, float]:
    z = float(stats.norm.ppf(0.975))

    def excess(theta: float) -> float:
        n_star = (m + n) / 2 - 1
        spread = 1 + n_star * ((1 - theta) / (2 - theta) + theta / (1 + theta))
        return abs(area - theta) - z * float(np.sqrt(theta * (1 - theta) * spread / (m * n)))

    low = 0.0 if area <= 0 or excess(0.0) <= 0 else float(optimize.brentq(excess, 0.0, area))
    high = 1.0 if area >= 1 or excess(1.0) <= 0 else float(optimize.brentq(excess, area, 1.0))
    return low, high


@dataclass(frozen=True)
class Notice:
    """The chance that a test at `alpha` notices an effect as large as the one that was measured.

    estimate: at that effect; low, high: at the ends of its 95 % interval.
    """

    estimate: float
    low: float
    high: float
    alpha: float


def chance_to_notice(pvalue: float, alpha: float = 0.05) -> Notice:
    """From a one-sided p-value of one experiment: would a repetition with other items of the same kind notice it?

    With z the normal score of the p-value, Phi(z - z_alpha), and the same at z -+ 1.96. Without an effect (p = .5) it
    is alpha, with an interval up to .62: one experiment of which nothing came says little. What differs from training
    to training is not in the interval.
    """
    if not 0 <= pvalue <= 1:
        raise DataError(f"A p-value is from 0 to 1; found {pvalue!r}.")
    z = float(stats.norm.isf(max(pvalue, 1e-300)))
    shift = float(stats.norm.isf(alpha))
    ends = (float(stats.norm.cdf(z + d - shift)) for d in (0.0, -1.959964, 1.959964))
    return Notice(*ends, alpha)
