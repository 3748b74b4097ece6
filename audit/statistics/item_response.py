"""Simulate the answers of models whose true effects are known, to calibrate every audit.

Two statistical models give the probability that an item is answered right.

In the Beta model, item i is answered right with probability theta_i in every clean presentation.
These probabilities have a Beta(a, b) distribution, whose mean m is the clean accuracy. The
discordance d is the probability that the answers to two independent presentations disagree:

    d = 2 E[theta (1 - theta)] = 2 m (1 - m) s / (s + 1),  where s = a + b

So the accuracy m and the discordance d determine the Beta distribution. An effect changes theta_i
so that the mean changes by exactly g:

    gain, g > 0:  theta_i + (1 - theta_i) g / (1 - m)
    loss, g < 0:  theta_i (1 + g / m)

In the logistic model (`Logistic`), the log-odds of items are normally distributed. An effect
changes the log-odds of every item and model by the same amount.

`tastes` draws how easy each model finds each item, correlated between models. `ranks` draws the
order in which a model learns items. `unparsed` draws which answers are lost.
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
    """Return the Beta parameters of a given accuracy and discordance.

    Parameters
    ----------
    accuracy : float
        Mean of the Beta distribution of the probabilities of a right answer, between 0 and 1.
    discordance : float
        Probability that the answers to two clean presentations disagree.

    Returns
    -------
    tuple of float
        Parameters (a, b) of the Beta distribution.

    Raises
    ------
    DataError
        If not 0 < accuracy < 1, or if not 0 < discordance < 2 accuracy (1 - accuracy).

    Examples
    --------
    >>> beta_shape(0.5, 0.25)
    (0.5, 0.5)
    """
    ceiling = 2 * accuracy * (1 - accuracy)
    if not (0 < accuracy < 1 and 0 < discordance < ceiling):
        raise DataError(
            f"The clean accuracy is {accuracy} and the discordance {discordance}. Expected 0 < "
            f"accuracy < 1 and 0 < discordance < 2 accuracy (1 - accuracy) = {ceiling:.3f}. "
            "Example: 0.7 and 0.2."
        )
    share = discordance / ceiling
    total = share / (1 - share)
    return accuracy * total, (1 - accuracy) * total


def draw_difficulties(
    n: int, accuracy: float, discordance: float, rng: np.random.Generator
) -> FloatArray:
    """Draw Beta-distributed probabilities of a right answer, one for each item.

    Parameters
    ----------
    n : int
        Number of items.
    accuracy, discordance : float
        Mean and discordance, as in `beta_shape`.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    (n,) array
        Probability of a right answer to each item.

    Raises
    ------
    DataError
        If no Beta distribution has this accuracy and discordance (`beta_shape`).
    """
    a, b = beta_shape(accuracy, discordance)
    return rng.beta(a, b, size=n)


def shift(theta: FloatArray, gain: float, accuracy: float) -> FloatArray:
    """Return the probabilities of a right answer after an effect has changed their mean.

    Parameters
    ----------
    theta : array
        Probabilities before the effect.
    gain : float
        Amount by which the mean changes.
    accuracy : float
        Mean before the effect.

    Returns
    -------
    array
        Probabilities after the effect, in the shape of `theta`.

    Raises
    ------
    DataError
        If the gain moves the accuracy outside 0 to 1.
    """
    if not -accuracy <= gain <= 1 - accuracy:
        raise DataError(
            f"The accuracy {accuracy} changed by the gain {gain} lies outside 0 to 1. Expected a "
            "smaller gain."
        )
    if gain >= 0:
        return theta + (1 - theta) * (gain / (1 - accuracy)) if gain else theta
    return theta * (1 + gain / accuracy)


def beta_chances(taste: FloatArray, accuracy: float, discordance: float) -> FloatArray:
    """Return the Beta-distributed probabilities of a right answer to items of given easiness.

    Parameters
    ----------
    taste : array
        Standard normal values, larger if the model finds an item easier.
    accuracy, discordance : float
        Mean and discordance, as in `beta_shape`.

    Returns
    -------
    array
        Probabilities, in the shape of `taste`.
    """
    quantiles = _beta_quantiles(*beta_shape(accuracy, discordance))
    return np.asarray(np.interp(scipy.special.ndtr(taste), _GRID, quantiles))


@lru_cache(maxsize=64)
def _beta_quantiles(a: float, b: float) -> FloatArray:
    """Return the Beta quantiles at _GRID. Exact quantiles would take most of the time of a
    simulation."""
    return np.asarray(scipy.stats.beta.ppf(_GRID, a, b))


@dataclass(frozen=True)
class Logistic:
    """Hold a set of items whose log-odds of a right answer are normally distributed.

    Attributes
    ----------
    spread : float
        Standard deviation, over the items, of the log-odds of one model.
    guess : float
        Probability of a right answer to an item that the model does not know.

    Examples
    --------
    >>> items = Logistic(1.8, guess=0.25)
    >>> round(float(items.accuracy(items.ability(0.7))), 3)
    0.7
    """

    spread: float
    guess: float = 0.0

    def accuracy(self, ability: FloatArray | float) -> FloatArray:
        """Return the accuracy (0-1) of models with given abilities.

        The ability of a model is its mean log-odds of a right answer over the items.

        Parameters
        ----------
        ability : array or float
            Ability of each model, in logits. Values below -15 count as -15, values above 15 as 15.

        Returns
        -------
        array
            Expected accuracy on the items, from `guess` to 1, in the shape of `ability`.
        """
        known = np.interp(ability, _ABILITIES, _accuracies(self.spread))
        return np.asarray(self.guess + (1 - self.guess) * known)

    def ability(self, accuracy: FloatArray | float) -> FloatArray:
        """Return the abilities of models with given accuracies.

        Each accuracy must exceed the probability of guessing right.

        Parameters
        ----------
        accuracy : array or float
            Accuracy of each model, 0-1.

        Returns
        -------
        array
            Abilities in logits, from -15 to 15, in the shape of `accuracy`.
        """
        known = (accuracy - self.guess) / (1 - self.guess)
        return np.asarray(np.interp(known, _accuracies(self.spread), _ABILITIES))

    def chances(self, ability: FloatArray | float, taste: FloatArray) -> FloatArray:
        """Return the probabilities of right answers for given abilities.

        `taste` has standard normal values; a larger value means an easier item.

        Parameters
        ----------
        ability : array or float
            Ability of each model, in logits.
        taste : array
            Easiness of each item, in a shape that broadcasts with `ability`.

        Returns
        -------
        array
            Probabilities from `guess` to 1, in the common shape of `ability` and `taste`.
        """
        known = scipy.special.expit(ability + self.spread * taste)
        return np.asarray(self.guess + (1 - self.guess) * known)


@lru_cache(maxsize=64)
def _accuracies(spread: float) -> FloatArray:
    """Return the accuracy of a model that never guesses, at each ability in _ABILITIES."""
    return np.asarray(scipy.special.expit(_ABILITIES[:, None] + spread * _NORMAL).mean(axis=1))


@lru_cache(maxsize=16)
def logistic_items(accuracy: float, discordance: float) -> Logistic:
    """Return items of the logistic model on which a model has a given accuracy and discordance.

    Parameters
    ----------
    accuracy, discordance : float
        Mean and discordance, as in `beta_shape`.

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
    """Draw how easy each item is for each model, as standard normal values.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result; its first axis is the models.
    correlation : float
        Correlation (0-1) between models.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    array
        Values, larger if a model finds an item easier.
    """
    shared = rng.standard_normal(shape[1:])
    independent = rng.standard_normal(shape)
    return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * independent


def ranks(n: int, rng: np.random.Generator, group: int = 1) -> FloatArray:
    """Draw the order in which a model learns items, as ranks between 0 and 1.

    A model that remembers a share s of the items remembers the items with a rank below s.

    Parameters
    ----------
    n : int
        Number of items.
    rng : numpy.random.Generator
        Source of the draws.
    group : int
        Number of neighbouring items that are remembered together.

    Returns
    -------
    (n,) array
        Rank of each item, uniform between 0 and 1.

    Examples
    --------
    >>> bool((ranks(4, np.random.default_rng(0)) < 1.0).all())
    True
    """
    return np.repeat(rng.random(-(-n // group)), group)[:n]


def unparsed(
    answers: FloatArray, share: float, rng: np.random.Generator, of: int | None = None
) -> FloatArray:
    """Return a copy of the answers in which random answers are NaN, as if they were unparsed.

    Parameters
    ----------
    answers : array
        1 for a right answer, 0 for a wrong answer, NaN for an answer that is already lost.
    share : float
        Share (0-1) of all answers that is lost.
    rng : numpy.random.Generator
        Source of the draws.
    of : {None, 0, 1}
        Which answers can be lost. None: all answers. 0: only wrong answers. 1: only right answers.

    Returns
    -------
    array
        The answers, NaN where lost.
    """
    if not share:
        return answers
    open_to = np.ones(answers.shape, dtype=bool) if of is None else answers == of
    each = share / max(float(open_to.mean()), share)
    return np.where(open_to & (rng.random(answers.shape) < each), np.nan, answers)
