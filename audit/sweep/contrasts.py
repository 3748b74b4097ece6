"""Paired differences between any two conditions of a cell, differences of differences between two benchmarks,
and the table of comparisons that the report prints beside a verdict.

`noisy_against_*` answer what the paper's gain cannot: does noisy beat the original question (`direct`), or only a lossy
clean router? Does it beat as many routers that delete nothing (the ensemble control), or is the gain repetition?
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.drawing import cluster_df
from audit.statistics.paired import UNANSWERED, BoolArray, CellOutcomes, IntArray
from audit.statistics.permutation import can_reject, paired_test, sign_flip_pvalue
from audit.statistics.resampling import Interval, Resamples, bootstrap_sweep, studentised_pvalue, unseen_change
from audit.statistics.values import Unparsed, average, is_binary, replicates_of, settings_values, to_values
from audit.sweep.compare import CONFIDENCE, Comparison
from audit.sweep.design import Arm
from audit.sweep.evidence import Evidence, Reading
from audit.sweep.vocabulary import Contrast


def contrast(
    cell: CellOutcomes,
    a: Sequence[Setting],
    b: Sequence[Setting],
    *,
    name: str,
    label: str,
    rng: Generator,
    items: BoolArray | None = None,
    unparsed: Unparsed = "left_out",
    n_resamples: int,
) -> Contrast:
    """Accuracy under settings `a` (averaged within item) minus accuracy under settings `b`, over the pairs with both.

    items: (n,) the questions to keep. p is of `paired_test` for replicates of one setting each and for 0 and 1; for
    means over settings the larger of a bootstrap-t's and of sign flips'. The interval is no shorter than
    `unseen_change`. With fewer than five items (clusters) it is all that is possible and a mean's p is NaN. At an
    accuracy of 0.1 or less, with one clean run, a mean's p is too small: read the interval. Raises DataError when not
    one pair has both answers.
    """
    keep = np.ones(cell.n, dtype=bool) if items is None else items
    runs = [to_values(np.stack([cell.row(s) for s in part]), unparsed)[:, keep] for part in (a, b)]
    x, y, groups = average(runs[0]), average(runs[1]), cell.cluster[keep]
    both = ~np.isnan(x - y)
    if not both.any():
        raise DataError(f"{label}: not one item has an answer under both conditions ({x.size} items).")
    x, y = x[both], y[both]
    enough = _enough(groups[both])
    pvalue, low, high = float("nan"), -1.0, 1.0
    if all(len({(s.arm, s.level) for s in part}) == 1 for part in (a, b)):
        pvalue = paired_test(runs[0], runs[1], groups, n_permutations=n_resamples, rng=rng)
    elif is_binary(x, y):
        pvalue = paired_test(x[None], y[None], groups[both], n_permutations=n_resamples, rng=rng)
    elif enough:
        # Flips reject skewed differences too often, a bootstrap-t those of few items (accuracy near 0 or 1): both must.
        bootstrap_p = studentised_pvalue(x - y, groups[both], n_resamples=n_resamples, rng=rng)
        flip_p = sign_flip_pvalue(x - y, groups[both], n_permutations=n_resamples, rng=rng)
        pvalue = max(bootstrap_p, flip_p)
    if enough:
        drawn = bootstrap_sweep(y, x[None], groups[both], n_resamples=n_resamples, rng=rng)
        (interval,) = drawn.gain.intervals(CONFIDENCE, units=1 + cluster_df(groups[both]))
        if math.isfinite(interval.low):  # else few large clusters: too few units for a correction of skewness
            interval = interval.at_least(unseen_change(x - y, groups[both]))
            low, high = interval.low, interval.high
    improve, degrade = float((x * (1 - y)).sum()), float(((1 - x) * y).sum())
    difference = (improve - degrade) / x.size
    return Contrast(
        name, label, None, x.size, difference, low, high, pvalue, improve=count(improve), degrade=count(degrade)
    )


def _enough(*groups: IntArray) -> bool:
    """Whether each has clusters enough for resamples to show a spread to speak of."""
    return can_reject(min(np.unique(one).size for one in groups), 1 - CONFIDENCE)


def count(value: float) -> float:
    """Whole numbers whole; averaged replicates give fractions, which are kept."""
    return int(value) if float(value).is_integer() else float(value)


def difference_in_differences(
    cell_a: CellOutcomes,
    cell_b: CellOutcomes,
    *,
    rng: Generator,
    n_resamples: int,
    shifts: tuple[float, float] = (0.0, 0.0),
) -> tuple[tuple[Interval, ...], float, int]:
    """Is the gain larger on a public benchmark (`cell_a`) than on held-out items (`cell_b`, the control benchmark)? The
    difference on three scales (points of accuracy 0-1, log-odds, log share wrong), p (the largest), pairs on the first.

    Which of two gains is larger depends on the scale where the baselines differ: if noise repairs one wrong answer in
    five on both, the gain is ten points from .50 and three from .85. So a gain is larger only where it is so on all
    three (an intersection-union test over the scales).

    The two benchmarks share no items, so each is resampled by itself; intervals are percentile intervals, p from
    clustered bootstrap standard errors (t distribution, one-sided). Accuracies are kept half an item from 0 and 1. A
    gain is the mean over r. shifts: variances of what a whole noisy and a whole clean run shift by, on each benchmark.
    With fewer than five items (clusters) in one of them the intervals are all that is possible and p is NaN.
    """
    changes, groups = [], []
    for cell in (cell_a, cell_b):
        arms = cell.settings_of(Arm.NOISY_REWRITE), replicates_of(cell, Arm.FORWARD_FULL, 1)
        a, b = (settings_values(cell, settings) for settings in arms)
        both = ~np.isnan(a - b)
        if not both.any():
            raise DataError(f"noisy - clean on {cell.benchmark}: not one item has an answer under both conditions.")
        drawn = bootstrap_sweep(b[both], a[both][None], cell.cluster[both], n_resamples=n_resamples, rng=rng)
        groups.append(cell.cluster[both])
        n = int(both.sum())
        moved = (rng.normal(0, (v / len(runs)) ** 0.5, n_resamples) for v, runs in zip(shifts, arms, strict=True))
        noisy, clean = (
            np.concatenate([r.estimate, r.draws[:, 0] + by]).clip(0.5 / n, 1 - 0.5 / n)
            for r, by in zip((drawn.noisy, drawn.clean), moved, strict=True)
        )
        log_odds = scipy.special.logit(noisy) - scipy.special.logit(clean)
        log_wrong = np.log1p(-clean) - np.log1p(-noisy)
        changes.append(np.stack([noisy - clean, log_odds, log_wrong], axis=1))
    apart = changes[0] - changes[1]  # (1 + B, scales): the estimates, then the resamples
    none = np.zeros((0, 3))
    df = max(min(map(cluster_df, groups)), 1.0)
    intervals = Resamples(apart[0], apart[1:], none, np.zeros(0)).intervals(CONFIDENCE, "percentile", units=1 + df)
    # A standard error of 0 means that neither gain varies over resamples: nothing to test.
    # A resample of G clusters has a variance that is too small by (G - 1) / G.
    less = np.sqrt(df / (1 + df))
    p = max(float(scipy.stats.t.sf(i.estimate / i.se * less, df)) if i.se > 0 else 1.0 for i in intervals)
    if not _enough(*groups):
        intervals = tuple(Interval(i.estimate, -np.inf, np.inf, CONFIDENCE, "percentile", np.nan) for i in intervals)
        p = float("nan")
    return intervals, p, groups[0].size


def score_gap(
    cell_a: CellOutcomes, cell_b: CellOutcomes, *, rng: Generator, shift: float = 0.0, n_resamples: int
) -> Interval:
    """Accuracy on a benchmark (`cell_a`) minus that on held-out items (`cell_b`), 0-1, with its interval.

    Of the original question (`direct`) where both were asked it, of the clean arm otherwise. Each benchmark is
    resampled by itself (percentile interval; a run's shift, of variance `shift`, is in it twice). Its arms are no
    shorter than what none of a set's answers would show. What the gap means depends on how well the held-out items
    match the benchmark in difficulty. Raises DataError where one has no answer.
    """
    arm, routers = Arm.DIRECT, 0
    if not all(replicates_of(c, arm, routers) for c in (cell_a, cell_b)):
        arm, routers = Arm.FORWARD_FULL, 1
    estimates, draws, groups, runs, unseen = [], [], [], 0.0, 0.0
    for cell in (cell_a, cell_b):
        settings = replicates_of(cell, arm, routers)
        values = settings_values(cell, settings)
        there = ~np.isnan(values)
        if not there.any():
            raise DataError(f"No answer to the {arm} questions of {cell.benchmark}: its score is not known.")
        drawn = bootstrap_sweep(
            values[there], values[None, there], cell.cluster[there], n_resamples=n_resamples, rng=rng
        )
        estimates.append(float(drawn.clean.estimate[0]))
        draws.append(drawn.clean.draws[:, 0])
        groups.append(cell.cluster[there])
        runs += 1 / len(settings)
        unseen = max(unseen, unseen_change(values[there], cell.cluster[there]))
    gap = estimates[0] - estimates[1]
    if not _enough(*groups):
        return Interval(gap, -1.0, 1.0, CONFIDENCE, "percentile", float("nan"))
    apart = Resamples(np.array([gap]), (draws[0] - draws[1])[:, None], np.zeros((0, 1)), np.zeros(0))
    (found,) = apart.intervals(CONFIDENCE, "percentile", units=max(1 + min(map(cluster_df, groups)), 2.0))
    total = float(np.sqrt(found.se**2 + runs * shift))
    longer = total / found.se if found.se > 0 else 1.0
    low, high = (gap + longer * (end - gap) for end in (found.low, found.high))
    return Interval(gap, low, high, CONFIDENCE, "percentile", total).at_least(unseen)


def contrast_rows(
    cell: CellOutcomes,
    evidence: Evidence,
    *,
    keep: BoolArray | None,
    control: CellOutcomes | None,
    rng: Generator,
    n_resamples: int,
) -> tuple[Contrast, ...]:
    """Every comparison of one cell as rows of a table, those that could not be made with the reason.

    keep: (n,) questions without an answer leak, None without leaks. control: the same model on the control benchmark.
    """
    out = [
        *_of_reading(evidence.plain, "", ""),
        *_of_reading(evidence.without_leak, "_without_leak", ", without leaked questions"),
        *_of_reading(evidence.adverse, "_adverse", ", unparsed replies imputed against a gain"),
        *_of_reading(evidence.favourable, "_favourable", ", unparsed replies imputed for a gain"),
    ]
    if evidence.ensemble_gain is not None:
        out += _rows("ensemble_vs_clean", "ensemble control - clean", evidence.ensemble_gain)

    noisy, clean = cell.settings_of(Arm.NOISY_REWRITE), replicates_of(cell, Arm.FORWARD_FULL, 1)

    def single(name: str, text: str, a: Sequence[Setting], b: Sequence[Setting], **options: Any) -> None:
        how = {"name": name, "label": text, "rng": rng, "n_resamples": n_resamples, **options}
        if a and b:
            out.extend(_tried(name, text, lambda: [contrast(cell, a, b, **how)]))

    if keep is not None and not keep.all():
        single("noisy_vs_clean_with_leak", "noisy - clean, leaked questions only", noisy, clean, items=~keep)
    single("clean_vs_direct", "clean - direct", clean, replicates_of(cell, Arm.DIRECT, 0))
    if np.isin(cell.state, UNANSWERED).any():
        for reading in ("right", "wrong"):
            text = f"noisy - clean, unreadable or missing replies counted as {reading}, mean over r"
            single(f"noisy_vs_clean_unparsed_{reading}", text, noisy, clean, unparsed=reading)
    if control is not None:
        out += _against_fresh(cell, control, evidence.shifts.used, rng, n_resamples)
    return tuple(out)


def _of_reading(read: Reading | None, suffix: str, words: str) -> list[Contrast]:
    """Noisy against each control; nothing of a reading, or a control, that is not there."""
    if read is None:
        return []
    compared = {"clean": read.clean, "direct": read.direct, "ensemble control": read.ensemble}
    return [
        row
        for against, c in compared.items()
        if c is not None
        for row in _rows(f"noisy_vs_{against.split()[0]}{suffix}", f"noisy - {against}{words}", c)
    ]


def _rows(name: str, text: str, c: Comparison) -> list[Contrast]:
    rows = [
        Contrast(
            name,
            f"{text}, r={r}",
            r,
            int(c.n[k]),
            float(c.gain[k]),
            c.pointwise[k].low,
            c.pointwise[k].high,
            float(c.pvalues[k]),
            float(c.adjusted[k]),
            count(c.improve[k]),
            count(c.degrade[k]),
        )
        for k, r in enumerate(c.routers)
    ]
    mean, of_mean, note = c.mean, f"{text}, mean over r", "p: any r, family-wise"
    last = Contrast(name, of_mean, None, int(c.n.min()), mean.estimate, mean.low, mean.high, c.family_p, note=note)
    return [*rows, last]


def _tried(name: str, text: str, rows: Callable[[], list[Contrast]]) -> list[Contrast]:
    """The rows; where the comparison cannot be made, one that says why."""
    try:
        return rows()
    except DataError as error:
        return [Contrast(name, text, None, 0, note=str(error))]


def _against_fresh(
    cell: CellOutcomes, control: CellOutcomes, shifts: tuple[float, float], rng: Generator, n_resamples: int
) -> list[Contrast]:
    """The score against that on held-out items, and the gain against theirs on three scales."""
    gap = f"score on {cell.benchmark} - score on {control.benchmark}"
    gain = f"gain on {cell.benchmark} - gain on {control.benchmark}, mean over r"

    def scores() -> list[Contrast]:
        i = score_gap(cell, control, rng=rng, shift=shifts[1], n_resamples=n_resamples)
        return [Contrast("score_gap", gap, None, cell.n, i.estimate, i.low, i.high)]

    def gains() -> list[Contrast]:
        found, p, n = difference_in_differences(cell, control, rng=rng, n_resamples=n_resamples, shifts=shifts)
        scales = (("", ""), ("_log_odds", ", log-odds"), ("_log_wrong", ", log share of wrong answers"))
        points, *others = (
            Contrast(f"difference_in_differences{end}", gain + scale, None, n, i.estimate, i.low, i.high)
            for (end, scale), i in zip(scales, found, strict=True)
        )
        return [replace(points, p=p, note="p: larger on every scale"), *others]

    return [*_tried("score_gap", gap, scores), *_tried("difference_in_differences", gain, gains)]
