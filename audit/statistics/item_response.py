"""Simulate the answers of models of known truth: the response model of every audit's calibration.

Two models say how likely an item is answered correctly. In the Beta model item i is answered right
with probability theta_i in every clean presentation, theta ~ Beta with mean m = clean accuracy. Two
independent presentations then disagree with probability d = 2 E[theta (1 - theta)] = 2 m (1 - m) s
/ (s + 1), where s is the Beta's a + b; so m and the discordance d fix the Beta. A gain g > 0 moves
theta_i to theta_i + (1 - theta_i) g / (1 - m), g < 0 to theta_i (1 + g / m): the mean moves by g
exactly. In the logistic model (`Logistic`) the log-odds of an item are normal, and an effect takes
the same log-odds from every item and model.

`tastes` draws how alike models find items, `ranks` in which order a model learns items, `unparsed`
which answers are lost.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray

_GRID = np.linspace(0, 1, 4001)
_NORMAL = scipy.special.ndtri((np.arange(401) + 0.5) / 401)
_ABILITIES = np.linspace(-15, 15, 1201)


def beta_shape(accuracy: float, discordance: float) -> tuple[float, float]:
    """Return the Beta distribution of item difficulties with a given mean and discordance.

    Parameters
    ----------
    accuracy : float
        Mean, between 0 and 1.
    discordance : float
        Chance that two clean presentations disagree.

    Returns
    -------
    tuple of float
        Parameters (a, b) of the Beta distribution.

    Raises
    ------
    DataError
        Unless 0 < accuracy < 1 and 0 < discordance < 2 accuracy (1 - accuracy).

    Examples
    --------
    >>> beta_shape(0.5, 0.25)
    (0.5, 0.5)
    """
    ceiling = 2 * accuracy * (1 - accuracy)
    if not (0 < accuracy < 1 and 0 < discordance < ceiling):
        raise DataError(
            f"No model has clean accuracy {accuracy} and discordance {discordance}: expected 0 < accuracy < 1 and "
            f"0 < discordance < 2 accuracy (1 - accuracy) = {ceiling:.3f}, such as 0.7 and 0.2."
        )
    share = discordance / ceiling
    total = share / (1 - share)
    return accuracy * total, (1 - accuracy) * total


def draw_difficulties(
    n: int, accuracy: float, discordance: float, rng: np.random.Generator
) -> FloatArray:
    """Draw Beta distributed chances of a right answer (see the module's docstring).

    Parameters
    ----------
    n : int
        Number of items.
    accuracy, discordance : float
        As in `beta_shape`.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    (n,) array
        Chances.

    Raises
    ------
    DataError
        As in `beta_shape`.
    """
    a, b = beta_shape(accuracy, discordance)
    return rng.beta(a, b, size=n)


def shift(theta: FloatArray, gain: float, accuracy: float) -> FloatArray:
    """Return chances of a right answer after an effect that moves their mean.

    Parameters
    ----------
    theta : array
        Chances before the effect.
    gain : float
        Amount by which the mean moves.
    accuracy : float
        Mean before the effect.

    Returns
    -------
    array
        Chances of the same shape.

    Raises
    ------
    DataError
        If the gain moves the accuracy outside 0 to 1.
    """
    if not -accuracy <= gain <= 1 - accuracy:
        raise DataError(f"gain {gain} takes an accuracy of {accuracy} outside 0 to 1.")
    if gain >= 0:
        return theta + (1 - theta) * (gain / (1 - accuracy)) if gain else theta
    return theta * (1 + gain / accuracy)


def beta_chances(taste: FloatArray, accuracy: float, discordance: float) -> FloatArray:
    """Return the Beta distributed chances of items that a model finds as easy as `taste` says.

    Parameters
    ----------
    taste : array
        Standard normal values, larger if an item is easier.
    accuracy, discordance : float
        As in `beta_shape`.

    Returns
    -------
    array
        Chances of the same shape.
    """
    quantiles = _beta_quantiles(*beta_shape(accuracy, discordance))
    return np.asarray(np.interp(scipy.special.ndtr(taste), _GRID, quantiles))


@lru_cache(maxsize=64)
def _beta_quantiles(a: float, b: float) -> FloatArray:
    """Return quantiles at _GRID: exact ones take longer than all the rest of a simulation."""
    return np.asarray(scipy.stats.beta.ppf(_GRID, a, b))


@dataclass(frozen=True)
class Logistic:
    """Hold a set of items whose log-odds are normal.

    Attributes
    ----------
    spread : float
        Standard deviation of the log-odds of one model over the items.
    guess : float
        Chance of a right answer that is not known.

    Examples
    --------
    >>> items = Logistic(1.8, guess=0.25)
    >>> round(float(items.accuracy(items.ability(0.7))), 3)
    0.7
    """

    spread: float
    guess: float = 0.0

    def accuracy(self, ability: FloatArray | float) -> FloatArray:
        """Return the accuracy (0-1) of models of an ability, the mean of their log-odds."""
        known = np.interp(ability, _ABILITIES, _accuracies(self.spread))
        return np.asarray(self.guess + (1 - self.guess) * known)

    def ability(self, accuracy: FloatArray | float) -> FloatArray:
        """Return the ability of models of an accuracy above the guess."""
        known = (accuracy - self.guess) / (1 - self.guess)
        return np.asarray(np.interp(known, _accuracies(self.spread), _ABILITIES))

    def chances(self, ability: FloatArray | float, taste: FloatArray) -> FloatArray:
        """Return the chances of right answers. `taste` is standard normal, and larger values are
        easier.
        """
        known = scipy.special.expit(ability + self.spread * taste)
        return np.asarray(self.guess + (1 - self.guess) * known)


@lru_cache(maxsize=64)
def _accuracies(spread: float) -> FloatArray:
    """Return the accuracy without a guess at each of _ABILITIES."""
    return np.asarray(scipy.special.expit(_ABILITIES[:, None] + spread * _NORMAL).mean(axis=1))


@lru_cache(maxsize=16)
def logistic_items(accuracy: float, discordance: float) -> Logistic:
    """Return the items on which two answers of a model of this accuracy disagree so often.

    Parameters
    ----------
    accuracy, discordance : float
        As in `beta_shape`.

    Returns
    -------
    Logistic
        The items, without guessing.
    """

    def excess(spread: float) -> float:
        items = Logistic(spread)
        theta = items.chances(items.ability(accuracy), _NORMAL)
        return float(2 * np.mean(theta * (1 - theta))) - discordance

    return Logistic(float(scipy.optimize.brentq(excess, 0.1, 10, xtol=1e-4)))


def tastes(shape: tuple[int, ...], correlation: float, rng: np.random.Generator) -> FloatArray:
    """Draw how easy models (first axis) find items, standard normal.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result.
    correlation : float
        Correlation (0-1) between models.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    array
        Values, larger if an item is easier.
    """
    shared = rng.standard_normal(shape[1:])
    independent = rng.standard_normal(shape)
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * independent


def ranks(n: int, rng: np.random.Generator, group: int = 1) -> FloatArray:
    """Draw in which order a model learns items: it remembers those of a rank below its share.

    Parameters
    ----------
    n : int
        Number of items.
    rng : numpy.random.Generator
        Source of the draws.
    group : int
        Number of neighbours that are remembered together.

    Returns
    -------
    (n,) array
        Ranks, uniform between 0 and 1.

    Examples
    --------
    >>> bool((ranks(4, np.random.default_rng(0)) < 1.0).all())
    True
    """
    return np.repeat(rng.random(-(-n // group)), group)[:n]


def unparsed(
    answers: FloatArray, share: float, rng: np.random.Generator, of: int | None = None
) -> FloatArray:
    """Return answers of which some are lost.

    Parameters
    ----------
    answers : array
        1 right, 0 wrong, NaN lost.
    share : float
        Share (0-1) of all answers that is lost.
    rng : numpy.random.Generator
        Source of the draws.
    of : {None, 0, 1}
        Which answers can be lost: None for all, else wrong or right ones alone.

    Returns
    -------
    array
        The answers, NaN if lost.
    """
    if not share:
        return answers
    open_to = np.ones(answers.shape, dtype=bool) if of is None else answers == of
    each = share / max(float(open_to.mean()), share)
    return np.where(open_to & (rng.random(answers.shape) < each), np.nan, answers)
