"""Paired right/wrong outcomes: McNemar's exact test for two conditions, Cochran's Q for more."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.drawing import cluster_sums
from audit.statistics.paired import FloatArray, IntArray

Alternative = Literal["greater", "less", "two-sided"]
_FEWEST_CLUSTERS = 10  # whose sums tell how much whole conditions differ


@dataclass(frozen=True)
class McNemarResult:
    """statistic: (improve - degrade) / sqrt(improve + degrade), 0 where nothing changed. Scalars for scalar input."""

    statistic: FloatArray | float
    pvalue: FloatArray | float
    improve: FloatArray | int
    degrade: FloatArray | int
    alternative: Alternative


def mcnemar_exact(improve: ArrayLike, degrade: ArrayLike, alternative: Alternative = "greater") -> McNemarResult:
    """Exact test that improve and degrade are equally likely.

    Given their sum m, improve is Binomial(m, 1/2) under the null.

    Parameters
    ----------
    improve, degrade : integers >= 0, broadcast against each other
        Items that went wrong -> correct and correct -> wrong.
    alternative : {"greater", "less", "two-sided"}
        "greater" (default): more improve than degrade, i.e. a gain. Two-sided doubles the smaller tail.

    Raises
    ------
    DataError
        Counts that are negative or not whole (averaged replicates: exchange the runs instead).

    References
    ----------
    McNemar (1947), Psychometrika 12.

    Examples
    --------
    Llama-3.1-8B at r=6 in song2026's Table 2: 21 improve, 4 degrade.

    >>> round(mcnemar_exact(21, 4).pvalue, 6)
    0.000455
    """
    b, c = np.broadcast_arrays(np.asarray(improve), np.asarray(degrade))
    whole = np.all(np.isfinite(b) & np.isfinite(c) & (b == np.round(b)) & (c == np.round(c)) & (b >= 0) & (c >= 0))
    if not whole:
        raise DataError(
            f"McNemar's test counts items: improve and degrade must be whole numbers >= 0, such as 21 and 4; "
            f"found {improve!r} and {degrade!r}."
        )
    b, c = b.astype(np.int64), c.astype(np.int64)
    m = b + c
    upper = scipy.stats.binom.sf(b - 1, m, 0.5)
    lower = scipy.stats.binom.cdf(b, m, 0.5)
    if alternative == "greater":
        p = upper
    elif alternative == "less":
        p = lower
    elif alternative == "two-sided":
        p = np.minimum(1.0, 2.0 * np.minimum(upper, lower))
    else:
        raise DataError(f"Unknown alternative {alternative!r}; expected greater, less or two-sided.")
    statistic = (b - c) / np.sqrt(np.maximum(m, 1))
    if b.ndim == 0:
        return McNemarResult(float(statistic), float(p), int(b), int(c), alternative)
    return McNemarResult(statistic, p, b.astype(float), c.astype(float), alternative)


def mcnemar_midp(improve: int, degrade: int) -> float:
    """Two-sided mid-p: half of the probability of the observed split is left out, so the test is less conservative.

    Fagerland, Lydersen & Laake (2013), BMC Med Res Methodol 13:91: at or near its level in small samples, where the
    exact test stays well below it.

    >>> round(mcnemar_exact(9, 3, "two-sided").pvalue, 4), round(mcnemar_midp(9, 3), 4)  # .1460 - C(12, 3) / 4096
    (0.146, 0.0923)
    """
    exact = 2 * scipy.stats.binom.cdf(min(improve, degrade), improve + degrade, 0.5)
    return float(min(1.0, exact - scipy.stats.binom.pmf(improve, improve + degrade, 0.5)))


@dataclass(frozen=True)
class CochranResult:
    """statistic: Cochran's Q, chi-squared with `df` degrees of freedom under the null."""

    statistic: float
    pvalue: float
    df: int


def cochran_q(outcomes: FloatArray, cluster: IntArray | None = None) -> CochranResult:
    """Are K conditions equally often right on the same items? Cochran (1950), Biometrika 37.

    outcomes: (K, n) of 0 and 1, complete. cluster: (n,) of items whose answers may change together, (each its own where
    None): what each condition is above the item's mean is summed over a cluster before it is squared. Q is then at most
    K - 1 times the number of clusters, so below ten clusters each item is taken as its own: a few would see nothing.
    For K = 2 without clusters it is McNemar's chi-squared. Items that are right, or wrong, under every condition tell
    nothing; p is 1 where no other is there. Raises DataError for K < 2 or other values.
    """
    values = np.asarray(outcomes, dtype=float)
    if values.ndim != 2 or len(values) < 2 or not np.all((values == 0) | (values == 1)):
        raise DataError(f"Cochran's Q needs outcomes (K, n) of 0 and 1 with K >= 2; found shape {values.shape}.")
    k = len(values)
    above = k * values - values.sum(axis=0)  # K times what is above the item's mean: whole numbers
    enough = cluster is not None and np.unique(cluster).size >= _FEWEST_CLUSTERS
    sums = cluster_sums(above, cluster) if cluster is not None and enough else above
    spread = float(np.sum(sums**2))
    if spread == 0:
        return CochranResult(0.0, 1.0, k - 1)
    q = float((k - 1) * np.sum(above.sum(axis=1) ** 2) / spread)
    return CochranResult(q, float(scipy.stats.chi2.sf(q, k - 1)), k - 1)
