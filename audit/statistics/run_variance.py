"""Run-to-run variance: what batches, endpoints and engines add to an accuracy beyond the questions that were asked.

Two runs of one setting on the same questions differ because each question's answer varies (that is what the tests over
items know) and because something common to a whole run may shift (which items cannot show). The second part is
estimated from runs that repeat a setting, and then enters every test and interval. It is assumed zero where nothing was
repeated, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import linalg, stats

from audit.records import Setting
from audit.statistics.paired import CellOutcomes, FloatArray
from audit.statistics.values import to_values
from audit.sweep.design import Arm

TREND_MIN = 4  # router counts of the ensemble control from which a straight line over r is taken out, not only the mean

EVIDENCE = 0.05  # level at which runs are said to differ by more than their items explain


@dataclass(frozen=True)
class RunContrasts:
    """Independent differences between runs that should be equal: squared (J,), and what items alone explain (J,)."""

    squares: FloatArray
    sampling: FloatArray


@dataclass(frozen=True)
class RunVariance:
    """Variance of a run's shift, accuracy^2 (0-1 scale).

    estimate: from `df` contrasts, never below 0. used: what tests and intervals reckon with, the estimate and its
    standard error. With df = 0 both are 0: assumed, not measured.
    """

    estimate: float = 0.0
    used: float = 0.0
    df: int = 0

    def scaled(self, factor: float) -> RunVariance:
        """The same for accuracies multiplied by `factor`."""
        return RunVariance(self.estimate * factor**2, self.used * factor**2, self.df)

    def total_se(self, se: FloatArray, runs: FloatArray) -> FloatArray:
        """Standard errors of differences from items (R,), with the shifts of 1/L + 1/K = runs (R,) in them."""
        total: FloatArray = np.sqrt(se**2 + runs * self.used)
        return total


ASSUMED_ZERO = RunVariance()


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
    squares, sampling = [np.zeros(0)], [np.zeros(0)]
    for settings, trend in groups:
        values = to_values(np.stack([cell.row(s) for s in settings]))
        kept = _distinct_runs(values)
        found = _contrasts(values[kept], trend[kept], cell.cluster)
        squares.append(found[0])
        sampling.append(found[1])
    return RunContrasts(np.concatenate(squares), np.concatenate(sampling))


def pooled_run_variance(contrasts: Iterable[RunContrasts], plausible_sd: float) -> RunVariance:
    """One estimate over the cells of a panel (method of moments): mean of squares - sampling, cut at 0.

    One standard error is added to it: with few repeated runs the estimate is often 0 by luck, and a t quantile with one
    or two degrees of freedom would treat shifts as large as the sampling error itself as likely, at any n. Unless the
    runs differ by more than their items explain (chi-squared, level EVIDENCE), the sum is at most plausible_sd^2
    (accuracy 0-1): few repeats cannot exclude absurd shifts, and are no reason to reckon with them.
    """
    found = list(contrasts)
    squares = np.concatenate([c.squares for c in found]) if found else np.zeros(0)
    sampling = np.concatenate([c.sampling for c in found]) if found else np.zeros(0)
    df = squares.size
    if df == 0:
        return ASSUMED_ZERO
    estimate = max(float(np.mean(squares - sampling)), 0.0)
    # A square is (variance + sampling) chi-squared with one degree of freedom.
    used = estimate + float(np.sqrt(2 * np.sum((estimate + sampling) ** 2)) / df)
    ratio = float(np.sum(squares[sampling > 0] / sampling[sampling > 0]))
    if stats.chi2.sf(ratio, df) > EVIDENCE and not np.any(squares[sampling == 0] > 0):
        used = min(used, plausible_sd**2)
    return RunVariance(estimate, used, df)


def _distinct_runs(values: FloatArray) -> list[int]:
    kept: list[int] = []
    for k, run in enumerate(values):
        answered = not np.isnan(run).all()
        if answered and not any(np.array_equal(run, values[j], equal_nan=True) for j in kept):
            kept.append(k)
    return kept


def _contrasts(values: FloatArray, trend: FloatArray, cluster: np.ndarray) -> tuple[FloatArray, FloatArray]:
    """Runs (K, n) and their design (K, P) -> squares and sampling variances (K - rank,) of orthonormal contrasts.

    The sampling variance is that of a mean over clusters of items, each item's deviation from its run's mean.
    """
    if len(values) <= trend.shape[1]:
        return np.zeros(0), np.zeros(0)
    basis = linalg.null_space(trend.T)  # (K, J)
    seen = ~np.isnan(values)
    mean = np.nanmean(values, axis=1)
    influence = np.where(seen, values - mean[:, None], 0.0) / seen.sum(axis=1)[:, None]
    by_item = basis.T @ influence
    _, index = np.unique(cluster, return_inverse=True)
    g = int(index.max()) + 1
    summed = np.stack([np.bincount(index, weights=row, minlength=g) for row in by_item])
    return (basis.T @ mean) ** 2, np.sum(summed**2, axis=1) * g / max(g - 1, 1)
