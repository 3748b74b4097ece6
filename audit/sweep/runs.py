"""What the sweep's repeated runs tell of noise: run variance, and clean against clean."""

from __future__ import annotations

import numpy as np

from audit.records import Setting
from audit.statistics.noise_floor import ALPHA, NoiseFloor, noise_floor_values
from audit.statistics.paired import CellOutcomes, FloatArray
from audit.statistics.resampling import N_RESAMPLES
from audit.statistics.run_variance import RunContrasts, contrasts_of, together
from audit.statistics.values import replicates_of, to_values
from audit.sweep.design import Arm

TREND_MIN = 4  # router counts of the ensemble control from which a straight line over r is taken out, not only the mean


def run_contrasts(cell: CellOutcomes) -> RunContrasts:
    """The contrasts of one cell: runs of one setting against each other, and the ensemble control around its trend.

    Replicates of a setting should be equally accurate. The ensemble control at r=2, 3, ... changes with r smoothly if
    at all, so what is left of a straight line over r (of the mean, below TREND_MIN router counts) is run variance too;
    a bent trend makes the estimate larger, never smaller. The noisy arm's r are not used: there an effect is what the
    audit looks for. Runs that repeat another answer for answer tell nothing and are counted once.
    """
    groups: list[tuple[list[Setting], FloatArray]] = []
    by_setting: dict[tuple[str, int], list[Setting]] = {}
    for s in cell.settings:
        by_setting.setdefault((s.arm, s.level), []).append(s)
    ensemble = [s for s in cell.settings if s.arm == Arm.FORWARD_FULL and s.level > 1]
    for (arm, routers), settings in by_setting.items():
        if not (arm == Arm.FORWARD_FULL and routers > 1):
            groups.append((settings, np.ones((len(settings), 1))))
    if ensemble:
        r = np.array([s.level for s in ensemble], dtype=float)
        line = [np.ones_like(r), r] if np.unique(r).size >= TREND_MIN else [np.ones_like(r)]
        groups.append((ensemble, np.stack(line, axis=1)))
    return together(
        contrasts_of(to_values(np.stack([cell.row(s) for s in settings])), trend, cell.cluster)
        for settings, trend in groups
    )


def noise_floor(
    cell: CellOutcomes, *, rng: np.random.Generator, alpha: float = ALPHA, n_permutations: int = N_RESAMPLES
) -> NoiseFloor:
    """Run the tests of this cell between the replicates of its clean arm (`forward_full`, r=1)."""
    settings = replicates_of(cell, Arm.FORWARD_FULL, 1)
    clean = to_values(np.stack([cell.row(s) for s in settings])) if settings else np.zeros((0, cell.n))
    return noise_floor_values(clean, cell.cluster, rng=rng, alpha=alpha, n_permutations=n_permutations)
