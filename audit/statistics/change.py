"""Did a figure change from version to version? A test at every version that pays for having looked before.

The k-th test is made at level alpha / (k (k + 1)); these sum to alpha over any number of versions, so the chance that
a series which never changed is ever said to have changed is at most alpha, whatever the versions share (Bonferroni over
a sequence that need not end: alpha-spending). The adjusted p is p k (k + 1). The tails are the normal distribution's:
with few sampled answers of items that are alike the chance is larger (12 versions: 11 % of 30 items, 7 % from 300 on).

A version is tested against the mean of those before it, since the last change. Versions asked the same questions are
positively correlated, which the error of the difference leaves out: the test is then on the safe side, and
`audit compare`, paired by question, sees more.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from audit.errors import DataError

ALPHA = 0.05
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Look:
    """The test at one version. look: its number, from 1. baseline, se: of the mean that it is compared with, and of
    the difference. pvalue: two-sided; adjusted: for all looks of the series together."""

    look: int
    baseline: float
    difference: float
    se: float
    pvalue: float
    adjusted: float
    changed: bool


def standard_error(low: float, high: float) -> float:
    """Of the estimate in a 95 % interval, as of a normal one."""
    return (high - low) / (2 * _Z)


def change_tests(
    estimates: Sequence[float], errors: Sequence[float], starts: Sequence[bool], alpha: float = ALPHA
) -> list[Look | None]:
    """A test at every version but those that begin something new.

    estimates, errors: (n,) figures in the order of the versions and their standard errors; NaN where not known, which
    is then not tested and not in a baseline. starts: (n,) whether a version cannot be compared with those before it.
    Raises DataError for lengths that differ or alpha outside (0, 1).

    Examples
    --------
    Three standard errors have p = .0027; at the second look, which costs 2 x 3, that becomes .016.

    >>> looks = change_tests([0.0, 0.0, 0.09], [0.02, 0.02, 0.0264575], [True, False, False])
    >>> looks[2].look, round(looks[2].se, 3), round(looks[2].adjusted, 3), looks[2].changed
    (2, 0.03, 0.016, True)
    """
    if not len(estimates) == len(errors) == len(starts) or not 0 < alpha < 1:
        raise DataError(
            f"A series needs estimates, errors and starts of one length and alpha in (0, 1); found {len(estimates)}, "
            f"{len(errors)}, {len(starts)} and {alpha}."
        )
    found: list[Look | None] = []
    look = n = 0
    total = squares = 0.0  # of the baseline's n versions: their figures, and their squared errors
    for value, error, start in zip(estimates, errors, starts, strict=True):
        n = 0 if start else n
        if not (math.isfinite(value) and math.isfinite(error) and error > 0):
            found.append(None)
            continue
        if n == 0:
            found.append(None)
            n, total, squares = 1, value, error * error
            continue
        look += 1
        baseline = total / n
        se = math.sqrt(error * error + squares / n**2)
        p = math.erfc(abs(value - baseline) / se / math.sqrt(2))  # both tails of a normal variable
        adjusted = min(1.0, p * look * (look + 1))
        changed = adjusted <= alpha
        found.append(Look(look, baseline, value - baseline, se, p, adjusted, changed))
        if changed:
            n, total, squares = 1, value, error * error
        else:
            n, total, squares = n + 1, total + value, squares + error * error
    return found
