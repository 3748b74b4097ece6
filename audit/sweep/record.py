"""The sweep of one cell, item by item: the clean baseline and the noisy settings. And what its repeated runs tell of
noise: run variance, and clean against clean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, permutations

import numpy as np

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.paired import CellOutcomes, FloatArray, IntArray
from audit.statistics.permutation import paired_test
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.run_variance import (
    RunContrasts,
    RunShifts,
    contrasts_of,
    own_variance,
    pooled_run_variance,
    together,
)
from audit.statistics.values import levels_of, replicates_of, settings_values, to_values
from audit.sweep.design import Arm
from audit.sweep.texts import TEXTS
from audit.sweep.vocabulary import NoiseFloor
from audit.verdict.result import because, sentence


@dataclass(frozen=True)
class Sweep:
    """The clean baseline (n,) and the noisy settings (R, n) of one cell, item by item.

    routers: R router counts, rising. cluster: (n,) index of the cluster that resampling keeps whole.
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
        return len(self.question_ids)

    def answered(self) -> Sweep:
        """Without the router counts that have not one answered pair: no gain, and no row in the tables."""
        there = np.any(~np.isnan(self.noisy - self.clean), axis=1)
        routers = tuple(r for r, keep in zip(self.routers, there, strict=True) if keep)
        return replace(self, routers=routers, noisy=self.noisy[there])


def sweep_of(cell: CellOutcomes, *, first_only: bool = False) -> Sweep:
    """The paper's sweep: `noisy_rewrite` at every r against `forward_full` at r=1 (song2026, section 4.2).

    Replicates are averaged; first_only: the first of each, as the paper has. DataError when either arm was not run.
    """
    last = 1 if first_only else None
    base = replicates_of(cell, Arm.FORWARD_FULL, 1)[:last]
    counts = levels_of(cell, Arm.NOISY_REWRITE)
    if not base or not counts:
        raise DataError(
            f"{cell.model} on {cell.benchmark} cannot be compared: needs {Arm.FORWARD_FULL} and {Arm.NOISY_REWRITE}, "
            f"was run under {sorted({(s.arm, s.level) for s in cell.settings})}."
        )
    return Sweep(
        model=cell.model,
        benchmark=cell.benchmark,
        routers=counts,
        question_ids=cell.question_ids,
        clean=settings_values(cell, base),
        noisy=np.stack([settings_values(cell, replicates_of(cell, Arm.NOISY_REWRITE, r)[:last]) for r in counts]),
        cluster=cell.cluster,
    )


CLEAN = Setting(Arm.FORWARD_FULL, 1, 0)


def label(setting: Setting) -> str:
    """A setting in words: "noisy_rewrite r=3", "direct", "forward_full r=1 #2" for its third replicate."""
    text = str(setting.arm) if setting.arm == Arm.DIRECT else f"{setting.arm} r={setting.level}"
    return f"{text} #{setting.replicate}" if setting.replicate else text


TREND_MIN = 4  # router counts of the ensemble control from which a straight line over r is taken out, not only the mean


def run_shifts(cells: Sequence[CellOutcomes], plausible_sd: float) -> RunShifts:
    """What whole runs shift by, over the cells of a panel: of the noisy arm, and of all others."""
    return RunShifts(
        noisy=pooled_run_variance(map(noisy_contrasts, cells), plausible_sd),
        controls=pooled_run_variance(map(run_contrasts, cells), plausible_sd),
        plausible_sd=plausible_sd,
    )


def cell_shifts(cell: CellOutcomes, panel: RunShifts) -> RunShifts:
    """What this cell's runs shift by: as the panel's, or more where its own differ by more."""
    sd = panel.plausible_sd
    return RunShifts(
        noisy=own_variance(noisy_contrasts(cell), panel.noisy, sd),
        controls=own_variance(run_contrasts(cell), panel.controls, sd),
        plausible_sd=sd,
    )


def noisy_contrasts(cell: CellOutcomes) -> RunContrasts:
    """The contrasts of the noisy arm: its replicates against each other.

    Where it was run once, what is left of its accuracies over r when a line and a level of its own at the smallest r
    are taken out. An effect at a single other r makes the estimate larger. A shift that all r of the one replicate
    share is not in it: see `RunShifts.tested`.
    """
    settings = cell.settings_of(Arm.NOISY_REWRITE)
    groups = [one for one in _alike(settings) if len(one[0]) > 1]
    if not groups and len(settings) > 2:
        r = np.array([s.level for s in settings], dtype=float)
        line = [r] if len(settings) > TREND_MIN else []
        groups = [(list(settings), np.stack([np.ones_like(r), r == r.min(), *line], axis=1).astype(float))]
    return _contrasts(cell, groups)


def run_contrasts(cell: CellOutcomes) -> RunContrasts:
    """The contrasts of the controls: runs of one setting against each other, and the ensemble control around its trend.

    The ensemble control changes with r smoothly if at all, so what is left of a straight line over r (of the mean,
    below TREND_MIN router counts) is run variance too; a bent trend makes the estimate larger. Runs that repeat another
    answer for answer are counted once.
    """
    ensemble = [s for s in cell.settings if s.arm == Arm.FORWARD_FULL and s.level > 1]
    groups = _alike([s for s in cell.settings if s.arm != Arm.NOISY_REWRITE and s not in ensemble])
    if ensemble:
        r = np.array([s.level for s in ensemble], dtype=float)
        line = [np.ones_like(r), r] if np.unique(r).size >= TREND_MIN else [np.ones_like(r)]
        groups.append((ensemble, np.stack(line, axis=1)))
    return _contrasts(cell, groups)


def _alike(settings: Iterable[Setting]) -> list[tuple[list[Setting], FloatArray]]:
    """Settings that differ in their replicate alone, with the mean as their trend."""
    groups = (list(some) for _, some in groupby(sorted(settings), key=lambda s: (s.arm, s.level)))
    return [(some, np.ones((len(some), 1))) for some in groups]


def _contrasts(cell: CellOutcomes, groups: Sequence[tuple[list[Setting], FloatArray]]) -> RunContrasts:
    return together(
        contrasts_of(to_values(np.stack([cell.row(s) for s in settings])), trend, cell.cluster)
        for settings, trend in groups
    )


def noise_floor(
    cell: CellOutcomes, *, rng: np.random.Generator, alpha: float, n_permutations: int = N_RESAMPLES
) -> NoiseFloor:
    """Clean against clean: the replicates of `forward_full` at r=1 through the test of two settings.

    They differ only in their seeds: what is rejected there at alpha is a false positive. Pairs share replicates: the
    rate has fewer degrees of freedom than their number suggests.
    """
    settings = replicates_of(cell, Arm.FORWARD_FULL, 1)
    c = len(settings)
    clean = to_values(np.stack([cell.row(s) for s in settings])) if settings else np.empty((0, cell.n))
    pairs = list(permutations(clean, 2))
    gain = np.array([np.nanmean(a - b) for a, b in pairs if np.any(~np.isnan(a - b))])
    if not gain.size:
        why = because("no_clean_pair" if pairs else "one_clean_run", runs=c)
        return NoiseFloor(False, c, 0, None, None, sentence(why, TEXTS))
    rejected = sum(
        paired_test(a[None], b[None], cell.cluster, rng=rng, n_permutations=n_permutations) <= alpha for a, b in pairs
    )
    sd = float(np.sqrt(np.mean(gain**2)))  # around 0, which is its expectation
    said = because("clean_against_clean", runs=c, rejected=rejected, pairs=len(pairs), alpha=alpha, sd=sd)
    size = float(np.mean(np.abs(gain)))
    return NoiseFloor(True, c, len(pairs), rejected / len(pairs), size, sentence(said, TEXTS))
