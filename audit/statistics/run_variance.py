"""Estimate the run-to-run variance that batches, endpoints and engines add to an accuracy.

Two runs of one setting on the same questions differ for two reasons:

- The answer to each question varies. The tests over items include this variance.
- A common cause may shift the accuracy of a whole run. This shift cannot be estimated from a single
  run, so its variance is estimated here from runs that repeat a setting.

The estimate enters every test and interval. The two sides of a comparison have separate estimates,
because replicates of the clean arm do not show how much the noisy arm's runs vary. If a side was
not repeated, a test assumes the largest plausible shift, and the verdict states this assumption.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import scipy

from audit.statistics.drawing import cluster_sums
from audit.statistics.paired import FloatArray

EVIDENCE = 0.05  # level of the test for more variation between runs than item sampling explains


@dataclass(frozen=True)
class RunContrasts:
    """Hold J independent contrasts between runs.

    A contrast is a difference of accuracies whose expected value is 0.

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
    """Hold the variance of the shift of a whole run, where accuracies are 0-1.

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
    If the noisy side was not repeated, its standard deviation is assumed to be plausible_sd. If the
    controls were not repeated, their variance is assumed to be that of the noisy side, because
    whatever shifts controls also shifts noisy runs. With the default values, runs have no shifts.
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
            True if the noisy arm was repeated at the same levels. Otherwise only the scatter of the
            accuracies over levels is known. It shows the shifts of single levels, but not a shift
            that all levels share.

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
    """Return the contrasts between runs whose expected accuracies differ only by a trend.

    Parameters
    ----------
    values : (K, n) array
        Values of K runs on the same items, NaN without an answer.
    trend : (K, P) array
        Design matrix of the trend: the expected accuracy of the runs is a linear combination of its
        P columns. One column must be all ones.
    cluster : (n,) array
        Cluster of each item.

    Returns
    -------
    RunContrasts
        K - rank(trend) orthonormal contrasts. The record is empty if too few distinct runs are
        left.

    Notes
    -----
    Runs with identical answers are counted as one run. The sampling variance is the variance of a
    mean over clusters. It is computed from each item's deviation from the mean of its run.
    """
    distinct: list[int] = []
    for k, run in enumerate(values):
        answered = not np.isnan(run).all()
        if answered and not any(np.array_equal(run, values[j], equal_nan=True) for j in distinct):
            distinct.append(k)
    values, trend = values[distinct], trend[distinct]
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
    often 0 by chance. An upper confidence limit by a t quantile is not used: with one or two
    degrees of freedom, it would imply shifts as large as the sampling error for every n.

    A chi-squared test (level EVIDENCE) tests whether the runs vary by more than item sampling
    explains. If it does not reject, the variance used is at most plausible_sd^2: a few repeats
    cannot exclude implausibly large shifts, but they are no evidence of such shifts.
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


def cell_variance(contrasts: RunContrasts, panel: RunVariance, plausible_sd: float) -> RunVariance:
    """Return the run variance of a cell, which is the panel's run variance by default.

    If the cell's runs vary significantly more, the variance is estimated from the cell's runs.

    Parameters
    ----------
    contrasts : RunContrasts
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
    ratio = float(np.sum(contrasts.squares / np.maximum(panel.used + contrasts.sampling, 1e-12)))
    if not contrasts.squares.size or scipy.stats.chi2.sf(ratio, contrasts.squares.size) > EVIDENCE:
        return panel
    return pooled_run_variance([contrasts], plausible_sd)
