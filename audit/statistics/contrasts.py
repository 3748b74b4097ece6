"""Paired differences between two conditions: an interval, and a test that fits their runs and clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from audit.errors import DataError
from audit.statistics.mcnemar import Alternative, mcnemar_exact
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.permutation import can_reject, max_statistic_exchange
from audit.statistics.resampling import N_RESAMPLES, Interval, Method, bootstrap_sweep, studentised_pvalue
from audit.statistics.values import is_binary

Test = Literal["mcnemar_exact", "exchange", "bootstrap_t"]


@dataclass(frozen=True)
class Contrast:
    """a minus b over the pairs with both answers.

    difference: mean(a) - mean(b), accuracy 0-1, with its interval. test: "mcnemar_exact" for one run of each and items
    that are clusters of their own; "exchange" for replicates or clusters (`max_statistic_exchange`); "bootstrap_t" for
    means over different settings. improve: wrong under b, right under a (expected numbers where
    replicates were averaged). left_out: items of the mask without both answers.
    """

    name: str
    a_accuracy: float
    b_accuracy: float
    difference: float
    interval: Interval
    pvalue: float
    alternative: Alternative
    test: Test
    improve: float
    degrade: float
    n: int
    left_out: int


def contrast_values(
    a: FloatArray,
    b: FloatArray,
    cluster: IntArray | None = None,
    *,
    rng: np.random.Generator,
    name: str = "a - b",
    alternative: Alternative = "greater",
    n_resamples: int = N_RESAMPLES,
    confidence: float = 0.95,
    method: Method = "bca",
    tested: tuple[FloatArray, FloatArray] | None = None,
) -> Contrast:
    """The paired difference of two value arrays (n,): 1, 0, a mean over settings, or NaN for no answer.

    tested: runs (L, n) and (K, n) of which a and b are the means, where they are replicates of one setting each.

    With fewer than five items (clusters), which show no spread to speak of, the interval is all that is possible and a
    bootstrap's p is NaN. Raises DataError when not one pair has both answers.
    """
    both = ~np.isnan(a) & ~np.isnan(b)
    if not both.any():
        raise DataError(f"{name}: not one item has an answer under both conditions ({a.size} items).")
    x, y = a[both], b[both]
    groups = np.arange(a.size)[both] if cluster is None else np.asarray(cluster)[both]
    units = np.unique(groups).size
    improve, degrade = float((x * (1 - y)).sum()), float(((1 - x) * y).sum())
    options: dict[str, Any] = {"rng": rng, "alternative": alternative}
    test: Test = "bootstrap_t"
    if tested is not None:
        test, pvalue = paired_test(*tested, cluster, n_permutations=n_resamples, **options)
    elif is_binary(x, y):
        test, pvalue = paired_test(x[None], y[None], groups, n_permutations=n_resamples, **options)
    elif can_reject(units, 1 - confidence):
        pvalue = studentised_pvalue(x - y, groups, n_resamples=n_resamples, **options)
    else:
        pvalue = float("nan")
    difference = (improve - degrade) / x.size
    interval = Interval(difference, -1.0, 1.0, confidence, method, float("nan"))
    if can_reject(units, 1 - confidence):
        resamples = bootstrap_sweep(y, x[None], groups, n_resamples=n_resamples, rng=rng)
        interval = resamples.gain.intervals(confidence, method, units=units)[0]
    return Contrast(
        name=name,
        a_accuracy=float(x.mean()),
        b_accuracy=float(y.mean()),
        difference=difference,
        interval=interval,
        pvalue=pvalue,
        alternative=alternative,
        test=test,
        improve=improve,
        degrade=degrade,
        n=int(x.size),
        left_out=int(a.size - x.size),
    )


def paired_test(
    a: FloatArray,
    b: FloatArray,
    cluster: IntArray | None = None,
    *,
    rng: np.random.Generator,
    alternative: Alternative = "greater",
    n_permutations: int = N_RESAMPLES,
) -> tuple[Test, float]:
    """Name and p-value of the test of runs a (L, n) against runs b (K, n) of the same items.

    Exact McNemar for single runs of independent items; an exchange of runs within items (clusters) otherwise.
    """
    if len(a) == len(b) == 1 and (cluster is None or np.unique(cluster).size == a.shape[1]):
        improve, degrade = int(np.sum(a > b)), int(np.sum(a < b))
        return "mcnemar_exact", float(mcnemar_exact(improve, degrade, alternative).pvalue)
    found = max_statistic_exchange(
        a[:, None], b[:, None], cluster, n_permutations=n_permutations, alternative=alternative, rng=rng
    )
    return "exchange", found.pvalue
