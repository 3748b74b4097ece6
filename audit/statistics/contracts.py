"""What an edit does to answers: change of score and of response, transitions, and whether its contract is followed.

A score is (response == key), so under a key that moves with the edit a model that ignores its input changes its score
in every item, and under the original key a model that follows changes it. Change of *response* needs no key: it is the
primary measure, the change of score stands beside it.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.chance import wilson
from audit.statistics.drawing import cluster_df
from audit.statistics.estimate import mean_of, t_test
from audit.statistics.paired import BoolArray, FloatArray, IntArray

UNREAD = -1


@dataclass(frozen=True)
class Mean:
    """A mean over items in clusters, 0-1 or a difference of such. low, high: 95 %, t with `cluster_df` degrees.

    n: items with a value; clusters: of these. se, low, high are NaN with fewer than two clusters.
    """

    estimate: float
    low: float
    high: float
    se: float
    n: int
    clusters: int


@dataclass(frozen=True)
class Transitions:
    """Counts of (answer before, answer after) over edits: right or wrong by the key of each side, or unread."""

    right_right: int
    right_wrong: int
    wrong_right: int
    wrong_wrong: int
    unread: int

    @property
    def wrong_to_right_share(self) -> float:
        """Of the answers that were wrong before, how many are right after; NaN where none was wrong."""
        wrong = self.wrong_right + self.wrong_wrong
        return self.wrong_right / wrong if wrong else float("nan")


def fits(response: IntArray, key: IntArray) -> BoolArray:
    """Whether a response is what a key asks for; a key of -2 - k asks for any response but k."""
    return np.where(key >= 0, response == key, response != -2 - key)


def scores(response: IntArray, key: IntArray) -> FloatArray:
    """1 right, 0 wrong, NaN unread; any shape."""
    return np.where(response == UNREAD, np.nan, fits(response, key).astype(float))


def score_changes(before: FloatArray, after: FloatArray) -> FloatArray:
    """|s_edit - s_original|, NaN where either is unread. before (n,), after (L, n)."""
    return np.abs(after - before)


def response_changes(before: IntArray, after: IntArray) -> FloatArray:
    """1 where the canonical response differs from the original's, NaN where either is unread. (n,), (L, n)."""
    unread = (before == UNREAD) | (after == UNREAD)
    return np.where(unread, np.nan, (after != before).astype(float))


def follows(before: IntArray, after: IntArray, key: IntArray, directional: BoolArray) -> FloatArray:
    """1 where an edit's contract is followed (Ribeiro et al. 2020, CheckList), NaN where a side is unread.

    Invariant: the response stays. Directional: it changes, and to the edit's key; an answer that was wrong before and
    did not move is no obedience although the key came to it. before (n,), the others (L, n).

    >>> b, a, k = np.array([0, 0, 1]), np.array([[1, 0, 1]]), np.array([[1, 1, 1]])
    >>> follows(b, a, k, np.ones((1, 3), dtype=bool)).tolist()
    [[1.0, 0.0, 0.0]]
    """
    unread = (before == UNREAD) | (after == UNREAD)
    kept = np.where(directional, (after != before) & fits(after, key), after == before)
    return np.where(unread, np.nan, kept.astype(float))


def transitions(before: FloatArray, after: FloatArray) -> Transitions:
    """Counts over all edits. before (n,) scores, after (L, n) scores; NaN unread. Edits not asked must be left out."""
    b = np.broadcast_to(before, after.shape)
    unread = np.isnan(b) | np.isnan(after)
    kinds = (2 * (1 - b[~unread]) + 1 - after[~unread]).astype(int)
    right_right, right_wrong, wrong_right, wrong_wrong = np.bincount(kinds, minlength=4).tolist()
    return Transitions(right_right, right_wrong, wrong_right, wrong_wrong, int(unread.sum()))


def clustered_mean(values: FloatArray, cluster: IntArray) -> Mean:
    """Mean of (n,) values (NaN left out) with a cluster-robust standard error (`influence`).

    Raises DataError for shapes that differ.
    """
    if values.shape != cluster.shape:
        raise DataError(f"Expected values and clusters of one shape; found {values.shape} and {cluster.shape}.")
    known = ~np.isnan(values)
    x, c = values[known], cluster[known]
    if not x.size:
        return Mean(*(float("nan"),) * 4, n=0, clusters=0)
    found = mean_of(x, c)
    if found.units < 2:
        return Mean(found.value, *(float("nan"),) * 3, n=int(x.size), clusters=found.units)
    told = t_test(found.value, found.se, found.df)
    return Mean(found.value, told["low"], told["high"], found.se, int(x.size), found.units)


def rate_interval(values: FloatArray, cluster: IntArray) -> Mean:
    """As `clustered_mean` for a rate: a Wilson interval over the effective number of values, which holds at 0 and 1.

    The effective number is n over the design effect (1 or more): robust variance over binomial variance. As few
    clusters tell that variance badly, the quantile is Student's, with `cluster_df` degrees (Dean & Pavlou 2015, Journal
    of Survey Statistics and Methodology 3; Korn & Graubard 1998, Survey Methodology 24).
    """
    plain = clustered_mean(values, cluster)
    if plain.clusters < 2:
        return plain
    p = plain.estimate
    binomial = p * (1 - p) / plain.n
    effect = max(1.0, plain.se**2 / binomial) if binomial > 0 else max(1.0, plain.n / plain.clusters)
    df = cluster_df(cluster[~np.isnan(values)])
    n, z = plain.n / effect, float(scipy.special.stdtrit(df, 0.975))
    low, high = wilson(p, n, z)
    return Mean(p, min(low, p), max(high, p), plain.se, plain.n, plain.clusters)
