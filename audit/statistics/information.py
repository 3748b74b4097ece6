"""Estimate how accuracy depends on how much of a question arrives at the answering model.

The share of the question's words that arrives, or that is deleted, lies between 0 and 1.

The slopes help to explain why accuracy rises when the messages are damaged (a gain under noise;
song2026, section 3.3). There are two explanations:

- Without memory, accuracy rises with the information that arrives (eq. 12). A gain then means that
  several damaged messages together restore the question.
- With memory, a few cues are enough (eq. 14). A gain may then occur although no information was
  restored.

The module does no I/O.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.drawing import shared_se
from audit.statistics.estimate import mean_of, t_test
from audit.statistics.paired import IntArray
from audit.statistics.resampling import unseen_change, unseen_share

# With fewer questions, a t interval covers the true value less often than its level states.
QUESTIONS_MIN = 20


@dataclass(frozen=True)
class InformationSlope:
    """Report the slope of accuracy on a share of words.

    Attributes
    ----------
    slope : float
        Change of accuracy (0-1) if the share of words that arrives (or that is deleted) increases
        from 0 to 1.
    low, high : float
        95 % interval of the slope.
    pvalue : float
        Two-sided p-value; the null hypothesis is that the slope is 0.
    n : int
        Number of questions.
    """

    slope: float
    low: float
    high: float
    pvalue: float
    n: int


def information_slope(arrived: ArrayLike, right: ArrayLike) -> InformationSlope:
    """Estimate the regression slope of accuracy on the share of words that arrives.

    The slope is estimated within questions and levels. Errors are clustered by question.

    Parameters
    ----------
    arrived : (n, L) array
        Share of each question's words that arrived at each of L levels (such as numbers of
        messages).
    right : (n, L) array
        Mean score of each question at each level. A question with a NaN in either array is left
        out.

    Returns
    -------
    InformationSlope
        Change of accuracy per unit of the share that arrives.

    Raises
    ------
    DataError
        If there are fewer than two levels or QUESTIONS_MIN questions, or if the shares do not vary.

    Notes
    -----
    Subtracting the means of rows and columns removes the difficulty of each question and the effect
    of each level. This is a balanced two-way within estimator (Wooldridge 2010, Econometric
    Analysis of Cross Section and Panel Data, section 10.5).

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
            f"The data have {x.shape[1]} levels and {n} complete questions. Expected at least 2 "
            f"levels and {QUESTIONS_MIN} questions."
        )
    y = y - y[:, :1]  # gives exact zeros if scores do not differ between levels
    x, y = (z - z.mean(axis=1, keepdims=True) - z.mean(axis=0) + z.mean() for z in (x, y))
    total = float(np.sum(x * x))
    if total <= 1e-9 * x.size:
        raise DataError(
            "The share of words that arrives is the same for every question. Expected shares that "
            "differ between questions."
        )
    slope = float(np.sum(x * y)) / total
    # A question with a large part of the variation pulls the regression line towards itself. The
    # CR2 variance corrects for this, as do degrees of freedom from Kish's effective number of
    # questions.
    share = np.sum(x * x, axis=1) / total
    scores = np.sum(x * (y - slope * x), axis=1) / np.sqrt(np.maximum(1 - share, 1 / n))
    se = float(np.sqrt(np.sum(scores**2))) / total
    alike = 1 / float(np.sum(share**2))
    # By chance, the sample may contain none of a few questions whose scores change. The interval is
    # at least as long as the effect of such questions.
    unseen = (
        float(unseen_share(np.array([alike]))[0] * np.sqrt(np.mean(x * x, axis=1)).sum()) / total
    )
    return _tested(slope, se, max(alike - 1, 1.0), n, unseen)


def slope_at_zero(doses: ArrayLike, right: ArrayLike, cluster: IntArray) -> InformationSlope:
    """Estimate the derivative of accuracy with respect to the dose, at dose 0 (song2026, eq. 5).

    Parameters
    ----------
    doses : (L,) array
        Shares of words that were deleted; one of them is 0.
    right : (n, L) array
        Score of each question at each dose. A question with a NaN is left out.
    cluster : (n,) array
        Cluster of each question, in 0..G-1.

    Returns
    -------
    InformationSlope
        Change of accuracy per unit of the share that is deleted.

    Raises
    ------
    DataError
        If there are fewer than two doses or QUESTIONS_MIN clusters.

    Notes
    -----
    Each question is compared with itself, and errors are clustered. For each question, a quadratic
    in the dose (with two doses a line) is fitted by least squares. The linear coefficient is a
    weighted sum of the question's scores, with the same weights for every question. The slope is
    the mean of this coefficient over the questions. If accuracy falls and then flattens faster than
    a quadratic, the true slope at 0 is steeper than this estimate.

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
            f"The data have {x.size} doses and {n} complete questions. Expected at least 2 doses "
            f"and {QUESTIONS_MIN} questions."
        )
    weights = np.linalg.pinv(np.vander(x, min(3, x.size), increasing=True))[1]
    # Subtracting the first column removes the rounding error of the weights' sum if nothing
    # changes.
    slopes = (y - y[:, :1]) @ weights
    mean = mean_of(slopes, cluster)
    if mean.units < QUESTIONS_MIN:
        raise DataError(
            f"The number of clusters of questions is {mean.units}. Expected at least "
            f"{QUESTIONS_MIN} clusters."
        )
    # By chance, the sample may contain none of a few questions whose scores change at every dose.
    # The interval is at least as long as the effect of such questions.
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
