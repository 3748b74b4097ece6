"""Bound how differently from what is predicted unparsed answers may have been before a decision
turns. Pure.

An unparsed answer is missing, and it may be missing because of what it would have been. A
comparison has two sides (wordings, arms, sets of items). Compare the odds of being right that
unparsed answers of one side have, relative to those predicted from other answers to the same item,
with those of the other side. Their ratio is gamma (Rosenbaum's sensitivity parameter, used for
missing outcomes as in Manski bounds: Kline & Santos 2013, Quant Econ 4). Each side takes the root
of it. gamma 1: missing at random. gamma infinite: all right or all wrong, the worst case. What
makes answers of every model unparsed cancels, so those of references count as predicted
(`of_references`). Decisions hold at DECIDE_AT and print how far they hold.
"""

from collections.abc import Callable
from itertools import takewhile

import numpy as np

from audit.statistics.paired import BoolArray, FloatArray
from audit.statistics.priors import DECIDE_AT as DECIDE_AT

GAMMAS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 50.0, float("inf"))
_PRIOR_ANSWERS = 2.0  # weight of the mean over items in an item's prediction, in answers


def predict_right(answers: FloatArray) -> FloatArray:
    """Return the probability that each item is answered right, predicted from its other answers.

    Parameters
    ----------
    answers : (K, n) array
        Outcomes 0-1 of the same items (other replicates, arms, wordings or models), NaN if missing.

    Returns
    -------
    (n,) array
        Probabilities between 0 and 1.

    Notes
    -----
    An item's mean is shrunk towards the mean of all, as if that had been seen in two more answers.
    An item without an answer has the mean of all.
    """
    values = np.atleast_2d(np.asarray(answers, dtype=float))
    known = ~np.isnan(values)
    right = np.where(known, values, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    # Half a right and half a wrong answer are added, as a mean of exactly 0 or 1 has no odds.
    mean = (right.sum() + 0.5) / (count.sum() + 1.0)
    return (right + _PRIOR_ANSWERS * mean) / (count + _PRIOR_ANSWERS)


def imputed(
    values: FloatArray, unparsed: BoolArray, predicted: FloatArray, gamma: float, favour: bool
) -> FloatArray:
    """Return the values with each unparsed answer replaced by the chance that it was right.

    Parameters
    ----------
    values : (n,) or (K, n) array
        Values of one side of a comparison.
    unparsed : bool array
        True for unparsed answers, of the same shape. What is NaN and not unparsed (never asked)
        stays NaN.
    predicted : (n,) array
        Predicted probability of a right answer.
    gamma : float
        Sensitivity parameter between the sides, at least 1.
    favour : bool
        True takes the odds predicted * root of gamma, False predicted / root of gamma.

    Returns
    -------
    array
        Imputed values.

    Raises
    ------
    ValueError
        If gamma is below 1.

    Examples
    --------
    >>> imputed(np.array([1.0, np.nan]), np.array([False, True]), np.array([0.5, 0.5]), 9.0, True).tolist()
    [1.0, 0.75]
    """
    if gamma < 1:
        raise ValueError(f"gamma is {gamma}; expected at least 1")
    if np.isinf(gamma):
        chance = np.full_like(predicted, float(favour))
    else:
        side = gamma**0.5
        odds = predicted / (1 - predicted) * (side if favour else 1 / side)
        chance = odds / (1 + odds)
    return np.where(unparsed, chance, values)


def of_references(gamma: float) -> float:
    """Return the gamma at which references are held.

    Parameters
    ----------
    gamma : float
        Gamma of the tested model.

    Returns
    -------
    float
        1, as predicted, but infinite in the worst case of the tested model.
    """
    return gamma if np.isinf(gamma) else 1.0


def tipping_point(holds: Callable[[float], bool]) -> float:
    """Return the largest gamma of GAMMAS up to which a decision holds at every one.

    Parameters
    ----------
    holds : callable
        Whether the decision holds at a gamma. It is called in order, and no further than the first
        that fails.

    Returns
    -------
    float
        0 if the decision does not hold at 1, infinite if it holds in the worst case.
    """
    return max(takewhile(holds, GAMMAS), default=0.0)
