"""How much of one version's lead over another is there under a second condition too: damage, rewording, other items.

song2026, section 6: a developer asks whether an improvement is stable under damage, and a buyer which of two models of
like score loses less. Both are one difference in differences. Pure.
"""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.drawing import cluster_df, influence, shared_se
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.resampling import unseen_change
from audit.statistics.wording_drop import ROUNDING, Estimate, t_test

UNITS_MIN = 10  # independent items, below which a t interval promises too much


@dataclass(frozen=True)
class Lasting:
    """lead: mean of (second - first version) under the baseline; there: under the other condition; accuracies, -1 to 1.

    lost: lead - there, with its 95 % interval and two-sided p. share: there / lead with Fieller's 95 % interval; None
    where the lead is not shown, as a share of what may be 0 says nothing, and where the interval has no two ends. n:
    items, of both sets where these are others; units: independent ones.
    """

    lead: float
    there: float
    lost: float
    low: float
    high: float
    pvalue: float
    share: tuple[float, float, float] | None
    n: int
    units: int


def lasting_by_condition(lead: ArrayLike, there: ArrayLike, cluster: IntArray) -> Lasting:
    """lead, there: (n,) second less first version of each item, NaN where one lacks an answer: left out of both.

    DataError for fewer than UNITS_MIN clusters.

    >>> lead, there = np.tile([1.0, 0.0, 0.0, 0.0], 50), np.tile([0.5, 0.0, 0.0, 0.0], 50)
    >>> found = lasting_by_condition(lead, there, np.arange(200))
    >>> found.lead, found.there, found.lost, found.share[0]
    (0.25, 0.125, 0.125, 0.5)
    """
    rows = np.stack([np.asarray(lead, dtype=float), np.asarray(there, dtype=float)])
    both = ~np.isnan(rows).any(axis=0)
    groups = np.asarray(cluster)[both]
    first, second = (_mean(row[both], groups) for row in rows)
    unseen = unseen_change(rows[0, both] - rows[1, both], groups)
    shared = shared_se(rows[0, both] - rows[1, both], groups)
    return _lasting(first, second, int(both.sum()), first.units, first.df, unseen, shared)


def lasting_by_items(lead: ArrayLike, there: ArrayLike, clusters: tuple[IntArray, IntArray]) -> Lasting:
    """The same of other items, such as held-out ones: lead (n,), there (m,). The sets are independent."""
    sides, unseen, shared = [], 0.0, 0.0
    for values, cluster in zip((lead, there), clusters, strict=True):
        row = np.asarray(values, dtype=float)
        known = ~np.isnan(row)
        sides.append(_mean(row[known], np.asarray(cluster)[known]))
        unseen += unseen_change(row[known], np.asarray(cluster)[known])
        shared = float(np.hypot(shared, shared_se(row[known], np.asarray(cluster)[known])))
    one, other = (side.influence for side in sides)
    first = Estimate(sides[0].value, np.concatenate([one, np.zeros(other.size)]))
    second = Estimate(sides[1].value, np.concatenate([np.zeros(one.size), other]))
    n = sum(int((~np.isnan(np.asarray(values, dtype=float))).sum()) for values in (lead, there))
    return _lasting(first, second, n, one.size + other.size, min(side.df for side in sides), unseen, shared)


def _mean(row: FloatArray, cluster: IntArray) -> Estimate:
    units = np.unique(cluster).size
    if units < UNITS_MIN:
        raise DataError(f"Expected at least {UNITS_MIN} independent items answered everywhere; found {units}.")
    return Estimate(float(row.mean()), influence(row[None], cluster)[0], 0, units - 1 - cluster_df(cluster))


def _lasting(first: Estimate, second: Estimate, n: int, units: int, df: float, unseen: float, shared: float) -> Lasting:
    lost = first.plus(second, -1.0)
    se = max(lost.se, shared)
    tested = t_test(lost.value, se, df)
    p = 2 * min(tested["pvalue"], 1 - tested["pvalue"]) if se > ROUNDING else 1.0
    t = float(scipy.special.stdtrit(df, 0.975))
    low, high = min(tested["low"], lost.value - unseen), max(tested["high"], lost.value + unseen)
    return Lasting(first.value, second.value, lost.value, low, high, p, _fieller(first, second, t), n, units)


def _fieller(below: Estimate, above: Estimate, t: float) -> tuple[float, float, float] | None:
    """above / below and the set of ratios that a t test does not reject (Fieller 1954, J R Stat Soc B 16:175-185)."""
    g = below.units / (below.units - 1)
    v11, v22 = below.se**2, above.se**2
    v12 = float(np.sum(below.influence * above.influence)) * g
    a = below.value**2 - t**2 * v11
    if a <= 0:  # the lead may be 0
        return None
    b, c = below.value * above.value - t**2 * v12, above.value**2 - t**2 * v22
    half = float(np.sqrt(max(b * b - a * c, 0.0)))
    return above.value / below.value, (b - half) / a, (b + half) / a
