"""Compare versions of a model.

The module has three analyses:

- the change in accuracy between two versions on the same questions;
- the part of one version's lead over another version that remains under a second condition;
- a test of whether a metric changed along a series of versions.

The module does no I/O.
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
# With fewer clusters, a t interval contains the true value less often than its level states.
UNITS_MIN = 10
_EDGE = 1e-12
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class PairedDifference:
    """Report what changed between two versions of a model (accuracy 0-1).

    Only questions that both versions answered are used.

    Attributes
    ----------
    n, units : int
        Number of questions, and of independent clusters of questions.
    before, after : float
        Accuracy of the earlier and of the later version.
    difference, low, high : float
        after - before, with its 95 % interval.
    improve, degrade : int
        Number of questions whose score rose, and number whose score fell.
    pvalue : float
        Two-sided p-value. If each of several independent questions was answered once, the test is
        McNemar's exact test, and the interval is Tango's score interval. If questions come in
        clusters or were answered several times, the test flips the signs of whole clusters (or
        questions), and the interval uses Student's t.
    midp : float or None
        McNemar's mid-p-value; None if `pvalue` is not computed by McNemar's exact test.
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
    """Return what changed between two versions of a model on the same questions.

    Parameters
    ----------
    before, after : (n,) array
        Score of each question: 1 (right), 0 (wrong), the share of right answers among several, or
        NaN (no answer). A question is left out if a version did not answer it.
    cluster : (n,) array
        Cluster of each question.
    rng : numpy.random.Generator
        Source of the sign flips.

    Returns
    -------
    PairedDifference
        Difference, interval and p-value.

    Raises
    ------
    DataError
        If no question was answered by both versions, or if a score lies outside [0, 1].
    """
    a, b, groups = checked_pair(before, after, cluster)
    b = b[0]
    both = ~(np.isnan(a) | np.isnan(b))
    x, y, c = a[both], b[both], groups[both]
    if not x.size:
        raise DataError(
            "The number of questions answered in both runs is 0. Expected at least 1 for a paired "
            "difference."
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
        # If no answer changed, the standard error is 0. So the interval extends at least to the
        # largest change that is compatible with no change in the observed clusters.
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
        Number of items that changed from wrong to right, and from right to wrong.
    n : int
        Number of items.

    Returns
    -------
    tuple of float
        Lower and upper limit.

    Notes
    -----
    Tango (1998), Statistics in Medicine 17:891-908. The limits are the differences d at which
    |T(d)| = z, with T = (b - c - n d) / sqrt(n (2 q + d (1 - d))). q is the constrained estimate of
    the share that changes from right to wrong. The interval is also valid if no item changed, or if
    every item did.

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
    """Return the difference at which a decreasing score function reaches `level`.

    If the function does not reach the level within the range, return the end of the range.
    """

    def off(d: float) -> float:
        return float(np.clip(score(d), -1e6, 1e6)) - level

    start, end = low + _EDGE, high - _EDGE
    if end <= start or off(start) * off(end) > 0:
        return low if level > 0 else high
    return float(scipy.optimize.brentq(off, start, end, xtol=1e-9))


@dataclass(frozen=True)
class Lasting:
    """Report how much of one version's lead over another version remains under a second condition.

    The second condition is damaged questions, reworded questions or other items. The record answers
    two questions (song2026, section 6). A developer asks whether an improvement remains on damaged
    questions. A buyer asks which of two models with similar scores loses less. One difference in
    differences answers both questions.

    Attributes
    ----------
    lead : float
        Mean score of the second version minus mean score of the first version, under the baseline
        condition (-1 to 1).
    there : float
        The same difference under the second condition.
    lost, low, high : float
        `lead` minus `there`, with its 95 % interval.
    pvalue : float
        Two-sided p-value of the null hypothesis lost = 0.
    share : tuple of float or None
        The ratio `there` / `lead` with Fieller's 95 % interval. None if this interval is unbounded:
        the lead may then be 0, and a share of a lead of 0 is meaningless.
    n, units : int
        Number of items and of independent clusters. If the two conditions use different items, the
        numbers are totals over the two sets.
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


def lasting_by_condition(lead: ArrayLike, other_lead: ArrayLike, cluster: IntArray) -> Lasting:
    """Return how much of a lead remains on the same items under another condition.

    Parameters
    ----------
    lead, other_lead : (n,) array
        Score of the second version minus that of the first, for each item, under the baseline and
        under the other condition. An item with NaN in one of the arrays is left out of both arrays.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    Lasting
        The lead, its loss and the remaining share.

    Raises
    ------
    DataError
        If fewer than UNITS_MIN clusters are left.

    Examples
    --------
    >>> lead, other_lead = np.tile([1.0, 0.0, 0.0, 0.0], 50), np.tile([0.5, 0.0, 0.0, 0.0], 50)
    >>> lasting = lasting_by_condition(lead, other_lead, np.arange(200))
    >>> lasting.lead, lasting.there, lasting.lost, lasting.share[0]
    (0.25, 0.125, 0.125, 0.5)
    """
    rows = np.stack([np.asarray(lead, dtype=float), np.asarray(other_lead, dtype=float)])
    both = ~np.isnan(rows).any(axis=0)
    groups = np.asarray(cluster)[both]
    first, second = _mean(rows[0][both], groups), _mean(rows[1][both], groups)
    lost = rows[0, both] - rows[1, both]
    least = unseen_change(lost, groups), shared_se(lost, groups)
    return _lasting(first, second, int(both.sum()), first.units, first.df, *least)


def lasting_by_items(
    lead: ArrayLike, other_lead: ArrayLike, clusters: tuple[IntArray, IntArray]
) -> Lasting:
    """Return how much of one version's lead over another remains on other items.

    The other items are, for example, held-out items.

    Parameters
    ----------
    lead : (n,) array
        Score of the second version minus score of the first version, for each item, NaN if missing.
    other_lead : (m,) array
        The same difference of scores for each of the other items, which are an independent set.
    clusters : tuple of arrays
        Cluster of each item, (n,) and (m,).

    Returns
    -------
    Lasting
        The lead, its loss and the remaining share.

    Raises
    ------
    DataError
        If a set has fewer than UNITS_MIN clusters.
    """
    sides, n, unseen, shared = [], 0, 0.0, 0.0
    for values, cluster in zip((lead, other_lead), clusters, strict=True):
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
            f"The number of independent items answered under every condition is {units}. Expected "
            f"at least {UNITS_MIN}."
        )
    return mean_of(row, cluster)


def _lasting(
    first: Estimate, second: Estimate, n: int, units: int, df: float, unseen: float, shared: float
) -> Lasting:
    lost = first.plus(second, -1.0)
    se = max(lost.se, shared)
    tested = t_test(lost.value, se, df)
    p = 2 * min(tested["pvalue"], 1 - tested["pvalue"])
    if se <= ROUNDING:  # If all items have an equal loss, p is the probability of equal signs.
        p = 2.0**-df if abs(lost.value) > ROUNDING else 1.0
    t = float(scipy.special.stdtrit(df, 0.975))
    low, high = min(tested["low"], lost.value - unseen), max(tested["high"], lost.value + unseen)
    ends = fieller(second, first, (t, t))
    # If the interval is unbounded, the lead may be 0, and a share of a lead of 0 is meaningless.
    share = (second.value / first.value, *ends) if np.isfinite(ends).all() else None
    return Lasting(first.value, second.value, lost.value, low, high, p, share, n, units)


@dataclass(frozen=True)
class Look:
    """Report the change test of one version in a series of versions.

    Attributes
    ----------
    look : int
        Number of the test in the series, from 1.
    baseline : float
        Mean over earlier versions, with which this version is compared.
    difference, se : float
        Metric of this version minus the baseline, and the standard error of this difference.
    pvalue : float
        Two-sided p of this test.
    adjusted : float
        p corrected for all tests of the series.
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
    """Return the standard error of a normally distributed estimate with a given 95 % interval.

    Parameters
    ----------
    low, high : float
        Ends of the interval.

    Returns
    -------
    float
        The standard error (high - low) / (2 z), where z is the normal quantile of the interval.
    """
    return (high - low) / (2 * _Z)


def change_tests(
    estimates: Sequence[float], errors: Sequence[float], starts: Sequence[bool]
) -> list[Look | None]:
    """Test at every version of a series whether a metric has changed.

    Parameters
    ----------
    estimates, errors : (n,) sequences of float
        Metric of each version in the order of the versions, and its standard error. A version whose
        metric is NaN is not tested and is not part of a baseline.
    starts : (n,) sequence of bool
        True if a version cannot be compared with the versions before it. Such a version is not
        tested.

    Returns
    -------
    list of Look or None
        One entry for each version; None if the version was not tested.

    Notes
    -----
    The k-th test is made at level ALPHA / (k (k + 1)). These levels sum to ALPHA over any number of
    versions. So a series that never changed is reported as changed with a probability of at most
    ALPHA, whatever the dependence between versions (Bonferroni over a sequence without a fixed end;
    alpha-spending). The adjusted p-value of the k-th test is p k (k + 1). The p-values use the
    normal distribution. If there are few sampled answers to similar items, that probability is
    larger: for 12 versions it is 11 % with 30 items, and 7 % with 300 items or more.

    A version is compared with the mean of the earlier versions since the last detected change.
    Versions that answered the same questions are positively correlated. The error of the difference
    ignores this correlation, so the test is conservative; `audit compare`, which pairs versions by
    question, is more powerful.

    Examples
    --------
    A difference of three standard errors has p = .0027. The second test multiplies this p-value by
    2 x 3, which gives .016.

    >>> looks = change_tests([0.0, 0.0, 0.09], [0.02, 0.02, 0.0264575], [True, False, False])
    >>> looks[2].look, round(looks[2].se, 3), round(looks[2].adjusted, 3), looks[2].changed
    (2, 0.03, 0.016, True)
    """
    results: list[Look | None] = []
    look = n = 0
    # Sum of the baseline's n metrics, and sum of their squared standard errors.
    total = squares = 0.0
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
