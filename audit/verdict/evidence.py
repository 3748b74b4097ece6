"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `measure`.

Three comparisons, each over all r at once: noisy against the clean baseline, against `direct`, and against the ensemble
control at the same r. Each gives one family-wise p and step-down adjusted p per r (max-statistic sign flips).

Where a setting was run with several replicates, estimates and intervals use their mean, and p-values one replicate
drawn per question (`values.drawn_values` says why). The noisy draw is the same in all comparisons of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from audit.errors import DataError
from audit.records import Arm
from audit.statistics.chance import chance_level
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray
from audit.statistics.power import discordance_of, minimum_detectable_gain
from audit.statistics.resampling import Interval, Resamples, bootstrap_sweep, max_statistic_permutation
from audit.statistics.values import Sweep, average, drawn_values, replicates_of, settings_values, sweep_of
from audit.verdict.thresholds import Thresholds

CONFIDENCE = 0.95
COMPARED = (Arm.NOISY_REWRITE, Arm.FORWARD_FULL, Arm.DIRECT)


@dataclass(frozen=True)
class Comparison:
    """The noisy arm minus something else, at R router counts over the same questions.

    gain, pvalues, adjusted, low, high: (R,). low and high are simultaneous: they hold for all r together with 95 %.
    pointwise: one BCa interval a router count. mean: the gain averaged over r, with its interval. family_p: one p for
    "any r". improve, degrade: (R,) counts, fractions where replicates were averaged. n: (R,) pairs with both answers.
    With several replicates, gain and limits use all of them, the p-values one drawn per question.
    """

    routers: tuple[int, ...]
    n: IntArray
    gain: FloatArray
    low: FloatArray
    high: FloatArray
    pointwise: tuple[Interval, ...]
    mean: Interval
    family_p: float
    pvalues: FloatArray
    adjusted: FloatArray
    improve: FloatArray
    degrade: FloatArray

    @property
    def best(self) -> int:
        """Index of the router count with the largest gain."""
        return int(np.nanargmax(self.gain))


@dataclass(frozen=True)
class Evidence:
    """Everything that `decide` looks at, apart from the gates. A comparison is None where its control was not run.

    without_leak: against clean, each r without the questions of which a noisy message at that r states the answer; None
    when there are no leaks or nothing is left. mde: smallest detectable gain (NaN: none). Accuracies are 0-1.
    one_drawn: several replicates were run of a setting, so that the p-values use one drawn per question.
    """

    clean: Comparison
    direct: Comparison | None
    ensemble: Comparison | None
    without_leak: Comparison | None
    clean_accuracy: float
    direct_accuracy: float | None
    chance: float
    discordance: float
    mde: float
    one_drawn: bool = False

    @property
    def largest_compatible(self) -> float:
        """The upper end of the simultaneous interval, the largest over r, at least 0; NaN without intervals."""
        high = self.clean.high[np.isfinite(self.clean.high)]
        return max(float(high.max()), 0.0) if high.size else float("nan")


def measure(
    cell: CellOutcomes,
    thresholds: Thresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    without_leak: BoolArray | None = None,
    mde: float | None = None,
    intervals: bool = True,
    panel: int = 1,
) -> Evidence:
    """All comparisons of one cell.

    without_leak: (n,), or (R, n) for each router count, true for questions without an answer leak. panel: cells over
    which the verdict is corrected; the detectable gain is that of the corrected test. mde: given by a caller that knows
    it (calibration), else computed from the observed discordance. intervals=False skips every bootstrap (their limits
    are then NaN).
    Raises DataError when the clean or the noisy arm was not run or shares no answered question.
    """
    sweep = sweep_of(cell)
    settings = {"rng": rng, "n_resamples": n_resamples, "intervals": intervals}
    noisy, base = drawn_pair(cell, sweep.routers, rng)
    clean = compare(
        sweep.noisy,
        sweep.clean[None],
        sweep.routers,
        sweep.cluster,
        tested=noisy - base,
        **settings,  # type: ignore[arg-type]
    )
    direct = ensemble = leakless = None
    direct_accuracy = None
    if replicates_of(cell, Arm.DIRECT, 0):
        values = settings_values(cell, replicates_of(cell, Arm.DIRECT, 0))
        direct_accuracy = float(np.nanmean(values)) if np.any(~np.isnan(values)) else None
        tested = noisy - drawn_values(cell, Arm.DIRECT, (0,), rng)
        direct = _if_paired(sweep, values[None], sweep.routers, tested, settings)
    shared = tuple(r for r in sweep.routers if replicates_of(cell, Arm.FORWARD_FULL, r))
    if any(r > 1 for r in shared):
        control = np.stack([settings_values(cell, replicates_of(cell, Arm.FORWARD_FULL, r)) for r in shared])
        tested = noisy[[sweep.routers.index(r) for r in shared]] - drawn_values(cell, Arm.FORWARD_FULL, shared, rng)
        ensemble = _if_paired(sweep, control, shared, tested, settings)
    if without_leak is not None and not np.all(without_leak):
        kept = replace(sweep, noisy=np.where(without_leak, sweep.noisy, np.nan))
        tested = np.where(without_leak, noisy - base, np.nan)
        leakless = _if_paired(kept, kept.clean[None], sweep.routers, tested, settings)
    discordance = discordance_of(sweep.clean, sweep.noisy)
    return Evidence(
        clean=clean,
        direct=direct,
        ensemble=ensemble,
        without_leak=leakless,
        clean_accuracy=float(np.nanmean(sweep.clean)),
        direct_accuracy=direct_accuracy,
        chance=chance_level(cell.n_options),
        discordance=discordance,
        mde=detectable_gain(sweep, discordance, thresholds, panel) if mde is None else mde,
        one_drawn=any(len(replicates_of(cell, s.arm, s.routers)) > 1 for s in cell.settings if s.arm in COMPARED),
    )


def drawn_pair(cell: CellOutcomes, routers: tuple[int, ...], rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Noisy (R, n) and clean (1, n), one replicate drawn per question: what the p-values look at."""
    noisy = drawn_values(cell, Arm.NOISY_REWRITE, routers, rng)
    return noisy, drawn_values(cell, Arm.FORWARD_FULL, (1,), rng)


def detectable_gain(sweep: Sweep, discordance: float, thresholds: Thresholds, panel: int = 1) -> float:
    """Minimum detectable gain of this sweep, each r tested at alpha / (R x panel): a bound for the max-statistic test
    and Holm over the cells of a panel. It is the gain against the clean baseline alone, at one r.

    With clusters, n is divided by the design effect of the observed differences, so that 100 questions on five passages
    do not pass for 100 independent ones; with so few clusters that no flip of signs can reject, no gain is detectable.
    """
    difference = sweep.noisy - sweep.clean
    n = int(np.median(np.sum(~np.isnan(difference), axis=1)))
    if n < 1 or not can_reject(np.unique(sweep.cluster).size, thresholds.alpha / panel):
        return float("nan")
    if np.unique(sweep.cluster).size < sweep.n:
        d = np.nan_to_num(average(difference))
        d = d - d.mean()
        summed = np.bincount(sweep.cluster, weights=d)
        effect = float(np.sum(summed**2) / np.sum(d**2)) if np.any(d) else 1.0
        n = max(int(n / max(effect, 1.0)), 1)
    return minimum_detectable_gain(
        n, discordance, alpha=thresholds.alpha, n_tests=len(sweep.routers) * panel, power=thresholds.power
    )


def can_reject(clusters: int, alpha: float) -> bool:
    """Whether flipping the signs of so many clusters can give p <= alpha at all: the smallest p is 2^-clusters."""
    return bool(2.0**-clusters <= alpha)


def compare(
    noisy: FloatArray,
    base: FloatArray,
    routers: tuple[int, ...],
    cluster: IntArray,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    intervals: bool = True,
    tested: FloatArray | None = None,
) -> Comparison:
    """Noisy (R, n) minus base (R, n) or (1, n), values in [0, 1] or NaN, paired by question.

    tested: (R, n) differences that the p-values look at, -1, 0, 1 or NaN; those of noisy and base where None, which is
    right for one replicate of each. Means of replicates need `drawn_values`.

    The routines below take one shared baseline. A baseline of its own for each r is the same problem in the
    differences: 1/2 + d/2 against 1/2 has half the difference, the same p, and half the interval.

    Fewer than five clusters (one subject, say) get the limits -1 and 1: resampling them shows no spread to speak of,
    and the zero width of a single one would clear any model.
    """
    d = noisy - base
    n = np.sum(~np.isnan(d), axis=1).astype(np.int64)
    if not n.any():
        raise DataError("Not one question has an answer in both arms: nothing can be compared.")
    half = np.full(d.shape[1], 0.5)
    signs = half + (d if tested is None else tested) / 2
    test = max_statistic_permutation(half, signs, cluster, n_permutations=n_resamples, rng=rng)
    with np.errstate(invalid="ignore"):
        gain = np.nansum(d, axis=1) / np.where(n > 0, n, np.nan)
    nothing = Interval(float("nan"), float("nan"), float("nan"), CONFIDENCE, "bca", float("nan"))
    pointwise: tuple[Interval, ...] = (nothing,) * len(routers)
    mean = Interval(float(np.nanmean(gain)), float("nan"), float("nan"), CONFIDENCE, "bca", float("nan"))
    low = high = np.full(len(routers), np.nan)
    enough = can_reject(np.unique(cluster[np.any(~np.isnan(d), axis=0)]).size, 1 - CONFIDENCE)
    if intervals and enough:
        draws = bootstrap_sweep(half, half + d / 2, cluster, routers=routers, n_resamples=n_resamples, rng=rng)
        pointwise = tuple(_doubled(i) for i in draws.gain.intervals(CONFIDENCE))
        mean = _doubled(draws.mean_gain.intervals(CONFIDENCE)[0])
        low, high = simultaneous(draws.gain)
        low, high = 2 * low, 2 * high
    elif intervals:
        pointwise = tuple(Interval(float(g), -1.0, 1.0, CONFIDENCE, "bca", float("nan")) for g in gain)
        mean = Interval(mean.estimate, -1.0, 1.0, CONFIDENCE, "bca", float("nan"))
        low, high = np.full(len(routers), -1.0), np.full(len(routers), 1.0)
    a, b = np.nan_to_num(noisy), np.nan_to_num(np.broadcast_to(base, noisy.shape))
    both = ~np.isnan(d)
    return Comparison(
        routers=routers,
        n=n,
        gain=gain,
        low=low,
        high=high,
        pointwise=pointwise,
        mean=mean,
        family_p=test.pvalue,
        pvalues=test.pvalues,
        adjusted=test.adjusted,
        improve=np.sum(np.where(both, a * (1 - b), 0), axis=1),
        degrade=np.sum(np.where(both, b * (1 - a), 0), axis=1),
    )


def simultaneous(gain: Resamples, confidence: float = CONFIDENCE) -> tuple[FloatArray, FloatArray]:
    """Limits (R,), (R,) that hold for all R gains together: estimate +- c * se.

    c is the quantile over resamples of the largest |resample - estimate| / se (a bootstrap max-t interval; Romano &
    Wolf 2005, Econometrica 73). A gain whose resamples never move has limits equal to its estimate.
    """
    there = np.sum(np.isfinite(gain.draws), axis=0) > 1  # not so for an r without one answered pair
    se = np.full(gain.estimate.size, np.nan)
    se[there] = np.nanstd(gain.draws[:, there], axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.abs(gain.draws - gain.estimate) / np.where(se > 0, se, np.nan)
    finite = np.where(np.isnan(t), -np.inf, t).max(axis=1)
    moved = finite[np.isfinite(finite)]
    c = float(np.quantile(moved, confidence)) if moved.size else 0.0
    return gain.estimate - c * se, gain.estimate + c * se


def _if_paired(
    sweep: Sweep, base: FloatArray, routers: tuple[int, ...], tested: FloatArray, settings: dict[str, object]
) -> Comparison | None:
    noisy = sweep.noisy[[sweep.routers.index(r) for r in routers]]
    if not np.any(~np.isnan(noisy - base)):
        return None
    return compare(noisy, base, routers, sweep.cluster, tested=tested, **settings)  # type: ignore[arg-type]


def _doubled(i: Interval) -> Interval:
    return Interval(2 * i.estimate, 2 * i.low, 2 * i.high, i.confidence, i.method, 2 * i.se)
