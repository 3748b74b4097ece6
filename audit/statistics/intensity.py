"""Test whether answers get worse the further a rewording lies from its original.

The comparison is within items, so that hard items do not count. The intensity of a rewording is its
cosine distance from the original. Easy questions may be the ones that were reworded furthest, so
only rewordings of one item are compared.

If intensity costs nothing, an item's right answers could have fallen on any of its rewordings: the
mean and variance of the sum of distance x answer follow exactly, and the sum over many items is
close to normal. This is the extended Mantel-Haenszel test with items as strata. If few items tell,
or distances or answers are skewed, the normal tail is too short (7 % at 5): p is the larger of
Student's t and of the normal corrected for the exact third moment (Edgeworth). Passages that are
reworded as a whole move many items at once: p is no smaller than that of a t test over their sums.

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
    """Report how accuracy changes with distance, within items.

    Attributes
    ----------
    slope : float
        Change of accuracy (0-1) for a distance greater by 1; below 0 if intensity costs.
    pvalue : float
        One-sided, that accuracy falls with distance.
    n : int
        Items whose rewordings differ in distance and in answer: only these say anything.
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
    """Test the trend of accuracy over m rewordings.

    Parameters
    ----------
    items : sequence of str
        Item of each rewording.
    distance : (m,) array
        Distance from the original, 0-2.
    correct : (m,) array
        1 or 0, NaN without an answer (left out).
    cluster : sequence of int or None
        Cluster of each rewording, such as its passage; None makes items independent.

    Returns
    -------
    IntensityTrend or None
        None if no item has two rewordings of different distance and different answer.

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
    informative = (dd > 1e-12) & (yy > 1e-12)  # rounding is no difference
    if not informative.any():
        return None
    variance = (dd * yy)[informative] / (size[informative] - 1)
    z = dy[informative].sum() / np.sqrt(variance.sum())
    m = size[informative]
    # An item of two rewordings adds 0.
    third = (d3 * y3)[informative] * m / ((m - 1) * np.maximum(m - 2, 1))
    skewed = third.sum() / variance.sum() ** 1.5 / 6 * (1 - z**2) * scipy.stats.norm.pdf(z)
    # The number of items of equal variance that tell as much.
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
