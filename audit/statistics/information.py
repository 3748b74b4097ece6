"""Estimate how accuracy depends on how much of a question arrives, or is deleted. Pure.

The slopes show what stands behind a gain under noise. song2026, section 3.3: without memory,
success rises with the information that arrives (eq. 12), so damaged messages gain if they complete
each other. With memory, cues suffice (eq. 14): a gain may occur although nothing was restored.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.drawing import shared_se
from audit.statistics.estimate import mean_of, t_test
from audit.statistics.paired import IntArray
from audit.statistics.resampling import unseen_change, unseen_share

QUESTIONS_MIN = 20  # with fewer questions a t interval covers less than it states


@dataclass(frozen=True)
class InformationSlope:
    """Report a slope of accuracy on a share of words.

    Attributes
    ----------
    slope : float
        Accuracy (0-1) for each unit of the share (0-1) of a question's words that arrives, or is
        deleted.
    low, high : float
        95 % interval.
    pvalue : float
        Two-sided.
    n : int
        Number of questions.
    """

    slope: float
    low: float
    high: float
    pvalue: float
    n: int


def information_slope(arrived: ArrayLike, right: ArrayLike) -> InformationSlope:
    """Estimate the slope within questions and within levels, with errors clustered by question.

    Parameters
    ----------
    arrived : (n, L) array
        Share of each question's words that arrived at each of L levels (such as a number of
        messages).
    right : (n, L) array
        Mean score of each question at each level. A question with a NaN in either array is left
        out.

    Returns
    -------
    InformationSlope
        Accuracy for each unit of the share that arrives.

    Raises
    ------
    DataError
        If there are fewer than two levels or QUESTIONS_MIN questions, or if the shares do not vary.

    Notes
    -----
    The means of rows and columns remove how easy a question is and what a level does by itself (a
    balanced two-way within estimator; Wooldridge 2010, Econometric Analysis of Cross Section and
    Panel Data, section 10.5).

    Examples
    --------
    >>> k = np.tile([[0.2, 0.8], [0.6, 0.4]], (20, 1))
    >>> round(information_slope(k, 0.5 * k + 0.1).slope, 6)
    0.5
    """
    x, y = np.asarray(arrived, dtype=float), np.asarray(right, dtype=float)
    whole = ~np.isnan(x + y).any(axis=1)
    x, y = x[whole], y[whole]
    n = x.shape[0]
    if x.shape[1] < 2 or n < QUESTIONS_MIN:
        raise DataError(
            f"Expected two levels and {QUESTIONS_MIN} questions; found {x.shape[1]} and {n}."
        )
    y = y - y[:, :1]  # gives exact zeros if no level changes anything
    x, y = (z - z.mean(axis=1, keepdims=True) - z.mean(axis=0) + z.mean() for z in (x, y))
    total = float(np.sum(x * x))
    if total <= 1e-9 * x.size:
        raise DataError(
            "The share of words that arrives is the same for every question: it explains no difference."
        )
    slope = float(np.sum(x * y)) / total
    # The line bends to a question with much of all variation: CR2, and the degrees of freedom of
    # Kish's number.
    share = np.sum(x * x, axis=1) / total
    scores = np.sum(x * (y - slope * x), axis=1) / np.sqrt(np.maximum(1 - share, 1 / n))
    se = float(np.sqrt(np.sum(scores**2))) / total
    alike = 1 / float(np.sum(share**2))
    # The interval is no shorter than a change, at average levels, in as many questions as could
    # stay unseen.
    unseen = (
        float(unseen_share(np.array([alike]))[0] * np.sqrt(np.mean(x * x, axis=1)).sum()) / total
    )
    return _tested(slope, se, max(alike - 1, 1.0), n, unseen)


def slope_at_zero(doses: ArrayLike, right: ArrayLike, cluster: IntArray) -> InformationSlope:
    """Estimate the derivative of accuracy at dose 0 (song2026, eq. 5).

    Parameters
    ----------
    doses : (L,) array
        Shares of words deleted, 0 among them.
    right : (n, L) array
        Score of each question at each dose. A question with a NaN is left out.
    cluster : (n,) array
        Cluster of each question, in 0..G-1.

    Returns
    -------
    InformationSlope
        Accuracy for each unit of the share that is deleted.

    Raises
    ------
    DataError
        If there are fewer than two doses or QUESTIONS_MIN clusters.

    Notes
    -----
    Each question is compared with itself, and errors are by cluster. The linear term of the
    quadratic (with two doses the line) that least squares put through a question's scores is one
    weighted sum of them, and the slope is its mean. A fall that flattens faster than a quadratic is
    steeper at 0 than this estimate.

    Examples
    --------
    >>> d = np.array([0, 0.1, 0.2, 0.4, 0.6])
    >>> round(slope_at_zero(d, np.tile(0.9 - 0.5 * d + 0.2 * d * d, (20, 1)), np.arange(20)).slope, 6)
    -0.5
    """
    x, y = np.asarray(doses, dtype=float), np.asarray(right, dtype=float)
    n = int((~np.isnan(y).any(axis=1)).sum())
    if x.size < 2 or n < QUESTIONS_MIN:
        raise DataError(
            f"Expected two doses and {QUESTIONS_MIN} questions; found {x.size} and {n}."
        )
    weights = np.linalg.pinv(np.vander(x, min(3, x.size), increasing=True))[1]
    slopes = (y - y[:, :1]) @ weights  # removes rounding of the weights' sum if nothing changes
    mean = mean_of(slopes, cluster)
    if mean.units < QUESTIONS_MIN:
        raise DataError(f"Expected {QUESTIONS_MIN} groups of questions; found {mean.units}.")
    # The interval is no shorter than a change at every dose in as many questions as could stay
    # unseen.
    unseen = float(weights[weights > 0].sum()) * unseen_change(slopes, cluster)
    known = ~np.isnan(slopes)
    return _tested(
        mean.value, max(mean.se, shared_se(slopes[known], cluster[known])), mean.df, n, unseen
    )


def _tested(slope: float, se: float, df: float, n: int, unseen: float) -> InformationSlope:
    tested = t_test(slope, se, df)
    p = 2 * min(tested["pvalue"], 1 - tested["pvalue"]) if se > 0 else float(slope == 0)
    return InformationSlope(
        slope, min(tested["low"], slope - unseen), max(tested["high"], slope + unseen), p, n
    )
