"""An accuracy with its interval, as tables and figures of every audit show it (pure)."""

import numpy as np
import scipy

from audit.statistics.drawing import cluster_df, influence
from audit.statistics.paired import FloatArray, IntArray

CONFIDENCE = 0.95


def interval(values: FloatArray, cluster: IntArray) -> tuple[float, float, float] | None:
    """(accuracy, low, high): Wilson's 95 % interval; None where no value is there.

    values: (n,) in [0, 1], NaN left out. cluster: (n,). Where clusters hold several items, n is replaced by the
    effective number p (1 - p) / SE^2 with the cluster-robust SE (Korn and Graubard 1998), at most n, and the normal
    quantile by Student's with `cluster_df` degrees. One cluster of several items counts as one item.
    """
    there = ~np.isnan(values)
    x, groups = values[there], cluster[there]
    n = float(x.size)
    if n == 0:
        return None
    p = float(x.mean())
    g = np.unique(groups).size
    z = float(scipy.stats.norm.ppf(0.5 + CONFIDENCE / 2))
    if g < n:
        z = float(scipy.special.stdtrit(max(cluster_df(groups), 1.0), 0.5 + CONFIDENCE / 2))
        variance = float(g / max(g - 1, 1) * np.sum(influence(x[None], groups) ** 2))
        n = min(n, p * (1 - p) / variance) if g > 1 and variance > 0 and 0 < p < 1 else float(g)
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)))
    return p, max(middle - half, 0.0), min(middle + half, 1.0)
