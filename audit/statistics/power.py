"""Compute which gains a design can detect, using the exact power of McNemar's test.

Before a run, the number m of discordant items (right under only one condition) is unknown. So power
is averaged over m, which has the distribution Binomial(n, p_improve + p_degrade). For every m, the
exact one-sided test has a known critical value. The module uses no simulation and no normal
approximation.
"""

from bisect import bisect_left
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray

TARGET_POWER = 0.8


def mcnemar_power(n: int, p_improve: float, p_degrade: float, alpha: float = 0.05) -> float:
    """Return the probability that the exact one-sided McNemar test rejects.

    Parameters
    ----------
    n : int
        Number of items.
    p_improve, p_degrade : float
        Probability that an item changes from wrong to right, and from right to wrong. The gain is
        p_improve - p_degrade.
    alpha : float
        Level of the single test. For several tests, divide alpha by their number, or use
        `minimum_detectable_gain`.

    Returns
    -------
    float
        Power, 0-1.

    Raises
    ------
    DataError
        If the design is not possible, for example if the two probabilities sum to more than 1.

    Examples
    --------
    Of 100 items, 15 % improve and 5 % degrade, which is a gain of 10 points:

    >>> round(mcnemar_power(100, 0.15, 0.05), 2)
    0.68
    """
    discordance = p_improve + p_degrade
    if n < 1 or min(p_improve, p_degrade) < 0 or discordance > 1 + 1e-12 or not 0 < alpha < 1:
        raise DataError(
            f"The design is n={n}, p_improve={p_improve}, p_degrade={p_degrade}, alpha={alpha}. "
            "Expected n >= 1, probabilities >= 0 that sum to at most 1, and 0 < alpha < 1. "
            "Example: mcnemar_power(100, 0.15, 0.05)."
        )
    if discordance == 0:
        return 0.0
    m, weight, critical = _discordant(n, min(discordance, 1.0), alpha)
    return float(np.sum(weight * scipy.stats.binom.sf(critical - 1, m, p_improve / discordance)))


# The search for a gain calls this function repeatedly with the same discordance.
@lru_cache(maxsize=64)
def _discordant(
    n: int, discordance: float, alpha: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the values m of the number of discordant items that have a relevant probability.

    Also return the probability of each m, and the critical value of the exact test for each m.
    """
    # The critical value of each m is found by a search. With 10,000 items, only about 1,000 values
    # of m have a relevant probability, so the others are left out.
    low, high = scipy.stats.binom.ppf((1e-15, 1 - 1e-15), n, discordance).astype(int)
    m = np.arange(low, high + 1)
    return m, scipy.stats.binom.pmf(m, n, discordance), _critical_improve(m, alpha)


# Results are cached, because every page of a panel draws the same curve.
@lru_cache(maxsize=1024)
def minimum_detectable_gain(
    n: int, discordance: float, alpha: float = 0.05, n_tests: int = 1, power: float = TARGET_POWER
) -> float:
    """Return the smallest gain (0-1) that McNemar's test detects with a given power.

    The test is exact and one-sided.

    Parameters
    ----------
    n : int
        Number of items.
    discordance : float
        Expected share of items that change in either direction (improve + degrade). If the gain is
        larger, the discordance is set to the gain.
    alpha, n_tests : float, int
        Family-wise level, and number of tests. Each test is made at level alpha / n_tests
        (Bonferroni). Holm's procedure and max-statistic tests are at least as powerful.
    power : float
        Target power.

    Returns
    -------
    float
        The gain. NaN if even a gain of 1 does not reach the power with this number of items.
    """

    def shortfall(gain: float) -> float:
        return _power(n, gain, discordance, alpha / n_tests) - power

    if shortfall(1.0) < 0:
        return float("nan")
    if shortfall(0.0) >= 0:
        return 0.0
    return float(scipy.optimize.bisect(shortfall, 0.0, 1.0, xtol=1e-5))


def questions_needed(
    gain: float,
    discordance: float,
    alpha: float = 0.05,
    n_tests: int = 1,
    power: float = TARGET_POWER,
) -> int:
    """Return how many questions the exact one-sided McNemar test needs to detect a gain.

    Parameters
    ----------
    gain : float
        The gain, in (0, 1].
    discordance, alpha, n_tests, power : float
        Parameters of the design, as in `minimum_detectable_gain`.

    Returns
    -------
    int
        Number of questions at which the power reaches the target, found by bisection.

    Raises
    ------
    DataError
        If the gain does not lie in (0, 1].

    Notes
    -----
    The power of an exact test is not monotone in the number of questions: it falls a little at each
    number of questions at which the critical value rises.

    Examples
    --------
    >>> questions_needed(0.05, 0.2, alpha=0.025)
    658
    """
    if not 0 < gain <= 1:
        raise DataError(f"The gain is {gain}. Expected a gain in (0, 1]. Example: 0.05.")

    def enough(n: int) -> bool:
        return _power(n, gain, discordance, alpha / n_tests) >= power

    high = 1
    while not enough(high):
        high *= 2
    return bisect_left(range(high), True, lo=high // 2 + 1, hi=high, key=enough)


def _power(n: int, gain: float, discordance: float, level: float) -> float:
    """Return the power to detect a gain. A discordance smaller than the gain is set to the gain."""
    total = max(discordance, gain)
    return mcnemar_power(n, min((total + gain) / 2, 1.0), max((total - gain) / 2, 0.0), level)


def discordance_of(clean: ArrayLike, noisy: ArrayLike) -> float:
    """Return the share of items whose outcome differs between two conditions.

    Only items with an answer under both conditions are counted.

    Parameters
    ----------
    clean : (n,) array
        Values in [0, 1], NaN without an answer.
    noisy : (n,) or (R, n) array
        Values of the same n items under one or R conditions.

    Returns
    -------
    float
        The share, 0-1. If values are means over replicates (c of the clean arm, q of the noisy
        arm), the share is c(1 - q) + (1 - c)q. This is its expected value for a random pair of
        replicates.

    Raises
    ------
    DataError
        If no item has an answer under both conditions.
    """
    c, q = np.asarray(clean, dtype=float), np.asarray(noisy, dtype=float)
    change: FloatArray = np.asarray(c * (1 - q))
    change += (1 - c) * q  # added in place, because a million questions need 8 MB for each r
    if np.all(np.isnan(change)):
        raise DataError(
            "The number of pairs with both answers is 0. Expected at least 1 pair to compute the "
            "discordance."
        )
    return float(np.nanmean(change))


def _critical_improve(m: np.ndarray, alpha: float) -> np.ndarray:
    """Return the critical value of the exact McNemar test with m discordant items.

    It is the smallest b with P(Binomial(m, 1/2) >= b) <= alpha. If no b has this property, the test
    cannot reject, and the result is m + 1.
    """
    # isf gives the smallest x with sf(x) <= alpha, so the test rejects from x + 1 on.
    b = scipy.stats.binom.isf(alpha, m, 0.5).astype(np.int64) + 1
    return np.where(scipy.stats.binom.sf(b - 1, m, 0.5) <= alpha, b, m + 1)
