"""One number with its error, which every comparison of this program is made of. Pure.

A mean of items, a paired contrast, a difference in differences, a ratio and a change of log-odds are each a value and
its linear expansion over independent units (influence; Huber 1981, Robust Statistics, section 1.3). Sums of these are
again such numbers, so one error, one t-test and one interval serve all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.drawing import cluster_df, influence
from audit.statistics.paired import BoolArray, FloatArray, IntArray

ROUNDING = 1e-12  # a standard error below it is rounding


@dataclass(frozen=True)
class Estimate:
    """A number with its linear expansion over independent units: influence (units,), as `drawing.influence`.

    empty: units without anything to count; they carry no information, and the other G are all that count.
    uneven: degrees of freedom that units of unequal size cost (`cluster_df`).
    apart: the expansion over the units of a second, independent set (its value is 0); None if there is one set.
    """

    value: float
    influence: FloatArray
    empty: int = 0
    uneven: float = 0.0
    apart: Estimate | None = None

    @property
    def units(self) -> int:
        """Number of units of the first set that count."""
        return self.influence.size - self.empty

    @property
    def variance(self) -> float:
        """sum(influence^2) G / (G - 1) of each set, added; NaN if a set has one unit."""
        own = self._own_variance
        return own if self.apart is None else own + self.apart.variance

    @property
    def se(self) -> float:
        """Square root of the variance: the (clustered) standard error of a ratio of sums."""
        return float(np.sqrt(self.variance))

    @property
    def df(self) -> float:
        """Degrees of freedom of the error; of two sets those of Welch and Satterthwaite (1947, Biometrika 34)."""
        own = max(self.units - 1 - self.uneven, 1.0)
        if self.apart is None:
            return own
        first, second = self._own_variance, self.apart.variance
        spread = first**2 / own + second**2 / self.apart.df
        return (first + second) ** 2 / spread if spread > 0 else 1.0

    @property
    def _own_variance(self) -> float:
        g = self.units
        return float(np.sum(self.influence**2) * g / (g - 1)) if g > 1 else float("nan")

    def plus(self, other: Estimate, factor: float) -> Estimate:
        """Return self + factor * other, over the same units."""
        apart = None
        if self.apart is not None and other.apart is not None:
            apart = self.apart.plus(other.apart, factor)
        influence = self.influence + factor * other.influence
        return Estimate(self.value + factor * other.value, influence, *shape_of(self, other), apart)

    def with_set(self, second: Estimate) -> Estimate:
        """Return the same number over two sets: over the second, of which it holds nothing, the units of `second`."""
        return replace(self, apart=second.scaled(0.0))

    def of_second(self, first: Estimate) -> Estimate:
        """Return the same number over two sets: its units are those of the second, `first` has the first's."""
        return replace(first.scaled(0.0), value=self.value, apart=self.at(0.0))

    def less_independent(self, other: Estimate) -> Estimate:
        """Return self - other, whose units are others."""
        return self.with_set(other).plus(other.of_second(self), -1.0)

    def covariance(self, other: Estimate) -> float:
        """Return the covariance with a number over the same units of one set."""
        g = self.units
        return float(np.sum(self.influence * other.influence) * g / (g - 1))

    def scaled(self, factor: float) -> Estimate:
        """Return factor * self."""
        apart = None if self.apart is None else self.apart.scaled(factor)
        return Estimate(factor * self.value, factor * self.influence, *shape_of(self), apart)

    def at(self, value: float) -> Estimate:
        """Return the same expansion of another value."""
        return replace(self, value=value)


def shape_of(*estimates: Estimate) -> tuple[int, float]:
    """Return (empty, uneven) of a number that is made of these, over the same units."""
    return min(e.empty for e in estimates), max(e.uneven for e in estimates)


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A difference, its se, degrees of freedom, 95 % interval (low, high) and one-sided p for difference > 0."""

    difference: float
    se: float
    df: float
    low: float
    high: float
    pvalue: float


def t_test(difference: float, se: float, df: float, level: float = 0.95) -> dict[str, float]:
    """Return the fields of `Tested`, by Student's t; p is 1 without an error. level: of the interval."""
    half = float(scipy.special.stdtrit(df, (1 + level) / 2)) * se
    pvalue = float(scipy.special.stdtr(df, -difference / se)) if se > ROUNDING else 1.0
    limits = {"low": difference - half, "high": difference + half}
    return {"difference": difference, "se": se, "df": df, **limits, "pvalue": pvalue}


def above_pvalue(estimate: Estimate, margin: float = 0.0) -> float:
    """Return the one-sided p for estimate > margin, by t over the units.

    If nothing varies but by rounding, p is that of flipped signs: 1/2 for each unit if all are above, else 1.
    """
    gap = estimate.value - margin
    if not estimate.se > ROUNDING:
        return 2.0**-estimate.units if gap > ROUNDING and estimate.units > 1 else 1.0
    return float(scipy.special.stdtr(estimate.df, -gap / estimate.se))


def mean_of(values: FloatArray, cluster: IntArray) -> Estimate:
    """Return the mean of the (n,) values that are not NaN, expanded over the clusters 0..G-1 of all n items.

    Raises DataError if every value is NaN.
    """
    known = ~np.isnan(values)
    if not known.any():
        raise DataError("Not one item has both an original and a variant answered: no drop can be computed.")
    return _expanded(values[None], cluster, known)[0]


def means_of(rows: FloatArray, cluster: IntArray | None = None) -> tuple[list[Estimate], int]:
    """Return the mean of each (K, n) row over the items that have a value in every row, and the number of these items.

    Raises DataError if fewer than two of their clusters are left. cluster: (n,); None: every item by itself.
    """
    groups = np.arange(rows.shape[1]) if cluster is None else np.asarray(cluster)
    known = ~np.isnan(rows).any(axis=0)
    n, units = int(known.sum()), np.unique(groups[known]).size
    if units < 2:
        raise DataError(f"A set of items needs two that share no cluster and have a value of every model; found {n}.")
    return _expanded(rows[:, known], groups[known]), n


def _expanded(rows: FloatArray, cluster: IntArray, known: BoolArray | None = None) -> list[Estimate]:
    """Return the mean of each row over the items `known` (all if None), expanded over the clusters of all items."""
    present = cluster if known is None else cluster[known]
    rows = rows if known is None else rows[:, known]
    n = present.size
    if n > 1 and np.all(present[1:] > present[:-1]):  # every item by itself: the sums are the items
        parts, df = (rows - rows.mean(axis=1, keepdims=True)) / n, n - 1.0
    else:
        parts, df = influence(rows, present), cluster_df(present)
    uneven = max(parts.shape[1] - 1 - df, 0.0)
    empty = 0
    if known is not None:
        every, used = np.unique(cluster), np.unique(present)
        empty = every.size - used.size
        widened = np.zeros((len(rows), every.size))
        widened[:, np.searchsorted(every, used)] = parts
        parts = widened
    return [Estimate(float(row.mean()), part, empty, uneven) for row, part in zip(rows, parts, strict=True)]


def beyond_mean(tested: Estimate, others: Sequence[Estimate]) -> Estimate:
    """Return the tested model's number less the mean of the others'; itself without others."""
    for other in others:
        tested = tested.plus(other, -1 / len(others))
    return tested


def spread_of(models: Sequence[Estimate]) -> tuple[float, float]:
    """Return (variance of the models' numbers, ddof 1; what of it the items explain); NaN if it cannot be seen."""
    if len(models) < 2:
        return float("nan"), float("nan")
    away = [beyond_mean(one, models) for one in models]
    sampling = sum(one.variance for one in away) / (len(models) - 1)
    spread = float(np.var([e.value for e in models], ddof=1))
    return (spread, sampling) if np.isfinite(sampling) else (float("nan"), float("nan"))


def fieller(above: Estimate, below: Estimate, t: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of the ratios above / below that a t-test does not reject (Fieller 1954, JRSS B 16, 175-185).

    t: quantiles for the lower and the upper end. An end that nothing bounds is infinite.
    """
    v11, v12, v22 = (x.covariance(y) for x, y in ((below, below), (above, below), (above, above)))
    ends = []
    for quantile, side in zip(t, (-1.0, 1.0), strict=True):
        a = below.value**2 - quantile**2 * v11
        b = below.value * above.value - quantile**2 * v12
        k = above.value**2 - quantile**2 * v22
        root = float(np.sqrt(max(b * b - a * k, 0.0)))  # below 0 by rounding alone, at the ratio of the values
        bounded = a > 0 or (side < 0 and k > 0 and a != 0)
        ends.append((b + side * root) / a if bounded else side * np.inf)
    return float(ends[0]), float(ends[1])


def times(drop: Estimate, height: Estimate, other: Estimate) -> Estimate:
    """Return drop x other / height: a drop as a share of its own height, of another model's height (delta method)."""
    ratio, share = other.value / height.value, drop.value / height.value
    return drop.scaled(ratio).plus(height, -share * ratio).plus(other, share).at(drop.value * ratio)


def logit_drop(before: Estimate, after: Estimate, now: Estimate, n: int) -> Estimate:
    """Return the drop, in accuracy, of a model that is `now` right under the variants, and whose log-odds of a right
    answer change as a reference's do, from `before` to `after` (delta method).

    n: items; accuracies are held half an item away from 0 and 1.

    >>> half, more = Estimate(0.5, np.zeros(2)), Estimate(0.6, np.zeros(2))
    >>> round(logit_drop(more, half, half, 100).value, 3), round(logit_drop(more, half, more, 100).value, 3)
    (0.1, 0.092)
    """
    o, v, x = (float(np.clip(e.value, 0.5 / n, 1 - 0.5 / n)) for e in (before, after, now))
    moved = float(scipy.special.expit(scipy.special.logit(x) + scipy.special.logit(o) - scipy.special.logit(v)))
    slope = moved * (1 - moved)
    expanded = before.scaled(slope / (o * (1 - o))).plus(after, -slope / (v * (1 - v)))
    return expanded.plus(now, slope / (x * (1 - x)) - 1).at(moved - x)


def hull(limits: Iterable[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Return the largest p, the smallest lower and the largest upper limit of (p, low, high) on several scales.

    A claim that must hold on every scale needs no correction (intersection-union). NaN if any is NaN: it clears nobody.

    >>> hull([(0.01, 0.1, 0.2), (0.04, 0.0, 0.3)])
    (0.04, 0.0, 0.3)
    """
    p, low, high = np.array(list(limits)).T
    return float(p.max()), float(low.min()), float(high.max())
