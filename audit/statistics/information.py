"""Is a question answered better where more of it arrives, worse where more is deleted? What stands behind a gain under
noise. Pure.

song2026, section 3.3: without memory, success rises with the information that arrives (eq. 12), so damaged messages
gain where they complete each other. With memory, cues suffice (eq. 14): a gain may sit where nothing was restored.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.drawing import shared_se
from audit.statistics.estimate import mean_of, t_test
from audit.statistics.paired import IntArray
from audit.statistics.resampling import unseen_change, unseen_share

QUESTIONS_MIN = 20  # below, a t interval over questions promises too much


@dataclass(frozen=True)
class InformationSlope:
    """slope: accuracy (0-1) for each unit of the share (0-1) of a question's words that arrives, or is deleted; its
    95 % interval and two-sided p. n: questions."""

    slope: float
    low: float
    high: float
    pvalue: float
    n: int


def information_slope(arrived: ArrayLike, right: ArrayLike) -> InformationSlope:
    """The slope within questions and within levels, with errors clustered by question.

    arrived, right: (n, L) of each question at each of L levels (such as a number of messages): the share of its words
    that arrived, and its mean score. A question with a NaN is left out. What is easy, and what a level does by itself,
    is taken out by the means of rows and columns (a balanced two-way within estimator; Wooldridge 2010, Econometric
    Analysis of Cross Section and Panel Data, section 10.5). Raises DataError with fewer than two levels or
    QUESTIONS_MIN questions, or where the shares do not vary.

    >>> k = np.tile([[0.2, 0.8], [0.6, 0.4]], (20, 1))
    >>> round(information_slope(k, 0.5 * k + 0.1).slope, 6)
    0.5
    """
    x, y = np.asarray(arrived, dtype=float), np.asarray(right, dtype=float)
    whole = ~np.isnan(x + y).any(axis=1)
    x, y = x[whole], y[whole]
    n = x.shape[0]
    if x.shape[1] < 2 or n < QUESTIONS_MIN:
        raise DataError(f"Expected two levels and {QUESTIONS_MIN} questions; found {x.shape[1]} and {n}.")
    y = y - y[:, :1]  # exact zeros where no level changes anything
    x, y = (z - z.mean(axis=1, keepdims=True) - z.mean(axis=0) + z.mean() for z in (x, y))
    total = float(np.sum(x * x))
    if total <= 1e-9 * x.size:
        raise DataError("The share of words that arrives is the same for every question: it explains no difference.")
    slope = float(np.sum(x * y)) / total
    # The line bends to a question with much of all variation: CR2, and the degrees of freedom of Kish's number.
    share = np.sum(x * x, axis=1) / total
    scores = np.sum(x * (y - slope * x), axis=1) / np.sqrt(np.maximum(1 - share, 1 / n))
    se = float(np.sqrt(np.sum(scores**2))) / total
    alike = 1 / float(np.sum(share**2))
    # No shorter than where as many questions changed, at an average level of each, as none of these would show.
    unseen = float(unseen_share(np.array([alike]))[0] * np.sqrt(np.mean(x * x, axis=1)).sum()) / total
    return _tested(slope, se, max(alike - 1, 1.0), n, unseen)


def slope_at_zero(doses: ArrayLike, right: ArrayLike, cluster: IntArray) -> InformationSlope:
    """The derivative of accuracy at dose 0 (song2026, eq. 5): each question against itself, errors by cluster.

    doses: (L,) shares of words deleted, 0 among them; right: (n, L) scores; cluster: (n,) in 0..G-1. A question with a
    NaN is left out. The linear term of the quadratic (with two doses the line) that least squares put through a
    question's scores is one weighted sum of them, and the slope is its mean. A fall that flattens faster than a
    quadratic is steeper at 0 than this says. Raises DataError with fewer than two doses or QUESTIONS_MIN clusters.

    >>> d = np.array([0, 0.1, 0.2, 0.4, 0.6])
    >>> round(slope_at_zero(d, np.tile(0.9 - 0.5 * d + 0.2 * d * d, (20, 1)), np.arange(20)).slope, 6)
    -0.5
    """
    x, y = np.asarray(doses, dtype=float), np.asarray(right, dtype=float)
    n = int((~np.isnan(y).any(axis=1)).sum())
    if x.size < 2 or n < QUESTIONS_MIN:
        raise DataError(f"Expected two doses and {QUESTIONS_MIN} questions; found {x.size} and {n}.")
    weights = np.linalg.pinv(np.vander(x, min(3, x.size), increasing=True))[1]
    own = (y - y[:, :1]) @ weights  # the weights sum to 0 but for rounding, which no change must not meet
    found = mean_of(own, cluster)
    if found.units < QUESTIONS_MIN:
        raise DataError(f"Expected {QUESTIONS_MIN} groups of questions; found {found.units}.")
    # No shorter than where as many questions changed at every dose as none of these would show.
    unseen = float(weights[weights > 0].sum()) * unseen_change(own, cluster)
    there = ~np.isnan(own)
    return _tested(found.value, max(found.se, shared_se(own[there], cluster[there])), found.df, n, unseen)


def _tested(slope: float, se: float, df: float, n: int, unseen: float) -> InformationSlope:
    tested = t_test(slope, se, df)
    p = 2 * min(tested["pvalue"], 1 - tested["pvalue"]) if se > 0 else float(slope == 0)
    return InformationSlope(slope, min(tested["low"], slope - unseen), max(tested["high"], slope + unseen), p, n)
