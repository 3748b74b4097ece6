"""Simulate models of known truth: how hard each item is, and what an effect does to it.

Item i is answered right with probability theta_i in every clean presentation, theta ~ Beta with
mean m = clean accuracy. Two independent presentations then disagree with probability d = 2 E[theta
(1 - theta)] = 2 m (1 - m) s / (s + 1), where s is the Beta's a + b; so m and the discordance d fix
the Beta. A gain g > 0 moves theta_i to theta_i + (1 - theta_i) g / (1 - m), g < 0 to theta_i (1 + g
/ m): the mean moves by g exactly.
"""

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.paired import FloatArray


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


def draw_difficulties(n: int, accuracy: float, discordance: float, rng: np.random.Generator) -> FloatArray:
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


def draw_latent(shape: tuple[int, ...], correlation: float, rng: np.random.Generator) -> FloatArray:
    """Draw uniforms whose first axis (the settings of one item) is correlated.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result.
    correlation : float
        Correlation (0-1) of the latent normals, if settings share what was sent. 0 makes the
        settings independent.
    rng : numpy.random.Generator
        Source of the draws.

    Returns
    -------
    array
        Latent values; an answer is right if its latent value is below its chance.
    """
    if correlation <= 0:
        return rng.random(shape)
    shared = rng.standard_normal(shape[1:])
    independent = rng.standard_normal(shape)
    return np.asarray(scipy.special.ndtr(np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * independent))
