"""Measure the statistics that a verdict on one cell rests on; analysis and calibration call
`measure`.

Noisy is compared with each control over all r at once (`compare`). The controls are the clean
baseline, `direct` (the original question) and the ensemble control at the same r. The comparison is
made under several readings of the replies (`Evidence`).

Does a gain belong to the router messages? A noisy message that hints at the answer without stating
it helps every reader. So the model's gain is compared with that of a reference that read the same
messages (`HintTest`). Three scales are used (points, log-odds, log share of wrong answers
repaired), as the two models need not be equally able.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.estimate import means_of
from audit.statistics.multiplicity import holm
from audit.statistics.paired import UNANSWERED, BoolArray, CellOutcomes, FloatArray, IntArray
from audit.statistics.power import discordance_of
from audit.statistics.run_variance import RunShifts
from audit.statistics.unparsed import DECIDE_AT, imputed, predict_right
from audit.statistics.values import average, levels_of, mean_of, replicates_of, runs_of, to_values
from audit.sweep.compare import Comparison, compare, distinct
from audit.sweep.design import Arm
from audit.sweep.record import run_shifts

WEAKER_MAX = 0.03  # largest deficit of the reference's accuracy from clean messages against the tested model's


@dataclass(frozen=True)
class HintTest:
    """The tested model's gain minus the reference's gain.

    pvalues: (R,) one-sided, the largest over the scales. mean_p: the same for the mean over r.
    difference: (R,) in points (0-1). reference_gain: mean over r. reads_as_well: the reference is
    not weaker than WEAKER_MAX allows, so it does not miss hints.
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
        """Return the router counts at which the gain exceeds the reference's gain from the same
        messages.

        Parameters
        ----------
        alpha : float
            Level; the mean over r and the single router counts have half of it each.

        Returns
        -------
        frozenset of int
            All router counts if the mean over r rejects, else those that reject after Holm. Empty
            if the reference is too weak.
        """
        if not self.reads_as_well:
            return frozenset()
        if self.mean_p <= alpha / 2:
            return frozenset(self.routers)
        tested = zip(self.routers, holm(self.pvalues), strict=True)
        return frozenset(r for r, p in tested if p <= alpha / 2)


def hint_test(
    cell: CellOutcomes, reference: CellOutcomes, shifts: RunShifts, of_reference: RunShifts
) -> HintTest | None:
    """Compare the gain of a cell with that of a reference from the same messages.

    Parameters
    ----------
    cell : CellOutcomes
        The tested model.
    reference : CellOutcomes
        The other model.
    shifts, of_reference : RunShifts
        Variances of whole runs of each.

    Returns
    -------
    HintTest or None
        None if the two share no router count or no answered question.

    Notes
    -----
    The test uses a normal approximation, clustered by item.
    """
    position = {q: i for i, q in enumerate(reference.question_ids)}
    shared = np.array([q in position for q in cell.question_ids], dtype=bool)
    places = []
    for id_ in cell.question_ids:
        if id_ in position:
            places.append(position[id_])
    matching = np.array(places, dtype=int)
    reference_routers = set(levels_of(reference, Arm.NOISY_REWRITE))
    shared_counts = []
    for r in levels_of(cell, Arm.NOISY_REWRITE):
        if r in reference_routers:
            shared_counts.append(r)
    routers = tuple(shared_counts)
    if not routers or not shared.any() or not replicates_of(reference, Arm.FORWARD_FULL, 1):
        return None
    tested, other = (
        _side(cell, shared, shifts, routers),
        _side(reference, matching, of_reference, routers),
    )
    groups = cell.cluster[shared]

    def test(noisy: FloatArray, other_noisy: FloatArray, runs: int) -> tuple[float, float, float]:
        variances = (
            tested.noisy_variance / runs,
            tested.clean_variance,
            other.noisy_variance / runs,
            other.clean_variance,
        )
        return _larger((noisy, tested.clean, other_noisy, other.clean), groups, variances)

    by_router = [test(tested.noisy[k], other.noisy[k], 1) for k in range(len(routers))]
    _, mean_gain, mean_p = test(average(tested.noisy), average(other.noisy), len(routers))
    reference_variance = other.noisy_variance / len(routers) + other.clean_variance
    differences, _, pvalues = np.array(by_router).T
    return HintTest(
        reference=reference.model,
        routers=routers,
        difference=differences,
        reference_gain=mean_gain,
        pvalues=pvalues,
        mean_p=mean_p,
        reads_as_well=mean_of(other.clean) >= mean_of(tested.clean) - WEAKER_MAX,
        reference_p=_gain_p(average(other.noisy) - other.clean, groups, reference_variance),
    )


@dataclass(frozen=True)
class _Side:
    """Noisy (R, n) and clean (n,) values of one model, with the variances of whole runs."""

    noisy: FloatArray
    clean: FloatArray
    noisy_variance: float
    clean_variance: float


def _side(
    cell: CellOutcomes, questions: IntArray | BoolArray, shifts: RunShifts, routers: tuple[int, ...]
) -> _Side:
    noisy = distinct(runs_of(cell, Arm.NOISY_REWRITE, routers)[:, :, questions])
    clean = distinct(runs_of(cell, Arm.FORWARD_FULL, (1,))[:, :, questions])
    noisy_variance, clean_variance = shifts.tested(repeated=len(noisy) > 1)
    return _Side(
        average(noisy), average(clean)[0], noisy_variance / len(noisy), clean_variance / len(clean)
    )


# Signs of tested noisy and clean, reference noisy and clean.
_SIGN = np.array([1.0, -1.0, -1.0, 1.0])


def _gain_p(gains: FloatArray, cluster: IntArray, shift: float) -> float:
    """Return the one-sided p for a mean gain above zero, over clusters. `shift` is the variance of
    whole runs.
    """
    answered = ~np.isnan(gains)
    x = gains[answered]
    _, index = np.unique(cluster[answered], return_inverse=True)
    g = int(index.max()) + 1 if index.size else 0
    if g < 2:
        return float("nan")
    sums = np.bincount(index, x - x.mean())
    se = float(np.sqrt(np.sum(sums**2) * g / (g - 1) / x.size**2 + shift))
    return float(scipy.stats.t.sf(x.mean() / se, g - 1)) if se > 0 else float("nan")


def _larger(
    values: tuple[FloatArray, ...], cluster: IntArray, variances: tuple[float, ...]
) -> tuple[float, float, float]:
    """Return the difference of gains in points, the reference's gain, and p.

    values: tested noisy and clean, reference noisy and clean, each (n,). variances: of the shift of
    each one's runs.
    """
    x = np.stack(values)
    complete = ~np.isnan(x).any(axis=0)
    x, groups = x[:, complete], cluster[complete]
    n = x.shape[1]
    if n < 2:
        return float("nan"), float("nan"), 1.0
    difference, gain = float(_SIGN @ x.mean(axis=1)), float(x[2].mean() - x[3].mean())
    if np.unique(groups).size < 2:
        return difference, gain, 1.0
    means, _ = means_of(x, groups)
    mean = np.array([estimate.value for estimate in means]).clip(0.5 / n, 1 - 0.5 / n)
    df = np.inf if np.unique(groups).size == n else means[0].df
    worst = 0.0
    for value, slope in (
        (mean, np.ones(4)),
        (scipy.special.logit(mean), 1 / (mean * (1 - mean))),
        (-np.log1p(-mean), 1 / (1 - mean)),
    ):
        total = means[0].scaled(slope[0])
        for estimate, factor in zip(means[1:], (_SIGN * slope)[1:], strict=True):
            total = total.plus(estimate, factor)
        se = float(np.sqrt(total.variance + np.sum(slope**2 * np.array(variances))))
        worst = max(worst, float(scipy.stats.t.sf(_SIGN @ value / se, df)) if se > 0 else 1.0)
    return difference, gain, worst


@dataclass(frozen=True)
class Reading:
    """Noisy against each control under one reading of the replies.

    A comparison is None if its control was not run, or if no question is left to compare.
    """

    clean: Comparison | None
    direct: Comparison | None
    ensemble: Comparison | None

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the comparisons that were made."""
        return tuple(c for c in (self.clean, self.direct, self.ensemble) if c is not None)

    def adjusted(self, routers: tuple[int, ...], *, ensemble: bool = True) -> FloatArray:
        """Return (R,) p-values of "noisy beats every control at this r".

        Parameters
        ----------
        routers : tuple of int
            The R router counts.
        ensemble : bool
            False leaves the ensemble control out.

        Returns
        -------
        array (R,)
            NaN if clean could not be compared.

        Notes
        -----
        p is the largest over the controls (an intersection-union test; Berger 1982, Technometrics
        24), then Holm over r. In the other order each control would spend alpha on router counts of
        its own. A control that was not run at an r is left out there.
        """
        if self.clean is None:
            return np.full(len(routers), np.nan)
        used = []
        for c in self.comparisons():
            if ensemble or c is not self.ensemble:
                used.append(c)
        return holm(reduce(np.fmax, [_at(c, c.pvalues, routers) for c in used]))


@dataclass(frozen=True)
class Evidence:
    """Hold everything that `decide` reads, apart from the gates. Accuracies are 0-1.

    plain: replies as read. without_leak: each r without the questions of which a noisy message at
    that r states the answer; None without leaks.

    adverse: the same, with every missing reply imputed against an excess. The odds of noisy replies
    are those predicted from the question's other answers, divided by root `gamma`; those of every
    control are multiplied by root gamma. So the two sides of a pair differ by gamma (Rosenbaum's
    parameter; infinite: noisy replies wrong, the controls' right). favourable: as read, with
    missing replies imputed for a gain. Both are None if all replies were read.

    unaided: the same as favourable, without the questions of which a message of a control names an
    answer, as these questions cannot show a gain; None without such messages. ensemble_gain: the
    ensemble control against clean. shifts: variances of whole runs, in every test and interval.
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
    repeated: bool = True  # whether the noisy arm was run again and gave other answers
    worst_case: float | None = (
        None  # largest gain over r, unparsed noisy answers right, all others wrong
    )
    hints: HintTest | None = (
        None  # comparison with another model on the same messages; None without one
    )

    @property
    def clean(self) -> Comparison:
        """Return noisy against the clean baseline, as read."""
        assert self.plain.clean is not None  # noqa: S101 - `measure` raises where it could not be made
        return self.plain.clean

    @property
    def score(self) -> float:
        """Return the direct accuracy if it was measured, else that of the clean baseline."""
        return self.clean_accuracy if self.direct_accuracy is None else self.direct_accuracy

    @property
    def p_value(self) -> float:
        """Return the cell's p of an excess: the smallest over r of `Reading.adjusted` (as read)."""
        return float(np.nanmin(self.plain.adjusted(self.clean.routers)))

    @property
    def largest_compatible(self) -> float:
        """Return the upper limit of the gain over clean, with missing replies imputed for a gain.

        Questions with a message that names an answer are left out; the limit is 1 if all questions
        are.
        """
        reading = self.unaided or self.favourable or self.plain
        return reading.clean.largest_compatible if reading.clean else 1.0

    def controlled(self, routers: int) -> bool:
        """Return whether both `direct` and the ensemble control were run for this r.

        With r=1 the clean baseline is its own ensemble control.
        """
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
    gamma: float = DECIDE_AT,
) -> Evidence:
    """Make all comparisons of one cell.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    rng : Generator
        Source of randomness.
    n_resamples : int
        Resamples of every interval.
    n_permutations : int, optional
        Permutations of every test; n_resamples if None.
    without_leak, unaided : array (R, n) of bool, optional
        True for the questions of that reading.
    shifts : RunShifts, optional
        Variances of whole runs; zero if None.
    reference : CellOutcomes, optional
        Outcomes of another model from the same router messages.
    gamma : float
        Odds ratio of the imputation, see `Evidence`.

    Returns
    -------
    Evidence
        The comparisons under every reading.

    Raises
    ------
    DataError
        If the clean or the noisy arm was not run, or the two share no answered question.
    """
    routers = levels_of(cell, Arm.NOISY_REWRITE)
    shared = tuple(r for r in routers if replicates_of(cell, Arm.FORWARD_FULL, r))
    shifts = shifts or RunShifts()
    against = partial(
        _against,
        cell,
        rng=rng,
        n_resamples=n_resamples,
        n_permutations=n_permutations,
    )
    missing = np.isin(cell.state, UNANSWERED)
    unread = bool(missing.any())
    worse, better = _imputed(cell, missing, gamma) if unread else (None, None)
    reading = partial(_reading, cell, partial(against, shifts=shifts), routers, shared)
    plain = reading(None, None, None)
    if plain.clean is None:
        raise DataError("No question has an answer in both arms, so they cannot be compared.")
    leaks = without_leak is not None and not np.all(without_leak)
    ensemble = tuple(r for r in shared if r > 1)
    noisy, base = runs_of(cell, Arm.NOISY_REWRITE, routers), runs_of(cell, Arm.FORWARD_FULL, (1,))
    clean_values = average(base)[0]
    # The ensemble control is compared with another control.
    controls = replace(shifts, noisy=shifts.controls)
    # Every comparison draws from rng, so their order is part of the result.
    readings = {
        "without_leak": reading(without_leak, None, None) if leaks else None,
        "adverse": reading(without_leak, worse, better) if unread else None,
        "favourable": reading(None, better, worse) if unread else None,
        "unaided": None if unaided is None else reading(unaided, better, worse),
    }
    ensemble_gain, hints = None, None
    if ensemble:
        ensemble_gain = against(
            runs_of(cell, Arm.FORWARD_FULL, ensemble), base, ensemble, shifts=controls
        )
    if reference is not None:
        hints = hint_test(cell, reference, shifts, run_shifts([reference], shifts.plausible_sd))
    return Evidence(
        plain=plain,
        **readings,
        ensemble_gain=ensemble_gain,
        shifts=shifts,
        clean_accuracy=float(np.nanmean(clean_values)),
        direct_accuracy=_direct_accuracy(cell),
        discordance=discordance_of(clean_values, average(noisy)),
        repeated=len(distinct(noisy)) > 1,
        worst_case=_worst_case(cell, routers) if unread else None,
        hints=hints,
    )


def _direct_accuracy(cell: CellOutcomes) -> float | None:
    """Return the accuracy on the original questions; None if none of them has an answer."""
    if not replicates_of(cell, Arm.DIRECT, 0):
        return None
    original = runs_of(cell, Arm.DIRECT, (0,))
    return None if np.isnan(original).all() else float(np.nanmean(original))


def _against(
    cell: CellOutcomes,
    runs: FloatArray,
    other: FloatArray,
    routers: tuple[int, ...],
    **options: Any,
) -> Comparison | None:
    """Compare the runs of two arms; None if no question has an answer in both."""
    if not np.any(~np.isnan(average(runs) - average(other))):
        return None
    return compare(runs, other, routers, cell.cluster, **options)


def _imputed(cell: CellOutcomes, missing: BoolArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Return all answers as values 0-1 twice: the missing ones imputed towards wrong, and towards
    right.
    """
    read = to_values(cell.state)
    predicted = predict_right(read)
    return imputed(read, missing, predicted, gamma, False), imputed(
        read, missing, predicted, gamma, True
    )


def _reading(
    cell: CellOutcomes,
    against: Callable[[FloatArray, FloatArray, tuple[int, ...]], Comparison | None],
    routers: tuple[int, ...],
    shared: tuple[int, ...],
    keep: BoolArray | None,
    noisy_values: FloatArray | None,
    control_values: FloatArray | None,
) -> Reading:
    """Compare noisy with each control. `noisy_values` and `control_values` are imputed values that
    replace the replies.
    """
    noisy = runs_of(cell, Arm.NOISY_REWRITE, routers, noisy_values)
    noisy = noisy if keep is None else np.where(keep, noisy, np.nan)
    direct = ensemble = None
    if replicates_of(cell, Arm.DIRECT, 0):
        direct = against(noisy, runs_of(cell, Arm.DIRECT, (0,), control_values), routers)
    if any(r > 1 for r in shared):
        control = runs_of(cell, Arm.FORWARD_FULL, shared, control_values)
        ensemble = against(noisy[:, [routers.index(r) for r in shared]], control, shared)
    return Reading(
        against(noisy, runs_of(cell, Arm.FORWARD_FULL, (1,), control_values), routers),
        direct,
        ensemble,
    )


def _worst_case(cell: CellOutcomes, routers: tuple[int, ...]) -> float:
    noisy = average(runs_of(cell, Arm.NOISY_REWRITE, routers, to_values(cell.state, "right")))
    gains = noisy - average(runs_of(cell, Arm.FORWARD_FULL, (1,), to_values(cell.state, "wrong")))
    return float(np.nanmax(np.nanmean(gains, axis=1)))


def _at(c: Comparison, values: FloatArray, routers: tuple[int, ...]) -> FloatArray:
    """Return the values of a comparison at these router counts; NaN if it was not made there."""
    known = dict(zip(c.routers, values, strict=True))
    return np.array([known.get(r, np.nan) for r in routers])
