"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `measure`.

Noisy is compared with each control over all r at once: the clean baseline, `direct` (the original question) and the
ensemble control at the same r. Each comparison gives one family-wise p and step-down adjusted p per r (max-statistic
permutation). All three are made under one reading of the replies after another, the same for every arm: as read,
without leaked questions, and with unread replies held against an excess. Replicates of a setting are all used, by
estimates, intervals and tests; what runs vary by beyond their questions is in all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from scipy import stats

from audit.errors import DataError
from audit.statistics.chance import chance_level
from audit.statistics.eprocess import Differences, adjusted, at_any_stop
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray, IntArray, State
from audit.statistics.permutation import can_reject, max_statistic_exchange
from audit.statistics.power import discordance_of
from audit.statistics.resampling import Interval, Resamples, bootstrap_sweep, expansion
from audit.statistics.run_variance import ASSUMED_ZERO, RunVariance
from audit.statistics.values import Unparsed, average, replicates_of, router_counts, runs_of
from audit.sweep.design import Arm

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """One arm minus another, at R router counts over the same questions.

    gain, pvalues, adjusted, low, high: (R,). low and high are simultaneous: they hold for all r together with 95 %.
    pointwise: one BCa interval a router count. mean: the gain averaged over r, with its interval. family_p: one p for
    "any r". fall_p: for "the mean over r is below zero". improve, degrade: (R,) counts, fractions where replicates were
    averaged. n: (R,) pairs with both answers. p-values are one-sided.

    log_e: (R,) log e-values of a gain, where every p and limit holds at any stop (`compare_at_any_stop`); else None.
    """

    routers: tuple[int, ...]
    n: IntArray
    gain: FloatArray
    low: FloatArray
    high: FloatArray
    pointwise: tuple[Interval, ...]
    mean: Interval
    family_p: float
    fall_p: float
    pvalues: FloatArray
    adjusted: FloatArray
    improve: FloatArray
    degrade: FloatArray
    log_e: FloatArray | None = None

    @property
    def best(self) -> int:
        """Index of the router count with the largest gain."""
        return int(np.nanargmax(self.gain))

    @property
    def largest_compatible(self) -> float:
        """A 97.5 % upper limit of the largest gain over r: the largest of the upper ends of the intervals per r.

        Whatever r the largest gain is at, it lies above the end of its own interval with probability 2.5 % only, and
        above the largest end with less: no correction for the number of r is needed (an intersection-union argument;
        Berger & Hsu 1996, Statistical Science 11). At least the share of questions that could all improve unseen: none
        of n improves with probability 2.5 % where it is 1 - 0.025^(1/n) of them, and there a bootstrap of few or no
        changes sees nothing. NaN without intervals.
        """
        high = np.array([i.high for i in self.pointwise])
        high = high[np.isfinite(high)]
        unseen = 1 - ((1 - CONFIDENCE) / 2) ** (1 / max(int(self.n.max()), 1))
        return max(float(high.max()), unseen) if high.size else float("nan")


@dataclass(frozen=True)
class Reading:
    """Noisy against each control under one reading of the replies.

    None for a control that was not run, or where nothing is left to compare.
    """

    clean: Comparison | None
    direct: Comparison | None
    ensemble: Comparison | None

    def comparisons(self) -> tuple[Comparison, ...]:
        """Those that were made."""
        return tuple(c for c in (self.clean, self.direct, self.ensemble) if c is not None)

    def adjusted(self, routers: tuple[int, ...], *, ensemble: bool = True) -> FloatArray:
        """(R,) p of "noisy beats every control at this r": the largest adjusted p (an intersection-union test; Berger
        1982, Technometrics 24). A control that was not run at an r asks nothing there; NaN where clean could not be
        compared. ensemble=False leaves the ensemble control out."""
        if self.clean is None:
            return np.full(len(routers), np.nan)
        used = [c for c in self.comparisons() if ensemble or c is not self.ensemble]
        if self.clean.log_e is not None:  # of e-values the smallest over controls, and only then over r
            return at_any_stop(self.log_e(routers, ensemble=ensemble))
        return reduce(np.fmax, [_at(c, c.adjusted, routers) for c in used])

    def log_e(self, routers: tuple[int, ...], *, ensemble: bool = True) -> FloatArray:
        """(R,) adjusted log e-values of the same, in a run that may have stopped early."""
        used = [c for c in self.comparisons() if ensemble or c is not self.ensemble]
        smallest = reduce(np.fmin, [_at(c, c.log_e, routers) for c in used if c.log_e is not None])
        return adjusted(np.nan_to_num(smallest, nan=-np.inf))


@dataclass(frozen=True)
class Evidence:
    """Everything that `decide` looks at, apart from the gates. Accuracies are 0-1.

    plain: as read. without_leak: each r without the questions of which a noisy message at that r states the answer;
    None without leaks. adverse: the same, and every reply that could not be read held against an excess (noisy ones
    wrong, those of every control right); None when all were read. favourable: against clean with such replies held for
    it; None when all were read. ensemble_gain: the ensemble control against clean, for what repetition alone gains.
    run_variance: what entered every test and interval; estimated but left out where `at_any_stop`.
    """

    plain: Reading
    without_leak: Reading | None
    adverse: Reading | None
    favourable: Comparison | None
    ensemble_gain: Comparison | None
    run_variance: RunVariance
    clean_accuracy: float
    direct_accuracy: float | None
    chance: float
    discordance: float

    @property
    def clean(self) -> Comparison:
        """Noisy against the clean baseline, as read."""
        assert self.plain.clean is not None  # noqa: S101 - `measure` raises where it could not be made
        return self.plain.clean

    @property
    def p_value(self) -> float:
        """The cell's p of an excess: the smallest over r of the largest adjusted p over the controls (as read)."""
        return float(np.nanmin(self.plain.adjusted(self.clean.routers)))

    @property
    def largest_compatible(self) -> float:
        """The upper limit of the gain over clean, unread replies held for a gain where there are any."""
        limits = [c.largest_compatible for c in (self.clean, self.favourable) if c is not None]
        return max(limits)

    @property
    def at_any_stop(self) -> bool:
        """Whether p-values and limits hold although the data decided how many questions were asked."""
        return self.clean.log_e is not None

    def controlled(self, routers: int) -> bool:
        """Whether both `direct` and the ensemble control were run for this r (r=1 is its own ensemble control)."""
        ensemble = self.plain.ensemble
        return self.plain.direct is not None and (
            routers == 1 or (ensemble is not None and routers in ensemble.routers)
        )


def measure(
    cell: CellOutcomes,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    without_leak: BoolArray | None = None,
    run_variance: RunVariance = ASSUMED_ZERO,
    intervals: bool = True,
    largest_cluster: int | None = None,
) -> Evidence:
    """All comparisons of one cell.

    largest_cluster: of a run that may have been stopped early, the questions of the largest cluster of its whole sample
    (1 without clusters): every comparison is then one that holds at any stop. None for a fixed number of questions.

    without_leak: (R, n) for each router count, true for questions without an answer leak. run_variance: as estimated
    over the panel. intervals=False skips every bootstrap (their limits are then NaN).
    Raises DataError when the clean or the noisy arm was not run or shares no answered question.
    """
    routers = router_counts(cell, Arm.NOISY_REWRITE)
    shared = tuple(r for r in routers if replicates_of(cell, Arm.FORWARD_FULL, r))
    has_direct = bool(replicates_of(cell, Arm.DIRECT, 0))
    options: dict[str, Any] = {"rng": rng, "n_resamples": n_resamples, "intervals": intervals}
    options["run_variance"] = run_variance

    def against(runs: FloatArray, other: FloatArray, at: tuple[int, ...]) -> Comparison | None:
        if not np.any(~np.isnan(average(runs) - average(other))):
            return None
        if largest_cluster is not None:
            return compare_at_any_stop(runs, other, at, cell.cluster, largest_cluster)
        return compare(
            runs,
            other,
            at,
            cell.cluster,
            rng=rng,
            n_resamples=n_resamples,
            intervals=intervals,
            run_variance=run_variance,
        )

    def reading(keep: BoolArray | None, noisy_unread: Unparsed, unread: Unparsed) -> Reading:
        noisy = runs_of(cell, Arm.NOISY_REWRITE, routers, noisy_unread)
        noisy = noisy if keep is None else np.where(keep, noisy, np.nan)
        direct = ensemble = None
        if has_direct:
            direct = against(noisy, runs_of(cell, Arm.DIRECT, (0,), unread), routers)
        if any(r > 1 for r in shared):
            control = runs_of(cell, Arm.FORWARD_FULL, shared, unread)
            ensemble = against(noisy[:, [routers.index(r) for r in shared]], control, shared)
        return Reading(against(noisy, runs_of(cell, Arm.FORWARD_FULL, (1,), unread), routers), direct, ensemble)

    plain = reading(None, "left_out", "left_out")
    if plain.clean is None:
        raise DataError("Not one question has an answer in both arms: nothing can be compared.")
    leaks = without_leak is not None and not np.all(without_leak)
    unread = bool(np.isin(cell.state, (State.UNPARSED, State.TRUNCATED)).any())
    more = tuple(r for r in shared if r > 1)
    base = runs_of(cell, Arm.FORWARD_FULL, (1,))
    favourable = None
    if unread:
        favourable = against(
            runs_of(cell, Arm.NOISY_REWRITE, routers, "right"), runs_of(cell, Arm.FORWARD_FULL, (1,), "wrong"), routers
        )
    original = runs_of(cell, Arm.DIRECT, (0,)) if has_direct else np.full((1, 1, cell.n), np.nan)
    clean_values = average(base)[0]
    return Evidence(
        plain=plain,
        without_leak=reading(without_leak, "left_out", "left_out") if leaks else None,
        adverse=reading(without_leak, "wrong", "right") if unread else None,
        favourable=favourable,
        ensemble_gain=against(runs_of(cell, Arm.FORWARD_FULL, more), base, more) if more else None,
        run_variance=run_variance,
        clean_accuracy=float(np.nanmean(clean_values)),
        direct_accuracy=float(np.nanmean(original)) if np.any(~np.isnan(original)) else None,
        chance=chance_level(cell.n_options),
        discordance=discordance_of(clean_values, average(runs_of(cell, Arm.NOISY_REWRITE, routers))),
    )


def compare(
    runs: FloatArray,
    other: FloatArray,
    routers: tuple[int, ...],
    cluster: IntArray,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    intervals: bool = True,
    run_variance: RunVariance = ASSUMED_ZERO,
) -> Comparison:
    """Runs (L, R, n) of one arm minus runs (K, R, n) or (K, 1, n) of another: 0, 1 or NaN, paired by question.

    A run that repeats another answer for answer adds nothing, and would not be an exchange for a run that differs: it
    is counted once.

    The bootstrap takes one shared baseline. A baseline of its own for each r is the same problem in the differences:
    1/2 + d/2 against 1/2 has half the difference and half the interval.

    Run variance makes every interval longer, by the ratio of the standard error with it to that of the items alone.

    Fewer than five clusters (one subject, say) get the limits -1 and 1: resampling them shows no spread to speak of,
    and the zero width of a single one would clear any model.
    """
    runs, other = _distinct(runs), _distinct(other)
    noisy, base = average(runs), average(other)
    d = noisy - base
    n = np.sum(~np.isnan(d), axis=1).astype(np.int64)
    half = np.full(d.shape[1], 0.5)
    test = max_statistic_exchange(runs, other, cluster, n_permutations=n_resamples, run_variance=run_variance, rng=rng)
    with np.errstate(invalid="ignore"):
        gain = np.nansum(d, axis=1) / np.where(n > 0, n, np.nan)
    nan = float("nan")
    pointwise: tuple[Interval, ...] = (Interval(nan, nan, nan, CONFIDENCE, "bca", nan),) * len(routers)
    mean, fall_p = Interval(float(np.nanmean(gain)), nan, nan, CONFIDENCE, "bca", nan), nan
    low = high = np.full(len(routers), np.nan)
    clusters = np.unique(cluster[np.any(~np.isnan(d), axis=0)]).size
    enough = can_reject(clusters, 1 - CONFIDENCE)
    if intervals and enough:
        draws = bootstrap_sweep(half, half + d / 2, cluster, routers=routers, n_resamples=n_resamples, rng=rng)
        of_each = draws.gain.intervals(CONFIDENCE, units=clusters)
        (of_mean,) = draws.mean_gain.intervals(CONFIDENCE, units=clusters)
        answered = np.maximum(np.sum(np.any(~np.isnan(runs), axis=2), axis=0), 1)  # runs that were made at each r
        counts = 1 / answered + 1 / len(other)
        longer = _longer(np.array([2 * i.se for i in of_each]), counts, run_variance)
        all_runs = np.array([1 / answered.sum() + 1 / len(other)])
        whole = _longer(np.array([2 * of_mean.se]), all_runs, run_variance)
        pointwise = tuple(_doubled(i, float(f)) for i, f in zip(of_each, longer, strict=True))
        mean = _doubled(of_mean, float(whole[0]))
        se = (mean.high - mean.low) / (2 * stats.norm.ppf((1 + CONFIDENCE) / 2))
        fall_p = float(stats.norm.cdf(mean.estimate / se)) if se > 0 else float(mean.estimate >= 0)
        low, high = simultaneous(draws.gain, units=clusters)
        low, high = gain - 2 * (draws.gain.estimate - low) * longer, gain + 2 * (high - draws.gain.estimate) * longer
    elif intervals:
        pointwise = tuple(Interval(float(g), -1.0, 1.0, CONFIDENCE, "bca", nan) for g in gain)
        mean, fall_p = Interval(mean.estimate, -1.0, 1.0, CONFIDENCE, "bca", nan), 1.0
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
        fall_p=fall_p,
        pvalues=test.pvalues,
        adjusted=test.adjusted,
        improve=np.sum(np.where(both, a * (1 - b), 0), axis=1),
        degrade=np.sum(np.where(both, b * (1 - a), 0), axis=1),
    )


def compare_at_any_stop(
    runs: FloatArray, other: FloatArray, routers: tuple[int, ...], cluster: IntArray, largest_cluster: int
) -> Comparison:
    """As `compare`, by betting: every p and limit holds however often the data were looked at (`statistics.eprocess`).

    p-values are 1 / e; "any r" is the mean e-value, each r is adjusted by closed testing, `low` and `high` by
    Bonferroni. What whole runs vary by is not in them: questions are the only random factor.
    """
    noisy, base = average(_distinct(runs)), average(_distinct(other))
    d = noisy - base
    both = ~np.isnan(d)
    n = both.sum(axis=1).astype(np.int64)
    gain = np.where(n > 0, np.nansum(d, axis=1) / np.maximum(n, 1), np.nan)
    bets = Differences.of(d, cluster, largest_cluster)
    over_r = average(d)[None]  # a question's mean over r
    mean = Differences.of(over_r, cluster, largest_cluster)
    log_e, nan = bets.log_e(), float("nan")
    each, tail = adjusted(log_e), (1 - CONFIDENCE) / 2
    lows, highs = bets.lower_limit(tail), bets.upper_limit(tail)
    (mean_low,), (mean_high,) = mean.lower_limit(tail), mean.upper_limit(tail)
    a, b = np.nan_to_num(noisy), np.nan_to_num(np.broadcast_to(base, noisy.shape))
    return Comparison(
        routers=routers,
        n=n,
        gain=gain,
        low=bets.lower_limit(tail / len(routers)),
        high=bets.upper_limit(tail / len(routers)),
        pointwise=tuple(
            Interval(float(g), float(low), float(high), CONFIDENCE, "betting", nan)
            for g, low, high in zip(gain, lows, highs, strict=True)
        ),
        mean=Interval(float(np.nanmean(over_r)), float(mean_low), float(mean_high), CONFIDENCE, "betting", nan),
        family_p=float(at_any_stop(each).min()),
        fall_p=float(at_any_stop(mean.negated().log_e())[0]),
        pvalues=at_any_stop(log_e),
        adjusted=at_any_stop(each),
        improve=np.sum(np.where(both, a * (1 - b), 0), axis=1),
        degrade=np.sum(np.where(both, b * (1 - a), 0), axis=1),
        log_e=log_e,
    )


def _longer(se: FloatArray, runs: FloatArray, run_variance: RunVariance) -> FloatArray:
    """Factor (R,) by which intervals of standard errors `se` are lengthened."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(se > 0, run_variance.total_se(se, runs) / se, 1.0)


def _at(c: Comparison, values: FloatArray, routers: tuple[int, ...]) -> FloatArray:
    """Values (of c.routers) at these router counts, NaN where the comparison was not made."""
    there = dict(zip(c.routers, values, strict=True))
    return np.array([there.get(r, np.nan) for r in routers])


def _distinct(runs: FloatArray) -> FloatArray:
    """Without the runs (axis 0) that equal an earlier one everywhere, as those of a deterministic worker do."""
    kept: list[FloatArray] = []
    for run in runs:
        if not any(np.array_equal(run, one, equal_nan=True) for one in kept):
            kept.append(run)
    return np.stack(kept)


def simultaneous(
    gain: Resamples, confidence: float = CONFIDENCE, units: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Limits (R,), (R,) that hold for all R gains together: estimate +- c * se, widened for few units (`expansion`).

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
    c *= expansion(confidence, units)
    return gain.estimate - c * se, gain.estimate + c * se


def _doubled(i: Interval, longer: float) -> Interval:
    """Twice the interval, its arms longer by a factor and inside -1 to 1."""
    low, high = (float(np.clip(2 * (i.estimate + longer * (end - i.estimate)), -1, 1)) for end in (i.low, i.high))
    return Interval(2 * i.estimate, low, high, i.confidence, i.method, 2 * i.se)
