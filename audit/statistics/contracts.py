"""Measure how answers change after an edit, and whether the contract of the edit is followed.

The contract of an edit says whether the answer should change or stay. The score of a response is 1
if the response equals the key, and 0 if not. The change of the score depends on the key that is
used:

- With the key of the edit, if it differs from the original key, a model that ignores its input
  changes its score on every item.
- With the original key, a model that follows the edit changes its score on every item.

The change of the *response* needs no key, so it is the primary measure. The change of the score is
reported in addition.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.chance import wilson
from audit.statistics.drawing import cluster_df
from audit.statistics.estimate import mean_of, t_test
from audit.statistics.paired import BoolArray, FloatArray, IntArray

UNREAD = -1


@dataclass(frozen=True)
class Mean:
    """Hold the mean of values over items in clusters.

    The values are shares (0-1) or differences of shares.

    Attributes
    ----------
    estimate, low, high : float
        The mean and its 95 % interval, by Student's t with `cluster_df` degrees of freedom.
    se : float
        Standard error. `se`, `low` and `high` are NaN with fewer than two clusters.
    n, clusters : int
        Number of items with a value, and number of clusters of these items.
    """

    estimate: float
    low: float
    high: float
    se: float
    n: int
    clusters: int


@dataclass(frozen=True)
class Transitions:
    """Count edits by whether the answers before and after the edit are right.

    Attributes
    ----------
    right_right, right_wrong, wrong_right, wrong_wrong : int
        Number of edits with each pair of (answer before, answer after). Each answer is right or
        wrong under its own key.
    unread : int
        Number of edits for which the answer before or after the edit could not be read.
    """

    right_right: int
    right_wrong: int
    wrong_right: int
    wrong_wrong: int
    unread: int

    @property
    def wrong_to_right_share(self) -> float:
        """Return the share of wrong answers that the edit turned into right answers.

        Returns
        -------
        float
            The share (0-1) among the answers that were wrong before the edit; NaN if no answer was
            wrong before.
        """
        wrong = self.wrong_right + self.wrong_wrong
        return self.wrong_right / wrong if wrong else float("nan")


def fits(response: IntArray, key: IntArray) -> BoolArray:
    """Return, for each response, whether its key expects this response.

    Parameters
    ----------
    response : array
        Option index of each response.
    key : array
        Expected option index. A key of -2 - k expects any response except option k.

    Returns
    -------
    bool array
        True for each response that fits its key.
    """
    return np.where(key >= 0, response == key, response != -2 - key)


def scores(response: IntArray, key: IntArray) -> FloatArray:
    """Return the score of each response under its key.

    Parameters
    ----------
    response : array
        Option index of each response, or `UNREAD` if it was not read.
    key : array
        Expected option index, as in `fits`.

    Returns
    -------
    array
        Scores: 1 right, 0 wrong, NaN if the response was not read.
    """
    return np.where(response == UNREAD, np.nan, fits(response, key).astype(float))


def score_changes(before: FloatArray, after: FloatArray) -> FloatArray:
    """Return |score after - score before| of each edit.

    Parameters
    ----------
    before : (n,) array
        Scores of the originals.
    after : (L, n) array
        Scores of the edits.

    Returns
    -------
    (L, n) array
        Absolute changes; NaN if the score before or after is NaN.
    """
    return np.abs(after - before)


def response_changes(before: IntArray, after: IntArray) -> FloatArray:
    """Return whether the response to each edit differs from the response to the original.

    Parameters
    ----------
    before : (n,) array
        Responses to the originals.
    after : (L, n) array
        Responses to the edits.

    Returns
    -------
    (L, n) array
        1 if the two responses differ, 0 if they agree, NaN if one of them was not read.
    """
    unread = (before == UNREAD) | (after == UNREAD)
    return np.where(unread, np.nan, (after != before).astype(float))


def follows(before: IntArray, after: IntArray, key: IntArray, directional: BoolArray) -> FloatArray:
    """Return whether the model's responses follow the contract of each edit.

    Parameters
    ----------
    before : (n,) array
        Responses to the originals.
    after : (L, n) array
        Responses to the edits.
    key : (L, n) array
        Key of each edit.
    directional : (L, n) bool array
        True if the response must change, False if it must stay.

    Returns
    -------
    (L, n) array
        1 if the contract is followed, 0 if not, NaN if either response was not read.

    Notes
    -----
    Ribeiro et al. (2020), CheckList. An invariant contract is followed if the response stays. A
    directional contract is followed if the response changes to the key of the edit. If a response
    stays although it should change, the directional contract is not followed, even if the edit
    makes this response right.

    Examples
    --------
    >>> b, a, k = np.array([0, 0, 1]), np.array([[1, 0, 1]]), np.array([[1, 1, 1]])
    >>> follows(b, a, k, np.ones((1, 3), dtype=bool)).tolist()
    [[1.0, 0.0, 0.0]]
    """
    unread = (before == UNREAD) | (after == UNREAD)
    followed = np.where(directional, (after != before) & fits(after, key), after == before)
    return np.where(unread, np.nan, followed.astype(float))


def transitions(before: FloatArray, after: FloatArray) -> Transitions:
    """Return the number of edits with each transition.

    Parameters
    ----------
    before : (n,) array
        Scores of the originals; NaN if the response was not read.
    after : (L, n) array
        Scores of the edits; NaN if the response was not read. Edits that were not run must be left
        out.

    Returns
    -------
    Transitions
        Number of edits by score before and after.
    """
    b = np.broadcast_to(before, after.shape)
    unread = np.isnan(b) | np.isnan(after)
    kinds = (2 * (1 - b[~unread]) + 1 - after[~unread]).astype(int)
    right_right, right_wrong, wrong_right, wrong_wrong = np.bincount(kinds, minlength=4).tolist()
    return Transitions(right_right, right_wrong, wrong_right, wrong_wrong, int(unread.sum()))


def clustered_mean(values: FloatArray, cluster: IntArray) -> Mean:
    """Return the mean of values with a cluster-robust standard error (`influence`).

    Parameters
    ----------
    values : (n,) array
        Values; NaN is left out.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    Mean
        The mean and its 95 % interval.

    Raises
    ------
    DataError
        If the shapes differ.
    """
    if values.shape != cluster.shape:
        raise DataError(
            f"The shapes of values and clusters are {values.shape} and {cluster.shape}. Expected "
            "the same shape."
        )
    known = ~np.isnan(values)
    x, c = values[known], cluster[known]
    if not x.size:
        return Mean(*(float("nan"),) * 4, n=0, clusters=0)
    mean = mean_of(x, c)
    if mean.units < 2:
        return Mean(mean.value, *(float("nan"),) * 3, n=int(x.size), clusters=mean.units)
    test = t_test(mean.value, mean.se, mean.df)
    return Mean(mean.value, test["low"], test["high"], mean.se, int(x.size), mean.units)


def rate_interval(values: FloatArray, cluster: IntArray) -> Mean:
    """Return a rate with a Wilson interval over the effective number of values.

    Parameters
    ----------
    values : (n,) array
        Values 0 to 1; NaN is left out.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    Mean
        The rate and its 95 % interval. The interval is also valid at rates of 0 and 1.

    Raises
    ------
    DataError
        If the shapes differ.

    Notes
    -----
    The effective number is n divided by the design effect. The design effect is the cluster-robust
    variance divided by the binomial variance, and is at least 1. Few clusters estimate the robust
    variance poorly. The quantile is therefore Student's, with `cluster_df` degrees of freedom (Dean
    & Pavlou 2015, Journal of Survey Statistics and Methodology 3; Korn & Graubard 1998, Survey
    Methodology 24).
    """
    plain = clustered_mean(values, cluster)
    if plain.clusters < 2:
        return plain
    p = plain.estimate
    binomial = p * (1 - p) / plain.n
    effect = (
        max(1.0, plain.se**2 / binomial) if binomial > 0 else max(1.0, plain.n / plain.clusters)
    )
    df = cluster_df(cluster[~np.isnan(values)])
    n, z = plain.n / effect, float(scipy.special.stdtrit(df, 0.975))
    low, high = wilson(p, n, z)
    return Mean(p, min(low, p), max(high, p), plain.se, plain.n, plain.clusters)
