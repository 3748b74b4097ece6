"""Test paired right/wrong outcomes.

McNemar's exact test compares two conditions. Cochran's Q compares more than two conditions.
"""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.drawing import cluster_sums
from audit.statistics.paired import FloatArray, IntArray


def mcnemar_exact(improve: ArrayLike, degrade: ArrayLike, *, two_sided: bool = False) -> FloatArray:
    """Return the p-value of McNemar's exact test.

    Its null hypothesis is that improvement and degradation are equally likely.

    Parameters
    ----------
    improve, degrade : array of int
        Number of items that changed from wrong to right (improve) and from right to wrong
        (degrade). The two arrays are broadcast against each other.
    two_sided : bool
        False tests for a gain (improve is larger than degrade). True doubles the smaller tail.

    Returns
    -------
    array
        The p-values; a 0-d array for two numbers.

    Raises
    ------
    DataError
        If a count is negative or not a whole number. Means over replicates need a test that
        exchanges runs (`max_statistic_exchange`).

    Notes
    -----
    Under the null hypothesis, improve is Binomial(m, 1/2) given the sum m of both counts.

    References
    ----------
    McNemar (1947), Psychometrika 12.

    Examples
    --------
    In song2026's Table 2, Llama-3.1-8B at r=6 improves on 21 items and degrades on 4.

    >>> round(float(mcnemar_exact(21, 4)), 6)
    0.000455
    """
    # Small integer types would overflow.
    b, c = (
        np.asarray(improve, dtype=float),
        np.asarray(degrade, dtype=float),
    )
    if any(np.any((x < 0) | (x != np.round(x)) | np.isinf(x)) for x in (b, c)):
        raise DataError(
            f"The counts are improve={improve!r} and degrade={degrade!r}. Expected whole numbers "
            ">= 0, because McNemar's test counts items. Example: 21 and 4."
        )
    m = b + c
    upper = scipy.stats.binom.sf(b - 1, m, 0.5)
    return np.asarray(
        np.minimum(1.0, 2 * np.minimum(upper, scipy.stats.binom.cdf(b, m, 0.5)))
        if two_sided
        else upper
    )


def mcnemar_midp(improve: int, degrade: int) -> float:
    """Return the two-sided mid-p-value of McNemar's test.

    Parameters
    ----------
    improve, degrade : int
        Number of items that changed from wrong to right, and from right to wrong.

    Returns
    -------
    float
        The mid-p-value. It includes only half of the probability of the observed counts, so the
        test is less conservative than the exact test.

    Notes
    -----
    Fagerland, Lydersen & Laake (2013), BMC Med Res Methodol 13:91. In small samples, the error rate
    of the mid-p test is close to its nominal level, while the error rate of the exact test is well
    below it.

    Examples
    --------
    >>> round(float(mcnemar_exact(9, 3, two_sided=True)), 4), round(mcnemar_midp(9, 3), 4)  # .1460 - C(12, 3) / 4096
    (0.146, 0.0923)
    """
    exact = 2 * scipy.stats.binom.cdf(min(improve, degrade), improve + degrade, 0.5)
    return float(min(1.0, exact - scipy.stats.binom.pmf(improve, improve + degrade, 0.5)))


def cochran_q(outcomes: FloatArray, cluster: IntArray) -> float:
    """Test whether K conditions have the same share of right answers on the same items.

    Parameters
    ----------
    outcomes : (K, n) array
        0 or 1, without missing values.
    cluster : (n,) array
        Cluster of each item. The answers to the items of a cluster may change together.

    Returns
    -------
    float
        The p-value; 1 if no item differs between conditions.

    Raises
    ------
    DataError
        If K < 2 or a value is neither 0 nor 1.

    Notes
    -----
    Cochran (1950), Biometrika 37. For two conditions, Q is McNemar's chi-squared. Items with the
    same outcome under every condition carry no information.

    If two or more clusters hold several items, the result is the larger of two p-values:

    - the p-value of Q;
    - the p-value of an analysis of variance with repeated measures, whose subjects are the G
      clusters. Its F statistic has K - 1 and (K - 1)(G - 1) degrees of freedom. It is valid for any
      number of clusters.
    """
    values = np.asarray(outcomes, dtype=float)
    if values.ndim != 2 or len(values) < 2 or not np.all((values == 0) | (values == 1)):
        raise DataError(
            f"The outcomes have shape {values.shape}. Expected (K, n) with K >= 2, and only the "
            "values 0 and 1."
        )
    k = len(values)
    above = k * values - values.sum(axis=0)  # K * (value - mean of the item), in whole numbers
    ratio = _above_chance(above)
    p = float(scipy.stats.chi2.sf((k - 1) * ratio, k - 1))
    groups = np.unique(cluster).size
    if 1 < groups < values.shape[1]:
        cluster_ratio = _above_chance(cluster_sums(above, cluster))
        f = (
            cluster_ratio * (groups - 1) / (groups - cluster_ratio)
            if cluster_ratio < groups
            else np.inf
        )
        p = max(p, float(scipy.stats.f.sf(f, k - 1, (k - 1) * (groups - 1))))
    return p


def _above_chance(above: FloatArray) -> float:
    """Return the variance between conditions relative to that of independent units.

    The numerator is the variance between conditions of sums over clusters. The denominator is the
    variance that independent units would have.

    `above` has shape (K, m). Under the null hypothesis the expected ratio is 1. The largest
    possible ratio is m. The ratio is 0 if no item differs between conditions.
    """
    spread = float(np.sum(above**2))
    return float(np.sum(above.sum(axis=1) ** 2)) / spread if spread else 0.0
