"""Compute the paper's numbers exactly (song2026: eq. 9, section 4.4, appendix Tables 1-3).

The module also has its sensitivity (eq. 5) and its hypotheses H1-H3 (section 3.4). The paper reads
these off its figures; here each has a null hypothesis, p and an effect.

    gain = noisy accuracy - clean accuracy        positive excess = max(gain, 0)
    improve = wrong -> correct                    degrade = correct -> wrong
    violation = gain > 0                          gain = (improve - degrade) / n

Gains are formed from counts, never from printed accuracies, so that "gain > 0" is exact.
`mean_positive_excess` is the mean over the *violating* settings (models) only, as published;
`mean_gain` is over all.
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

_TINY_COUNT = 1e-9  # averaged replicates are fractions; a net change of this many items is rounding


@dataclass(frozen=True)
class SettingRow:
    """One row of Table 2.

    n: pairs with both answers; left_out: items without. Accuracies and gain (0-1) are over n.
    improve and degrade are whole numbers, or expected numbers if replicates were averaged.
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
    """One row of Table 1; excesses and gains are in accuracy (0-1).

    mean_positive_excess is 0 if no setting violates.
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
    """One row of Table 3, over `models` cells."""

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
        Items right under clean, items gained, and items lost.
    n : int
        Pairs, at least 1.
    benchmark : str
        The benchmark.
    left_out : int
        Items without both answers.

    Returns
    -------
    SettingRow
        With exact gain and violation.
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
        Every router count needs an answered pair (`Sweep.answered`).

    Returns
    -------
    list of SettingRow
        In the order of the router counts.

    Notes
    -----
    With averaged replicates c, q in [0, 1], improve = sum((1 - c) q) and degrade = sum(c (1 - q)).
    These are the expected counts for one replicate of each; their difference is exactly n times the
    gain.
    """
    rows = []
    for r, noisy in zip(sweep.routers, sweep.noisy, strict=True):
        both = ~np.isnan(sweep.clean - noisy)
        c, q = sweep.clean[both], noisy[both]
        clean, improve, degrade = (
            float(c.sum()),
            float(((1 - c) * q).sum()),
            float((c * (1 - q)).sum()),
        )
        left_out = int((~both).sum())
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
    """Return Table 1: one row for each cell, by falling violation count as printed (ties: first
    seen).
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
    """Return Table 3: one row for each router count."""
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
    """Return Table 1's violation counts as Figure 5 shows them.

    Parameters
    ----------
    rows : sequence of SettingRow
        Table 2.
    names : mapping
        Display name by (model, benchmark).

    Returns
    -------
    list of (str, int, int)
        Name, settings above clean, and settings.
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
    """Hold the result of a test. Each test documents its effect, and `reason` is a code of
    `audit.sweep.texts`.
    """

    pvalue: float
    effect: float
    reason: Reason


def slope_weights(routers: Sequence[int]) -> FloatArray:
    """Return the weights w with OLS slope = sum(w * accuracy).

    Parameters
    ----------
    routers : sequence of int
        The R router counts.

    Returns
    -------
    array (R,)
        (r - mean r) / sum((r - mean r)^2).

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
    """Estimate eq. 5 in discrete form: the OLS slope of noisy accuracy on r, the cue intensity.

    Parameters
    ----------
    sweep : Sweep
        One cell.
    rng : Generator
        Source of randomness.
    n_resamples : int
        Resamples of items (clusters), with all r of an item together.

    Returns
    -------
    Interval
        Accuracy per added router.

    Raises
    ------
    DataError
        If there are fewer than two router counts.
    """
    weights = slope_weights(sweep.routers)
    noisy = bootstrap_sweep(
        sweep.clean, sweep.noisy, sweep.cluster, n_resamples=n_resamples, rng=rng
    ).noisy

    def of(accuracy: FloatArray) -> FloatArray:
        """Return slopes of differences from the first r; equal accuracies then give exactly 0."""
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
    """Test H1: does any model exceed its clean baseline and every control at any r, after
    correction?

    Parameters
    ----------
    pvalues : mapping
        The verdict's p of each model (smallest over r of `Reading.adjusted`).
    excess : sequence of str
        The models whose verdict is an excess, which requires more.
    alpha : float
        Level.

    Returns
    -------
    HypothesisResult
        p: the smallest after Holm over the models. effect: the number of models in excess.

    Raises
    ------
    DataError
        If there is no p-value.
    """
    if not pvalues:
        raise DataError("H1 needs the p-value of at least one model.")
    adjusted = holm(list(pvalues.values()))
    p = float(adjusted.min())
    code = "h1_excess"
    if not excess:
        code = "h1_not_counted" if p <= alpha else "h1_none"
    reason = because(code, models=len(pvalues), count=len(excess), excess=list(excess), p=p)
    return HypothesisResult(p, float(len(excess)), reason)


def h2_heterogeneity(sweeps: Sequence[Sweep], alpha: float = ALPHA) -> HypothesisResult:
    """Test H2: do the models' mean gains differ by more than sampling explains?

    Parameters
    ----------
    sweeps : sequence of Sweep
        One for each of K models.
    alpha : float
        Level that decides the wording.

    Returns
    -------
    HypothesisResult
        effect: between-model standard deviation of the mean gain beyond sampling error (method of
        moments, accuracy 0-1).

    Raises
    ------
    DataError
        If there are fewer than two models, or no more clusters than models.

    Notes
    -----
    The gains are correlated over the same items. The test is Hotelling's T^2 on the K - 1
    differences of the per-item mean gains, with F(K - 1, G - K + 1) over G items (clusters) that
    all models answered.
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
            f"H2 over {k} models needs more than {k} items (clusters) that all answered; found {groups}."
        )
    mean = gains.mean(axis=1)
    _, index = np.unique(cluster, return_inverse=True)
    residual = np.stack(
        [np.bincount(index, weights=row, minlength=groups) for row in gains - mean[:, None]]
    )
    # Covariance of the K means, over clusters.
    covariance = residual @ residual.T / n**2 * groups / (groups - 1)
    contrast = np.eye(k)[1:] - np.eye(k)[:1]
    d, v = contrast @ mean, contrast @ covariance @ contrast.T
    rank = int(np.linalg.matrix_rank(v, tol=1e-14))
    p = 1.0  # rank 0: every model has the same outcomes
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
    """Test H3: as r grows, do improvements rise AND degradations fall?

    Parameters
    ----------
    sweeps : sequence of Sweep
        One for each model.
    rng : Generator
        Source of randomness.
    n_permutations : int
        Sign flips.
    alpha : float
        Level that decides the wording.

    Returns
    -------
    HypothesisResult
        p: the larger of the two directions (an intersection-union test). effect: rise of net
        improve per added router, in items over all models.

    Raises
    ------
    DataError
        If there is no sweep.

    Notes
    -----
    An item's trend is s = sum((r - mean r) * y) over its noisy outcomes. It counts for improve if
    the clean answer was wrong, and for (less) degrade if it was right. Without a trend, the reverse
    order of an item's settings is as likely, and it flips the sign of s. This holds for equally
    spaced r without gaps; else s is assumed to be symmetric. The flip keeps the correlation of
    nested draws. All models of an item flip together.
    """
    if not sweeps:
        raise DataError("H3 needs at least one sweep.")
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
    """Return s (n,), the sum over answered r of (r - their mean) * value; 0 with fewer than two
    answers.
    """
    slope_weights(sweep.routers)  # raises for a single router count
    r = np.asarray(sweep.routers, dtype=float)[:, None]
    trend: FloatArray = np.zeros(sweep.n)
    # In blocks of items, as each step makes an array of all their outcomes.
    for start in range(0, sweep.n, ITEMS):
        noisy = sweep.noisy[:, start : start + ITEMS]
        answered = ~np.isnan(noisy)
        centre = np.sum(r * answered, axis=0) / np.maximum(answered.sum(axis=0), 1)
        terms = np.where(answered, (r - centre) * np.nan_to_num(noisy), 0.0)
        trend[start : start + ITEMS] = np.sum(terms, axis=0)
    return trend


def _by_item(values: Sequence[FloatArray], sweeps: Sequence[Sweep]) -> tuple[FloatArray, IntArray]:
    """Line up the per-item values of several cells over the union of their items.

    Returns values (K, N) and clusters (N,). Items with equal benchmark and id are the same, and
    absent items are NaN. Two items share a cluster if they share one in any cell.
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
