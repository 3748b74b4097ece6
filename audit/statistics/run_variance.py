"""Estimate the run-to-run variance that batches, endpoints and engines add to an accuracy.

Two runs of one setting on the same questions differ for two reasons. First, the answer to each
question varies; the tests over items include this variance. Second, a common cause may shift the
accuracy of a whole run, which the items of one run cannot show. This module estimates the variance
of such shifts from runs that repeat a setting.

The estimate enters every test and interval, for each side of a comparison separately: replicates of
the clean arm do not show how much the noisy arm's runs vary. If a side was not repeated, a test
assumes the largest plausible shift, and the verdict states this assumption.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from audit.statistics.drawing import cluster_sums
from audit.statistics.paired import FloatArray

EVIDENCE = 0.05  # level of the test of whether runs differ by more than their items explain


@dataclass(frozen=True)
class RunContrasts:
    """Hold J independent contrasts. A contrast is a difference between runs whose expected
    accuracies are equal.

    Attributes
    ----------
    squares : (J,) array
        Squared differences of accuracy.
    sampling : (J,) array
        Variance of each difference that is due to items alone.
    """

    squares: FloatArray
    sampling: FloatArray


@dataclass(frozen=True)
class RunVariance:
    """Hold the variance of the shift of a whole run. The unit is that of a squared accuracy (0-1).

    Attributes
    ----------
    estimate : float
        Moment estimate from `df` contrasts; a negative estimate is set to 0.
    used : float
        Variance that tests and intervals assume. It is `estimate` plus its standard error or, if
        `capped`, the largest plausible variance.
    df : int
        Number of contrasts. If it is 0, nothing was measured: `estimate` and `used` are 0, and
        `RunShifts` supplies the assumed variance.
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
    """Hold the run variance of the noisy side and that of its controls.

    Attributes
    ----------
    noisy, controls : RunVariance
        Variance of a run's shift on each side.
    plausible_sd : float
        Largest plausible standard deviation of a shift, as an accuracy (0-1).

    Notes
    -----
    If the noisy side was not measured, plausible_sd is assumed for it. If the controls were not
    measured, the noisy side's variance is assumed for them, because whatever shifts controls also
    shifts noisy runs. The default values assume that runs have no shifts.
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
            Variance of a run's shift on the noisy side and on the side of the controls.
        """
        noisy = self.noisy.used if self.noisy.df else self.plausible_sd**2
        return noisy, self.controls.used if self.controls.df else noisy

    def tested(self, *, repeated: bool) -> tuple[float, float]:
        """Return the variances that the test of a gain assumes.

        Parameters
        ----------
        repeated : bool
            True if the noisy arm was repeated at the same levels. Without repeats, the scatter of
            its accuracies over levels measures the shifts of single levels, but not a shift common
            to all levels.

        Returns
        -------
        tuple of float
            Variance on the noisy side and on the side of the controls. For a side that was not
            repeated, the variance is at least plausible_sd^2.
        """
        (noisy, controls), floor = self.used, self.plausible_sd**2
        return noisy if repeated else max(noisy, floor), controls if self.controls.df else max(
            controls, floor
        )


def contrasts_of(values: FloatArray, trend: FloatArray, cluster: np.ndarray) -> RunContrasts:
    """Return the contrasts between runs whose expected accuracies are equal except for a trend.

    Parameters
    ----------
    values : (K, n) array
        Values of K runs on the same items, NaN without an answer.
    trend : (K, P) array
        Design matrix of the differences that are expected between runs. One of its P columns must
        be all ones.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    RunContrasts
        K - rank(trend) orthonormal contrasts. The record is empty if too few distinct runs are
        left.

    Notes
    -----
    Runs with identical answers carry no information and are counted once. The variance due to items
    is the variance of a mean over clusters. It is computed from each item's deviation from the mean
    of its run.
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
    """Join the contrasts of several settings or cells in a single record.

    Parameters
    ----------
    contrasts : iterable of RunContrasts
        The records to join.

    Returns
    -------
    RunContrasts
        All contrasts, in the given order.
    """
    records = [RunContrasts(np.zeros(0), np.zeros(0)), *contrasts]
    squares = np.concatenate([record.squares for record in records])
    return RunContrasts(squares, np.concatenate([record.sampling for record in records]))


def pooled_run_variance(contrasts: Iterable[RunContrasts], plausible_sd: float) -> RunVariance:
    """Estimate one run variance for all cells of a panel by the method of moments.

    Parameters
    ----------
    contrasts : iterable of RunContrasts
        Contrasts of the cells.
    plausible_sd : float
        Largest plausible standard deviation of a shift, as an accuracy (0-1).

    Returns
    -------
    RunVariance
        The run variance. Its estimate is the mean of (squares - sampling), set to 0 if negative.
        Without contrasts, the result is `UNMEASURED`.

    Notes
    -----
    One standard error is added to the estimate, because with few repeated runs the estimate is
    often 0 by chance. A t quantile with one or two degrees of freedom is not used: for any n, it
    would treat shifts as large as the sampling error as likely.

    If a test does not show that the runs differ by more than their items explain (chi-squared,
    level EVIDENCE), the variance used is at most plausible_sd^2. A few repeats cannot exclude
    implausibly large shifts, but they are no reason to assume such shifts.
    """
    pooled = together(contrasts)
    squares, sampling = pooled.squares, pooled.sampling
    df = squares.size
    if df == 0:
        return UNMEASURED
    estimate = max(float(np.mean(squares - sampling)), 0.0)
    # Each square is distributed as (variance + sampling) times chi-squared with one degree of
    # freedom.
    used = estimate + float(np.sqrt(2 * np.sum((estimate + sampling) ** 2)) / df)
    ratio = float(np.sum(squares[sampling > 0] / sampling[sampling > 0]))
    alike = scipy.stats.chi2.sf(ratio, df) > EVIDENCE and not np.any(squares[sampling == 0] > 0)
    capped = bool(alike and used > plausible_sd**2)
    return RunVariance(estimate, plausible_sd**2 if capped else used, df, capped)


def own_variance(own: RunContrasts, panel: RunVariance, plausible_sd: float) -> RunVariance:
    """Return the panel's run variance, or the cell's run variance if the cell's runs differ
    significantly more.

    Parameters
    ----------
    own : RunContrasts
        Contrasts of the cell.
    panel : RunVariance
        Run variance of the panel.
    plausible_sd : float
        Largest plausible standard deviation of a shift, as an accuracy (0-1).

    Returns
    -------
    RunVariance
        The variance estimated from the cell, if the cell's contrasts are larger than the panel's
        variance explains (chi-squared, level EVIDENCE). Otherwise the panel's variance.

    Notes
    -----
    The runs of one model's endpoint may be shifted while the runs of other models are not. A mean
    over the panel would hide these shifts.
    """
    ratio = float(np.sum(own.squares / np.maximum(panel.used + own.sampling, 1e-12)))
    if not own.squares.size or scipy.stats.chi2.sf(ratio, own.squares.size) > EVIDENCE:
        return panel
    return pooled_run_variance([own], plausible_sd)
