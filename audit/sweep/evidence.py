"""Compute the statistics from which the verdict of one cell is decided.

The noisy arm is compared with each control over all r at once (`compare`). The controls are the
clean baseline, `direct` (the original question) and the ensemble control at the same r. The
comparisons are repeated under several treatments (readings) of the replies, for example with
missing replies imputed (`Evidence`).

A noisy message may hint at the answer without stating the answer. A hint helps every model that
reads the message. So the gain of the tested model is compared with the gain of a reference model
that read the same messages (`HintTest`). The two models may differ in ability. Therefore the gains
are compared on three scales: points of accuracy, log-odds, and the logarithm of the share of wrong
answers.

The function `measure` is used for real runs and for the calibration.
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

# Largest allowed deficit of the reference: the tested model's accuracy minus the reference's
# accuracy, both on clean messages.
WEAKER_MAX = 0.03


@dataclass(frozen=True)
class HintTest:
    """Hold the comparison of the tested model's gain with the reference's gain.

    Attributes
    ----------
    reference : str
        The name of the reference model.
    routers : tuple of int
        The R router counts that both models have.
    difference : array (R,)
        The tested model's gain minus the reference's gain at each r (accuracy 0-1).
    reference_gain : float
        The mean of the reference's gain over r.
    pvalues : array (R,)
        One-sided p-value at each r for a larger gain of the tested model. Each p-value is the
        largest over the three scales.
    mean_p : float
        The largest one-sided p-value over the scales for the mean gain over r.
    reads_as_well : bool
        Whether the reference is accurate enough to notice hints: its deficit against the tested
        model on clean messages is at most WEAKER_MAX.
    reference_p : float
        The one-sided p-value. Alternative: the reference has a gain.
    """

    reference: str
    routers: tuple[int, ...]
    difference: FloatArray
    reference_gain: float
    pvalues: FloatArray
    mean_p: float
    reads_as_well: bool
    reference_p: float = float("nan")

    def beyond(self, alpha: float) -> frozenset[int]:
        """Return the router counts at which the tested model gains more than the reference.

        Parameters
        ----------
        alpha : float
            The level of the test. Half of alpha is used for the test of the mean over r, and half
            for the tests of single router counts.

        Returns
        -------
        frozenset of int
            All router counts if the test of the mean over r rejects. Otherwise the router counts
            whose test rejects after Holm's correction. The set is empty if the reference is too
            weak (`reads_as_well` is False).
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
    """Compare the gain of a cell with the gain of a reference model that read the same messages.

    Parameters
    ----------
    cell : CellOutcomes
        The tested model.
    reference : CellOutcomes
        The other model.
    shifts, of_reference : RunShifts
        The variances of whole runs of the tested model and of the reference.

    Returns
    -------
    HintTest or None
        The comparison. None if the two models have no router count or no answered question in
        common.

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
    tested = _side(cell, shared, shifts, routers)
    other = _side(reference, matching, of_reference, routers)
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
    """Hold noisy (R, n) and clean (n,) values of one model, with the variances of the shifts of
    whole runs."""

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


# Signs of the four means in a difference of gains: noisy and clean of the tested model, then noisy
# and clean of the reference.
_SIGN = np.array([1.0, -1.0, -1.0, 1.0])


def _gain_p(gains: FloatArray, cluster: IntArray, shift: float) -> float:
    """Return the one-sided p-value of a t-test over clusters for a mean gain above zero.

    `shift` is the variance due to shifts of whole runs.
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
    """Compare the tested model's gain with the reference's gain (accuracy 0-1).

    Return the difference of the gains, the reference's gain, and the largest p-value over the
    scales.

    `values` holds four arrays (n,): the noisy and clean values of the tested model, then those of
    the reference. `variances` holds the variances of run shifts, in the same order.
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
    """Hold the comparisons of the noisy arm with each control, for one treatment of replies.

    A comparison is None if its control was not run, or if no question is left to compare.
    """

    clean: Comparison | None
    direct: Comparison | None
    ensemble: Comparison | None

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return the comparisons that could be made."""
        return tuple(c for c in (self.clean, self.direct, self.ensemble) if c is not None)

    def adjusted(self, routers: tuple[int, ...], *, ensemble: bool = True) -> FloatArray:
        """Return adjusted p-values, one for each r. Alternative: the noisy arm beats every control.

        Parameters
        ----------
        routers : tuple of int
            The R router counts.
        ensemble : bool
            Whether the ensemble control counts as a control.

        Returns
        -------
        array (R,)
            The p-values, corrected by Holm's procedure over r. They are NaN if the noisy arm could
            not be compared with the clean baseline.

        Notes
        -----
        First, the p-value at each r is the largest p-value over the controls (an intersection-union
        test; Berger 1982, Technometrics 24). At an r at which a control was not run, this control
        is left out. Then Holm's correction over r is applied.

        The order matters. If Holm's correction came first, each control would have an error rate of
        alpha, and these error rates would add up if different controls are decisive at different r.
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
    """Hold the statistics from which, with the gates, `decide` makes a verdict.

    Accuracies are 0-1.

    Attributes
    ----------
    plain : Reading
        The comparisons without imputation: unparsed answers are left out.
    without_leak : Reading or None
        The comparisons without leaks: a question is left out at each r at which a noisy message
        states the answer. None if no message states the answer.
    adverse : Reading or None
        The comparisons of `without_leak` (or of `plain` if `without_leak` is None) with every
        missing reply imputed against an excess. None if all replies were read.
    favourable : Reading or None
        The comparisons of `plain` with every missing reply imputed in favour of a gain. None if all
        replies were read.
    unaided : Reading or None
        The comparisons of `favourable`, without the questions for which a control message states an
        answer, since these questions cannot show a gain. None if no message states an answer.
    unstated : Reading or None
        The comparisons of `unaided`, without the questions for which a noisy message states an
        answer. Stated wrong answers lower the noisy accuracy, so they can hide a gain. None if no
        noisy message states an answer.
    ensemble_gain : Comparison or None
        The comparison of the ensemble control with the clean baseline.
    shifts : RunShifts
        The variances of the shifts of whole runs, which enter every test and interval.
    clean_accuracy, direct_accuracy : float
        The accuracies of the clean baseline and of `direct`. `direct_accuracy` is None if `direct`
        was not run.
    discordance : float
        The share of questions whose answer differs between the clean and the noisy arm.
    repeated : bool
        Whether the noisy arm was run more than once with different answers.
    worst_case : float or None
        The largest gain over r if every unparsed noisy answer is right and every other unparsed
        answer is wrong. None if all replies were read.
    hints : HintTest or None
        The comparison with another model that read the same messages.

    Notes
    -----
    A missing reply is replaced by the probability that it was right. The odds of this probability
    are predicted from the other answers to the question. For `adverse`, the odds are divided by
    sqrt(gamma) in the noisy arm, and multiplied by sqrt(gamma) in every control. So the odds ratio
    between the two sides of a pair changes by the factor gamma (Rosenbaum's parameter). With an
    infinite gamma, missing noisy replies count as wrong, and missing replies of the controls count
    as right.
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
    repeated: bool = True
    worst_case: float | None = None
    hints: HintTest | None = None
    unstated: Reading | None = None

    @property
    def clean(self) -> Comparison:
        """Return the comparison of the noisy arm with the clean baseline, without imputation."""
        # `measure` raises if this comparison cannot be made.
        assert self.plain.clean is not None  # noqa: S101
        return self.plain.clean

    @property
    def score(self) -> float:
        """Return the accuracy of `direct` if it was measured; otherwise that of the clean
        baseline."""
        return self.clean_accuracy if self.direct_accuracy is None else self.direct_accuracy

    @property
    def p_value(self) -> float:
        """Return the p-value of an excess: the smallest p-value over r of `Reading.adjusted`."""
        return float(np.nanmin(self.plain.adjusted(self.clean.routers)))

    @property
    def largest_compatible(self) -> float:
        """Return the upper limit of the gain over the clean baseline.

        Missing replies are imputed in favour of a gain. Questions with a control message that
        states an answer are left out; if no question remains, the limit is 1. If noisy messages
        state answers, the limit is the larger of the limits with and without these questions.
        """
        readings = [self.unaided or self.favourable or self.plain]
        if self.unstated is not None:
            readings.append(self.unstated)
        limits = []
        for reading in readings:
            limits.append(reading.clean.largest_compatible if reading.clean else 1.0)
        return float(np.max(limits))  # NaN if any limit is NaN

    def controlled(self, routers: int) -> bool:
        """Return whether both `direct` and the ensemble control were run at this r.

        At r=1, the clean baseline is also the ensemble control.
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
    unstated: BoolArray | None = None,
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
    without_leak, unaided, unstated : array (R, n) of bool, optional
        True for each (router count, question) that is used for the field of this name in
        `Evidence`.
    shifts : RunShifts, optional
        Variances of whole runs; zero if None.
    reference : CellOutcomes, optional
        Outcomes of another model that answered from the same router messages.
    gamma : float
        Odds ratio of the imputation, see `Evidence`.

    Returns
    -------
    Evidence
        The comparisons under every reading.

    Raises
    ------
    DataError
        If the clean or the noisy arm was not run, or if no question has an answer in both arms.
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
        raise DataError(
            "No question has an answer in both arms, so the two arms cannot be compared."
        )
    leaks = without_leak is not None and not np.all(without_leak)
    ensemble = tuple(r for r in shared if r > 1)
    noisy, base = runs_of(cell, Arm.NOISY_REWRITE, routers), runs_of(cell, Arm.FORWARD_FULL, (1,))
    clean_values = average(base)[0]
    # The ensemble control is compared with the clean baseline. Both are controls, so the run
    # variance of controls is used for both.
    controls = replace(shifts, noisy=shifts.controls)
    # Every comparison draws from rng, so a different order of the comparisons would change the
    # result.
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
        # This reading is the last, so that the others draw the same numbers in any run.
        unstated=None if unstated is None else reading(unstated, better, worse),
    )


def _direct_accuracy(cell: CellOutcomes) -> float | None:
    """Return the accuracy on the original questions; None if no question has an answer."""
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
    """Compare the runs of two arms. Return None if no question has an answer in both arms."""
    if not np.any(~np.isnan(average(runs) - average(other))):
        return None
    return compare(runs, other, routers, cell.cluster, **options)


def _imputed(cell: CellOutcomes, missing: BoolArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Return all answers as values 0-1, with missing replies imputed in two ways.

    Missing replies are imputed towards wrong in the first array, and towards right in the second
    array.
    """
    read = to_values(cell.state)
    predicted = predict_right(read)
    worse = imputed(read, missing, predicted, gamma, False)
    better = imputed(read, missing, predicted, gamma, True)
    return worse, better


def _reading(
    cell: CellOutcomes,
    against: Callable[[FloatArray, FloatArray, tuple[int, ...]], Comparison | None],
    routers: tuple[int, ...],
    shared: tuple[int, ...],
    keep: BoolArray | None,
    noisy_values: FloatArray | None,
    control_values: FloatArray | None,
) -> Reading:
    """Compare the noisy arm with each control.

    If given, the imputed `noisy_values` and `control_values` replace the values of the replies.
    """
    noisy = runs_of(cell, Arm.NOISY_REWRITE, routers, noisy_values)
    noisy = noisy if keep is None else np.where(keep, noisy, np.nan)
    direct = ensemble = None
    if replicates_of(cell, Arm.DIRECT, 0):
        direct = against(noisy, runs_of(cell, Arm.DIRECT, (0,), control_values), routers)
    if any(r > 1 for r in shared):
        control = runs_of(cell, Arm.FORWARD_FULL, shared, control_values)
        rows = [routers.index(r) for r in shared]
        ensemble = against(noisy[:, rows], control, shared)
    return Reading(
        against(noisy, runs_of(cell, Arm.FORWARD_FULL, (1,), control_values), routers),
        direct,
        ensemble,
    )


def _worst_case(cell: CellOutcomes, routers: tuple[int, ...]) -> float:
    """Return the largest gain over r in the worst case.

    In the worst case, unparsed answers are right in the noisy arm and wrong in the clean arm.
    """
    noisy = average(runs_of(cell, Arm.NOISY_REWRITE, routers, to_values(cell.state, "right")))
    gains = noisy - average(runs_of(cell, Arm.FORWARD_FULL, (1,), to_values(cell.state, "wrong")))
    return float(np.nanmax(np.nanmean(gains, axis=1)))


def _at(c: Comparison, values: FloatArray, routers: tuple[int, ...]) -> FloatArray:
    """Return the values of a comparison at the given router counts.

    The value is NaN at a router count at which the comparison was not made.
    """
    known = dict(zip(c.routers, values, strict=True))
    return np.array([known.get(r, np.nan) for r in routers])
