"""Compare two conditions of a cell, or two benchmarks, and make the report's table of comparisons.

The paper compares the noisy arm only with a clean router. This gain leaves two questions open,
which the `noisy_vs_*` comparisons answer:

- Does the clean router lose part of the question? To answer this, the noisy arm is compared with
  the arm `direct` (the original question). - Is the gain caused by repetition rather than by
  damage? To answer this, the noisy arm is compared with the ensemble control (the same number of
  routers, which delete nothing).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from audit.core.errors import DataError
from audit.core.records import Setting
from audit.statistics.drawing import cluster_df
from audit.statistics.paired import UNANSWERED, BoolArray, CellOutcomes, FloatArray, IntArray
from audit.statistics.permutation import can_reject, paired_test, sign_flip_pvalue
from audit.statistics.resampling import (
    Interval,
    Resamples,
    bootstrap_sweep,
    studentised_pvalue,
    unseen_change,
)
from audit.statistics.values import (
    Unparsed,
    average,
    is_binary,
    replicates_of,
    settings_values,
    to_values,
)
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
    """Estimate the accuracy under settings `a` minus the accuracy under settings `b`.

    Only questions with an answer under `a` and an answer under `b` are used.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    a, b : sequence of Setting
        The settings of each side. The values of a question are averaged over the settings of a
        side.
    name, label : str
        The name of the comparison, and its label in the table.
    rng : Generator
        Source of randomness.
    items : array (n,) of bool, optional
        The questions to keep; all if None.
    unparsed : str
        The value of unparsed answers, as in `to_values`.
    n_resamples : int
        The number of resamples and of permutations.

    Returns
    -------
    Contrast
        The difference with its interval and p-value. With fewer than five clusters, the interval is
        -1 to 1. The p-value of a mean over several settings is then NaN.

    Raises
    ------
    DataError
        If no question has an answer on both sides.

    Notes
    -----
    If each side is one setting, or if all values are 0 or 1, the p-value is that of `paired_test`.
    For means over several settings, it is the larger of two p-values: that of a bootstrap-t test
    and that of a sign-flip test. This p-value is too small if the accuracy is 0.1 or less and there
    is one clean run; use the interval in this case.

    The interval is widened if necessary to the length that `unseen_change` requires.
    """
    keep = np.ones(cell.n, dtype=bool) if items is None else items
    runs_a = _values_of(cell, a, unparsed)[:, keep]
    runs_b = _values_of(cell, b, unparsed)[:, keep]
    x, y, groups = average(runs_a), average(runs_b), cell.cluster[keep]
    answered = ~np.isnan(x - y)
    if not answered.any():
        raise DataError(
            f"{label}: the number of questions with an answer on both sides is 0 of {x.size}. "
            "Expected at least one."
        )
    x, y, clusters = x[answered], y[answered], groups[answered]
    enough = _enough(clusters)
    pvalue, low, high = float("nan"), -1.0, 1.0
    if _is_one_setting(a) and _is_one_setting(b):
        pvalue = paired_test(runs_a, runs_b, groups, n_permutations=n_resamples, rng=rng)
    elif is_binary(x, y):
        pvalue = paired_test(x[None], y[None], clusters, n_permutations=n_resamples, rng=rng)
    elif enough:
        # A sign-flip test rejects too often if the differences are skewed. A bootstrap-t rejects
        # too often if few questions differ (an accuracy near 0 or 1). So the larger p-value is
        # used: both tests must reject.
        bootstrap_p = studentised_pvalue(x - y, clusters, n_resamples=n_resamples, rng=rng)
        flip_p = sign_flip_pvalue(x - y, clusters, n_permutations=n_resamples, rng=rng)
        pvalue = max(bootstrap_p, flip_p)
    if enough:
        drawn = bootstrap_sweep(y, x[None], clusters, n_resamples=n_resamples, rng=rng)
        (interval,) = drawn.gain.intervals(CONFIDENCE, units=1 + cluster_df(clusters))
        # With a few large clusters, BCa cannot correct for skewness, and the ends of its interval
        # are not finite.
        if math.isfinite(interval.low):
            interval = interval.at_least(unseen_change(x - y, clusters))
            low, high = interval.low, interval.high
    improve, degrade = float((x * (1 - y)).sum()), float(((1 - x) * y).sum())
    difference = (improve - degrade) / x.size
    return Contrast(
        name,
        label,
        None,
        x.size,
        difference,
        low,
        high,
        pvalue,
        improve=count(improve),
        degrade=count(degrade),
    )


def _values_of(cell: CellOutcomes, settings: Sequence[Setting], unparsed: Unparsed) -> FloatArray:
    """Return the values of settings, one row for each setting."""
    return to_values(np.stack([cell.row(setting) for setting in settings]), unparsed)


def _is_one_setting(settings: Sequence[Setting]) -> bool:
    """Return whether the settings differ only in their replicate."""
    return len({(setting.arm, setting.level) for setting in settings}) == 1


def _enough(*groups: IntArray) -> bool:
    """Return whether each array has enough clusters for a useful bootstrap."""
    return can_reject(min(np.unique(clusters).size for clusters in groups), 1 - CONFIDENCE)


def count(value: float) -> float:
    """Convert a float that is a whole number to int.

    Parameters
    ----------
    value : float
        A number of questions, which is a fraction if replicates were averaged.

    Returns
    -------
    float
        An int if the value is a whole number; otherwise the unchanged value.
    """
    return int(value) if float(value).is_integer() else float(value)


def difference_in_differences(
    cell_a: CellOutcomes,
    cell_b: CellOutcomes,
    *,
    rng: Generator,
    n_resamples: int,
    shifts: tuple[float, float] = (0.0, 0.0),
) -> tuple[tuple[Interval, ...], float, int]:
    """Compare the gain under noise on a public benchmark with the gain on held-out items.

    The difference of the two gains is computed on three scales.

    Parameters
    ----------
    cell_a : CellOutcomes
        The public benchmark.
    cell_b : CellOutcomes
        The held-out items (the control benchmark).
    rng : Generator
        Source of randomness.
    n_resamples : int
        Resamples of each benchmark.
    shifts : tuple of float
        The variances of the shifts of whole noisy runs and of whole clean runs.

    Returns
    -------
    intervals : tuple of Interval
        Three intervals of the difference of the two gains: in accuracy (0-1), in log-odds, and in
        the logarithm of the share of wrong answers.
    p : float
        The largest one-sided p-value over the scales. With fewer than five clusters in a benchmark,
        the p-value is NaN and the intervals are infinite.
    n : int
        The number of pairs on the public benchmark.

    Raises
    ------
    DataError
        If a benchmark has no item with a clean and a noisy answer.

    Notes
    -----
    If the baselines differ, the scale determines which of two gains is larger. For example, noise
    may turn one wrong answer in five into a right answer on both benchmarks. Then the gain is ten
    points from a baseline of .50, but three points from a baseline of .85. So a gain counts as
    larger only if it is larger on all three scales (an intersection-union test).

    The gain of a benchmark is the mean over r. The two benchmarks share no items, so each is
    resampled separately. The intervals are percentile intervals. The p-value uses clustered
    bootstrap standard errors and a t distribution. Accuracies are kept at a distance of half an
    item from 0 and 1, so that log-odds are finite.
    """
    changes, groups = [], []
    for cell in (cell_a, cell_b):
        noisy_settings = cell.settings_of(Arm.NOISY_REWRITE)
        clean_settings = replicates_of(cell, Arm.FORWARD_FULL, 1)
        a, b = settings_values(cell, noisy_settings), settings_values(cell, clean_settings)
        answered = ~np.isnan(a - b)
        if not answered.any():
            raise DataError(
                f"The number of questions of {cell.benchmark} with a clean and a noisy answer is 0. "
                "Expected at least one."
            )
        cluster = cell.cluster[answered]
        drawn = bootstrap_sweep(
            b[answered], a[answered][None], cluster, n_resamples=n_resamples, rng=rng
        )
        groups.append(cluster)
        n = int(answered.sum())
        noisy_shift = rng.normal(0, (shifts[0] / len(noisy_settings)) ** 0.5, n_resamples)
        clean_shift = rng.normal(0, (shifts[1] / len(clean_settings)) ** 0.5, n_resamples)
        noisy, clean = _shifted(drawn.noisy, noisy_shift, n), _shifted(drawn.clean, clean_shift, n)
        log_odds = scipy.special.logit(noisy) - scipy.special.logit(clean)
        log_wrong = np.log1p(-clean) - np.log1p(-noisy)
        changes.append(np.stack([noisy - clean, log_odds, log_wrong], axis=1))
    # The shape is (1 + B, scales). The first row holds the estimates, and each other row a
    # resample.
    difference = changes[0] - changes[1]
    df = max(min(map(cluster_df, groups)), 1.0)
    resamples = Resamples(difference[0], difference[1:], np.zeros((0, 3)), np.zeros(0))
    intervals = resamples.intervals(CONFIDENCE, "percentile", units=1 + df)
    if not _enough(*groups):
        unbounded = []
        for i in intervals:
            unbounded.append(
                Interval(i.estimate, -np.inf, np.inf, CONFIDENCE, "percentile", np.nan)
            )
        return tuple(unbounded), float("nan"), groups[0].size
    # Over resamples of G clusters, the variance is too small by the factor (G - 1) / G.
    correction = np.sqrt(df / (1 + df))
    pvalues = []
    for interval in intervals:
        one_sided = 1.0  # The p-value is 1 if the gains do not vary over the resamples.
        if interval.se > 0:
            t = interval.estimate / interval.se * correction
            one_sided = float(scipy.stats.t.sf(t, df))
        pvalues.append(one_sided)
    return intervals, max(pvalues), groups[0].size


def _shifted(resamples: Resamples, shift: FloatArray, n: int) -> FloatArray:
    """Return an array (1 + B,): the estimate, then the resamples with random shifts added.

    All values are kept at least half an item away from 0 and 1.
    """
    values = np.concatenate([resamples.estimate, resamples.draws[:, 0] + shift])
    return values.clip(0.5 / n, 1 - 0.5 / n)


def score_gap(
    cell_a: CellOutcomes,
    cell_b: CellOutcomes,
    *,
    rng: Generator,
    shift: float = 0.0,
    n_resamples: int,
) -> Interval:
    """Estimate the accuracy on a benchmark minus the accuracy on held-out items (accuracies 0-1).

    Parameters
    ----------
    cell_a : CellOutcomes
        The benchmark.
    cell_b : CellOutcomes
        The held-out items.
    rng : Generator
        Source of randomness.
    shift : float
        The variance of the shift of a whole run. It is added once for each benchmark.
    n_resamples : int
        Resamples of each benchmark.

    Returns
    -------
    Interval
        The gap with its interval. If `direct` was run on both benchmarks, the gap is computed from
        the accuracies of `direct`; otherwise from those of the clean baseline.

    Raises
    ------
    DataError
        If a benchmark has no answer.

    Notes
    -----
    Each benchmark is resampled separately, and the interval is a percentile interval. It has a
    positive length even if all answers to a benchmark are equal. A gap shows memory only as far as
    the held-out items are as difficult as the benchmark.
    """
    arm, routers = Arm.DIRECT, 0
    if not all(replicates_of(c, arm, routers) for c in (cell_a, cell_b)):
        arm, routers = Arm.FORWARD_FULL, 1
    estimates, draws, groups, runs, unseen = [], [], [], 0.0, 0.0
    for cell in (cell_a, cell_b):
        settings = replicates_of(cell, arm, routers)
        values = settings_values(cell, settings)
        answered = ~np.isnan(values)
        if not answered.any():
            raise DataError(
                f"The number of {arm} answers on {cell.benchmark} is 0. Expected at least one for a score."
            )
        drawn = bootstrap_sweep(
            values[answered],
            values[None, answered],
            cell.cluster[answered],
            n_resamples=n_resamples,
            rng=rng,
        )
        estimates.append(float(drawn.clean.estimate[0]))
        draws.append(drawn.clean.draws[:, 0])
        groups.append(cell.cluster[answered])
        runs += 1 / len(settings)
        unseen = max(unseen, unseen_change(values[answered], cell.cluster[answered]))
    gap = estimates[0] - estimates[1]
    if not _enough(*groups):
        return Interval(gap, -1.0, 1.0, CONFIDENCE, "percentile", float("nan"))
    resamples = Resamples(
        np.array([gap]), (draws[0] - draws[1])[:, None], np.zeros((0, 1)), np.zeros(0)
    )
    (interval,) = resamples.intervals(
        CONFIDENCE, "percentile", units=max(1 + min(map(cluster_df, groups)), 2.0)
    )
    total = float(np.sqrt(interval.se**2 + runs * shift))
    longer = total / interval.se if interval.se > 0 else 1.0
    low = gap + longer * (interval.low - gap)
    high = gap + longer * (interval.high - gap)
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
    """Return all comparisons of one cell as rows of a table.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    evidence : Evidence
        The comparisons of the cell with the controls.
    keep : array (n,) of bool or None
        True for a question for which no message states the answer. None if no message of the cell
        states an answer.
    control : CellOutcomes or None
        The same model on the control benchmark.
    rng : Generator
        Source of randomness.
    n_resamples : int
        Resamples of each comparison.

    Returns
    -------
    tuple of Contrast
        The rows. If a comparison could not be made, the note of its row states the reason.
    """
    out = [
        *_reading_rows(evidence.plain, "", ""),
        *_reading_rows(evidence.without_leak, "_without_leak", ", without leaked questions"),
        *_reading_rows(evidence.adverse, "_adverse", ", unparsed replies imputed against a gain"),
        *_reading_rows(evidence.favourable, "_favourable", ", unparsed replies imputed for a gain"),
    ]
    if evidence.ensemble_gain is not None:
        out += _rows("ensemble_vs_clean", "ensemble control - clean", evidence.ensemble_gain)

    noisy, clean = cell.settings_of(Arm.NOISY_REWRITE), replicates_of(cell, Arm.FORWARD_FULL, 1)

    def single(
        name: str, text: str, a: Sequence[Setting], b: Sequence[Setting], **options: Any
    ) -> None:
        arguments = {"name": name, "label": text, "rng": rng, "n_resamples": n_resamples, **options}
        if a and b:
            out.extend(_tried(name, text, lambda: [contrast(cell, a, b, **arguments)]))

    if keep is not None and not keep.all():
        single(
            "noisy_vs_clean_with_leak",
            "noisy - clean, leaked questions only",
            noisy,
            clean,
            items=~keep,
        )
    single("clean_vs_direct", "clean - direct", clean, replicates_of(cell, Arm.DIRECT, 0))
    if np.isin(cell.state, UNANSWERED).any():
        for reading in ("right", "wrong"):
            text = f"noisy - clean, unreadable or missing replies counted as {reading}, mean over r"
            single(f"noisy_vs_clean_unparsed_{reading}", text, noisy, clean, unparsed=reading)
    if control is not None:
        out += _held_out_rows(cell, control, evidence.shifts.used, rng, n_resamples)
    return tuple(out)


def _reading_rows(reading: Reading | None, suffix: str, words: str) -> list[Contrast]:
    """Return rows that compare the noisy arm with each control that was run.

    The result is empty if the reading is None.
    """
    if reading is None:
        return []
    comparisons = {
        "clean": reading.clean,
        "direct": reading.direct,
        "ensemble control": reading.ensemble,
    }
    rows: list[Contrast] = []
    for control, comparison in comparisons.items():
        if comparison is not None:
            rows += _rows(
                f"noisy_vs_{control.split()[0]}{suffix}", f"noisy - {control}{words}", comparison
            )
    return rows


def _rows(name: str, text: str, c: Comparison) -> list[Contrast]:
    """Return one row for each router count of a comparison, then a row for the mean over r."""
    rows = []
    for k, r in enumerate(c.routers):
        rows.append(
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
        )
    mean, of_mean, note = c.mean, f"{text}, mean over r", "p: any r, family-wise"
    last = Contrast(
        name,
        of_mean,
        None,
        int(c.n.min()),
        mean.estimate,
        mean.low,
        mean.high,
        c.family_p,
        note=note,
    )
    return [*rows, last]


def _tried(name: str, text: str, rows: Callable[[], list[Contrast]]) -> list[Contrast]:
    """Return the rows of a comparison, or one row that states why it cannot be made."""
    try:
        return rows()
    except DataError as error:
        return [Contrast(name, text, None, 0, note=str(error))]


def _held_out_rows(
    cell: CellOutcomes,
    control: CellOutcomes,
    shifts: tuple[float, float],
    rng: Generator,
    n_resamples: int,
) -> list[Contrast]:
    """Return the rows that compare a benchmark with held-out items.

    The rows compare the scores on the two sets, and the gains on three scales.
    """
    gap = f"score on {cell.benchmark} - score on {control.benchmark}"
    gain = f"gain on {cell.benchmark} - gain on {control.benchmark}, mean over r"

    def scores() -> list[Contrast]:
        i = score_gap(cell, control, rng=rng, shift=shifts[1], n_resamples=n_resamples)
        return [Contrast("score_gap", gap, None, cell.n, i.estimate, i.low, i.high)]

    def gains() -> list[Contrast]:
        intervals, p, n = difference_in_differences(
            cell, control, rng=rng, n_resamples=n_resamples, shifts=shifts
        )
        scales = (
            ("", ""),
            ("_log_odds", ", log-odds"),
            ("_log_wrong", ", log share of wrong answers"),
        )
        differences = []
        for (end, scale), interval in zip(scales, intervals, strict=True):
            differences.append(
                Contrast(
                    f"difference_in_differences{end}",
                    gain + scale,
                    None,
                    n,
                    interval.estimate,
                    interval.low,
                    interval.high,
                )
            )
        points, *others = differences
        return [replace(points, p=p, note="p: larger on every scale"), *others]

    return [*_tried("score_gap", gap, scores), *_tried("difference_in_differences", gain, gains)]
