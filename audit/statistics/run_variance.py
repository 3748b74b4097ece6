"""Estimate run-to-run variance: what batches, endpoints and engines add to an accuracy.

Two runs of one setting on the same questions differ for two reasons. Each question's answer varies,
which the tests over items know. Something common to a whole run may shift, which items cannot show.
The second part is estimated from runs that repeat a setting.

The estimate then enters every test and interval, for each side of a comparison by itself: clean
replicates do not tell what the noisy arm's runs vary by. If a side was not repeated, a test assumes
the largest shift that is plausible, and the verdict says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from audit.statistics.drawing import cluster_sums
from audit.statistics.paired import FloatArray

EVIDENCE = 0.05  # level of the test that runs differ by more than their items explain


@dataclass(frozen=True)
class RunContrasts:
    """Hold J independent differences between runs that should be equal.

    Attributes
    ----------
    squares : (J,) array
        Squared differences of accuracy.
    sampling : (J,) array
        Variance of each difference that items alone explain.
    """

    squares: FloatArray
    sampling: FloatArray


@dataclass(frozen=True)
class RunVariance:
    """Hold the variance of a run's shift, in accuracy^2 (0-1 scale).

    Attributes
    ----------
    estimate : float
        Moment estimate from `df` contrasts, never below 0.
    used : float
        Variance that tests and intervals assume: the estimate and its standard error, or, if
        `capped`, the largest that is plausible.
    df : int
        Number of contrasts. With 0 nothing is measured: both variances are 0 here, and `RunShifts`
        says what is assumed.
    capped : bool
        True if `used` is the largest plausible variance.
    """

    estimate: float = 0.0
    used: float = 0.0
    df: int = 0
    capped: bool = False


UNMEASURED = RunVariance()


@dataclass(frozen=True)
class RunShifts:
    """Hold the run variance of the noisy side and of its controls.

    Attributes
    ----------
    noisy, controls : RunVariance
        Variance of a run's shift on each side.
    plausible_sd : float
        Largest standard deviation of a shift that is plausible, accuracy 0-1.

    Notes
    -----
    If the noisy side was not measured, plausible_sd is assumed. If the controls were not, the noisy
    side's variance is assumed for them: nothing happens to them that does not happen to it. The
    default is a world without shifts.
    """

    noisy: RunVariance = UNMEASURED
    controls: RunVariance = UNMEASURED
    plausible_sd: float = 0.0

    @property
    def used(self) -> tuple[float, float]:
        """Return the variances that intervals assume.

        Returns
        -------
        tuple of float
            Variance of the noisy side and of the controls.
        """
        noisy = self.noisy.used if self.noisy.df else self.plausible_sd**2
        return noisy, self.controls.used if self.controls.df else noisy

    def tested(self, *, repeated: bool) -> tuple[float, float]:
        """Return the variances that the test of a gain assumes.

        Parameters
        ----------
        repeated : bool
            True if the noisy arm was repeated at the same levels. The scatter of its accuracies
            over the levels of one replicate measures their shifts, but not a shift that all levels
            share.

        Returns
        -------
        tuple of float
            Variance of the noisy side and of the controls, at least the plausible one on a side
            that was not repeated.
        """
        (noisy, controls), floor = self.used, self.plausible_sd**2
        return noisy if repeated else max(noisy, floor), controls if self.controls.df else max(
            controls, floor
        )


def contrasts_of(values: FloatArray, trend: FloatArray, cluster: np.ndarray) -> RunContrasts:
    """Return the contrasts of runs that should be equal but for their trend.

    Parameters
    ----------
    values : (K, n) array
        Values of K runs on the same items, NaN without an answer.
    trend : (K, P) array
        Columns that may differ between runs, a column of ones at the least.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    RunContrasts
        K - rank(trend) orthonormal contrasts; empty if too few distinct runs are left.

    Notes
    -----
    Runs that repeat another answer for answer tell nothing and are counted once. The part that
    items explain is the variance of a mean over clusters, of each item's deviation from its run's
    mean.
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
    """Return the contrasts of several settings or cells as one record.

    Parameters
    ----------
    contrasts : iterable of RunContrasts
        The records to join.

    Returns
    -------
    RunContrasts
        All contrasts, in the order given.
    """
    records = [RunContrasts(np.zeros(0), np.zeros(0)), *contrasts]
    squares = np.concatenate([record.squares for record in records])
    return RunContrasts(squares, np.concatenate([record.sampling for record in records]))


def pooled_run_variance(contrasts: Iterable[RunContrasts], plausible_sd: float) -> RunVariance:
    """Estimate one run variance over the cells of a panel (method of moments).

    Parameters
    ----------
    contrasts : iterable of RunContrasts
        Contrasts of the cells.
    plausible_sd : float
        Largest standard deviation of a shift that is plausible, accuracy 0-1.

    Returns
    -------
    RunVariance
        Mean of squares - sampling, cut at 0; `UNMEASURED` without contrasts.

    Notes
    -----
    One standard error is added to the estimate. With few repeated runs the estimate is often 0 by
    luck, and a t quantile with one or two degrees of freedom would treat shifts as large as the
    sampling error itself as likely, at any n.

    Unless the runs differ by more than their items explain (chi-squared, level EVIDENCE), the sum
    is at most plausible_sd^2: few repeats cannot exclude absurd shifts, and give no reason to
    assume them.
    """
    pooled = together(contrasts)
    squares, sampling = pooled.squares, pooled.sampling
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
    """Return the panel's run variance, or a cell's own if its runs differ by more than that.

    Parameters
    ----------
    own : RunContrasts
        Contrasts of the cell.
    panel : RunVariance
        Variance over the panel.
    plausible_sd : float
        Largest standard deviation of a shift that is plausible, accuracy 0-1.

    Returns
    -------
    RunVariance
        The panel's, unless the cell's contrasts exceed it (chi-squared, level EVIDENCE).

    Notes
    -----
    One model's endpoint may shift while the others' stand still: their mean would hide it.
    """
    ratio = float(np.sum(own.squares / np.maximum(panel.used + own.sampling, 1e-12)))
    if not own.squares.size or scipy.stats.chi2.sf(ratio, own.squares.size) > EVIDENCE:
        return panel
    return pooled_run_variance([own], plausible_sd)
