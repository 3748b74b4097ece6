"""Pair the answers of the clean and the noisy arm by item, and estimate the variance between
runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, permutations

import numpy as np

from audit.core.errors import DataError
from audit.core.records import Setting
from audit.judging.result import because, sentence
from audit.statistics.paired import CellOutcomes, FloatArray, IntArray
from audit.statistics.permutation import paired_test
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.run_variance import (
    RunContrasts,
    RunShifts,
    cell_variance,
    contrasts_of,
    pooled_run_variance,
    together,
)
from audit.statistics.values import levels_of, replicates_of, settings_values, to_values
from audit.sweep.design import Arm
from audit.sweep.texts import TEXTS


@dataclass(frozen=True)
class Sweep:
    """Hold the outcomes of one cell, with the same items in the clean and the noisy arm.

    Attributes
    ----------
    routers : tuple of int
        The R router counts, in ascending order.
    question_ids : tuple of str
        The n items.
    clean : array (n,)
        The score of each item in the clean baseline (0-1); NaN if the item has no answer.
    noisy : array (R, n)
        The score of each item in the noisy arm at each router count (0-1).
    cluster : array (n,)
        The index of each item's cluster. Resampling keeps each cluster whole.
    """

    model: str
    benchmark: str
    routers: tuple[int, ...]
    question_ids: tuple[str, ...]
    clean: FloatArray
    noisy: FloatArray
    cluster: IntArray

    @property
    def n(self) -> int:
        """Return the number of questions."""
        return len(self.question_ids)

    def answered(self) -> Sweep:
        """Return the sweep without the router counts at which no item is answered in both arms.

        At such a router count no gain can be computed, so the tables have no row for it.
        """
        has_pairs = np.any(~np.isnan(self.noisy - self.clean), axis=1)
        compared = []
        for r, keep in zip(self.routers, has_pairs, strict=True):
            if keep:
                compared.append(r)
        routers = tuple(compared)
        return replace(self, routers=routers, noisy=self.noisy[has_pairs])


def sweep_of(cell: CellOutcomes, *, first_only: bool = False) -> Sweep:
    """Return the paper's sweep: `noisy_rewrite` at every r against `forward_full` at r=1.

    Parameters
    ----------
    cell : CellOutcomes
        The outcomes.
    first_only : bool
        Whether to use only the first replicate of each arm, as in song2026 (section 4.2). By
        default the scores are averaged over replicates.

    Returns
    -------
    Sweep
        The outcomes of the clean and the noisy arm, for the same items.

    Raises
    ------
    DataError
        If either arm was not run.
    """
    last = 1 if first_only else None
    base = replicates_of(cell, Arm.FORWARD_FULL, 1)[:last]
    counts = levels_of(cell, Arm.NOISY_REWRITE)
    if not base or not counts:
        ran = sorted({(s.arm, s.level) for s in cell.settings})
        raise DataError(
            f"The settings of {cell.model} on {cell.benchmark} are {ran}. Expected {Arm.FORWARD_FULL} at r=1 and "
            f"{Arm.NOISY_REWRITE}."
        )
    noisy = []
    for r in counts:
        noisy.append(settings_values(cell, replicates_of(cell, Arm.NOISY_REWRITE, r)[:last]))
    return Sweep(
        model=cell.model,
        benchmark=cell.benchmark,
        routers=counts,
        question_ids=cell.question_ids,
        clean=settings_values(cell, base),
        noisy=np.stack(noisy),
        cluster=cell.cluster,
    )


CLEAN = Setting(Arm.FORWARD_FULL, 1, 0)


def label(setting: Setting) -> str:
    """Return the display name of a setting.

    Parameters
    ----------
    setting : Setting
        The setting.

    Returns
    -------
    str
        A name such as "noisy_rewrite r=3", "direct", or "forward_full r=1 #2" for the third
        replicate.
    """
    text = str(setting.arm) if setting.arm == Arm.DIRECT else f"{setting.arm} r={setting.level}"
    return f"{text} #{setting.replicate}" if setting.replicate else text


# With at least this many router counts, a straight line over r is subtracted instead of the mean.
TREND_MIN = 4


def run_shifts(cells: Sequence[CellOutcomes], plausible_sd: float) -> RunShifts:
    """Estimate by how much the accuracy of a whole run shifts, from all cells of a panel.

    Parameters
    ----------
    cells : sequence of CellOutcomes
        The panel.
    plausible_sd : float
        The largest plausible standard deviation of such shifts. It replaces the estimate for the
        noisy arm if this arm was run once, and the estimate for the other arms if they were run
        once.

    Returns
    -------
    RunShifts
        The variance of the shifts, for the noisy arm and for all other arms together.
    """
    return RunShifts(
        noisy=pooled_run_variance(map(noisy_contrasts, cells), plausible_sd),
        controls=pooled_run_variance(map(run_contrasts, cells), plausible_sd),
        plausible_sd=plausible_sd,
    )


def cell_shifts(cell: CellOutcomes, panel: RunShifts) -> RunShifts:
    """Estimate by how much the accuracies of whole runs of one cell shift.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.
    panel : RunShifts
        The variances that were estimated from all cells of the panel.

    Returns
    -------
    RunShifts
        The variances for this cell. They are those of the panel, or larger if the runs of this cell
        differ more.
    """
    sd = panel.plausible_sd
    return RunShifts(
        noisy=cell_variance(noisy_contrasts(cell), panel.noisy, sd),
        controls=cell_variance(run_contrasts(cell), panel.controls, sd),
        plausible_sd=sd,
    )


def noisy_contrasts(cell: CellOutcomes) -> RunContrasts:
    """Return the contrasts that estimate the variance between whole runs of the noisy arm.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.

    Returns
    -------
    RunContrasts
        Differences between replicates. If the noisy arm was run once, its accuracies at the router
        counts r are fitted by a line over r, with a separate level at the smallest r. The contrasts
        are then the residuals.

    Notes
    -----
    With a single replicate, an effect at only one of the larger r makes the estimate larger. A
    shift that is the same at all r of the replicate cannot be estimated: see `RunShifts.tested`.
    """
    settings = cell.settings_of(Arm.NOISY_REWRITE)
    groups = []
    for runs, trend in _alike(settings):
        if len(runs) > 1:
            groups.append((runs, trend))
    if not groups and len(settings) > 2:
        r = np.array([s.level for s in settings], dtype=float)
        line = [r] if len(settings) > TREND_MIN else []
        groups = [
            (list(settings), np.stack([np.ones_like(r), r == r.min(), *line], axis=1).astype(float))
        ]
    return _contrasts(cell, groups)


def run_contrasts(cell: CellOutcomes) -> RunContrasts:
    """Return the contrasts that estimate the variance between whole runs of the controls.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.

    Returns
    -------
    RunContrasts
        Differences between runs of one setting, and residuals of the ensemble control around its
        trend over r. Two runs with exactly the same answers count as one run.

    Notes
    -----
    The accuracy of the ensemble control changes smoothly with r, if at all. So its residuals around
    a straight line over r also measure the variance between runs. With fewer than TREND_MIN router
    counts, the mean replaces the line. A curved trend makes the estimate larger.
    """
    ensemble = []
    for s in cell.settings:
        if s.arm == Arm.FORWARD_FULL and s.level > 1:
            ensemble.append(s)
    controls = []
    for s in cell.settings:
        if s.arm != Arm.NOISY_REWRITE and s not in ensemble:
            controls.append(s)
    groups = _alike(controls)
    if ensemble:
        r = np.array([s.level for s in ensemble], dtype=float)
        line = [np.ones_like(r), r] if np.unique(r).size >= TREND_MIN else [np.ones_like(r)]
        groups.append((ensemble, np.stack(line, axis=1)))
    return _contrasts(cell, groups)


def _alike(settings: Iterable[Setting]) -> list[tuple[list[Setting], FloatArray]]:
    """Group the settings that differ only in their replicate, with the design matrix of a
    constant.
    """
    groups = []
    for _, group in groupby(sorted(settings), key=lambda s: (s.arm, s.level)):
        replicates = list(group)
        groups.append((replicates, np.ones((len(replicates), 1))))
    return groups


def _contrasts(
    cell: CellOutcomes, groups: Sequence[tuple[list[Setting], FloatArray]]
) -> RunContrasts:
    contrasts = []
    for settings, trend in groups:
        states = np.stack([cell.row(setting) for setting in settings])
        contrasts.append(contrasts_of(to_values(states), trend, cell.cluster))
    return together(contrasts)


@dataclass(frozen=True)
class NoiseFloor:
    """Hold the result of testing every ordered pair of clean replicates against each other.

    Attributes
    ----------
    available : bool
        Whether some question is answered in two or more replicates.
    replicates, comparisons : int
        The number of clean replicates, and the number of ordered pairs of replicates that were
        compared.
    rejection_rate : float or None
        The share of the one-sided tests that reject, 0-1.
    mean_absolute_gain : float or None
        The mean absolute difference of accuracy between two replicates, over all pairs (0-1).
    sentence : str
        The result in words.
    """

    available: bool
    replicates: int
    comparisons: int
    rejection_rate: float | None
    mean_absolute_gain: float | None
    sentence: str


def noise_floor(
    cell: CellOutcomes, *, rng: np.random.Generator, alpha: float, n_permutations: int = N_RESAMPLES
) -> NoiseFloor:
    """Test the replicates of the clean baseline (`forward_full` at r=1) against each other.

    Parameters
    ----------
    cell : CellOutcomes
        The cell.
    rng : Generator
        Source of randomness.
    alpha : float
        Level of each test.
    n_permutations : int
        Number of permutations in each test.

    Returns
    -------
    NoiseFloor
        The results, with the rejection rate. Every rejection is a false positive, because the
        replicates differ only in their seeds.

    Notes
    -----
    Each replicate is in several pairs, so the pairs are not independent. Therefore the rejection
    rate is less precise than the number of pairs suggests.
    """
    settings = replicates_of(cell, Arm.FORWARD_FULL, 1)
    c = len(settings)
    clean: FloatArray = np.empty((0, cell.n))
    if settings:
        clean = to_values(np.stack(list(map(cell.row, settings))))
    pairs = list(permutations(clean, 2))
    gains = []
    for a, b in pairs:
        if np.any(~np.isnan(a - b)):
            gains.append(np.nanmean(a - b))
    gain = np.array(gains)
    if not gain.size:
        why = because("no_clean_pair" if pairs else "one_clean_run", runs=c)
        return NoiseFloor(False, c, 0, None, None, sentence(why, TEXTS))
    rejected = 0
    for a, b in pairs:
        p = paired_test(a[None], b[None], cell.cluster, rng=rng, n_permutations=n_permutations)
        rejected += p <= alpha
    # The standard deviation is around 0, which is the expected gain between replicates.
    sd = float(np.sqrt(np.mean(gain**2)))
    reason = because(
        "clean_against_clean", runs=c, rejected=rejected, pairs=len(pairs), alpha=alpha, sd=sd
    )
    size = float(np.mean(np.abs(gain)))
    return NoiseFloor(True, c, len(pairs), rejected / len(pairs), size, sentence(reason, TEXTS))
