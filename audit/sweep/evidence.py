"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `measure`.

Noisy is compared with each control over all r at once (`compare`): the clean baseline, `direct` (the original question)
and the ensemble control at the same r, under one reading of the replies after another (`Evidence`).

Does a gain belong to the router messages? A noisy message that hints at the answer without stating it lifts every
reader. So the model's gain is set against that of a reference that was given the same messages (`HintTest`), on three
scales (points, log-odds, log share of wrong answers repaired): the two need not be equally able.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import scipy

from audit.errors import DataError
from audit.statistics.estimate import means_of
from audit.statistics.multiplicity import holm
from audit.statistics.paired import UNANSWERED, BoolArray, CellOutcomes, FloatArray, IntArray
from audit.statistics.power import discordance_of
from audit.statistics.run_variance import RunShifts
from audit.statistics.unparsed import DECIDE_AT, imputed, predict_right
from audit.statistics.values import average, levels_of, mean_of, replicates_of, runs_of, to_values
from audit.sweep.compare import CONFIDENCE, Comparison, compare, distinct
from audit.sweep.design import Arm
from audit.sweep.record import run_shifts

WEAKER_MAX = 0.03  # accuracy from clean messages by which the reference may be below the tested model


@dataclass(frozen=True)
class HintTest:
    """The tested model's gain less the reference's.

    pvalues: (R,) one-sided, the largest over the scales; mean_p: of the mean over r. difference: (R,) in points (0-1).
    reference_gain: on average over r. reads_as_well: the reference is not weaker by WEAKER_MAX, so misses no hints.
    """

    reference: str
    routers: tuple[int, ...]
    difference: FloatArray
    reference_gain: float
    pvalues: FloatArray
    mean_p: float
    reads_as_well: bool
    reference_p: float = float("nan")  # one-sided, for a gain of the reference itself

    def beyond(self, alpha: float) -> frozenset[int]:
        """Router counts at which the gain is more than the messages give the reference: all where the mean over r
        is, else those that stand after Holm; each way has half of alpha."""
        if not self.reads_as_well:
            return frozenset()
        if self.mean_p <= alpha / 2:
            return frozenset(self.routers)
        return frozenset(r for r, p in zip(self.routers, holm(self.pvalues), strict=True) if p <= alpha / 2)


def hint_test(
    cell: CellOutcomes, reference: CellOutcomes, shifts: RunShifts, of_reference: RunShifts
) -> HintTest | None:
    """None where the two share no router count, or no answered question. Normal approximation, clustered by item."""
    place = {q: i for i, q in enumerate(reference.question_ids)}
    here = np.array([q in place for q in cell.question_ids], dtype=bool)
    there = np.array([place[q] for q in cell.question_ids if q in place], dtype=int)
    both = set(levels_of(reference, Arm.NOISY_REWRITE))
    routers = tuple(r for r in levels_of(cell, Arm.NOISY_REWRITE) if r in both)
    if not routers or not here.any() or not replicates_of(reference, Arm.FORWARD_FULL, 1):
        return None
    sides = []
    for one, at, known in ((cell, here, shifts), (reference, there, of_reference)):
        noisy = distinct(runs_of(one, Arm.NOISY_REWRITE, routers)[:, :, at])
        clean = distinct(runs_of(one, Arm.FORWARD_FULL, (1,))[:, :, at])
        own, shared = known.tested(repeated=len(noisy) > 1)
        sides.append((average(noisy), average(clean)[0], own / len(noisy), shared / len(clean)))
    (noisy, clean, own, shared), (other, base, other_own, other_shared) = sides
    groups = cell.cluster[here]

    def test(t: FloatArray, u: FloatArray, runs: int) -> tuple[float, float, float]:
        variances = (own / runs, shared, other_own / runs, other_shared)
        return _larger((t, clean, u, base), groups, variances)

    each = [test(noisy[k], other[k], 1) for k in range(len(routers))]
    mean = test(average(noisy), average(other), len(routers))
    return HintTest(
        reference=reference.model,
        routers=routers,
        difference=np.array([d for d, _, _ in each]),
        reference_gain=mean[1],
        pvalues=np.array([p for *_, p in each]),
        mean_p=mean[2],
        reads_as_well=mean_of(base) >= mean_of(clean) - WEAKER_MAX,
        reference_p=_gain_p(average(other) - base, groups, other_own / len(routers) + other_shared),
    )


_SIGN = np.array([1.0, -1.0, -1.0, 1.0])  # tested noisy and clean, reference noisy and clean


def _gain_p(gains: FloatArray, cluster: IntArray, shift: float) -> float:
    """Return the one-sided p for a mean gain above zero, over clusters. shift: variance of whole runs."""
    there = ~np.isnan(gains)
    x = gains[there]
    _, index = np.unique(cluster[there], return_inverse=True)
    g = int(index.max()) + 1 if index.size else 0
    if g < 2:
        return float("nan")
    sums = np.bincount(index, x - x.mean())
    se = float(np.sqrt(np.sum(sums**2) * g / (g - 1) / x.size**2 + shift))
    return float(scipy.stats.t.sf(x.mean() / se, g - 1)) if se > 0 else float("nan")


def _larger(
    values: tuple[FloatArray, ...], cluster: IntArray, variances: tuple[float, ...]
) -> tuple[float, float, float]:
    """Tested noisy and clean, reference noisy and clean, each (n,): the difference of gains in points, the reference's
    gain, and p. variances: of the shift of each one's runs."""
    x = np.stack(values)
    there = ~np.isnan(x).any(axis=0)
    x, groups = x[:, there], cluster[there]
    n = x.shape[1]
    if n < 2:
        return float("nan"), float("nan"), 1.0
    difference, gain = float(_SIGN @ x.mean(axis=1)), float(x[2].mean() - x[3].mean())
    if np.unique(groups).size < 2:
        return difference, gain, 1.0
    means, _ = means_of(x, groups)
    mean = np.array([one.value for one in means]).clip(0.5 / n, 1 - 0.5 / n)
    df = np.inf if np.unique(groups).size == n else means[0].df
    worst = 0.0
    for value, slope in (
        (mean, np.ones(4)),
        (scipy.special.logit(mean), 1 / (mean * (1 - mean))),
        (-np.log1p(-mean), 1 / (1 - mean)),
    ):
        found = means[0].scaled(slope[0])
        for one, factor in zip(means[1:], (_SIGN * slope)[1:], strict=True):
            found = found.plus(one, factor)
        se = float(np.sqrt(found.variance + np.sum(slope**2 * np.array(variances))))
        worst = max(worst, float(scipy.stats.t.sf(_SIGN @ value / se, df)) if se > 0 else 1.0)
    return difference, gain, worst


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
        """(R,) p of "noisy beats every control at this r": the largest p over the controls (an intersection-union test;
        Berger 1982, Technometrics 24), and only then Holm over r: the other way round each control would spend alpha on
        r of its own. A control that was not run at an r asks nothing there; NaN where clean could not be compared.
        ensemble=False leaves the ensemble control out."""
        if self.clean is None:
            return np.full(len(routers), np.nan)
        used = [c for c in self.comparisons() if ensemble or c is not self.ensemble]
        return holm(reduce(np.fmax, [_at(c, c.pvalues, routers) for c in used]))


@dataclass(frozen=True)
class Evidence:
    """Everything that `decide` looks at, apart from the gates. Accuracies are 0-1.

    plain: as read. without_leak: each r without the questions of which a noisy message at that r states the answer;
    None without leaks. adverse: the same, and every reply that is missing imputed against an excess: the odds of noisy
    ones are those that the question's other answers predict over root `gamma`, of every control's times root gamma, so
    that the two sides of a pair differ by gamma (Rosenbaum's parameter; infinite: noisy ones wrong, the controls'
    right). favourable: as read, with such replies imputed for a gain. Both None when all were read. unaided: the same
    without the questions of which a message of the clean baseline, or of the ensemble control at that r, names an
    answer: these tell nothing of a gain. None without such. ensemble_gain: the ensemble control against clean. shifts:
    of whole runs, in every test and interval.
    """

    plain: Reading
    without_leak: Reading | None
    adverse: Reading | None
    favourable: Reading | None
    unaided: Reading | None
    ensemble_gain: Comparison | None
    shifts: RunShifts
    clean_accuracy: float
    direct_accuracy: float | None
    discordance: float
    repeated: bool = True  # whether the noisy arm was, with other answers
    worst_case: float | None = None  # largest gain over r, unparsed noisy answers right, all others wrong
    hints: HintTest | None = None  # against another model's gain from the same messages; None: none was asked

    @property
    def clean(self) -> Comparison:
        """Noisy against the clean baseline, as read."""
        assert self.plain.clean is not None  # noqa: S101 - `measure` raises where it could not be made
        return self.plain.clean

    @property
    def score(self) -> float:
        """Direct accuracy where it was run, else that of the clean baseline."""
        return self.clean_accuracy if self.direct_accuracy is None else self.direct_accuracy

    @property
    def p_value(self) -> float:
        """The cell's p of an excess: the smallest over r of `Reading.adjusted` (as read)."""
        return float(np.nanmin(self.plain.adjusted(self.clean.routers)))

    @property
    def largest_compatible(self) -> float:
        """The upper limit of the gain over clean, unparsed replies imputed for a gain where there are any; of unaided
        questions where some are not, and 1 where all are."""
        held = (self.unaided or self.favourable or self.plain).clean
        return held.largest_compatible if held else 1.0

    def controlled(self, routers: int) -> bool:
        """Whether both `direct` and the ensemble control were run for this r (r=1 is its own ensemble control)."""
        ensemble = self.plain.ensemble
        repeated = routers == 1 or (ensemble is not None and routers in ensemble.routers)
        return self.plain.direct is not None and repeated


def measure(
    cell: CellOutcomes,
    *,
    rng: np.random.Generator,
    n_resamples: int,
    n_permutations: int | None = None,
    without_leak: BoolArray | None = None,
    unaided: BoolArray | None = None,
    shifts: RunShifts | None = None,
    reference: CellOutcomes | None = None,
    confidence: float = CONFIDENCE,
    gamma: float = DECIDE_AT,
) -> Evidence:
    """All comparisons of one cell.

    confidence: of every interval. reference: another model's outcomes from the same router messages. n_permutations:
    n_resamples where None. without_leak, unaided: (R, n), true for the questions of that reading. gamma: of `Evidence`.
    Raises DataError when the clean or the noisy arm was not run or shares no answered question.
    """
    routers = levels_of(cell, Arm.NOISY_REWRITE)
    shared = tuple(r for r in routers if replicates_of(cell, Arm.FORWARD_FULL, r))
    shifts = shifts or RunShifts()
    against = partial(
        _against, cell, rng=rng, n_resamples=n_resamples, n_permutations=n_permutations, confidence=confidence
    )
    missing = np.isin(cell.state, UNANSWERED)
    unread = bool(missing.any())
    worse, better = _imputed(cell, missing, gamma) if unread else (None, None)
    reading = partial(_reading, cell, partial(against, shifts=shifts), routers, shared)
    plain = reading(None, None, None)
    if plain.clean is None:
        raise DataError("Not one question has an answer in both arms: nothing can be compared.")
    leaks = without_leak is not None and not np.all(without_leak)
    more = tuple(r for r in shared if r > 1)
    noisy, base = runs_of(cell, Arm.NOISY_REWRITE, routers), runs_of(cell, Arm.FORWARD_FULL, (1,))
    clean_values = average(base)[0]
    controls = replace(shifts, noisy=shifts.controls)  # for one control against another
    return Evidence(
        plain=plain,
        without_leak=reading(without_leak, None, None) if leaks else None,
        adverse=reading(without_leak, worse, better) if unread else None,
        favourable=reading(None, better, worse) if unread else None,
        unaided=None if unaided is None else reading(unaided, better, worse),
        ensemble_gain=against(runs_of(cell, Arm.FORWARD_FULL, more), base, more, shifts=controls) if more else None,
        shifts=shifts,
        clean_accuracy=float(np.nanmean(clean_values)),
        direct_accuracy=_direct_accuracy(cell),
        discordance=discordance_of(clean_values, average(noisy)),
        repeated=len(distinct(noisy)) > 1,
        worst_case=_worst_case(cell, routers) if unread else None,
        hints=hint_test(cell, reference, shifts, run_shifts([reference], shifts.plausible_sd)) if reference else None,
    )


def _direct_accuracy(cell: CellOutcomes) -> float | None:
    """Of the original questions, where they were asked and one has an answer."""
    if not replicates_of(cell, Arm.DIRECT, 0):
        return None
    original = runs_of(cell, Arm.DIRECT, (0,))
    return None if np.isnan(original).all() else float(np.nanmean(original))


def _against(
    cell: CellOutcomes, runs: FloatArray, other: FloatArray, routers: tuple[int, ...], **how: Any
) -> Comparison | None:
    """One arm's runs against another's; None where no question has an answer in both. how: of `compare`."""
    if not np.any(~np.isnan(average(runs) - average(other))):
        return None
    return compare(runs, other, routers, cell.cluster, **how)


def _imputed(cell: CellOutcomes, missing: BoolArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Every answer as a value 0-1, the missing ones imputed as wrong rather than right, and the other way round."""
    read = to_values(cell.state)
    how = (read, missing, predict_right(read), gamma)
    return imputed(*how, False), imputed(*how, True)


def _reading(
    cell: CellOutcomes,
    against: Callable[[FloatArray, FloatArray, tuple[int, ...]], Comparison | None],
    routers: tuple[int, ...],
    shared: tuple[int, ...],
    keep: BoolArray | None,
    of_noisy: FloatArray | None,
    of_control: FloatArray | None,
) -> Reading:
    """Noisy against each control that was run. of_noisy, of_control: values in place of those that were read."""
    noisy = runs_of(cell, Arm.NOISY_REWRITE, routers, of_noisy)
    noisy = noisy if keep is None else np.where(keep, noisy, np.nan)
    direct = ensemble = None
    if replicates_of(cell, Arm.DIRECT, 0):
        direct = against(noisy, runs_of(cell, Arm.DIRECT, (0,), of_control), routers)
    if any(r > 1 for r in shared):
        control = runs_of(cell, Arm.FORWARD_FULL, shared, of_control)
        ensemble = against(noisy[:, [routers.index(r) for r in shared]], control, shared)
    return Reading(against(noisy, runs_of(cell, Arm.FORWARD_FULL, (1,), of_control), routers), direct, ensemble)


def _worst_case(cell: CellOutcomes, routers: tuple[int, ...]) -> float:
    noisy = average(runs_of(cell, Arm.NOISY_REWRITE, routers, to_values(cell.state, "right")))
    gains = noisy - average(runs_of(cell, Arm.FORWARD_FULL, (1,), to_values(cell.state, "wrong")))
    return float(np.nanmax(np.nanmean(gains, axis=1)))


def _at(c: Comparison, values: FloatArray, routers: tuple[int, ...]) -> FloatArray:
    """Values (of c.routers) at these router counts, NaN where the comparison was not made."""
    there = dict(zip(c.routers, values, strict=True))
    return np.array([there.get(r, np.nan) for r in routers])
