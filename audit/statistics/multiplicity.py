"""Adjust the p-values of several tests."""

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray


def holm(pvalues: ArrayLike) -> FloatArray:
    """Return p-values adjusted by Holm's step-down procedure.

    Parameters
    ----------
    pvalues : array
        p-values. NaN stays NaN and is not counted as a test.

    Returns
    -------
    array
        Adjusted p-values, in the shape of `pvalues`.

    Raises
    ------
    DataError
        If a p-value lies outside [0, 1].

    Notes
    -----
    Reject every null hypothesis with adjusted p <= alpha. The probability of any false rejection is
    then at most alpha, under any dependence of the tests. Holm (1979), Scand J Statist 6.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p, tested = _checked(pvalues)
    order = np.argsort(p[tested], kind="stable")
    stepped = np.minimum(
        1.0, np.maximum.accumulate(p[tested][order] * np.arange(order.size, 0, -1))
    )
    out = p.copy()
    out[tested] = stepped[np.argsort(order)]
    return out


def false_discovery(pvalues: ArrayLike, *, any_dependence: bool = False) -> FloatArray:
    """Return p-values adjusted for the false discovery rate.

    Parameters
    ----------
    pvalues : array
        p-values. NaN stays NaN and is not counted as a test.
    any_dependence : bool
        True makes the adjustment valid under any dependence of the tests.

    Returns
    -------
    array
        Adjusted p-values, in the shape of `pvalues`.

    Raises
    ------
    DataError
        If a p-value lies outside [0, 1].

    Notes
    -----
    Reject every null hypothesis with adjusted p <= q. The expected share of false rejections among
    all rejections is then at most q. This bound holds for independent or positively dependent
    tests, such as tests that share a clean baseline (Benjamini & Hochberg 1995, JRSS B 57). If
    `any_dependence` is True, the adjusted p-values are larger by the factor 1 + 1/2 + ... + 1/m for
    m tests (Benjamini & Yekutieli 2001, Annals of Statistics 29).
    """
    p, tested = _checked(pvalues)
    out = p.copy()
    if tested.any():
        out[tested] = scipy.stats.false_discovery_control(
            p[tested], method="by" if any_dependence else "bh"
        )
    return out


def _checked(pvalues: ArrayLike) -> tuple[FloatArray, np.ndarray]:
    p = np.array(pvalues, dtype=float)
    tested = ~np.isnan(p)
    if np.any((p[tested] < 0) | (p[tested] > 1)):
        raise DataError(
            f"The p-values range from {p[tested].min()} to {p[tested].max()}. Expected values in "
            "[0, 1]."
        )
    return p, tested
