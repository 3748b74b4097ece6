"""Run-to-run variance: what batches, endpoints and engines add to an accuracy beyond the questions that were asked.

Two runs of one setting on the same questions differ because each question's answer varies (that is what the tests over
items know) and because something common to a whole run may shift (which items cannot show). The second part is
estimated from runs that repeat a setting, and then enters every test and interval. It is assumed zero where nothing was
repeated, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from audit.statistics.paired import FloatArray

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
    standard error; where that is capped, the largest that is plausible. With df = 0 both are 0: assumed, not measured.
    """

    estimate: float = 0.0
    used: float = 0.0
    df: int = 0
    capped: bool = False

    def scaled(self, factor: float) -> RunVariance:
        """The same for accuracies multiplied by `factor`."""
        return replace(self, estimate=self.estimate * factor**2, used=self.used * factor**2)

    def total_se(self, se: FloatArray, runs: FloatArray) -> FloatArray:
        """Standard errors of differences from items (R,), with the shifts of 1/L + 1/K = runs (R,) in them."""
        total: FloatArray = np.sqrt(se**2 + runs * self.used)
        return total


ASSUMED_ZERO = RunVariance()


def contrasts_of(values: FloatArray, trend: FloatArray, cluster: np.ndarray) -> RunContrasts:
    """The contrasts of runs (K, n) that should be equal but for their trend (K, P), a column of ones at the least.

    Runs that repeat another answer for answer tell nothing and are counted once.
    """
    kept = _distinct_runs(values)
    return RunContrasts(*_contrasts(values[kept], trend[kept], cluster))


def together(contrasts: Iterable[RunContrasts]) -> RunContrasts:
    """Those of several settings or cells as one."""
    found = [RunContrasts(np.zeros(0), np.zeros(0)), *contrasts]
    return RunContrasts(np.concatenate([c.squares for c in found]), np.concatenate([c.sampling for c in found]))


def pooled_run_variance(contrasts: Iterable[RunContrasts], plausible_sd: float) -> RunVariance:
    """One estimate over the cells of a panel (method of moments): mean of squares - sampling, cut at 0.

    One standard error is added to it: with few repeated runs the estimate is often 0 by luck, and a t quantile with one
    or two degrees of freedom would treat shifts as large as the sampling error itself as likely, at any n. Unless the
    runs differ by more than their items explain (chi-squared, level EVIDENCE), the sum is at most plausible_sd^2
    (accuracy 0-1): few repeats cannot exclude absurd shifts, and are no reason to reckon with them.
    """
    found = together(contrasts)
    squares, sampling = found.squares, found.sampling
    df = squares.size
    if df == 0:
        return ASSUMED_ZERO
    estimate = max(float(np.mean(squares - sampling)), 0.0)
    # A square is (variance + sampling) chi-squared with one degree of freedom.
    used = estimate + float(np.sqrt(2 * np.sum((estimate + sampling) ** 2)) / df)
    ratio = float(np.sum(squares[sampling > 0] / sampling[sampling > 0]))
    alike = scipy.stats.chi2.sf(ratio, df) > EVIDENCE and not np.any(squares[sampling == 0] > 0)
    capped = bool(alike and used > plausible_sd**2)
    return RunVariance(estimate, plausible_sd**2 if capped else used, df, capped)


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
    basis = scipy.linalg.null_space(trend.T)  # (K, J)
    seen = ~np.isnan(values)
    mean = np.nanmean(values, axis=1)
    influence = np.where(seen, values - mean[:, None], 0.0) / seen.sum(axis=1)[:, None]
    by_item = basis.T @ influence
    _, index = np.unique(cluster, return_inverse=True)
    g = int(index.max()) + 1
    summed = np.stack([np.bincount(index, weights=row, minlength=g) for row in by_item])
    return (basis.T @ mean) ** 2, np.sum(summed**2, axis=1) * g / max(g - 1, 1)
