"""Compare versions of a model. Pure.

The module estimates what two versions changed over the same questions, what of a lead lasts under a
second condition, and whether a figure changed along a series.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.contracts import clustered_mean
from audit.statistics.drawing import cluster_df, shared_se
from audit.statistics.estimate import ROUNDING, Estimate, fieller, mean_of, t_test
from audit.statistics.mcnemar import mcnemar_exact, mcnemar_midp
from audit.statistics.paired import FloatArray, IntArray, checked_pair
from audit.statistics.permutation import sign_flip_pvalue
from audit.statistics.resampling import unseen_change

ALPHA = 0.05
UNITS_MIN = 10  # with fewer independent items a t interval covers less than it states
_EDGE = 1e-12
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class PairedDifference:
    """Report what two versions of a model changed, over questions answered in both; accuracies 0-1.

    Attributes
    ----------
    n, units : int
        Number of questions, and of independent clusters of them.
    before, after : float
        Accuracies of the two versions.
    difference, low, high : float
        after - before, with its 95 % interval.
    improve, degrade : int
        Questions that got better, and worse.
    pvalue : float
        Two-sided: McNemar's exact test with Tango's score interval. If questions come in clusters,
        or were answered several times, signs are flipped by cluster, or question, with a t interval
        over these.
    midp : float or None
        McNemar's mid-p; None if `pvalue` is not the exact test's.
    """

    n: int
    units: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    improve: int
    degrade: int
    pvalue: float
    midp: float | None = None


def paired_difference(
    before: FloatArray, after: FloatArray, cluster: IntArray, *, rng: np.random.Generator
) -> PairedDifference:
    """Return what two versions of a model changed over the same questions.

    Parameters
    ----------
    before, after : (n,) array
        1, 0, a share of several answers, or NaN (unanswered: left out).
    cluster : (n,) array
        Cluster of each question.
    rng : numpy.random.Generator
        Source of the sign flips.

    Returns
    -------
    PairedDifference
        Difference, interval and p.

    Raises
    ------
    DataError
        If no question is answered in both, or a value lies outside [0, 1].
    """
    a, b, groups = checked_pair(before, after, cluster)
    b = b[0]
    both = ~(np.isnan(a) | np.isnan(b))
    x, y, c = a[both], b[both], groups[both]
    if not x.size:
        raise DataError(
            "A paired difference needs questions answered, right or wrong, in both runs; found none."
        )
    improve, degrade = int(np.sum(y > x)), int(np.sum(x > y))
    n, units = int(x.size), int(np.unique(c).size)
    midp = None
    if units == n and np.all(np.isin([x, y], (0, 1))):
        midp = mcnemar_midp(improve, degrade)
        low, high = tango_interval(improve, degrade, n)
        p = float(mcnemar_exact(improve, degrade, two_sided=True))
    else:
        d = y - x
        mean = clustered_mean(d, c)
        # No shorter than what none of the clusters would show: where nothing changed they show no
        # spread at all.
        half = float(scipy.special.stdtrit(cluster_df(c), 0.975)) * max(mean.se, shared_se(d, c))
        arm = max(half, unseen_change(d, c)) if units > 1 else 2.0
        low, high = max(mean.estimate - arm, -1.0), min(mean.estimate + arm, 1.0)
        p = sign_flip_pvalue(y - x, c, two_sided=True, rng=rng)
    return PairedDifference(
        n,
        units,
        float(x.mean()),
        float(y.mean()),
        float((y - x).mean()),
        low,
        high,
        improve,
        degrade,
        p,
        midp,
    )


def tango_interval(improve: int, degrade: int, n: int) -> tuple[float, float]:
    """Return the 95 % score interval of the difference of two paired proportions.

    Parameters
    ----------
    improve, degrade : int
        Items that went wrong -> correct and correct -> wrong.
    n : int
        Number of items.

    Returns
    -------
    tuple of float
        Lower and upper limit.

    Notes
    -----
    Tango (1998), Statistics in Medicine 17:891-908. Its limits are the differences d at which
    |T(d)| = z, with T = (b - c - n d) / sqrt(n (2 q + d (1 - d))) and q the constrained estimate of
    the share that goes right -> wrong. It holds if nothing changed and if everything did.

    Examples
    --------
    >>> tuple(round(limit, 3) for limit in tango_interval(1, 7, 21))  # Fagerland et al. (2014), Stat Med 33, Table VI
    (-0.517, -0.026)
    """
    z = float(scipy.stats.norm.ppf(0.975))

    def score(d: float) -> float:
        e = 2 * n
        f = -improve - degrade + (2 * n - improve + degrade) * d
        g = -degrade * d * (1 - d)
        q = (np.sqrt(max(f * f - 4 * e * g, 0.0)) - f) / (2 * e)
        variance = n * (2 * q + d * (1 - d))
        gap = improve - degrade - n * d
        return float(gap / np.sqrt(variance)) if variance > _EDGE else float(np.sign(gap)) * np.inf

    estimate = (improve - degrade) / n
    return _where(score, z, -1.0, estimate), _where(score, -z, estimate, 1.0)


def _where(score: Callable[[float], float], level: float, low: float, high: float) -> float:
    """Return the difference at which the score, which falls, is `level`.

    It is the end of the range if the level is not reached.
    """

    def off(d: float) -> float:
        return float(np.clip(score(d), -1e6, 1e6)) - level

    start, end = low + _EDGE, high - _EDGE
    if end <= start or off(start) * off(end) > 0:
        return low if level > 0 else high
    return float(scipy.optimize.brentq(off, start, end, xtol=1e-9))


@dataclass(frozen=True)
class Lasting:
    """Report how much of one version's lead over another lasts under a second condition.

    The second condition is damage, rewording or other items. song2026, section 6: a developer asks
    whether an improvement is stable under damage, and a buyer which of two models of like score
    loses less. Both are one difference in differences.

    Attributes
    ----------
    lead : float
        Mean of (second - first version) under the baseline, -1 to 1.
    there : float
        The same mean under the other condition.
    lost, low, high : float
        lead - there, with its 95 % interval.
    pvalue : float
        Two-sided p of `lost`.
    share : tuple of float or None
        there / lead with Fieller's 95 % interval. None if the lead is not shown, as a share of what
        may be 0 says nothing, or if the interval is unbounded.
    n, units : int
        Number of items, of both sets if these differ, and of independent ones.
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
    """Return how much of a lead lasts on the same items under another condition.

    Parameters
    ----------
    lead, there : (n,) array
        Second less first version of each item, under each condition. An item with NaN in either is
        left out of both.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    Lasting
        Lead, loss and share.

    Raises
    ------
    DataError
        If fewer than UNITS_MIN clusters are left.

    Examples
    --------
    >>> lead, there = np.tile([1.0, 0.0, 0.0, 0.0], 50), np.tile([0.5, 0.0, 0.0, 0.0], 50)
    >>> lasting = lasting_by_condition(lead, there, np.arange(200))
    >>> lasting.lead, lasting.there, lasting.lost, lasting.share[0]
    (0.25, 0.125, 0.125, 0.5)
    """
    rows = np.stack([np.asarray(lead, dtype=float), np.asarray(there, dtype=float)])
    both = ~np.isnan(rows).any(axis=0)
    groups = np.asarray(cluster)[both]
    first, second = _mean(rows[0][both], groups), _mean(rows[1][both], groups)
    lost = rows[0, both] - rows[1, both]
    least = unseen_change(lost, groups), shared_se(lost, groups)
    return _lasting(first, second, int(both.sum()), first.units, first.df, *least)


def lasting_by_items(
    lead: ArrayLike, there: ArrayLike, clusters: tuple[IntArray, IntArray]
) -> Lasting:
    """Return how much of a lead lasts on other items, such as held-out ones.

    Parameters
    ----------
    lead : (n,) array
        Second less first version of each item, NaN if missing.
    there : (m,) array
        The same of the other items, an independent set.
    clusters : tuple of arrays
        Cluster of each item, (n,) and (m,).

    Returns
    -------
    Lasting
        Lead, loss and share.

    Raises
    ------
    DataError
        If a set has fewer than UNITS_MIN clusters.
    """
    sides, n, unseen, shared = [], 0, 0.0, 0.0
    for values, cluster in zip((lead, there), clusters, strict=True):
        row = np.asarray(values, dtype=float)
        known = ~np.isnan(row)
        row, groups = row[known], np.asarray(cluster)[known]
        sides.append(_mean(row, groups))
        n += row.size
        unseen += unseen_change(row, groups)
        shared = float(np.hypot(shared, shared_se(row, groups)))
    parts_before, parts_after = sides[0].influence, sides[1].influence
    first = Estimate(sides[0].value, np.concatenate([parts_before, np.zeros(parts_after.size)]))
    second = Estimate(sides[1].value, np.concatenate([np.zeros(parts_before.size), parts_after]))
    return _lasting(
        first,
        second,
        n,
        parts_before.size + parts_after.size,
        min(side.df for side in sides),
        unseen,
        shared,
    )


def _mean(row: FloatArray, cluster: IntArray) -> Estimate:
    units = np.unique(cluster).size
    if units < UNITS_MIN:
        raise DataError(
            f"Expected at least {UNITS_MIN} independent items answered everywhere; found {units}."
        )
    return mean_of(row, cluster)


def _lasting(
    first: Estimate, second: Estimate, n: int, units: int, df: float, unseen: float, shared: float
) -> Lasting:
    lost = first.plus(second, -1.0)
    se = max(lost.se, shared)
    tested = t_test(lost.value, se, df)
    p = 2 * min(tested["pvalue"], 1 - tested["pvalue"])
    if se <= ROUNDING:  # the loss is the same in every item: p is that of as many equal signs
        p = 2.0**-df if abs(lost.value) > ROUNDING else 1.0
    t = float(scipy.special.stdtrit(df, 0.975))
    low, high = min(tested["low"], lost.value - unseen), max(tested["high"], lost.value + unseen)
    ends = fieller(second, first, (t, t))
    # The lead may be 0 if the interval is unbounded, and a share of what may be 0 says nothing.
    share = (second.value / first.value, *ends) if np.isfinite(ends).all() else None
    return Lasting(first.value, second.value, lost.value, low, high, p, share, n, units)


@dataclass(frozen=True)
class Look:
    """Report the test at one version of a series.

    Attributes
    ----------
    look : int
        Number of the test, from 1.
    baseline : float
        Mean that the version is compared with.
    difference, se : float
        Figure less the baseline, and its standard error.
    pvalue : float
        Two-sided p of this test.
    adjusted : float
        The p for all tests of the series together.
    changed : bool
        True if `adjusted` is at most ALPHA.
    """

    look: int
    baseline: float
    difference: float
    se: float
    pvalue: float
    adjusted: float
    changed: bool


def standard_error(low: float, high: float) -> float:
    """Return the standard error that a normal estimate with this 95 % interval has.

    Parameters
    ----------
    low, high : float
        Ends of the interval.

    Returns
    -------
    float
        (high - low) / (2 z).
    """
    return (high - low) / (2 * _Z)


def change_tests(
    estimates: Sequence[float], errors: Sequence[float], starts: Sequence[bool]
) -> list[Look | None]:
    """Test at every version of a series whether a figure changed.

    Parameters
    ----------
    estimates, errors : (n,) sequences of float
        Figures in the order of the versions and their standard errors. A version with NaN is not
        tested and not in a baseline.
    starts : (n,) sequence of bool
        True if a version cannot be compared with those before it; it is not tested.

    Returns
    -------
    list of Look or None
        One entry a version; None if it was not tested.

    Notes
    -----
    The k-th test is made at level ALPHA / (k (k + 1)); these sum to ALPHA over any number of
    versions. So the chance that a series which never changed is ever said to have changed is at
    most ALPHA, whatever the versions share (Bonferroni over a sequence that need not end:
    alpha-spending). The adjusted p is p k (k + 1). The tails are the normal distribution's: with
    few sampled answers of items that are alike the chance is larger (12 versions: 11 % of 30 items,
    7 % from 300 on).

    A version is tested against the mean of those before it, since the last change. Versions that
    answered the same questions are positively correlated, which the error of the difference leaves
    out. The test is then conservative, and `audit compare`, paired by question, sees more.

    Examples
    --------
    Three standard errors have p = .0027; at the second look, which costs 2 x 3, that becomes .016.

    >>> looks = change_tests([0.0, 0.0, 0.09], [0.02, 0.02, 0.0264575], [True, False, False])
    >>> looks[2].look, round(looks[2].se, 3), round(looks[2].adjusted, 3), looks[2].changed
    (2, 0.03, 0.016, True)
    """
    results: list[Look | None] = []
    look = n = 0
    total = squares = 0.0  # sums of the baseline's n figures and of their squared errors
    for value, error, start in zip(estimates, errors, starts, strict=True):
        n = 0 if start else n
        if not (math.isfinite(value) and math.isfinite(error) and error > 0):
            results.append(None)
            continue
        result = None
        if n:
            look += 1
            difference, se = value - total / n, math.sqrt(error * error + squares / n**2)
            p = math.erfc(abs(difference) / se / math.sqrt(2))  # both tails of a normal variable
            adjusted = min(1.0, p * look * (look + 1))
            result = Look(look, total / n, difference, se, p, adjusted, adjusted <= ALPHA)
        if result is None or result.changed:
            n, total, squares = 0, 0.0, 0.0
        n, total, squares = n + 1, total + value, squares + error * error
        results.append(result)
    return results
