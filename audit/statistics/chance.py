"""Compute the interval of an accuracy, and test whether it exceeds the accuracy of guessing.

The tables and figures of every audit show this interval. The module does no I/O.
"""

import math
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from audit.core.errors import DataError
from audit.statistics.drawing import cluster_df, influence
from audit.statistics.paired import FloatArray, IntArray

CHANCE_STANDARD_ERRORS = 2.0


@dataclass(frozen=True)
class Limits:
    """Hold an estimate (0-1) and its 95 % interval.

    Attributes
    ----------
    estimate, low, high : float
        The estimate and the ends of its interval.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class ChanceResult:
    """Report an accuracy compared with the accuracy of guessing.

    Attributes
    ----------
    accuracy, chance : float
        Observed accuracy and expected accuracy of guessing, 0-1.
    standard_error : float
        Standard error of a guesser's accuracy.
    threshold : float
        Accuracy that a model must exceed to be called above chance.
    z : float
        (accuracy - chance) / standard_error.
    above : bool
        True if the accuracy exceeds the threshold.
    n : int
        Number of items.
    """

    accuracy: float
    chance: float
    standard_error: float
    threshold: float
    z: float
    above: bool
    n: int


def chance_level(n_options: ArrayLike) -> float:
    """Return the expected accuracy of guessing.

    Parameters
    ----------
    n_options : (n,) array
        Number of options of each item; 0 for an item with a free answer.

    Returns
    -------
    float
        Mean over items of 1 / (number of options). An item with a free answer contributes 0.

    Raises
    ------
    DataError
        If there are no items, or if an item has exactly one option.

    Examples
    --------
    >>> chance_level([4, 4, 0])  # doctest: +ELLIPSIS
    0.1666...
    """
    return float(np.mean(_guess(n_options)))


def _guess(n_options: ArrayLike) -> NDArray[np.float64]:
    """Return the (n,) probabilities that a guess at each item is right."""
    k = np.atleast_1d(np.asarray(n_options, dtype=np.int64))
    if k.size == 0 or k.min() < 0 or (k == 1).any():
        raise DataError(
            f"The numbers of options are {np.unique(k).tolist()}. Expected at least one item, each "
            "with 2 or more options, or with 0 for a free answer. Example: [4, 4, 0]."
        )
    # The array is indexed by the number of options, so it is much shorter than an array over the
    # items.
    guess = np.zeros(int(k.max()) + 1)
    guess[1:] = 1 / np.arange(1, guess.size)
    return guess[k]


def chance_check(
    accuracy: float, n_options: ArrayLike, standard_errors: float = CHANCE_STANDARD_ERRORS
) -> ChanceResult:
    """Test whether an accuracy exceeds that of guessing by a given number of standard errors.

    Parameters
    ----------
    accuracy : float
        Accuracy over n answered items, 0-1.
    n_options : (n,) array
        Number of options of each item; 0 for an item with a free answer.
    standard_errors : float
        Number of standard errors by which the accuracy must exceed that of guessing.

    Returns
    -------
    ChanceResult
        The threshold, and the distance of the accuracy from chance.

    Raises
    ------
    DataError
        If there are no items, or if an item has exactly one option.

    Notes
    -----
    The standard error is that of a model that guesses on these items:

          sqrt(sum((1/k) * (1 - 1/k))) / n

    where k is the number of options of an item. This standard error is known exactly, and it is
    positive even if every answer is wrong.

    Examples
    --------
    With four options, 26 right answers to 100 items are 0.23 standard errors above chance:

    >>> round(chance_check(0.26, [4] * 100).z, 2)
    0.23
    """
    p = _guess(n_options)
    chance = float(np.mean(p))
    se = float(np.sqrt(np.sum(p * (1 - p))) / p.size)
    threshold = chance + standard_errors * se
    # Free answers cannot be guessed. If all answers are free, the standard error is 0, and one
    # right answer is above chance.
    z = (
        (accuracy - chance) / se
        if se > 0
        else math.copysign(math.inf, accuracy)
        if accuracy
        else 0.0
    )
    return ChanceResult(accuracy, chance, se, threshold, z, accuracy > threshold, int(p.size))


CONFIDENCE = 0.95


def upper_limit(hits: int, n: int, confidence: float = CONFIDENCE) -> float:
    """Return the exact one-sided upper confidence limit of a share.

    Parameters
    ----------
    hits, n : int
        Number of hits and number of trials.
    confidence : float
        Coverage of the limit.

    Returns
    -------
    float
        The limit, 0-1.

    Notes
    -----
    Clopper & Pearson (1934), Biometrika 26.

    Examples
    --------
    >>> round(upper_limit(0, 150), 4)
    0.0198
    """
    return 1.0 if hits >= n else float(scipy.special.betaincinv(hits + 1, n - hits, confidence))


def interval(values: FloatArray, cluster: IntArray) -> tuple[float, float, float] | None:
    """Return an accuracy with Wilson's 95 % interval.

    Parameters
    ----------
    values : (n,) array
        Scores in [0, 1]; NaN is left out.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    tuple of float or None
        (accuracy, low, high); None if every score is NaN.

    Notes
    -----
    If clusters hold several items, or if scores are shares (several trials of an item), two terms
    of the formula change (Korn and Graubard 1998):

    - n becomes the effective number p * (1 - p) / SE^2, where SE is the cluster-robust standard
      error. For scores 0 and 1 it is at most n.
    - The normal quantile becomes Student's quantile with `cluster_df` degrees of freedom.

    A single cluster of several items counts as one item.
    """
    known = ~np.isnan(values)
    x, groups = values[known], cluster[known]
    n = float(x.size)
    if n == 0:
        return None
    p = float(x.mean())
    g = np.unique(groups).size
    z = float(scipy.stats.norm.ppf(0.5 + CONFIDENCE / 2))
    shares = bool(np.any((x != 0) & (x != 1)))
    if g < n or shares:
        z = float(scipy.special.stdtrit(max(cluster_df(groups), 1.0), 0.5 + CONFIDENCE / 2))
        variance = float(g / max(g - 1, 1) * np.sum(influence(x[None], groups) ** 2))
        most = math.inf if shares else n
        n = min(most, p * (1 - p) / variance) if g > 1 and variance > 0 and 0 < p < 1 else float(g)
    return p, *wilson(p, n, z)


def wilson(p: float, n: float, z: float) -> tuple[float, float]:
    """Return the limits of Wilson's interval of a share.

    Parameters
    ----------
    p : float
        Observed share, 0-1.
    n : float
        Number of values from which the share is computed; it may be an effective number.
    z : float
        Half width of the interval in standard errors.

    Returns
    -------
    tuple of float
        Lower and upper limit, both within 0 to 1.

    Notes
    -----
    Wilson (1927), JASA 22.
    """
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)))
    return max(middle - half, 0.0), min(middle + half, 1.0)
