"""Differential item functioning by Mantel and Haenszel: do two groups of presentations differ at equal total score?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from audit.errors import DataError
from audit.statistics.paired import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class MantelHaenszel:
    """Common odds ratio of a right answer (reference : focal), its chi-square with continuity correction (1 degree).

    delta: -2.35 ln(odds ratio), the ETS scale: |delta| < 1 is small, from 1.5 on large (Holland & Thayer 1988).
    strata: with both groups and both outcomes. All NaN where there is none.
    """

    odds_ratio: float
    chi_square: float
    pvalue: float
    delta: float
    strata: int


def mantel_haenszel(right: FloatArray, focal: BoolArray, stratum: IntArray) -> MantelHaenszel:
    """right (n,) 1, 0 or NaN (left out); focal (n,) which group; stratum (n,) the matching score.

    Mantel & Haenszel 1959, JNCI 22. Raises DataError for shapes that differ.
    """
    if not right.shape == focal.shape == stratum.shape:
        raise DataError(f"Expected three arrays of one shape; found {right.shape}, {focal.shape}, {stratum.shape}.")
    known = ~np.isnan(right)
    y, f, k = right[known] == 1, focal[known], stratum[known]
    numerator = denominator = observed = expected = variance = 0.0
    used = 0
    for value in np.unique(k):
        here = k == value
        a, b = np.sum(here & ~f & y), np.sum(here & ~f & ~y)
        c, d = np.sum(here & f & y), np.sum(here & f & ~y)
        total = int(a + b + c + d)
        if total < 2 or not (a + b) or not (c + d) or not (a + c) or not (b + d):
            continue
        used += 1
        numerator += a * d / total
        denominator += b * c / total
        observed += float(a)
        expected += (a + b) * (a + c) / total
        variance += (a + b) * (c + d) * (a + c) * (b + d) / (total**2 * (total - 1))
    if not used or variance == 0:
        nan = float("nan")
        return MantelHaenszel(nan, nan, nan, nan, used)
    chi = max(0.0, abs(observed - expected) - 0.5) ** 2 / variance
    odds = numerator / denominator if denominator > 0 else float("inf")
    delta = -2.35 * float(np.log(odds)) if odds > 0 else float("inf")
    return MantelHaenszel(float(odds), float(chi), float(stats.chi2.sf(chi, 1)), delta, used)
