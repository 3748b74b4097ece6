"""An accuracy with its interval, as tables and figures of every audit show it (pure)."""

import numpy as np
import scipy

from audit.statistics.paired import FloatArray, IntArray

CONFIDENCE = 0.95


def interval(values: FloatArray, cluster: IntArray) -> tuple[float, float, float] | None:
    """(accuracy, low, high): Wilson's 95 % interval; None where no value is there.

    values: (n,) in [0, 1], NaN left out. cluster: (n,). Where clusters hold several items, n is replaced by the
    effective number p (1 - p) / SE^2 with the cluster-robust SE (Korn and Graubard 1998), at most n.
    """
    there = ~np.isnan(values)
    x, groups = values[there], cluster[there]
    n = float(x.size)
    if n == 0:
        return None
    p = float(x.mean())
    _, index = np.unique(groups, return_inverse=True)
    g = int(index.max()) + 1
    if 1 < g < n:
        totals = np.bincount(index, weights=x - p, minlength=g)
        variance = float(g / (g - 1) * np.sum(totals**2)) / n**2
        n = min(n, p * (1 - p) / variance) if variance > 0 and 0 < p < 1 else float(g)
    z = float(scipy.stats.norm.ppf(0.5 + CONFIDENCE / 2))
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)))
    return p, max(middle - half, 0.0), min(middle + half, 1.0)
