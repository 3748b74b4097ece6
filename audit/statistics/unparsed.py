"""Unparsed answers: how differently from what is predicted may they have been before a decision turns? Pure.

An unparsed answer is missing, and it may be missing because of what it would have been. A comparison has two sides
(wordings, arms, sets of items). Let the odds of being right that unparsed answers of one side have, beside those
predicted from other answers to the same item, be gamma times those of the other side (Rosenbaum's sensitivity
parameter, used for missing outcomes as in Manski bounds: Kline & Santos 2013, Quant Econ 4). Each side takes the root
of it. gamma 1: missing at random. gamma infinite: all right or all wrong, the worst case. What makes answers of every
model unparsed cancels, so those of references count as predicted (`of_references`). Decisions hold at DECIDE_AT and
print how far they hold.
"""

from collections.abc import Callable
from itertools import takewhile

import numpy as np

from audit.statistics.paired import BoolArray, FloatArray
from audit.statistics.priors import DECIDE_AT as DECIDE_AT

GAMMAS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 50.0, float("inf"))
_PRIOR_ANSWERS = 2.0  # weight of the mean over items in an item's prediction, in answers


def predict_right(answers: FloatArray) -> FloatArray:
    """P(right) of each item from its other answers, (n,) in (0, 1).

    answers: (K, n) outcomes 0-1 of the same items (other replicates, arms, wordings or models), NaN where there is
    none. An item's mean is shrunk towards the mean of all, as if that had been seen in two more answers; an item
    without an answer has the mean of all.
    """
    values = np.atleast_2d(np.asarray(answers, dtype=float))
    there = ~np.isnan(values)
    right = np.where(there, values, 0.0).sum(axis=0)
    count = there.sum(axis=0)
    # Half a right and half a wrong answer more: a mean of exactly 0 or 1 has no odds.
    mean = (right.sum() + 0.5) / (count.sum() + 1.0)
    return (right + _PRIOR_ANSWERS * mean) / (count + _PRIOR_ANSWERS)


def imputed(values: FloatArray, unparsed: BoolArray, predicted: FloatArray, gamma: float, favour: bool) -> FloatArray:
    """`values` with each unparsed answer replaced by the chance that it was right.

    values, unparsed, predicted: (n,), or (K, n) with predicted (n,), of one side of a comparison. gamma: between the
    sides. favour: the odds are predicted * root of gamma, else predicted / root of gamma. What is NaN and not unparsed
    (never asked) stays NaN.

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
    """Return the gamma at which references are held: as predicted, but the worst case with the tested model."""
    return gamma if np.isinf(gamma) else 1.0


def tipping_point(holds: Callable[[float], bool]) -> float:
    """The largest gamma of GAMMAS up to which a decision holds at every one; 0 where it does not hold at 1, infinite
    where the worst case leaves it. `holds` is asked in order, and no further than the first that fails."""
    return max(takewhile(holds, GAMMAS), default=0.0)
