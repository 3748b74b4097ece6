"""The difference of two accuracies over the same questions, with an interval: what two versions of a model changed."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.contracts import clustered_mean
from audit.statistics.drawing import cluster_df, shared_se
from audit.statistics.mcnemar import mcnemar_exact, mcnemar_midp
from audit.statistics.paired import FloatArray, IntArray, checked_pair
from audit.statistics.permutation import sign_flip_pvalue
from audit.statistics.resampling import unseen_change

_EDGE = 1e-12


@dataclass(frozen=True)
class PairedDifference:
    """after - before over n questions answered in both; accuracies 0-1.

    improve, degrade: questions that got better and worse. low, high: 95 %. pvalue: two-sided: McNemar's exact test with
    Tango's score interval; where questions come in clusters, or were answered several times, signs flipped by cluster,
    or question, with a t interval over these. midp: McNemar's mid-p, None where pvalue is not the exact test's.
    """

    n: int
    units: int
    before: float
    after: float
    difference: float
    low: float
    high: float
    improve: int
    degrade: int
    pvalue: float
    midp: float | None = None


def paired_difference(
    before: FloatArray, after: FloatArray, cluster: IntArray, *, rng: np.random.Generator
) -> PairedDifference:
    """before, after: (n,) of 1, 0, a share of several answers, and NaN (unanswered: left out). cluster: (n,).

    Raises DataError where no question is answered in both, or for other values.
    """
    a, b, groups = checked_pair(before, after, cluster)
    b = b[0]
    both = ~(np.isnan(a) | np.isnan(b))
    x, y, c = a[both], b[both], groups[both]
    if not x.size:
        raise DataError("A paired difference needs questions answered, right or wrong, in both runs; found none.")
    improve, degrade = int(np.sum(y > x)), int(np.sum(x > y))
    n, units = int(x.size), int(np.unique(c).size)
    midp = None
    if units == n and np.all(np.isin([x, y], (0, 1))):
        midp = mcnemar_midp(improve, degrade)
        low, high = tango_interval(improve, degrade, n)
        p = float(mcnemar_exact(improve, degrade, "two-sided").pvalue)
    else:
        d = y - x
        mean = clustered_mean(d, c)
        # No shorter than what none of the clusters would show: where nothing changed they show no spread at all.
        half = float(scipy.special.stdtrit(cluster_df(c), 0.975)) * max(mean.se, shared_se(d, c))
        arm = max(half, unseen_change(d, c)) if units > 1 else 2.0
        low, high = max(mean.estimate - arm, -1.0), min(mean.estimate + arm, 1.0)
        p = sign_flip_pvalue(y - x, c, two_sided=True, rng=rng)
    return PairedDifference(
        n, units, float(x.mean()), float(y.mean()), float((y - x).mean()), low, high, improve, degrade, p, midp
    )


def tango_interval(improve: int, degrade: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Score interval of the difference of two paired proportions: Tango (1998), Statistics in Medicine 17:891-908.

    Its limits are the differences d at which |T(d)| = z, with T = (b - c - n d) / sqrt(n (2 q + d (1 - d))) and q the
    constrained estimate of the share that goes right -> wrong. It holds where nothing changed and where all did.

    >>> tuple(round(limit, 3) for limit in tango_interval(1, 7, 21))  # Fagerland et al. (2014), Stat Med 33, Table VI
    (-0.517, -0.026)
    """
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))

    def score(d: float) -> float:
        e = 2 * n
        f = -improve - degrade + (2 * n - improve + degrade) * d
        g = -degrade * d * (1 - d)
        q = (np.sqrt(max(f * f - 4 * e * g, 0.0)) - f) / (2 * e)
        variance = n * (2 * q + d * (1 - d))
        gap = improve - degrade - n * d
        return float(gap / np.sqrt(variance)) if variance > _EDGE else float(np.sign(gap)) * np.inf

    estimate = (improve - degrade) / n
    return _where(score, z, -1.0, estimate), _where(score, -z, estimate, 1.0)


def _where(score: Callable[[float], float], level: float, low: float, high: float) -> float:
    """The difference at which the score, which falls, is `level`; the end of the range where it is not reached."""

    def off(d: float) -> float:
        return float(np.clip(score(d), -1e6, 1e6)) - level

    start, end = low + _EDGE, high - _EDGE
    if end <= start or off(start) * off(end) > 0:
        return low if level > 0 else high
    return float(scipy.optimize.brentq(off, start, end, xtol=1e-9))
