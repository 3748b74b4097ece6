"""Represent a number with its error, of which every comparison of this program is made. Pure.

A mean of items, a paired contrast, a difference in differences, a ratio and a change of log-odds
are each a value and its linear expansion over independent units (influence; Huber 1981, Robust
Statistics, section 1.3). Sums of these are again such numbers, so one error, one t-test and one
interval serve all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.drawing import cluster_df, influence
from audit.statistics.paired import BoolArray, FloatArray, IntArray

ROUNDING = 1e-12  # a standard error below it is rounding


@dataclass(frozen=True)
class Estimate:
    """Hold a number with its linear expansion over independent units.

    Attributes
    ----------
    value : float
        The number.
    influence : (units,) array
        Expansion, as `drawing.influence` gives it.
    empty : int
        Units without anything to count; they carry no information, and only the other G units
        count.
    uneven : float
        Degrees of freedom that units of unequal size cost (`cluster_df`).
    apart : Estimate or None
        Expansion over the units of a second, independent set (its value is 0); None with one set.
    """

    value: float
    influence: FloatArray
    empty: int = 0
    uneven: float = 0.0
    apart: Estimate | None = None

    @property
    def units(self) -> int:
        """Return the number of units of the first set that count."""
        return self.influence.size - self.empty

    @property
    def variance(self) -> float:
        """Return the variance of the number.

        Returns
        -------
        float
            sum(influence^2) G / (G - 1) of each set, added; NaN if a set has one unit.
        """
        variance = self._own_variance
        return variance if self.apart is None else variance + self.apart.variance

    @property
    def se(self) -> float:
        """Return the (clustered) standard error, the square root of the variance.

        Returns
        -------
        float
            The standard error of a ratio of sums.
        """
        return float(np.sqrt(self.variance))

    @property
    def df(self) -> float:
        """Return the degrees of freedom of the error.

        Returns
        -------
        float
            Of one set, G - 1 - uneven, at least 1. Of two sets, those of Welch and Satterthwaite.

        Notes
        -----
        Two sets: Welch (1947), Biometrika 34.
        """
        df = max(self.units - 1 - self.uneven, 1.0)
        if self.apart is None:
            return df
        first, second = self._own_variance, self.apart.variance
        spread = first**2 / df + second**2 / self.apart.df
        return (first + second) ** 2 / spread if spread > 0 else 1.0

    @property
    def _own_variance(self) -> float:
        g = self.units
        return float(np.sum(self.influence**2) * g / (g - 1)) if g > 1 else float("nan")

    def plus(self, other: Estimate, factor: float) -> Estimate:
        """Return self + factor * other, over the same units.

        Parameters
        ----------
        other : Estimate
            A number over the same units.
        factor : float
            Weight of the other number.

        Returns
        -------
        Estimate
            The sum.
        """
        apart = None
        if self.apart is not None and other.apart is not None:
            apart = self.apart.plus(other.apart, factor)
        influence = self.influence + factor * other.influence
        return Estimate(self.value + factor * other.value, influence, *shape_of(self, other), apart)

    def with_set(self, second: Estimate) -> Estimate:
        """Return the same number over two sets, of which it uses the first only.

        Parameters
        ----------
        second : Estimate
            A number whose units become the second set.

        Returns
        -------
        Estimate
            The same value, with an expansion of zeros over the second set.
        """
        return replace(self, apart=second.scaled(0.0))

    def of_second(self, first: Estimate) -> Estimate:
        """Return the same number over two sets, of which it uses the second only.

        Parameters
        ----------
        first : Estimate
            A number whose units become the first set.

        Returns
        -------
        Estimate
            The same value, with an expansion of zeros over the first set.
        """
        return replace(first.scaled(0.0), value=self.value, apart=self.at(0.0))

    def less_independent(self, other: Estimate) -> Estimate:
        """Return self - other for a number over other, independent units.

        Parameters
        ----------
        other : Estimate
            A number over a second set of units.

        Returns
        -------
        Estimate
            The difference, over both sets.
        """
        return self.with_set(other).plus(other.of_second(self), -1.0)

    def covariance(self, other: Estimate) -> float:
        """Return the covariance with a number over the same units of one set.

        Parameters
        ----------
        other : Estimate
            A number over the same units.

        Returns
        -------
        float
            sum(influence x influence) G / (G - 1).
        """
        g = self.units
        return float(np.sum(self.influence * other.influence) * g / (g - 1))

    def scaled(self, factor: float) -> Estimate:
        """Return factor * self.

        Parameters
        ----------
        factor : float
            The multiplier.

        Returns
        -------
        Estimate
            The product.
        """
        apart = None if self.apart is None else self.apart.scaled(factor)
        return Estimate(factor * self.value, factor * self.influence, *shape_of(self), apart)

    def at(self, value: float) -> Estimate:
        """Return the same expansion of another value.

        Parameters
        ----------
        value : float
            The new value.

        Returns
        -------
        Estimate
            The same error at that value.
        """
        return replace(self, value=value)


def shape_of(*estimates: Estimate) -> tuple[int, float]:
    """Return how many units are empty and uneven in a number that is made of these.

    Parameters
    ----------
    *estimates : Estimate
        Numbers over the same units.

    Returns
    -------
    tuple of (int, float)
        The smallest `empty` and the largest `uneven`.
    """
    least_empty = min(e.empty for e in estimates)
    return least_empty, max(e.uneven for e in estimates)


@dataclass(frozen=True, kw_only=True)
class Tested:
    """Hold a difference with its test.

    Attributes
    ----------
    difference, se, df : float
        The difference, its standard error and degrees of freedom.
    low, high : float
        95 % interval, unless the class states another level.
    pvalue : float
        One-sided p for difference > 0.
    """

    difference: float
    se: float
    df: float
    low: float
    high: float
    pvalue: float


def t_test(difference: float, se: float, df: float, level: float = 0.95) -> dict[str, float]:
    """Return the fields of `Tested`, by Student's t.

    Parameters
    ----------
    difference, se, df : float
        The difference, its standard error and degrees of freedom.
    level : float
        Coverage of the interval.

    Returns
    -------
    dict of str to float
        Fields by name. The p is 1 if the standard error is rounding only.
    """
    half = float(scipy.special.stdtrit(df, (1 + level) / 2)) * se
    pvalue = float(scipy.special.stdtr(df, -difference / se)) if se > ROUNDING else 1.0
    limits = {"low": difference - half, "high": difference + half}
    return {"difference": difference, "se": se, "df": df, **limits, "pvalue": pvalue}


def above_pvalue(estimate: Estimate, margin: float = 0.0) -> float:
    """Return the one-sided p for estimate > margin, by t over the units.

    Parameters
    ----------
    estimate : Estimate
        The number.
    margin : float
        The value to exceed.

    Returns
    -------
    float
        The p-value.

    Notes
    -----
    If nothing varies but by rounding, p is that of flipped signs: 1/2 for each unit if all are
    above, else 1.
    """
    gap = estimate.value - margin
    if not estimate.se > ROUNDING:
        return 2.0**-estimate.units if gap > ROUNDING and estimate.units > 1 else 1.0
    return float(scipy.special.stdtr(estimate.df, -gap / estimate.se))


def mean_of(values: FloatArray, cluster: IntArray) -> Estimate:
    """Return the mean of the values that are not NaN, expanded over the clusters of all items.

    Parameters
    ----------
    values : (n,) array
        Values, NaN if missing.
    cluster : (n,) array
        Cluster of each item, 0..G-1.

    Returns
    -------
    Estimate
        The mean.

    Raises
    ------
    DataError
        If every value is NaN.
    """
    known = ~np.isnan(values)
    if not known.any():
        raise DataError(
            "Not one item has both an original and a variant answered: no drop can be computed."
        )
    return _expanded(values[None], cluster, known)[0]


def means_of(rows: FloatArray, cluster: IntArray | None = None) -> tuple[list[Estimate], int]:
    """Return the mean of each row over the items that have a value in every row.

    Parameters
    ----------
    rows : (K, n) array
        Values of K models, NaN if missing.
    cluster : (n,) array or None
        Cluster of each item; None makes every item its own cluster.

    Returns
    -------
    means : list of Estimate
        K means.
    n : int
        Number of items with a value in every row.

    Raises
    ------
    DataError
        If fewer than two clusters of such items are left.
    """
    groups = np.arange(rows.shape[1]) if cluster is None else np.asarray(cluster)
    known = ~np.isnan(rows).any(axis=0)
    n, units = int(known.sum()), np.unique(groups[known]).size
    if units < 2:
        raise DataError(
            f"A set of items needs two that share no cluster and have a value of every model; found {n}."
        )
    return _expanded(rows[:, known], groups[known]), n


def _expanded(
    rows: FloatArray, cluster: IntArray, known: BoolArray | None = None
) -> list[Estimate]:
    """Return the mean of each row over the items `known` (all if None), expanded over the clusters
    of all items."""
    if known is not None and known.all():
        known = None
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
    estimates = []
    for row, part in zip(rows, parts, strict=True):
        estimates.append(Estimate(float(row.mean()), part, empty, uneven))
    return estimates


def beyond_mean(tested: Estimate, others: Sequence[Estimate]) -> Estimate:
    """Return the tested model's number less the mean of the others'.

    Parameters
    ----------
    tested : Estimate
        The tested model's number.
    others : sequence of Estimate
        The same number of other models, over the same units.

    Returns
    -------
    Estimate
        The difference; `tested` itself without others.
    """
    for other in others:
        tested = tested.plus(other, -1 / len(others))
    return tested


def spread_of(models: Sequence[Estimate]) -> tuple[float, float]:
    """Return how much models' numbers vary, and what of it the items explain.

    Parameters
    ----------
    models : sequence of Estimate
        One number a model, over the same units.

    Returns
    -------
    spread : float
        Variance of the models' numbers, ddof 1.
    sampling : float
        Part of it that the items explain. Both are NaN if this cannot be estimated.
    """
    if len(models) < 2:
        return float("nan"), float("nan")
    away = [beyond_mean(model, models) for model in models]
    sampling = sum(model.variance for model in away) / (len(models) - 1)
    spread = float(np.var([e.value for e in models], ddof=1))
    return (spread, sampling) if np.isfinite(sampling) else (float("nan"), float("nan"))


def fieller(above: Estimate, below: Estimate, t: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of the ratios above / below that a t-test does not reject.

    Parameters
    ----------
    above, below : Estimate
        Numerator and denominator, over the same units.
    t : tuple of float
        Quantiles for the lower and the upper end.

    Returns
    -------
    tuple of float
        Lower and upper end. An end that nothing bounds is infinite.

    Notes
    -----
    Fieller (1954), JRSS B 16, 175-185.
    """
    v11, v12, v22 = below.covariance(below), above.covariance(below), above.covariance(above)
    ends = []
    for quantile, side in zip(t, (-1.0, 1.0), strict=True):
        a = below.value**2 - quantile**2 * v11
        b = below.value * above.value - quantile**2 * v12
        k = above.value**2 - quantile**2 * v22
        # Below 0 by rounding alone, at the ratio of the values.
        root = float(np.sqrt(max(b * b - a * k, 0.0)))
        bounded = a > 0 or (side < 0 and k > 0 and a != 0)
        ends.append((b + side * root) / a if bounded else side * np.inf)
    return float(ends[0]), float(ends[1])


def times(drop: Estimate, height: Estimate, other: Estimate) -> Estimate:
    """Return drop x other / height by the delta method.

    Parameters
    ----------
    drop : Estimate
        A model's drop.
    height : Estimate
        The same model's height, of which the drop is a share.
    other : Estimate
        Another model's height.

    Returns
    -------
    Estimate
        The share of its height that the first model loses, as a drop of the other model.
    """
    ratio, share = other.value / height.value, drop.value / height.value
    return drop.scaled(ratio).plus(height, -share * ratio).plus(other, share).at(drop.value * ratio)


def logit_drop(before: Estimate, after: Estimate, now: Estimate, n: int) -> Estimate:
    """Return the drop of a model whose log-odds change as a reference's do (delta method).

    Parameters
    ----------
    before, after : Estimate
        The reference's accuracy under the original and under the variants.
    now : Estimate
        The model's accuracy under the variants.
    n : int
        Number of items; accuracies are held half an item away from 0 and 1.

    Returns
    -------
    Estimate
        The drop in accuracy, 0-1.

    Examples
    --------
    >>> half, more = Estimate(0.5, np.zeros(2)), Estimate(0.6, np.zeros(2))
    >>> round(logit_drop(more, half, half, 100).value, 3), round(logit_drop(more, half, more, 100).value, 3)
    (0.1, 0.092)
    """
    values = (before.value, after.value, now.value)
    o, v, x = np.clip(values, 0.5 / n, 1 - 0.5 / n).tolist()
    moved = float(
        scipy.special.expit(
            scipy.special.logit(x) + scipy.special.logit(o) - scipy.special.logit(v)
        )
    )
    slope = moved * (1 - moved)
    expanded = before.scaled(slope / (o * (1 - o))).plus(after, -slope / (v * (1 - v)))
    return expanded.plus(now, slope / (x * (1 - x)) - 1).at(moved - x)


def hull(limits: Iterable[tuple[float, float, float]]) -> tuple[float, float, float]:
    """Return the largest p, the smallest lower and the largest upper limit over several scales.

    Parameters
    ----------
    limits : iterable of (p, low, high)
        Results on each scale.

    Returns
    -------
    tuple of float
        p, low and high; NaN if any of a kind is NaN, which clears nobody.

    Notes
    -----
    A claim that must hold on every scale needs no correction (intersection-union).

    Examples
    --------
    >>> hull([(0.01, 0.1, 0.2), (0.04, 0.0, 0.3)])
    (0.04, 0.0, 0.3)
    """
    p, low, high = np.array(list(limits)).T
    return float(p.max()), float(low.min()), float(high.max())
