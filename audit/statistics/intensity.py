"""Test whether accuracy falls with the distance of a rewording from its original.

The intensity of a rewording is its cosine distance from the original. Only rewordings of the same
item are compared, because the questions that were reworded furthest may be the easy questions.

The test is the extended Mantel-Haenszel test with items as strata. Under the null hypothesis, an
item's right answers are equally likely to fall on any of its rewordings. The statistic is the sum,
over rewordings, of distance * answer. Its mean and variance are then known exactly, and its
distribution is close to normal if there are many items.

If few items are informative, or if distances or answers are skewed, the tail of the normal
distribution is too short: a test at the 5 % level rejects in 7 % of the cases. The p-value is
therefore the largest of these p-values:

- the p-value by Student's t distribution;
- the p-value by the normal distribution, with a correction for the exact third moment (Edgeworth);
- with clusters, the p-value of a t-test of the sums over clusters, because a passage that is
  reworded as a whole changes many items together.

Reference: N. Mantel, Chi-square tests with one degree of freedom; extensions of the Mantel-Haenszel
procedure, JASA 58 (1963) 690-700.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from audit.statistics.paired import FloatArray


@dataclass(frozen=True)
class IntensityTrend:
    """Report how accuracy changes with the distance of rewordings from the original, within items.

    Attributes
    ----------
    slope : float
        Change of accuracy (0-1) per unit of distance; negative if accuracy falls.
    pvalue : float
        One-sided p-value; the alternative is that accuracy falls with distance.
    n : int
        Number of items whose rewordings differ both in distance and in answer. Other items carry no
        information on the trend.
    """

    slope: float
    pvalue: float
    n: int


def intensity_trend(
    items: Sequence[str],
    distance: FloatArray,
    correct: FloatArray,
    cluster: Sequence[int] | None = None,
) -> IntensityTrend | None:
    """Test whether accuracy falls with the distance of m rewordings from their originals.

    Parameters
    ----------
    items : sequence of str
        Item id of each rewording.
    distance : (m,) array
        Distance of each rewording from its original, 0-2.
    correct : (m,) array
        1 or 0. Rewordings with NaN (no answer) are left out.
    cluster : sequence of int or None
        Cluster of each rewording, such as its passage; None treats items as independent.

    Returns
    -------
    IntensityTrend or None
        The trend and its test. None if no item has two rewordings that differ in distance and in
        answer.

    Examples
    --------
    >>> distance, correct = np.array([0.2, 0.4, 0.2, 0.4]), np.array([1.0, 0.0, 1.0, 0.0])
    >>> trend = intensity_trend(["a", "a", "b", "b"], distance, correct)
    >>> round(trend.slope, 4), round(trend.pvalue, 4), trend.n
    (-5.0, 0.1464, 2)
    """
    known = ~np.isnan(distance) & ~np.isnan(correct)
    if not known.any():
        return None
    item = np.unique(np.asarray(items)[known], return_inverse=True)[1]
    size = np.bincount(item).astype(float)

    def within(values: FloatArray) -> FloatArray:
        return values - (np.bincount(item, weights=values) / size)[item]

    d, y = within(distance[known]), within(correct[known])
    dd, yy, dy, d3, y3 = (
        np.bincount(item, weights=product) for product in (d * d, y * y, d * y, d**3, y**3)
    )
    informative = (dd > 1e-12) & (yy > 1e-12)  # A smaller sum of squares is only rounding error.
    if not informative.any():
        return None
    variance = (dd * yy)[informative] / (size[informative] - 1)
    z = dy[informative].sum() / np.sqrt(variance.sum())
    m = size[informative]
    # The third moment of an item with two rewordings is 0.
    third = (d3 * y3)[informative] * m / ((m - 1) * np.maximum(m - 2, 1))
    skewed = third.sum() / variance.sum() ** 1.5 / 6 * (1 - z**2) * scipy.stats.norm.pdf(z)
    # The effective number of items is the number of items of equal variance that would be as
    # informative.
    few = variance.sum() ** 2 / np.sum(variance**2)
    together = -np.inf
    if cluster is not None:
        sums = np.bincount(
            np.unique(np.asarray(cluster)[known], return_inverse=True)[1], weights=d * y
        )
        squares = np.sum(sums**2)
        if squares > 1e-12:
            together = scipy.stats.t.cdf(
                sums.sum() / np.sqrt(squares), max(np.count_nonzero(sums) - 1, 1)
            )
    pvalue = float(
        np.clip(
            max(scipy.stats.t.cdf(z, few), scipy.stats.norm.cdf(z) + skewed, together), 0.0, 1.0
        )
    )
    return IntensityTrend(float(dy.sum() / dd.sum()), pvalue, int(informative.sum()))
