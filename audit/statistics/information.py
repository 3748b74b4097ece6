"""Is a question answered better where more of it arrives? The mechanism behind a gain under noise. Pure.

song2026, section 3.3: without memory, success rises with the information that arrives (eq. 12), so damaged messages
gain where they complete each other. With memory, cues suffice (eq. 14): a gain may sit where nothing was restored.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.wording_drop import t_test

QUESTIONS_MIN = 20  # below, a t interval over questions promises too much


@dataclass(frozen=True)
class InformationSlope:
    """slope: accuracy (0-1) for each unit of the share of a question's words that arrives (0-1), its 95 % interval and
    two-sided p. n: questions."""

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
    x, y = (z - z.mean(axis=1, keepdims=True) - z.mean(axis=0) + z.mean() for z in (x, y))
    total = float(np.sum(x * x))
    if total <= 1e-9 * x.size:
        raise DataError("The share of words that arrives is the same for every question: it explains no difference.")
    slope = float(np.sum(x * y)) / total
    scores = np.sum(x * (y - slope * x), axis=1)
    se = float(np.sqrt(np.sum(scores**2) * n / (n - 1))) / total
    tested = t_test(slope, se, n - 1)
    p = 2 * min(tested["pvalue"], 1 - tested["pvalue"]) if se > 0 else float(slope == 0)
    return InformationSlope(slope, tested["low"], tested["high"], p, n)
