"""Test whether a model scores higher on a benchmark than its reference benchmark predicts.

The module implements ConStat's test against a curve (Dekoninck, Mueller & Vechev 2024, "ConStat:
Performance-Based Contamination Detection in Large Language Models", arXiv 2405.16281, section 3).
Every model has two accuracies: one on the benchmark, and one on a reference benchmark (here: the
rewordings). The test has these steps:

- Fit a smoothing spline through the accuracy pairs of the reference models. A model that only
  guesses is added as the lowest point (anchor) of the curve.
- From the tested model's accuracy on the reference benchmark, the curve predicts its benchmark
  accuracy without contamination.
- Compute delta: the tested model's benchmark accuracy minus this prediction.
- Bootstrap delta: resample both the items and the reference models.

The code was written from the paper. Like the authors' public program, it sorts each of the two sets
of accuracies before the fit, which makes the curve monotone.

The p-value ignores that a clean model may lie off the curve. In two of the published comparisons,
the test flags 21 % to 28 % of the public models. Therefore no verdict is based on this test alone
(`audit.perturb`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray, IntArray

MIN_REFERENCES = 5  # ConStat requires at least five reference models for a curve.
N_CURVES = 1000
_SAME = 1e-4  # accuracies that differ by less are merged into one point of the curve
_TIE = 1e-9  # A smaller distance between delta and the threshold is due to rounding.
# Candidate smoothing penalties, for accuracies 0-1. A penalty of 10 gives a straight line; with a
# penalty below 1e-4, the curve follows the points of single models.
_PENALTIES = np.logspace(-4, 1, 41)


@dataclass(frozen=True)
class CurveResult:
    """Report a model's accuracy compared with the curve. Accuracies are 0-1.

    Attributes
    ----------
    accuracy, reference_accuracy : float
        Accuracy on the benchmark and on the reference benchmark.
    expected, expected_low, expected_high : float
        Accuracy on the benchmark that the curve predicts, with its 95 % interval.
    delta, delta_se, delta_low : float
        `accuracy` minus `expected`, its standard error, and its one-sided 95 % lower bound.
    pvalue : float
        One-sided p-value of the alternative delta > threshold, at least 1 / (n_draws + 1).
    threshold : float
        Largest delta that does not count as contamination.
    references, n_draws : int
        Number of reference models, and number of resamples.
    """

    accuracy: float
    reference_accuracy: float
    expected: float
    expected_low: float
    expected_high: float
    delta: float
    delta_se: float
    delta_low: float
    pvalue: float
    threshold: float
    references: int
    n_draws: int


def fit_curve(
    x: FloatArray, y: FloatArray, *, penalty: float | None = None
) -> Callable[[FloatArray], FloatArray]:
    """Return a smoothing spline that predicts accuracies y from accuracies x, within 0-1.

    Parameters
    ----------
    x, y : (R,) array
        Accuracies of R models. The k-th smallest x is paired with the k-th smallest y, so that the
        curve rises.
    penalty : float or None
        Weight of the penalty on curvature. If None, `smoothing_penalty` computes it from x and y.

    Returns
    -------
    callable
        Function from accuracies x to expected accuracies y.

    Notes
    -----
    Models whose x is equal to within .01 points form one point. The spline needs five different
    values of x; with fewer, a straight line is fitted.
    """
    points, values, weight = _points(x, y)
    if points.size < MIN_REFERENCES:
        line = np.polynomial.Polynomial.fit(
            points, values, min(1, points.size - 1), w=np.sqrt(weight)
        )
        return lambda at: np.clip(line(at), 0.0, 1.0)
    lam = smoothing_penalty(x, y) if penalty is None else penalty
    spline = scipy.interpolate.make_smoothing_spline(points, values, w=weight, lam=lam)
    return lambda at: np.clip(spline(at), 0.0, 1.0)


def smoothing_penalty(x: FloatArray, y: FloatArray) -> float | None:
    """Return the penalty with the smallest generalised cross-validation score.

    Parameters
    ----------
    x, y : (R,) array
        Accuracies of R models, sorted as described in `fit_curve`.

    Returns
    -------
    float or None
        The penalty; None if there are fewer than five different x.

    Notes
    -----
    The smoother matrix is

      (W + penalty K)^-1 W, with K = Q R^-1 Q',

    where K is the roughness matrix of the natural spline (Green & Silverman 1994, chapters 2 and
    3). SciPy's search for the penalty is not used: it takes ten times as long as the fit, and does
    not return the penalty.
    """
    x, y, weight = _points(x, y)
    n, h = x.size, np.diff(x)
    if n < MIN_REFERENCES:
        return None
    q, r = np.zeros((n, n - 2)), np.zeros((n - 2, n - 2))
    for j in range(n - 2):
        q[j : j + 3, j] = 1 / h[j], -1 / h[j] - 1 / h[j + 1], 1 / h[j + 1]
        r[j, j] = (h[j] + h[j + 1]) / 3
        if j + 1 < n - 2:
            r[j, j + 1] = r[j + 1, j] = h[j + 1] / 6
    root = np.sqrt(weight)
    roughness = q @ np.linalg.solve(r, q.T) / np.outer(root, root)
    value, vector = np.linalg.eigh((roughness + roughness.T) / 2)
    shrink = 1 / (1 + np.outer(_PENALTIES, np.clip(value, 0, None)))  # (penalties, n)
    rest = np.sum(((1 - shrink) * (vector.T @ (root * y))) ** 2, axis=1)
    score = rest / np.maximum(n - shrink.sum(axis=1), 1e-9) ** 2
    return float(_PENALTIES[int(np.argmin(score))])


def _points(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distinct x in rising order, and the mean y and number of models at each x.

    Values of x that differ by less than _SAME are merged, because nearly equal x make the spline's
    equations singular.
    """
    x, y = np.round(np.asarray(x, dtype=float) / _SAME) * _SAME, np.asarray(y, dtype=float)
    points, index, count = np.unique(np.sort(x), return_inverse=True, return_counts=True)
    return points, np.bincount(index, weights=np.sort(y)) / count, count.astype(float)


def _drawn(references: int, rng: np.random.Generator) -> IntArray:
    """Return the indices (1..R) of R reference models drawn with replacement.

    The draw contains at least five different models.
    """
    models = rng.integers(1, references + 1, size=references)
    while references > MIN_REFERENCES and np.unique(models).size < MIN_REFERENCES:
        models = rng.integers(1, references + 1, size=references)
    return np.arange(1, references + 1) if references == MIN_REFERENCES else models


def curve_test(
    y_draws: FloatArray,
    x_draws: FloatArray,
    *,
    anchor: tuple[float, float],
    anchor_items: tuple[int, int],
    threshold: float = 0.0,
    rng: np.random.Generator,
) -> CurveResult:
    """Test whether one model's delta from the reference models' curve exceeds a threshold.

    Parameters
    ----------
    y_draws, x_draws : (B + 1, R + 1) array
        Accuracies on the benchmark and on the reference benchmark. Column 0 is the tested model.
        Row 0 has the observed accuracies. Each other row is a resample of the items, with the same
        items for every model.
    anchor : tuple of float
        Accuracy of guessing on the benchmark, and on the reference benchmark.
    anchor_items : tuple of int
        Number of items of each benchmark. In every row, the anchor's accuracies are drawn at random
        for these numbers of items, since the accuracy of a guessing model also varies.
    threshold : float
        Largest delta (0-1) that does not count as contamination.
    rng : numpy.random.Generator
        Source of the drawn models and anchors.

    Returns
    -------
    CurveResult
        Delta with its bounds and p-value.

    Raises
    ------
    DataError
        If there are fewer than five reference models, or if the shapes do not fit.

    Notes
    -----
    In each row, the reference models are also resampled (at least five different models). All rows
    use the smoothing penalty of row 0. The authors choose a new penalty in every row, which takes
    ten times as long.

    As in the paper, the p-value and the bounds are computed by the basic bootstrap, centred on the
    mean over rows. The p-value is the share of rows with

      2 mean(delta) - delta_row <= threshold.
    """
    y_draws, x_draws = np.asarray(y_draws, dtype=float), np.asarray(x_draws, dtype=float)
    references = y_draws.shape[1] - 1
    if references < MIN_REFERENCES or x_draws.shape != y_draws.shape or len(y_draws) < 2:
        raise DataError(
            f"The draws have shapes {y_draws.shape} and {x_draws.shape}. Expected (B + 1, R + 1) "
            f"for both accuracies, with R >= {MIN_REFERENCES} reference models and B >= 1."
        )
    guess = np.array(anchor)
    penalty = smoothing_penalty(
        np.append(x_draws[0, 1:], guess[1]), np.append(y_draws[0, 1:], guess[0])
    )
    expected, delta = np.empty(len(y_draws) - 1), np.empty(len(y_draws) - 1)
    for b in range(1, len(y_draws)):
        models = _drawn(references, rng)
        guess = rng.normal(
            anchor, np.sqrt(np.array(anchor) * (1 - np.array(anchor)) / np.array(anchor_items))
        )
        x, y = np.append(x_draws[b, models], guess[1]), np.append(y_draws[b, models], guess[0])
        curve = fit_curve(x, y, penalty=penalty)
        expected[b - 1] = curve(x_draws[b, 0])
        delta[b - 1] = y_draws[b, 0] - expected[b - 1]
    mean, centre = float(delta.mean()), float(expected.mean())
    beyond = int(np.sum(2 * mean - delta <= threshold + _TIE))
    return CurveResult(
        accuracy=float(y_draws[0, 0]),
        reference_accuracy=float(x_draws[0, 0]),
        expected=centre,
        expected_low=float(2 * centre - np.quantile(expected, 0.975)),
        expected_high=float(2 * centre - np.quantile(expected, 0.025)),
        delta=mean,
        delta_se=float(delta.std(ddof=1)) if delta.size > 1 else float("nan"),
        delta_low=float(2 * mean - np.quantile(delta, 0.95)),
        pvalue=(1 + beyond) / (delta.size + 1),
        threshold=threshold,
        references=references,
        n_draws=delta.size,
    )
