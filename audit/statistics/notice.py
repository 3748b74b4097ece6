"""How likely a test is to notice an effect as large as one that was measured."""

from __future__ import annotations

from dataclasses import dataclass

import scipy

from audit.errors import DataError


@dataclass(frozen=True)
class Notice:
    """The chance that a test at `alpha` notices an effect as large as the one that was measured.

    estimate: at that effect; low, high: at the ends of its 95 % interval.
    """

    estimate: float
    low: float
    high: float
    alpha: float


def chance_to_notice(pvalue: float, alpha: float = 0.05) -> Notice:
    """From a one-sided p-value of one experiment: would a repetition with other items of the same kind notice it?

    With z the normal score of the p-value, Phi(z - z_alpha), and the same at z -+ 1.96. Without an effect (p = .5) it
    is alpha, with an interval up to .62: one experiment in which nothing was noticed says little. The upper end is
    never below alpha, which a test is allowed where there is nothing (discrete tests have p-values of 1). What differs
    from training to training is not in the interval. Raises DataError for what is no p-value.

    >>> round(chance_to_notice(0.05).estimate, 2)
    0.5
    """
    if not 0 <= pvalue <= 1:
        raise DataError(f"A p-value is from 0 to 1; found {pvalue!r}.")
    z = float(scipy.stats.norm.isf(max(pvalue, 1e-300)))
    shift = float(scipy.stats.norm.isf(alpha))
    estimate, low, high = (float(scipy.stats.norm.cdf(z + d - shift)) for d in (0.0, -1.959964, 1.959964))
    return Notice(estimate, low, max(high, alpha), alpha)
