"""The paper's numbers, exactly (song2026: eq. 9, section 4.4, appendix Tables 1-3), its sensitivity (eq. 5), and its
hypotheses H1-H3 (section 3.4), which it reads off its figures: here each has a null hypothesis, p and an effect.

    gain = noisy accuracy - clean accuracy        positive excess = max(gain, 0)        violation = gain > 0
    improve = wrong -> correct                    degrade = correct -> wrong            gain = (improve - degrade) / n

Gains are formed from counts, never from printed accuracies, so that "gain > 0" is exact. `mean_positive_excess` is the
mean over the *violating* settings (models) only, as published; `mean_gain` is over all.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.random import Generator
from scipy.sparse.csgraph import connected_components

from audit.errors import DataError
from audit.statistics.drawing import ITEMS
from audit.statistics.multiplicity import holm
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.permutation import sign_flip_pvalue
from audit.statistics.resampling import N_RESAMPLES, Interval, Resamples, bootstrap_sweep
from audit.statistics.values import average
from audit.sweep.record import Sweep
from audit.verdict.result import Reason, because

_TINY_COUNT = 1e-9  # averaged replicates are fractions; a net of this many items is rounding


@dataclass(frozen=True)
class SettingRow:
    """One row of Table 2. n: pairs with both answers; left_out: items without. Accuracies and gain (0-1) are over n.

    improve and degrade are whole numbers, or expected numbers where replicates were averaged.
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
    """One row of Table 1. Excesses and gains in accuracy (0-1); mean_positive_excess is 0 where nothing violates."""

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
    model: str, routers: int, clean_correct: float, improve: float, degrade: float, n: int,
    *, benchmark: str = "", left_out: int = 0,
) -> SettingRow:  # fmt: skip
    """A row from counts over n >= 1 pairs: clean_correct items right under clean, `improve` gained, `degrade` lost."""
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
    """Table 2 for one cell: one row per router count, of which each needs an answered pair (`Sweep.answered`).

    With averaged replicates c, q in [0, 1], improve = sum((1 - c) q) and degrade = sum(c (1 - q)): the expected counts
    for one replicate of each, whose difference is still exactly n times the gain.
    """
    rows = []
    for r, noisy in zip(sweep.routers, sweep.noisy, strict=True):
        both = ~np.isnan(sweep.clean - noisy)
        c, q = sweep.clean[both], noisy[both]
        clean, improve, degrade = (float(one.sum()) for one in (c, (1 - c) * q, c * (1 - q)))
        lost, of = int((~both).sum()), sweep.benchmark
        rows.append(setting_row(sweep.model, r, clean, improve, degrade, c.size, benchmark=of, left_out=lost))
    return rows


def model_summary(rows: Sequence[SettingRow]) -> list[ModelSummary]:
    """Table 1: one row per cell, by falling violation count as printed (ties: first seen)."""
    cells = dict.fromkeys((row.model, row.benchmark) for row in rows)
    out = []
    for model, benchmark in cells:
        mine = [row for row in rows if (row.model, row.benchmark) == (model, benchmark)]
        count = sum(row.violation for row in mine)
        out.append(
            ModelSummary(
                model=model,
                benchmark=benchmark,
                violation_count=count,
                violation_rate=count / len(mine),
                max_positive_excess=max(row.positive_excess for row in mine),
                mean_positive_excess=_mean_excess(mine),
                mean_gain=float(np.mean([row.gain for row in mine])),
            )
        )
    return sorted(out, key=lambda s: -s.violation_count)


def router_summary(rows: Sequence[SettingRow]) -> list[RouterSummary]:
    """Table 3: one row per router count."""
    out = []
    for r in sorted({row.routers for row in rows}):
        mine = [row for row in rows if row.routers == r]
        count = sum(row.violation for row in mine)
        improve, degrade = sum(row.improve for row in mine), sum(row.degrade for row in mine)
        rate, net = count / len(mine), improve - degrade
        out.append(RouterSummary(r, len(mine), count, rate, _mean_excess(mine), improve, degrade, net))
    return out


def breadths(rows: Sequence[SettingRow], names: Mapping[tuple[str, str], str]) -> list[tuple[str, int, int]]:
    """Table 1's violation counts as Figure 5 reads them: (name, settings above clean, settings)."""
    settings = Counter((row.model, row.benchmark) for row in rows)
    summaries = ((s.model, s.benchmark, s.violation_count) for s in model_summary(rows))
    return [(names[model, benchmark], count, settings[model, benchmark]) for model, benchmark, count in summaries]


def _mean_excess(rows: Sequence[SettingRow]) -> float:
    positive = [row.positive_excess for row in rows if row.violation]
    return float(np.mean(positive)) if positive else 0.0


ALPHA = 0.05


@dataclass(frozen=True)
class HypothesisResult:
    """A hypothesis tested; each test says what its effect is. reason: what was found, for `audit.sweep.texts`."""

    pvalue: float
    effect: float
    reason: Reason


def slope_weights(routers: Sequence[int]) -> FloatArray:
    """w (R,) with OLS slope = sum(w * accuracy): (r - mean r) / sum((r - mean r)^2)."""
    r = np.asarray(routers, dtype=float)
    if np.unique(r).size < 2:
        raise DataError(f"A slope over r needs two or more router counts, such as r=1..9; found {list(routers)}.")
    centred = r - r.mean()
    return centred / np.sum(centred**2)


def sensitivity_slope(sweep: Sweep, *, rng: Generator, n_resamples: int = N_RESAMPLES) -> Interval:
    """Eq. 5 made discrete: the cue intensity is r, and dm/d(lambda) is the OLS slope of noisy accuracy on r.

    The interval comes from resampling items (clusters) with all r of an item together.
    """
    weights = slope_weights(sweep.routers)
    noisy = bootstrap_sweep(sweep.clean, sweep.noisy, sweep.cluster, n_resamples=n_resamples, rng=rng).noisy

    def of(accuracy: FloatArray) -> FloatArray:
        """From the first r on: equal accuracies then have a slope of exactly 0."""
        return (accuracy - accuracy[..., :1]) @ weights

    slope = Resamples(
        np.atleast_1d(of(noisy.estimate)),
        of(noisy.draws)[:, None],
        of(noisy.jackknife)[:, None],
        noisy.jackknife_weight,
    )
    return slope.intervals(units=int(noisy.jackknife_weight.sum()))[0]


def h1_any_excess(pvalues: Mapping[str, float], excess: Sequence[str], alpha: float = ALPHA) -> HypothesisResult:
    """H1: does any model exceed its clean baseline at any r, and every control that was run, after correction?

    pvalues: of each model, the verdict's own (smallest over r of `Reading.adjusted`). excess: the models whose verdict
    is an excess, which asks for more. The p-value is the smallest after Holm over the models; the effect is the number
    of models in excess.
    """
    if not pvalues:
        raise DataError("H1 needs the p-value of at least one model.")
    adjusted = holm(list(pvalues.values()))
    p = float(adjusted.min())
    found = "excess" if excess else "not_counted" if p <= alpha else "none"
    said = because(f"h1_{found}", models=len(pvalues), count=len(excess), excess=list(excess), p=p)
    return HypothesisResult(p, float(len(excess)), said)


def h2_heterogeneity(sweeps: Sequence[Sweep], alpha: float = ALPHA) -> HypothesisResult:
    """H2: do the models' mean gains differ by more than sampling explains?

    The gains are correlated over the same items: Hotelling's T^2 on the K - 1 differences of the per-item mean gains,
    with F(K - 1, G - K + 1) over G items (clusters) that all models answered. The effect is the between-model standard
    deviation of the mean gain beyond sampling error (method of moments, accuracy 0-1).
    Raises DataError for fewer than two models, or fewer clusters than models.
    """
    if len(sweeps) < 2:
        raise DataError(f"H2 compares models: at least two are needed, found {len(sweeps)}.")
    gains, cluster = _by_item([average(s.noisy - s.clean) for s in sweeps], sweeps)
    complete = ~np.isnan(gains).any(axis=0)
    gains, cluster = gains[:, complete], cluster[complete]
    k, n = gains.shape
    groups = np.unique(cluster).size
    if groups <= k:
        raise DataError(f"H2 over {k} models needs more than {k} items (clusters) that all answered; found {groups}.")
    mean = gains.mean(axis=1)
    _, index = np.unique(cluster, return_inverse=True)
    residual = np.stack([np.bincount(index, weights=row, minlength=groups) for row in gains - mean[:, None]])
    covariance = residual @ residual.T / n**2 * groups / (groups - 1)  # of the K means, clusters kept whole
    contrast = np.eye(k)[1:] - np.eye(k)[:1]
    d, v = contrast @ mean, contrast @ covariance @ contrast.T
    rank = int(np.linalg.matrix_rank(v, tol=1e-14))
    p = 1.0  # the same outcomes from every model
    if rank:
        t2 = float(d @ np.linalg.pinv(v, rcond=1e-10, hermitian=True) @ d)
        p = float(scipy.stats.f.sf(t2 * (groups - rank) / (rank * (groups - 1)), rank, groups - rank))
    noise = float(np.trace(covariance) / k - covariance.sum() / k**2) * k / (k - 1)
    spread = float(np.sqrt(max(0.0, mean.var(ddof=1) - noise)))
    low, high = int(np.argmin(mean)), int(np.argmax(mean))
    said = because(
        "h2_differ" if p <= alpha else "h2_alike", models=k, items=n, p=p, lowest=float(mean[low]),
        highest=float(mean[high]), lowest_model=sweeps[low].model, highest_model=sweeps[high].model,
    )  # fmt: skip
    return HypothesisResult(p, spread, said)


def h3_direction(
    sweeps: Sequence[Sweep], *, rng: Generator, n_permutations: int = N_RESAMPLES, alpha: float = ALPHA
) -> HypothesisResult:
    """H3: as r grows, do improvements rise AND degradations fall?

    An item's trend is s = sum((r - mean r) * y) over its noisy outcomes; it speaks for improve where the clean answer
    was wrong, and for (less) degrade where it was right. Under the null of no trend, reading an item's settings from
    the last r to the first is as likely, which flips the sign of s (for equally spaced r without gaps; else s is taken
    to be symmetric) and keeps the correlation of nested draws. All models of an item flip together. H3 claims both
    directions, so its p-value is the larger of the two (an intersection-union test). The effect is the rise of net
    improve per added router, in items over all models.
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

    p_improve, p_degrade = (
        sign_flip_pvalue(scores, cluster, n_permutations=n_permutations, rng=rng) for scores in (rise, fall)
    )
    said = because("h3", alpha=alpha, p_improve=p_improve, p_degrade=p_degrade, up=improve, down=degrade)
    return HypothesisResult(max(p_improve, p_degrade), improve - degrade, said)


def _item_trends(sweep: Sweep) -> FloatArray:
    """s (n,) = sum over answered r of (r - mean of the answered r) * value; 0 where fewer than two were answered."""
    slope_weights(sweep.routers)  # raises for a single router count
    r = np.asarray(sweep.routers, dtype=float)[:, None]
    trend: FloatArray = np.zeros(sweep.n)
    for start in range(0, sweep.n, ITEMS):  # some items at a time: each step makes an array of all their outcomes
        noisy = sweep.noisy[:, start : start + ITEMS]
        seen = ~np.isnan(noisy)
        centre = np.sum(r * seen, axis=0) / np.maximum(seen.sum(axis=0), 1)
        trend[start : start + ITEMS] = np.sum(np.where(seen, (r - centre) * np.nan_to_num(noisy), 0.0), axis=0)
    return trend


def _by_item(values: Sequence[FloatArray], sweeps: Sequence[Sweep]) -> tuple[FloatArray, IntArray]:
    """Line up per-item values of several cells: (K, N) over the union of their items, NaN where absent, and clusters.

    Items are the same when benchmark and id are. Two items share a cluster when any cell says so.
    """
    keys = sorted({(s.benchmark, q) for s in sweeps for q in s.question_ids})
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
    rows, columns = (np.concatenate(part) for part in zip(*edges, strict=True))
    graph = scipy.sparse.coo_array((np.ones(rows.size), (rows, columns)), shape=(groups, groups))
    _, label = connected_components(graph, directed=False)
    return out, label[: len(keys)].astype(np.int64)
