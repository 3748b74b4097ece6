"""What tests and the speed measurement look at of one bootstrap: the intervals of clean accuracy
and of the gains."""

from typing import Any, NamedTuple

import numpy as np

from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.resampling import Interval, Method, bootstrap_sweep


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def outcomes(
    n: int = 120, r: int = 3, seed: int = 0, effect: float = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Answers (n,) to clean and (r, n) to noisy questions that differ in difficulty."""
    g = rng(seed)
    p = g.beta(2, 2, size=n)
    clean = (g.random(n) < p).astype(float)
    return clean, (g.random((r, n)) < np.clip(p + effect, 0, 1)).astype(float)


class Intervals(NamedTuple):
    """gain: one interval per noisy condition."""

    clean_accuracy: Interval
    gain: tuple[Interval, ...]


def paired_bootstrap(
    clean: FloatArray,
    noisy: FloatArray,
    cluster: IntArray | None = None,
    *,
    method: Method = "bca",
    **options: Any,
) -> Intervals:
    """95 % intervals of a sweep. options: of `bootstrap_sweep`."""
    drawn = bootstrap_sweep(clean, noisy, cluster, **options)
    return Intervals(drawn.clean.intervals(0.95, method)[0], drawn.gain.intervals(0.95, method))
