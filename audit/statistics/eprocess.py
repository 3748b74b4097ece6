"""Tests and intervals that stay valid however often the data are looked at: e-processes by betting.

A gambler bets at fair odds on the differences d_i in [-1, 1] of questions; under the null his capital is a
non-negative supermartingale, so that it ever reaches 1 / alpha with probability at most alpha (Ville's inequality).
1 / capital is a p-value at any stop, and the nulls that he is not rich against are a confidence sequence
(Waudby-Smith & Ramdas 2024, JRSS B 86, "Estimating means of bounded random variables by betting"). He spreads his money
over a grid of bets that are held (their diversified Kelly bet), so the capital does not depend on the order of the
questions within or between looks.

The random factor is the questions, drawn independently or by clusters, and new ones at every look. A cluster must be
asked whole between two looks: its second half is no news once its first is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.paired import FloatArray, IntArray

BETS = np.arange(1, 20) / 20  # shares of the capital at risk: a cautious gambler and a bold one, and those between
_STEPS = 16  # halvings of [-1, 1]: limits to 0.003 points
_LARGEST_LOG = 690.0  # exp of more is infinite


@dataclass(frozen=True)
class Differences:
    """Differences of R settings, as what a bet sees: sums over clusters, equal ones counted.

    total, size, count: (U,) sum of a cluster's answered differences, how many these are, how many such clusters there
    are. start: (R,) where a setting's part begins. largest: questions of the largest cluster that can be asked.
    """

    total: FloatArray
    size: FloatArray
    count: FloatArray
    start: IntArray
    largest: int

    @classmethod
    def of(cls, d: FloatArray, cluster: IntArray | None = None, largest: int | None = None) -> Differences:
        """d: (R, n) in [-1, 1], NaN where a question has no pair of answers. cluster: (n,) (each its own where None).

        largest: as fixed before the first look; that of `cluster` where None, for a test with one look.
        DataError for a difference outside [-1, 1], or a cluster larger than `largest`.
        """
        d = np.atleast_2d(np.asarray(d, dtype=float))
        if np.any(np.abs(d) > 1 + 1e-12):
            raise DataError(f"Differences lie in [-1, 1]; found {np.nanmin(d)} to {np.nanmax(d)}.")
        _, place = np.unique(np.arange(d.shape[1]) if cluster is None else cluster, return_inverse=True)
        sizes = np.bincount(place)
        largest = int(sizes.max(initial=1)) if largest is None else largest
        if sizes.max(initial=0) > largest:
            raise DataError(f"A cluster has {sizes.max()} questions; expected at most {largest}, as fixed beforehand.")
        parts = []
        for row in d:
            there = ~np.isnan(row)
            total = np.bincount(place, np.where(there, row, 0.0), minlength=sizes.size)
            pairs = np.stack([total, np.bincount(place, there, minlength=sizes.size)])
            parts.append(np.unique(pairs, axis=1, return_counts=True))
        start = np.cumsum([0, *(pairs.shape[1] for pairs, _ in parts[:-1])])
        total, size = np.concatenate([pairs for pairs, _ in parts], axis=1)
        count = np.concatenate([counts for _, counts in parts]).astype(float)
        return cls(total, size, count, start, largest)

    def negated(self) -> Differences:
        """The same of the other arm minus this one."""
        return Differences(-self.total, self.size, self.count, self.start, self.largest)

    def log_e(self, null: FloatArray | float = 0.0) -> FloatArray:
        """(R,) log of the capital against "the mean difference is at most `null`" (a number or (R,), above -1).

        A bet c multiplies it, per cluster, by 1 + c (total - null size) / ((1 + null) largest), never below 1 - c.
        """
        at = np.broadcast_to(np.asarray(null, dtype=float), self.start.shape)
        at = np.repeat(at, np.diff([*self.start, self.total.size]))
        won = (self.total - at * self.size) / ((1 + at) * self.largest)
        log_capital = np.add.reduceat(self.count * np.log1p(BETS[:, None] * won), self.start, axis=1)
        return np.asarray(scipy.special.logsumexp(log_capital, axis=0) - np.log(BETS.size))

    def lower_limit(self, tail: float) -> FloatArray:
        """(R,) limits that are below the mean difference, at every look together, with probability 1 - tail.

        The smallest null that the capital does not reach 1 / tail against: it falls as the null rises.
        """
        low, high = np.full(self.start.size, -1.0), np.full(self.start.size, 1.0)
        for _ in range(_STEPS):
            middle = (low + high) / 2
            refuted = self.log_e(middle) >= -np.log(tail)
            low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
        return low

    def upper_limit(self, tail: float) -> FloatArray:
        """(R,) limits that are above the mean difference, likewise."""
        return -self.negated().lower_limit(tail)


def at_any_stop(log_e: FloatArray) -> FloatArray:
    """p-values that hold at any stop: 1 / e, at most 1."""
    return np.exp(-np.maximum(log_e, 0.0))


def adjusted(log_e: FloatArray) -> FloatArray:
    """(R,) log e-values that hold for R hypotheses together, whatever their dependence.

    Closed testing with the mean as the merged e-value: the smallest mean over all sets that hold the hypothesis
    (Vovk & Wang 2021, Annals of Statistics 49, "E-values: calibration, combination and applications", section 5). That
    of the largest is the mean over all: the e-value of "not one of them is true".

    Examples
    --------
    >>> np.exp(adjusted(np.log([60.0, 1.0, 2.0]))).round(6).tolist()
    [21.0, 1.0, 1.5]
    """
    e = np.exp(np.minimum(log_e, _LARGEST_LOG))
    out = np.empty(e.size)
    for k, own in enumerate(e):
        sums = own + np.concatenate([[0.0], np.cumsum(np.sort(np.delete(e, k)))])
        out[k] = np.min(sums / np.arange(1, e.size + 1))
    with np.errstate(divide="ignore"):
        return np.log(out)
