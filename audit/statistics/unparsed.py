"""Find how much unparsed answers may differ from their predictions before a decision changes.

An answer may be unparsed for reasons that depend on whether it was right. From other answers to the
same item, one can predict the odds that an unparsed answer was right. A comparison has two sides
(wordings, arms or sets of items). The analysis supposes that the true odds are the predicted odds

- multiplied by sqrt(gamma) on one side, and
- divided by sqrt(gamma) on the other side.

gamma is Rosenbaum's sensitivity parameter, used for missing outcomes as in Manski bounds (Kline &
Santos 2013, Quant Econ 4). With gamma = 1, answers are missing at random. With an infinite gamma
(the worst case), all unparsed answers are right on one side and wrong on the other side.

Some causes make the answers of every model unparsed. These causes cancel out in a comparison with
references, so unparsed answers of references are replaced by their predictions (`of_references`). A
decision must hold at gamma = DECIDE_AT. The report states the largest gamma at which the decision
holds. The module does no I/O.
"""

from collections.abc import Callable
from itertools import takewhile

import numpy as np

from audit.statistics.paired import BoolArray, FloatArray
from audit.statistics.priors import DECIDE_AT as DECIDE_AT

GAMMAS = (1.0, 1.5, 2.0, 3.0, 5.0, 8.0, 13.0, 20.0, 50.0, float("inf"))
# Weight of the mean over all items in the prediction of an item, as a number of answers.
_PRIOR_ANSWERS = 2.0


def predict_right(answers: FloatArray) -> FloatArray:
    """Return the probability that each item is answered right, predicted from other answers to the
    item.

    Parameters
    ----------
    answers : (K, n) array
        Outcomes (0-1) of the same items under other replicates, arms, wordings or models; NaN if
        missing.

    Returns
    -------
    (n,) array
        Probability for each item, strictly between 0 and 1.

    Notes
    -----
    The mean of each item is shrunk towards the mean over all items, which has the weight of two
    answers. The prediction for an item without answers is the mean over all items.
    """
    values = np.atleast_2d(np.asarray(answers, dtype=float))
    known = ~np.isnan(values)
    right = np.where(known, values, 0.0).sum(axis=0)
    count = known.sum(axis=0)
    # Half a right and half a wrong answer are added to the mean, because a mean of exactly 0 or 1
    # has no finite log-odds.
    mean = (right.sum() + 0.5) / (count.sum() + 1.0)
    return (right + _PRIOR_ANSWERS * mean) / (count + _PRIOR_ANSWERS)


def imputed(
    values: FloatArray, unparsed: BoolArray, predicted: FloatArray, gamma: float, favour: bool
) -> FloatArray:
    """Return the values with each unparsed answer replaced by the probability that it was right.

    Parameters
    ----------
    values : (n,) or (K, n) array
        Values of one side of a comparison.
    unparsed : bool array
        True for unparsed answers, in the shape of `values`. A NaN that is not unparsed was never
        asked and stays NaN.
    predicted : (n,) array
        Predicted probability of a right answer to each item.
    gamma : float
        Sensitivity parameter between the two sides, at least 1.
    favour : bool
        True multiplies the predicted odds by the square root of gamma. False divides them by it.

    Returns
    -------
    array
        The values, with each unparsed answer replaced by the probability that it was right.

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
        raise ValueError(f"gamma is {gamma}. Expected a value of at least 1.")
    if np.isinf(gamma):
        chance = np.full_like(predicted, float(favour))
    else:
        side = gamma**0.5
        odds = predicted / (1 - predicted) * (side if favour else 1 / side)
        chance = odds / (1 + odds)
    return np.where(unparsed, chance, values)


def of_references(gamma: float) -> float:
    """Return the gamma at which the unparsed answers of references are imputed.

    Parameters
    ----------
    gamma : float
        Gamma of the tested model.

    Returns
    -------
    float
        1, so that each unparsed answer is replaced by its prediction. If the tested model's gamma
        is infinite (worst case), the result is infinite too.
    """
    return gamma if np.isinf(gamma) else 1.0


def tipping_point(holds: Callable[[float], bool]) -> float:
    """Return the largest gamma of GAMMAS up to which a decision holds.

    Parameters
    ----------
    holds : callable
        Function that returns True if the decision holds at a given gamma. It is called in rising
        order, until the first gamma at which the decision does not hold.

    Returns
    -------
    float
        The tipping point. It is 0 if the decision does not hold at gamma 1, and infinite if the
        decision holds in the worst case.
    """
    return max(takewhile(holds, GAMMAS), default=0.0)
