"""What a design can see: exact power of McNemar's test and the smallest gain it detects.

Both are unconditional: the number of discordant items m is Binomial(n, p_improve + p_degrade), and for every m the
exact one-sided test has a known critical value. No simulation, no normal approximation.
"""

from bisect import bisect_left

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.paired import FloatArray

TARGET_POWER = 0.8


def mcnemar_power(n: int, p_improve: float, p_degrade: float, alpha: float = 0.05) -> float:
    """Probability that the exact one-sided McNemar test rejects at level `alpha`.

    Parameters
    ----------
    n : items
    p_improve, p_degrade : per-item probabilities of wrong -> correct and correct -> wrong; the gain is their difference
    alpha : level of the single test (divide by the number of tests yourself, or use `minimum_detectable_gain`)

    Examples
    --------
    100 items, 15 % improve, 5 % degrade (a gain of 10 points):

    >>> round(mcnemar_power(100, 0.15, 0.05), 2)
    0.68
    """
    discordance = p_improve + p_degrade
    if n < 1 or min(p_improve, p_degrade) < 0 or discordance > 1 + 1e-12 or not 0 < alpha < 1:
        raise DataError(
            f"Power needs n >= 1, probabilities >= 0 that sum to at most 1 and 0 < alpha < 1, such as "
            f"mcnemar_power(100, 0.15, 0.05); found n={n}, {p_improve}, {p_degrade}, alpha={alpha}."
        )
    if discordance == 0:
        return 0.0
    # Of 10,000 items all but 1,000 numbers of discordant ones have next to no weight, and each costs a search.
    low, high = scipy.stats.binom.ppf((1e-15, 1 - 1e-15), n, min(discordance, 1.0)).astype(int)
    m = np.arange(low, high + 1)
    weight = scipy.stats.binom.pmf(m, n, min(discordance, 1.0))
    critical = _critical_improve(m, alpha)
    return float(np.sum(weight * scipy.stats.binom.sf(critical - 1, m, p_improve / discordance)))


def minimum_detectable_gain(
    n: int, discordance: float, alpha: float = 0.05, n_tests: int = 1, power: float = TARGET_POWER
) -> float:
    """Smallest gain (0-1) that the exact one-sided McNemar test detects with the power asked for.

    Parameters
    ----------
    n : items
    discordance : share of items expected to change at all (improve + degrade); a larger gain raises it as needed
    alpha, n_tests : every test runs at alpha / n_tests (Bonferroni, which bounds Holm and max-statistic tests)
    power : target

    Returns
    -------
    float
        The gain, or NaN where no gain up to 1 reaches the power (too few items).
    """

    def shortfall(gain: float) -> float:
        return _power(n, gain, discordance, alpha / n_tests) - power

    if shortfall(1.0) < 0:
        return float("nan")
    if shortfall(0.0) >= 0:
        return 0.0
    return float(scipy.optimize.bisect(shortfall, 0.0, 1.0, xtol=1e-5))


def questions_needed(
    gain: float, discordance: float, alpha: float = 0.05, n_tests: int = 1, power: float = TARGET_POWER
) -> int:
    """Questions from which on the exact one-sided McNemar test detects a gain (0-1] with the power asked for.

    The other parameters are those of `minimum_detectable_gain`. The power of an exact test has teeth: it falls a little
    wherever the critical value steps up. This is where it first reaches the target on a search by halves.

    >>> questions_needed(0.05, 0.2, alpha=0.025)
    658
    """
    if not 0 < gain <= 1:
        raise DataError(f"The questions needed are asked for a gain in (0, 1], such as 0.05; found {gain}.")

    def enough(n: int) -> bool:
        return _power(n, gain, discordance, alpha / n_tests) >= power

    high = 1
    while not enough(high):
        high *= 2
    return bisect_left(range(high), True, lo=high // 2 + 1, hi=high, key=enough)


def _power(n: int, gain: float, discordance: float, level: float) -> float:
    """Power for a gain where this share of items changes at all, or as many as the gain needs."""
    total = max(discordance, gain)
    return mcnemar_power(n, min((total + gain) / 2, 1.0), max((total - gain) / 2, 0.0), level)


def discordance_of(clean: ArrayLike, noisy: ArrayLike) -> float:
    """Observed share of items that changed, over pairs with both answers; clean (n,), noisy (n,) or (R, n).

    With averaged replicates, the expected share over a random pair of replicates: c(1 - q) + (1 - c)q.
    """
    c, q = np.asarray(clean, dtype=float), np.asarray(noisy, dtype=float)
    change: FloatArray = np.asarray(c * (1 - q))
    change += (1 - c) * q  # in place: of a million questions each such array is 8 MB an r
    if np.all(np.isnan(change)):
        raise DataError("No pair with both answers: the discordance is undefined.")
    return float(np.nanmean(change))


def _critical_improve(m: np.ndarray, alpha: float) -> np.ndarray:
    """Smallest b with P(Binomial(m, 1/2) >= b) <= alpha; m + 1 (never reached) where there is none."""
    # isf: smallest x with sf(x) <= alpha, so reject at x + 1.
    b = scipy.stats.binom.isf(alpha, m, 0.5).astype(np.int64) + 1
    return np.where(scipy.stats.binom.sf(b - 1, m, 0.5) <= alpha, b, m + 1)
