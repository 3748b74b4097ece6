"""Test whether a model is better on one benchmark than models of its strength on another.

The test is ConStat's, against a curve. Dekoninck, Mueller & Vechev (2024), "ConStat:
Performance-Based Contamination Detection in Large Language Models", arXiv 2405.16281, section 3:
reference models show which accuracy on the benchmark goes with which accuracy on the reference
benchmark (here: on the rewordings). A smoothing spline through them is the accuracy expected of a
model that is not contaminated; delta = accuracy - expected. Items and reference models are both
resampled, and a model that guesses anchors the curve.

The code was written from the paper. The authors' public program also sorts both sets of accuracies
before the fit, which makes the curve monotone; the fit here does the same.

The test takes the curve for the truth: that a model may lie off it for reasons of its own is not in
its p-value. It flags 21 % to 28 % of public models on two of its published comparisons, and is not
used alone (`audit.perturb`).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from audit.core.errors import DataError
from audit.statistics.paired import FloatArray, IntArray

MIN_REFERENCES = 5  # the fit has no meaning with fewer (ConStat requires as many)
N_CURVES = 1000
_SAME = 1e-4  # accuracies that differ by less are one point of the curve
_TIE = 1e-9  # a smaller delta is rounding
# Penalties of accuracies 0-1: 10 gives a straight line, and below 1e-4 the curve follows single
# models.
_PENALTIES = np.logspace(-4, 1, 41)


@dataclass(frozen=True)
class CurveResult:
    """Report a model's accuracy against the curve; accuracies 0-1.

    Attributes
    ----------
    accuracy, reference_accuracy : float
        Accuracy on the benchmark and on the reference benchmark.
    expected, expected_low, expected_high : float
        Accuracy expected by the curve, with its 95 % interval.
    delta, delta_se, delta_low : float
        accuracy - expected, its standard error and its one-sided 95 % lower bound.
    pvalue : float
        One-sided for delta > threshold, at least 1 / (n_draws + 1).
    threshold : float
        Delta that does not count.
    references, n_draws : int
        Number of reference models, and of resamples.
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
    """Return a smoothing spline of accuracies y over accuracies x, cut to 0-1.

    Parameters
    ----------
    x, y : (R,) array
        Accuracies of R models. The k-th smallest x is paired with the k-th smallest y, so that the
        curve rises.
    penalty : float or None
        Penalty of the curvature; None takes `smoothing_penalty` of the same points.

    Returns
    -------
    callable
        Expected accuracies y of accuracies x.

    Notes
    -----
    Models with the same x (to .01 points) are taken together. With fewer than five different x (the
    spline needs five) a straight line is fitted.
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
        Accuracies of R models, sorted as in `fit_curve`.

    Returns
    -------
    float or None
        The penalty; None if fewer than five x differ.

    Notes
    -----
    Green & Silverman (1994), chapters 2 and 3. SciPy's own search costs ten times as much as the
    fit, and does not return the penalty. The smoother is (W + penalty K)^-1 W with K = Q R^-1 Q' of
    the natural spline.
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
    """Return the different x, rising, with the mean y and the number of models at each.

    x that differ by less than _SAME are the same: next to no distance makes the equations of the
    spline singular.
    """
    x, y = np.round(np.asarray(x, dtype=float) / _SAME) * _SAME, np.asarray(y, dtype=float)
    points, index, count = np.unique(np.sort(x), return_inverse=True, return_counts=True)
    return points, np.bincount(index, weights=np.sort(y)) / count, count.astype(float)


def _drawn(references: int, rng: np.random.Generator) -> IntArray:
    """Return indices 1..R of as many reference models with replacement, at least five different
    ones."""
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
    """Test delta <= threshold for one model against reference models.

    Parameters
    ----------
    y_draws, x_draws : (B + 1, R + 1) array
        Accuracies on the benchmark and on the reference benchmark; column 0 is the tested model.
        Row 0 is as observed; the other rows have their items resampled, the same items for every
        model in a row.
    anchor : tuple of float
        Accuracy of guessing on (benchmark, reference benchmark).
    anchor_items : tuple of int
        Number of items of each: the anchor is drawn anew in every row, as a guesser's accuracy
        would be.
    threshold : float
        A smaller delta does not count, 0-1.
    rng : numpy.random.Generator
        Source of the drawn models and anchors.

    Returns
    -------
    CurveResult
        Delta, its bounds and p.

    Raises
    ------
    DataError
        If there are fewer than five reference models, or the shapes do not fit.

    Notes
    -----
    Each row also resamples the reference models (at least five different ones). The penalty is that
    of row 0 (the authors choose it anew in every row, at ten times the cost). p-value and bounds
    are those of the basic bootstrap around the mean over rows, as published: p is the share of rows
    with 2 mean(delta) - delta_row <= threshold.
    """
    y_draws, x_draws = np.asarray(y_draws, dtype=float), np.asarray(x_draws, dtype=float)
    references = y_draws.shape[1] - 1
    if references < MIN_REFERENCES or x_draws.shape != y_draws.shape or len(y_draws) < 2:
        raise DataError(
            f"A curve needs draws (B + 1, R + 1) of both accuracies with R >= {MIN_REFERENCES} reference models and "
            f"B >= 1; found shapes {y_draws.shape} and {x_draws.shape}."
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
