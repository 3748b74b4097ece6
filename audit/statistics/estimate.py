"""Represent a number together with its error, as every comparison of this program does.

Each number has a value and a linear expansion over independent units. The expansion is the
influence of each unit on the number (Huber 1981, Robust Statistics, section 1.3). A number may be a
mean over items, a paired contrast, a difference in differences, a ratio or a change of log-odds. A
sum of such numbers has the same form. So the same formulas for the standard error, the t-test and
the interval apply to every number. The module does no I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.drawing import cluster_df, influence
from audit.statistics.paired import BoolArray, FloatArray, IntArray

ROUNDING = 1e-12  # A smaller standard error is only rounding error.


@dataclass(frozen=True)
class Estimate:
    """Hold a number with its linear expansion over independent units.

    Attributes
    ----------
    value : float
        The estimated number.
    influence : (units,) array
        Influence of each unit on the number, as computed by `drawing.influence`.
    empty : int
        Number of units that have no value. These units carry no information, so formulas use the
        number G of the other units.
    uneven : float
        Number of degrees of freedom that are lost because units have unequal sizes (`cluster_df`).
    second_set : Estimate or None
        Expansion over the units of a second, independent set, with value 0; None if there is only
        one set.
    """

    value: float
    influence: FloatArray
    empty: int = 0
    uneven: float = 0.0
    second_set: Estimate | None = None

    @property
    def units(self) -> int:
        """Return the number of units with a value, in the first set of units.

        Returns
        -------
        int
            The number G of units, without the `empty` units.
        """
        return self.influence.size - self.empty

    @property
    def variance(self) -> float:
        """Return the variance of the number.

        Returns
        -------
        float
            Sum over the sets of sum(influence^2) * G / (G - 1), where G is the number of units of a
            set with a value. NaN if a set has only one such unit.
        """
        variance = self._first_variance
        return variance if self.second_set is None else variance + self.second_set.variance

    @property
    def se(self) -> float:
        """Return the (clustered) standard error of the number.

        Returns
        -------
        float
            Square root of the variance; for a ratio of sums, its standard error by the delta
            method.
        """
        return float(np.sqrt(self.variance))

    @property
    def df(self) -> float:
        """Return the degrees of freedom of the standard error.

        Returns
        -------
        float
            For one set, G - 1 - `uneven`, but at least 1. For two sets, the degrees of freedom of
            Welch and Satterthwaite.

        Notes
        -----
        For two sets, see Welch (1947), Biometrika 34.
        """
        df = max(self.units - 1 - self.uneven, 1.0)
        if self.second_set is None:
            return df
        first, second = self._first_variance, self.second_set.variance
        spread = first**2 / df + second**2 / self.second_set.df
        return (first + second) ** 2 / spread if spread > 0 else 1.0

    @property
    def _first_variance(self) -> float:
        g = self.units
        return float(np.sum(self.influence**2) * g / (g - 1)) if g > 1 else float("nan")

    def plus(self, other: Estimate, factor: float) -> Estimate:
        """Return self + factor * other, where both numbers are estimated over the same units.

        Parameters
        ----------
        other : Estimate
            A number over the same units.
        factor : float
            Weight of `other`.

        Returns
        -------
        Estimate
            The weighted sum, with its expansion.
        """
        second_set = None
        if self.second_set is not None and other.second_set is not None:
            second_set = self.second_set.plus(other.second_set, factor)
        influence = self.influence + factor * other.influence
        return Estimate(
            self.value + factor * other.value, influence, *shape_of(self, other), second_set
        )

    def with_set(self, second: Estimate) -> Estimate:
        """Return this number as an estimate over two sets of units.

        The number depends on the first set only.

        Parameters
        ----------
        second : Estimate
            A number whose units become the second set.

        Returns
        -------
        Estimate
            The same value. Its expansion over the second set is zero.
        """
        return replace(self, second_set=second.scaled(0.0))

    def of_second(self, first: Estimate) -> Estimate:
        """Return this number as an estimate over two sets of units.

        The number depends on the second set only.

        Parameters
        ----------
        first : Estimate
            A number whose units become the first set.

        Returns
        -------
        Estimate
            The same value. Its expansion over the first set is zero.
        """
        return replace(first.scaled(0.0), value=self.value, second_set=self.at(0.0))

    def less_independent(self, other: Estimate) -> Estimate:
        """Return self - other, where the two numbers are estimated over independent sets of units.

        Parameters
        ----------
        other : Estimate
            A number over a second set of units.

        Returns
        -------
        Estimate
            The difference, expanded over both sets.
        """
        return self.with_set(other).plus(other.of_second(self), -1.0)

    def covariance(self, other: Estimate) -> float:
        """Return the covariance with another number over the same units.

        Parameters
        ----------
        other : Estimate
            A number over the same single set of units.

        Returns
        -------
        float
            sum(influence * influence of the other number) * G / (G - 1).
        """
        g = self.units
        return float(np.sum(self.influence * other.influence) * g / (g - 1))

    def scaled(self, factor: float) -> Estimate:
        """Return the number multiplied by a factor.

        Parameters
        ----------
        factor : float
            The multiplier.

        Returns
        -------
        Estimate
            factor * self, with its expansion.
        """
        second_set = None if self.second_set is None else self.second_set.scaled(factor)
        return Estimate(factor * self.value, factor * self.influence, *shape_of(self), second_set)

    def at(self, value: float) -> Estimate:
        """Return an estimate with the same expansion and another value.

        Parameters
        ----------
        value : float
            The new value.

        Returns
        -------
        Estimate
            The new value with the error of this number.
        """
        return replace(self, value=value)


def shape_of(*estimates: Estimate) -> tuple[int, float]:
    """Return `empty` and `uneven` for a number that is computed from several estimates.

    Parameters
    ----------
    *estimates : Estimate
        Numbers over the same units.

    Returns
    -------
    tuple of (int, float)
        The smallest `empty` among the estimates, and the largest `uneven`.
    """
    least_empty = min(e.empty for e in estimates)
    return least_empty, max(e.uneven for e in estimates)


@dataclass(frozen=True, kw_only=True)
class Tested:
    """Hold a difference with its one-sided test.

    Attributes
    ----------
    difference, se, df : float
        The difference, its standard error and its degrees of freedom.
    low, high : float
        95 % interval of the difference, unless the subclass states another level.
    pvalue : float
        One-sided p-value; the alternative is difference > 0.
    """

    difference: float
    se: float
    df: float
    low: float
    high: float
    pvalue: float


def t_test(difference: float, se: float, df: float, level: float = 0.95) -> dict[str, float]:
    """Return the values of the fields of `Tested`, computed by a t-test of difference > 0.

    Parameters
    ----------
    difference, se, df : float
        The difference, its standard error and its degrees of freedom.
    level : float
        Coverage of the interval.

    Returns
    -------
    dict of str to float
        Maps the name of each field to its value. The p-value is 1 if the standard error is only
        rounding error.
    """
    half = float(scipy.special.stdtrit(df, (1 + level) / 2)) * se
    pvalue = float(scipy.special.stdtr(df, -difference / se)) if se > ROUNDING else 1.0
    limits = {"low": difference - half, "high": difference + half}
    return {"difference": difference, "se": se, "df": df, **limits, "pvalue": pvalue}


def above_pvalue(estimate: Estimate, margin: float = 0.0) -> float:
    """Return the one-sided p-value of a t-test over the units; the alternative is estimate >
    margin.

    Parameters
    ----------
    estimate : Estimate
        The number that is tested.
    margin : float
        The value that must be exceeded.

    Returns
    -------
    float
        The p-value.

    Notes
    -----
    If the units do not vary, the p-value is that of a sign-flip test. It is 2^-units if the
    estimate is above the margin, and 1 otherwise.
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
        Value of each item, NaN if missing.
    cluster : (n,) array
        Cluster of each item, 0..G-1.

    Returns
    -------
    Estimate
        The mean; clusters without a value are counted in `empty`.

    Raises
    ------
    DataError
        If every value is NaN.
    """
    known = ~np.isnan(values)
    if not known.any():
        raise DataError(
            "The number of items with an answer both to the original and to a variant is 0. "
            "Expected at least 1: the drop compares these answers."
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
        Mean of each of the K rows.
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
            f"The number of items that have a value for every model is {n}. Expected at least two "
            "such items in different clusters."
        )
    return _expanded(rows[:, known], groups[known]), n


def _expanded(
    rows: FloatArray, cluster: IntArray, known: BoolArray | None = None
) -> list[Estimate]:
    """Return the mean of each row over the items for which `known` is True; None uses all items.

    The means are expanded over the clusters of all items.
    """
    if known is not None and known.all():
        known = None
    present = cluster if known is None else cluster[known]
    rows = rows if known is None else rows[:, known]
    n = present.size
    if n > 1 and np.all(present[1:] > present[:-1]):  # Every item is its own cluster.
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
    """Return the tested model's number minus the mean of the other models' numbers.

    Parameters
    ----------
    tested : Estimate
        The tested model's number.
    others : sequence of Estimate
        The corresponding number of each other model, over the same units.

    Returns
    -------
    Estimate
        The difference; `tested` itself if there are no other models.
    """
    for other in others:
        tested = tested.plus(other, -1 / len(others))
    return tested


def spread_of(models: Sequence[Estimate]) -> tuple[float, float]:
    """Return the variance between models, and the part of it that is due to item sampling.

    Parameters
    ----------
    models : sequence of Estimate
        The estimated number of each model, such as its accuracy, over the same units.

    Returns
    -------
    spread : float
        Variance (ddof 1) of the models' numbers.
    sampling : float
        Part of `spread` that is due to item sampling. Both values are NaN if the sampling part
        cannot be estimated.
    """
    if len(models) < 2:
        return float("nan"), float("nan")
    away = [beyond_mean(model, models) for model in models]
    sampling = sum(model.variance for model in away) / (len(models) - 1)
    spread = float(np.var([e.value for e in models], ddof=1))
    return (spread, sampling) if np.isfinite(sampling) else (float("nan"), float("nan"))


def fieller(above: Estimate, below: Estimate, t: tuple[float, float]) -> tuple[float, float]:
    """Return the confidence limits of the ratio above / below by Fieller's method.

    The interval contains the ratios that a t-test does not reject.

    Parameters
    ----------
    above, below : Estimate
        Numerator and denominator, over the same units.
    t : tuple of float
        Quantiles for the lower and for the upper limit.

    Returns
    -------
    tuple of float
        Lower and upper limit. A limit is infinite if the data do not bound the ratio on that side.

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
        # The discriminant can be negative only through rounding errors.
        root = float(np.sqrt(max(b * b - a * k, 0.0)))
        bounded = a > 0 or (side < 0 and k > 0 and a != 0)
        ends.append((b + side * root) / a if bounded else side * np.inf)
    return float(ends[0]), float(ends[1])


def times(drop: Estimate, height: Estimate, other: Estimate) -> Estimate:
    """Return drop * other / height, with a standard error by the delta method.

    The result is the drop that another model would have if it lost the same share of its accuracy
    above chance.

    Parameters
    ----------
    drop : Estimate
        Drop of a first model.
    height : Estimate
        Accuracy above chance of the first model, of which the drop is a share.
    other : Estimate
        Accuracy above chance of another model.

    Returns
    -------
    Estimate
        Expected drop of the other model.
    """
    ratio, share = other.value / height.value, drop.value / height.value
    return drop.scaled(ratio).plus(height, -share * ratio).plus(other, share).at(drop.value * ratio)


def logit_drop(before: Estimate, after: Estimate, now: Estimate, n: int) -> Estimate:
    """Return the drop that a model would have if its log-odds changed as much as a reference's.

    The error of the drop is computed by the delta method.

    Parameters
    ----------
    before, after : Estimate
        Accuracy of the reference under the original and under the variants.
    now : Estimate
        Accuracy of the model under the variants.
    n : int
        Number of items. Accuracies are kept at least half an item away from 0 and 1.

    Returns
    -------
    Estimate
        The model's expected drop in accuracy, 0-1.

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
    """Return the largest p-value and the widest interval over several scales (the hull).

    Parameters
    ----------
    limits : iterable of (p, low, high)
        p-value and interval on each scale.

    Returns
    -------
    tuple of float
        Largest p, smallest lower limit and largest upper limit. If the p-value or a limit is NaN on
        any scale, the result has NaN in its place. A model whose result is NaN is never called
        clean.

    Notes
    -----
    A claim that must hold on every scale needs no correction for multiple tests (intersection-union
    test).

    Examples
    --------
    >>> hull([(0.01, 0.1, 0.2), (0.04, 0.0, 0.3)])
    (0.04, 0.0, 0.3)
    """
    p, low, high = np.array(list(limits)).T
    return float(p.max()), float(low.min()), float(high.max())
