"""Run-to-run variance: what batches, endpoints and engines add to an accuracy beyond the questions that were asked.

Two runs of one setting on the same questions differ because each question's answer varies (that is what the tests over
items know) and because something common to a whole run may shift (which items cannot show). The second part is
estimated from runs that repeat a setting, and then enters every test and interval, for each side of a comparison by
itself: clean replicates do not tell what the noisy arm's runs vary by. Where a side was not repeated, a test reckons
with the largest shift that is plausible, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from audit.statistics.drawing import cluster_sums
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
    standard error; where that is capped, the largest that is plausible. With df = 0 nothing is measured: both are 0
    here, and `RunShifts` says what is reckoned with.
    """

    estimate: float = 0.0
    used: float = 0.0
    df: int = 0
    capped: bool = False


UNMEASURED = RunVariance()


@dataclass(frozen=True)
class RunShifts:
    """Run variance of the noisy side and of its controls, and the largest standard deviation that is plausible.

    Where the noisy side was not measured, plausible_sd is reckoned with; where the controls were not, what was found
    of the noisy side: nothing happens to them that does not happen to it. The default is a world without shifts.
    """

    noisy: RunVariance = UNMEASURED
    controls: RunVariance = UNMEASURED
    plausible_sd: float = 0.0

    @property
    def used(self) -> tuple[float, float]:
        """Variances (noisy, controls) that intervals reckon with."""
        noisy = self.noisy.used if self.noisy.df else self.plausible_sd**2
        return noisy, self.controls.used if self.controls.df else noisy

    def tested(self, *, repeated: bool) -> tuple[float, float]:
        """The same for the test of a gain: at least the plausible where a side was not repeated.

        repeated: whether the noisy arm was, at the same levels. What its accuracies scatter by over the
        levels of one replicate is a measure of their shifts, but not of one that all of them share.
        """
        (noisy, controls), floor = self.used, self.plausible_sd**2
        return noisy if repeated else max(noisy, floor), controls if self.controls.df else max(controls, floor)


def contrasts_of(values: FloatArray, trend: FloatArray, cluster: np.ndarray) -> RunContrasts:
    """The contrasts of runs (K, n) that should be equal but for their trend (K, P), a column of ones at the least.

    Orthonormal, K - rank of them. Runs that repeat another answer for answer tell nothing and are counted once. What
    items explain is the variance of a mean over clusters of items, of each item's deviation from its run's mean.
    """
    kept: list[int] = []
    for k, run in enumerate(values):
        answered = not np.isnan(run).all()
        if answered and not any(np.array_equal(run, values[j], equal_nan=True) for j in kept):
            kept.append(k)
    values, trend = values[kept], trend[kept]
    if len(values) <= trend.shape[1]:
        return RunContrasts(np.zeros(0), np.zeros(0))
    basis = scipy.linalg.null_space(trend.T)  # (K, J)
    seen = ~np.isnan(values)
    mean = np.nanmean(values, axis=1)
    influence = np.where(seen, values - mean[:, None], 0.0) / seen.sum(axis=1)[:, None]
    summed = cluster_sums(basis.T @ influence, cluster)
    g = summed.shape[1]
    return RunContrasts((basis.T @ mean) ** 2, np.sum(summed**2, axis=1) * g / max(g - 1, 1))


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
        return UNMEASURED
    estimate = max(float(np.mean(squares - sampling)), 0.0)
    # A square is (variance + sampling) chi-squared with one degree of freedom.
    used = estimate + float(np.sqrt(2 * np.sum((estimate + sampling) ** 2)) / df)
    ratio = float(np.sum(squares[sampling > 0] / sampling[sampling > 0]))
    alike = scipy.stats.chi2.sf(ratio, df) > EVIDENCE and not np.any(squares[sampling == 0] > 0)
    capped = bool(alike and used > plausible_sd**2)
    return RunVariance(estimate, plausible_sd**2 if capped else used, df, capped)


def own_variance(own: RunContrasts, panel: RunVariance, plausible_sd: float) -> RunVariance:
    """The panel's variance; one cell's own where its runs differ by more than the panel's explains (level EVIDENCE).

    One model's endpoint may shift while the others' stand still: their mean would hide it.
    """
    ratio = float(np.sum(own.squares / np.maximum(panel.used + own.sampling, 1e-12)))
    if not own.squares.size or scipy.stats.chi2.sf(ratio, own.squares.size) > EVIDENCE:
        return panel
    return pooled_run_variance([own], plausible_sd)
