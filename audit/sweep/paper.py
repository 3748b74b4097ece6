"""Compute the paper's numbers exactly (song2026: eq. 9, section 4.4, appendix Tables 1-3).

The module also estimates the paper's sensitivity (eq. 5) and tests its hypotheses H1-H3 (section
3.4). The paper assesses the hypotheses by inspecting its figures. Here, each hypothesis has a null
hypothesis, a p-value and an effect size.

    gain = noisy accuracy - clean accuracy        positive excess = max(gain, 0)
    improve = wrong -> correct                    degrade = correct -> wrong
    violation = gain > 0                          gain = (improve - degrade) / n

Gains are computed from counts, never from printed accuracies, so that "gain > 0" is exact. As in
the paper, `mean_positive_excess` is the mean over violating settings (in Table 3: models) only.
`mean_gain` is the mean over all settings (in Table 3: models).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.random import Generator
from scipy.sparse.csgraph import connected_components

from audit.core.errors import DataError
from audit.judging.result import Reason, because
from audit.statistics.drawing import ITEMS
from audit.statistics.multiplicity import holm
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.permutation import sign_flip_pvalue
from audit.statistics.resampling import N_RESAMPLES, Interval, Resamples, bootstrap_sweep
from audit.statistics.values import average
from audit.sweep.record import Sweep

# The counts of averaged replicates are fractions. A net change (in items) below this value is a
# rounding error.
_TINY_COUNT = 1e-9


@dataclass(frozen=True)
class SettingRow:
    """Hold one row of Table 2: one cell at one router count.

    Attributes
    ----------
    n, left_out : int
        The number of items that are answered in both arms, and the number of all other items. The
        fields below are computed over the n items.
    clean_accuracy, noisy_accuracy, gain, positive_excess : float
        Accuracies and differences of accuracies.
    violation : bool
        Whether the gain is above zero.
    improve, degrade : float
        The number of items that are right in the noisy arm only, and the number of items that are
        right in the clean arm only. Averaged replicates give expected numbers, which may be
        fractions.
    """

    model: str
    benchmark: str
    routers: int
    n: int
    left_out: int
    clean_accuracy: float
    noisy_accuracy: float
    gain: float
    positive_excess: float
    violation: bool
    improve: float
    degrade: float


@dataclass(frozen=True)
class ModelSummary:
    """Hold one row of Table 1: one cell over all router counts.

    Excesses and gains are differences of accuracies. `mean_positive_excess` is 0 if no setting has
    a gain above zero.
    """

    model: str
    benchmark: str
    violation_count: int
    violation_rate: float
    max_positive_excess: float
    mean_positive_excess: float
    mean_gain: float


@dataclass(frozen=True)
class RouterSummary:
    """Hold one row of Table 3: the results at one router count, over all cells.

    `models` is the number of cells.
    """

    routers: int
    models: int
    violating_models: int
    violation_rate: float
    mean_positive_excess: float
    improve: float
    degrade: float
    net_improve: float


def setting_row(
    model: str,
    routers: int,
    clean_correct: float,
    improve: float,
    degrade: float,
    n: int,
    *,
    benchmark: str = "",
    left_out: int = 0,
) -> SettingRow:
    """Return a row of Table 2 from counts.

    Parameters
    ----------
    model : str
        The model.
    routers : int
        The router count.
    clean_correct, improve, degrade : float
        The numbers of items that are right in the clean arm, right under noise only, and right in
        the clean arm only.
    n : int
        The number of items that are answered in both arms, at least 1.
    benchmark : str
        The benchmark.
    left_out : int
        The number of items that are not answered in both arms.

    Returns
    -------
    SettingRow
        The row, with an exact gain and violation.
    """
    net = improve - degrade
    if abs(net) < _TINY_COUNT:
        net = 0.0
    gain = net / n
    return SettingRow(
        model=model,
        benchmark=benchmark,
        routers=routers,
        n=n,
        left_out=left_out,
        clean_accuracy=clean_correct / n,
        noisy_accuracy=(clean_correct + net) / n,
        gain=gain,
        positive_excess=max(gain, 0.0),
        violation=net > 0,
        improve=improve,
        degrade=degrade,
    )


def setting_rows(sweep: Sweep) -> list[SettingRow]:
    """Return Table 2 for one cell: one row for each router count.

    Parameters
    ----------
    sweep : Sweep
        The outcomes of the cell. Every router count needs an item that is answered in both arms
        (`Sweep.answered`).

    Returns
    -------
    list of SettingRow
        One row for each router count, in their order.

    Notes
    -----
    For averaged replicates, let c and q in [0, 1] be the clean and noisy values of an item. Then
    improve = sum((1 - c) q) and degrade = sum(c (1 - q)) are the expected counts for one replicate
    of each arm. Their difference is exactly n times the gain.
    """
    rows = []
    for r, noisy in zip(sweep.routers, sweep.noisy, strict=True):
        answered = ~np.isnan(sweep.clean - noisy)
        c, q = sweep.clean[answered], noisy[answered]
        clean = float(c.sum())
        improve = float(((1 - c) * q).sum())
        degrade = float((c * (1 - q)).sum())
        left_out = int((~answered).sum())
        row = setting_row(
            sweep.model,
            r,
            clean,
            improve,
            degrade,
            c.size,
            benchmark=sweep.benchmark,
            left_out=left_out,
        )
        rows.append(row)
    return rows


def model_summary(rows: Sequence[SettingRow]) -> list[ModelSummary]:
    """Return Table 1 from Table 2.

    Parameters
    ----------
    rows : sequence of SettingRow
        Table 2.

    Returns
    -------
    list of ModelSummary
        One row for each cell, sorted by violation count as in the paper: the largest count comes
        first. Cells with equal counts have the order of Table 2.
    """
    cells = dict.fromkeys((row.model, row.benchmark) for row in rows)
    out = []
    for model, benchmark in cells:
        mine = []
        for row in rows:
            if (row.model, row.benchmark) == (model, benchmark):
                mine.append(row)
        count = sum(row.violation for row in mine)
        excesses = []
        gains = []
        for row in mine:
            excesses.append(row.positive_excess)
            gains.append(row.gain)
        out.append(
            ModelSummary(
                model=model,
                benchmark=benchmark,
                violation_count=count,
                violation_rate=count / len(mine),
                max_positive_excess=max(excesses),
                mean_positive_excess=_mean_excess(mine),
                mean_gain=float(np.mean(gains)),
            )
        )
    return sorted(out, key=lambda s: -s.violation_count)


def router_summary(rows: Sequence[SettingRow]) -> list[RouterSummary]:
    """Return Table 3 from Table 2.

    Parameters
    ----------
    rows : sequence of SettingRow
        Table 2.

    Returns
    -------
    list of RouterSummary
        One row for each router count, in ascending order.
    """
    out = []
    for r in sorted({row.routers for row in rows}):
        mine = []
        for row in rows:
            if row.routers == r:
                mine.append(row)
        count = sum(row.violation for row in mine)
        improve: float = 0
        degrade: float = 0
        for row in mine:
            improve += row.improve
            degrade += row.degrade
        rate, net = count / len(mine), improve - degrade
        out.append(
            RouterSummary(r, len(mine), count, rate, _mean_excess(mine), improve, degrade, net)
        )
    return out


def breadths(
    rows: Sequence[SettingRow], names: Mapping[tuple[str, str], str]
) -> list[tuple[str, int, int]]:
    """Return each cell's number of violations, as Figure 5 of the paper shows these numbers.

    Parameters
    ----------
    rows : sequence of SettingRow
        Table 2.
    names : mapping
        Maps (model, benchmark) to the display name.

    Returns
    -------
    list of (str, int, int)
        For each cell: its name, the number of its settings that score above the clean baseline, and
        the number of all its settings.
    """
    settings = Counter((row.model, row.benchmark) for row in rows)
    summaries = ((s.model, s.benchmark, s.violation_count) for s in model_summary(rows))
    breadths_of_models = []
    for model, benchmark, count in summaries:
        breadths_of_models.append((names[model, benchmark], count, settings[model, benchmark]))
    return breadths_of_models


def _mean_excess(rows: Sequence[SettingRow]) -> float:
    positive = []
    for row in rows:
        if row.violation:
            positive.append(row.positive_excess)
    return float(np.mean(positive)) if positive else 0.0


ALPHA = 0.05


@dataclass(frozen=True)
class HypothesisResult:
    """Hold the result of the test of a hypothesis.

    The docstring of each test function states what `effect` is. The sentence for the code of the
    reason is in `audit.sweep.texts`.
    """

    pvalue: float
    effect: float
    reason: Reason


def slope_weights(routers: Sequence[int]) -> FloatArray:
    """Return the weights w of an ordinary least-squares slope, which is sum(w * accuracy).

    Parameters
    ----------
    routers : sequence of int
        The R router counts.

    Returns
    -------
    array (R,)
        The weights (r - mean r) / sum((r - mean r)^2).

    Raises
    ------
    DataError
        If there are fewer than two different counts.

    Examples
    --------
    >>> slope_weights([1, 2, 3]).tolist()
    [-0.5, 0.0, 0.5]
    """
    r = np.asarray(routers, dtype=float)
    if np.unique(r).size < 2:
        raise DataError(
            f"The router counts are {list(routers)}. Expected two or more for a slope. Example: r=1..9."
        )
    centred = r - r.mean()
    return centred / np.sum(centred**2)


def sensitivity_slope(sweep: Sweep, *, rng: Generator, n_resamples: int = N_RESAMPLES) -> Interval:
    """Estimate the least-squares slope of noisy accuracy on r.

    Parameters
    ----------
    sweep : Sweep
        One cell.
    rng : Generator
        Source of randomness.
    n_resamples : int
        The number of resamples. Each resample draws whole items (clusters), with their answers at
        all r.

    Returns
    -------
    Interval
        The change of accuracy per added router.

    Raises
    ------
    DataError
        If there are fewer than two router counts.

    Notes
    -----
    This is the discrete form of song2026, eq. 5, with r as the cue intensity.
    """
    weights = slope_weights(sweep.routers)
    noisy = bootstrap_sweep(
        sweep.clean, sweep.noisy, sweep.cluster, n_resamples=n_resamples, rng=rng
    ).noisy

    def of(accuracy: FloatArray) -> FloatArray:
        """Return the slopes, computed from differences from the first r.

        With these differences, equal accuracies give a slope of exactly 0.
        """
        return (accuracy - accuracy[..., :1]) @ weights

    slope = Resamples(
        np.atleast_1d(of(noisy.estimate)),
        of(noisy.draws)[:, None],
        of(noisy.jackknife)[:, None],
        noisy.jackknife_weight,
    )
    return slope.intervals(units=int(noisy.jackknife_weight.sum()))[0]


def h1_any_excess(
    pvalues: Mapping[str, float], excess: Sequence[str], alpha: float = ALPHA
) -> HypothesisResult:
    """Test H1: at least one model exceeds its clean baseline and every control at some r.

    The p-values are corrected for the number of models.

    Parameters
    ----------
    pvalues : mapping
        Maps each model to the p-value of its verdict: the smallest of the p-values
        `Reading.adjusted` over r.
    excess : sequence of str
        The models with the verdict `excess`. This verdict has more conditions than a small p-value.
    alpha : float
        Significance level, on which the result's sentence depends.

    Returns
    -------
    HypothesisResult
        The p-value is the smallest p-value of any model after Holm's correction. The effect is the
        number of models with the verdict `excess`.

    Raises
    ------
    DataError
        If there is no p-value.
    """
    if not pvalues:
        raise DataError("The number of models with a p-value is 0. Expected at least one for H1.")
    adjusted = holm(list(pvalues.values()))
    p = float(adjusted.min())
    code = "h1_excess"
    if not excess:
        code = "h1_not_counted" if p <= alpha else "h1_none"
    reason = because(code, models=len(pvalues), count=len(excess), excess=list(excess), p=p)
    return HypothesisResult(p, float(len(excess)), reason)


def h2_heterogeneity(sweeps: Sequence[Sweep], alpha: float = ALPHA) -> HypothesisResult:
    """Test H2: the models' mean gains differ by more than sampling explains.

    Parameters
    ----------
    sweeps : sequence of Sweep
        One sweep for each of K models.
    alpha : float
        Significance level, on which the result's sentence depends.

    Returns
    -------
    HypothesisResult
        The effect is the standard deviation of the true mean gains between models (accuracy 0-1).
        It is a moment estimate: the sampling variance is subtracted.

    Raises
    ------
    DataError
        If there are fewer than two models, or no more clusters than models.

    Notes
    -----
    The gains of different models on the same items are correlated. So the test is Hotelling's T^2
    test of the K - 1 differences between the models' per-item mean gains. Let G be the number of
    items (clusters) that all models answered. The scaled statistic then has an F distribution with
    K - 1 and G - K + 1 degrees of freedom.
    """
    if len(sweeps) < 2:
        raise DataError(
            f"The number of models is {len(sweeps)}. Expected at least two, as H2 compares models."
        )
    gains, cluster = _by_item([average(s.noisy - s.clean) for s in sweeps], sweeps)
    complete = ~np.isnan(gains).any(axis=0)
    gains, cluster = gains[:, complete], cluster[complete]
    k, n = gains.shape
    groups = np.unique(cluster).size
    if groups <= k:
        raise DataError(
            f"The number of items (clusters) that all models answered is {groups}. Expected more than {k} for H2."
        )
    mean = gains.mean(axis=1)
    _, index = np.unique(cluster, return_inverse=True)
    residual = np.stack(
        [np.bincount(index, weights=row, minlength=groups) for row in gains - mean[:, None]]
    )
    # This is the covariance of the K means, estimated over clusters.
    covariance = residual @ residual.T / n**2 * groups / (groups - 1)
    contrast = np.eye(k)[1:] - np.eye(k)[:1]
    d, v = contrast @ mean, contrast @ covariance @ contrast.T
    rank = int(np.linalg.matrix_rank(v, tol=1e-14))
    p = 1.0  # The rank is 0 if every model has the same outcomes.
    if rank:
        t2 = float(d @ np.linalg.pinv(v, rcond=1e-10, hermitian=True) @ d)
        p = float(
            scipy.stats.f.sf(t2 * (groups - rank) / (rank * (groups - 1)), rank, groups - rank)
        )
    noise = float(np.trace(covariance) / k - covariance.sum() / k**2) * k / (k - 1)
    spread = float(np.sqrt(max(0.0, mean.var(ddof=1) - noise)))
    low, high = int(np.argmin(mean)), int(np.argmax(mean))
    reason = because(
        "h2_differ" if p <= alpha else "h2_alike",
        models=k,
        items=n,
        p=p,
        lowest=float(mean[low]),
        highest=float(mean[high]),
        lowest_model=sweeps[low].model,
        highest_model=sweeps[high].model,
    )
    return HypothesisResult(p, spread, reason)


def h3_direction(
    sweeps: Sequence[Sweep],
    *,
    rng: Generator,
    n_permutations: int = N_RESAMPLES,
    alpha: float = ALPHA,
) -> HypothesisResult:
    """Test H3: as r grows, improvements rise and degradations fall.

    Parameters
    ----------
    sweeps : sequence of Sweep
        One sweep for each model.
    rng : Generator
        Source of randomness.
    n_permutations : int
        Number of random sign flips.
    alpha : float
        Significance level, on which the result's sentence depends.

    Returns
    -------
    HypothesisResult
        The p-value is the larger of two p-values: that for rising improvements and that for falling
        degradations (an intersection-union test). The effect is the slope of (improvements -
        degradations) on r, in items per added router, summed over models.

    Raises
    ------
    DataError
        If there is no sweep.

    Notes
    -----
    The trend of an item with noisy outcomes y at the router counts r is

      s = sum((r - mean r) * y).

    If the clean answer was wrong, a positive trend means more improvements. If the clean answer was
    right, a positive trend means fewer degradations.

    The test flips the signs of s at random. This is valid if the r are equally spaced without gaps:
    without a true trend, an item's outcomes are equally likely in reverse order, and the reversal
    changes the sign of s. For other r, the test assumes that s is symmetric around 0. A sign flip
    keeps the correlation of nested draws. The trends of all models on an item are flipped together.
    """
    if not sweeps:
        raise DataError("The number of sweeps is 0. Expected at least one for H3.")
    wrong, right, improve, degrade = [], [], 0.0, 0.0
    for s in sweeps:
        trend = _item_trends(s)
        up, down = (1 - s.clean) * trend, s.clean * trend
        scale = float(np.sum((np.asarray(s.routers) - np.mean(s.routers)) ** 2))
        improve += float(np.nansum(up)) / scale
        degrade -= float(np.nansum(down)) / scale
        wrong.append(up)
        right.append(down)
    rises, cluster = _by_item(wrong, sweeps)
    falls, _ = _by_item(right, sweeps)
    rise, fall = np.nansum(rises, axis=0), np.nansum(falls, axis=0)

    p_improve = sign_flip_pvalue(rise, cluster, n_permutations=n_permutations, rng=rng)
    p_degrade = sign_flip_pvalue(fall, cluster, n_permutations=n_permutations, rng=rng)
    reason = because(
        "h3", alpha=alpha, p_improve=p_improve, p_degrade=p_degrade, up=improve, down=degrade
    )
    return HypothesisResult(max(p_improve, p_degrade), improve - degrade, reason)


def _item_trends(sweep: Sweep) -> FloatArray:
    """Return the trend s (n,) of each item: sum((r - mean r) * value) over its answered r.

    The trend is 0 for an item with fewer than two answers.
    """
    slope_weights(sweep.routers)  # This call raises DataError if there is only one router count.
    r = np.asarray(sweep.routers, dtype=float)[:, None]
    trend: FloatArray = np.zeros(sweep.n)
    # The items are processed in blocks, because each step needs an array of all outcomes of the
    # items in memory.
    for start in range(0, sweep.n, ITEMS):
        noisy = sweep.noisy[:, start : start + ITEMS]
        answered = ~np.isnan(noisy)
        centre = np.sum(r * answered, axis=0) / np.maximum(answered.sum(axis=0), 1)
        terms = np.where(answered, (r - centre) * np.nan_to_num(noisy), 0.0)
        trend[start : start + ITEMS] = np.sum(terms, axis=0)
    return trend


def _by_item(values: Sequence[FloatArray], sweeps: Sequence[Sweep]) -> tuple[FloatArray, IntArray]:
    """Arrange the per-item values of K cells in one table over the union of their N items.

    Return values (K, N) and clusters (N,). Items with the same benchmark and id are the same item.
    If a cell does not contain an item, the cell's value of the item is NaN. Two items are in one
    cluster if they are in one cluster in any cell.
    """
    item_keys = set()
    for s in sweeps:
        for q in s.question_ids:
            item_keys.add((s.benchmark, q))
    keys = sorted(item_keys)
    position = {key: i for i, key in enumerate(keys)}
    out = np.full((len(sweeps), len(keys)), np.nan)
    edges: list[tuple[IntArray, IntArray]] = []
    groups = len(keys)
    for k, (s, v) in enumerate(zip(sweeps, values, strict=True)):
        at = np.array([position[s.benchmark, q] for q in s.question_ids], dtype=np.int64)
        out[k, at] = v
        _, index = np.unique(s.cluster, return_inverse=True)
        edges.append((at, groups + index))
        groups += int(index.max()) + 1
    row_parts, column_parts = zip(*edges, strict=True)
    rows, columns = np.concatenate(row_parts), np.concatenate(column_parts)
    graph = scipy.sparse.coo_array((np.ones(rows.size), (rows, columns)), shape=(groups, groups))
    _, label = connected_components(graph, directed=False)
    return out, label[: len(keys)].astype(np.int64)
