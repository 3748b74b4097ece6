"""Paired differences between any two conditions of a cell, and differences of differences between two benchmarks.

`noisy_against_*` answer what the paper's gain cannot: does noisy beat the original question (`direct`), or only a lossy
clean router? Does it beat as many routers that delete nothing (the ensemble control), or is the gain repetition?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import stats

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.mcnemar import Alternative, mcnemar_exact
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray
from audit.statistics.permutation import can_reject, max_statistic_exchange
from audit.statistics.resampling import (
    N_RESAMPLES,
    Interval,
    Method,
    Resamples,
    bootstrap_sweep,
    studentised_pvalue,
)
from audit.statistics.values import Unparsed, average, is_binary, replicates_of, settings_values, to_values
from audit.sweep.design import Arm

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


@dataclass(frozen=True)
class DifferenceInDifferences:
    """(a - b on the first benchmark) - (a - b on the control), accuracy 0-1; p one-sided: the first is larger."""

    first: Contrast
    control: Contrast
    difference: float
    interval: Interval
    pvalue: float


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


def contrast(
    cell: CellOutcomes,
    a: Sequence[Setting],
    b: Sequence[Setting],
    *,
    rng: np.random.Generator,
    items: BoolArray | None = None,
    name: str = "a - b",
    alternative: Alternative = "greater",
    unparsed: Unparsed = "left_out",
    n_resamples: int = N_RESAMPLES,
    confidence: float = 0.95,
    method: Method = "bca",
) -> Contrast:
    """Accuracy under settings `a` (replicates averaged within item) minus accuracy under settings `b`.

    `items` (n,) keeps a part of the questions, such as those whose router messages do not state the answer.
    """
    keep = np.ones(cell.n, dtype=bool) if items is None else np.asarray(items, dtype=bool)
    if keep.shape != (cell.n,):
        raise DataError(f"A mask of items has shape {keep.shape}; expected ({cell.n},), one flag an item.")
    runs = [to_values(np.stack([cell.row(s) for s in part]), unparsed)[:, keep] for part in (a, b)]
    replicates = all(len({(s.arm, s.routers) for s in part}) == 1 for part in (a, b))
    return contrast_values(
        average(runs[0]),
        average(runs[1]),
        cell.cluster[keep],
        rng=rng,
        name=name,
        alternative=alternative,
        n_resamples=n_resamples,
        confidence=confidence,
        method=method,
        tested=(runs[0], runs[1]) if replicates else None,
    )


def noisy_settings(cell: CellOutcomes, routers: int | None) -> tuple[Setting, ...]:
    """The noisy settings at one router count, or all of them (their average) for None."""
    if routers is None:
        return cell.settings_of(Arm.NOISY_REWRITE)
    return replicates_of(cell, Arm.NOISY_REWRITE, routers)


def difference_in_differences(
    cell_a: CellOutcomes,
    cell_b: CellOutcomes,
    *,
    rng: np.random.Generator,
    routers: int | None = None,
    n_resamples: int = N_RESAMPLES,
    confidence: float = 0.95,
) -> DifferenceInDifferences:
    """Is the gain larger on a public benchmark (`cell_a`) than on fresh items (`cell_b`, the control benchmark)?

    The two benchmarks share no items, so each is resampled by itself and the differences of their gains are taken;
    the interval is a percentile interval, and p comes from the two clustered bootstrap standard errors (normal
    approximation, one-sided). `routers=None` uses the gain averaged over r. With fewer than five items (clusters) in
    one of them the interval is all that is possible and p is NaN.
    """
    parts, gains, units = [], [], []
    for cell in (cell_a, cell_b):
        a = settings_values(cell, noisy_settings(cell, routers))
        b = settings_values(cell, replicates_of(cell, Arm.FORWARD_FULL, 1))
        name = f"noisy - clean on {cell.benchmark}"
        parts.append(contrast_values(a, b, cell.cluster, rng=rng, name=name, n_resamples=n_resamples))
        gains.append(bootstrap_sweep(b, a[None], cell.cluster, n_resamples=n_resamples, rng=rng).gain)
        units.append(np.unique(cell.cluster[~np.isnan(a - b)]).size)
    none = np.zeros((0, 1))
    difference = Resamples(gains[0].estimate - gains[1].estimate, gains[0].draws - gains[1].draws, none, np.zeros(0))
    estimate = float(difference.estimate[0])
    if not can_reject(min(units), 1 - confidence):
        interval = Interval(estimate, -2.0, 2.0, confidence, "percentile", float("nan"))
        return DifferenceInDifferences(parts[0], parts[1], estimate, interval, float("nan"))
    interval = difference.intervals(confidence, "percentile", units=min(units))[0]
    # A standard error of 0 means that neither gain varies over resamples: nothing to test.
    pvalue = float(stats.norm.sf(estimate / interval.se)) if interval.se > 0 else 1.0
    return DifferenceInDifferences(parts[0], parts[1], estimate, interval, pvalue)
