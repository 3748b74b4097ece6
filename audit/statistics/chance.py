"""Is an accuracy above what guessing gives?"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from audit.errors import DataError

CHANCE_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class ChanceResult:
    """accuracy, chance, standard_error, threshold in 0-1. z: (accuracy - chance) / standard_error. n: items."""

    accuracy: float
    chance: float
    standard_error: float
    threshold: float
    z: float
    above: bool
    n: int


def chance_level(n_options: ArrayLike) -> float:
    """Expected accuracy of guessing: the mean of 1/k over items; 0 for an item without options, whose answer is free.

    >>> chance_level([4, 4, 0])  # doctest: +ELLIPSIS
    0.1666...
    """
    return float(np.mean(_guess(n_options)))


def _guess(n_options: ArrayLike) -> NDArray[np.float64]:
    """(n,) the probability that a guess is right."""
    k = np.atleast_1d(np.asarray(n_options, dtype=np.int64))
    if k.size == 0 or k.min() < 0 or (k == 1).any():
        raise DataError(
            f"Chance needs at least one item, and two options an item (or none: a free answer); found "
            f"{np.unique(k).tolist()}."
        )
    guess = np.zeros(int(k.max()) + 1)  # of each number of options: far fewer than items
    guess[1:] = 1 / np.arange(1, guess.size)
    return guess[k]


def chance_check(
    accuracy: float, n_options: ArrayLike, standard_errors: float = CHANCE_STANDARD_ERRORS
) -> ChanceResult:
    """Does the accuracy over n answered items exceed the mean of 1/k by `standard_errors` standard errors?

    n_options: (n,) options of each (0: a free answer). The standard error is that of a guesser on these very items,
    sqrt(sum (1/k)(1 - 1/k)) / n: it needs no estimate and does not vanish when every answer is wrong.

    26 of 100 right with four options is 0.23 standard errors above chance:

    >>> round(chance_check(0.26, [4] * 100).z, 2)
    0.23
    """
    p = _guess(n_options)
    chance = float(np.mean(p))
    se = float(np.sqrt(np.sum(p * (1 - p))) / p.size)
    threshold = chance + standard_errors * se
    # A free answer is not guessed: no error to divide by, and one right answer is above chance.
    z = (accuracy - chance) / se if se > 0 else math.copysign(math.inf, accuracy) if accuracy else 0.0
    return ChanceResult(accuracy, chance, se, threshold, z, accuracy > threshold, int(p.size))
