"""Every interval of one bootstrap together: what tests and the speed measurement look at."""

from dataclasses import dataclass

import numpy as np

from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.resampling import N_RESAMPLES, Interval, Method, SweepResamples, bootstrap_sweep


def outcomes(n: int = 120, r: int = 3, seed: int = 0, effect: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """Answers (n,) to clean and (r, n) to noisy questions that differ in difficulty."""
    rng = np.random.default_rng(seed)
    p = rng.beta(2, 2, size=n)
    clean = (rng.random(n) < p).astype(float)
    return clean, (rng.random((r, n)) < np.clip(p + effect, 0, 1)).astype(float)


@dataclass(frozen=True)
class BootstrapResult:
    """Intervals of a sweep. noisy_accuracy, gain and positive_excess hold one interval per condition."""

    clean_accuracy: Interval
    noisy_accuracy: tuple[Interval, ...]
    gain: tuple[Interval, ...]
    positive_excess: tuple[Interval, ...]
    mean_gain: Interval
    n_resamples: int
    n_clusters: int


def paired_bootstrap(
    clean: FloatArray,
    noisy: FloatArray,
    cluster: IntArray | None = None,
    *,
    n_resamples: int = N_RESAMPLES,
    confidence: float = 0.95,
    method: Method = "bca",
    rng: np.random.Generator,
) -> BootstrapResult:
    """Item-paired bootstrap intervals of a sweep (see `bootstrap_sweep` for the arguments).

    The interval of a positive excess max(gain, 0) is the gain's interval cut at 0: both methods respect monotone
    transformations, and a resample's excess is the cut of its gain.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> clean = np.repeat([1.0, 0.0], 50)
    >>> noisy = np.roll(clean, 5)[None]  # 5 improve, 5 degrade
    >>> gain = paired_bootstrap(clean, noisy, rng=rng).gain[0]
    >>> gain.estimate, gain.low < 0 < gain.high
    (0.0, True)
    """
    resamples = bootstrap_sweep(clean, noisy, cluster, n_resamples=n_resamples, rng=rng)
    return sweep_intervals(resamples, confidence, method)


def sweep_intervals(resamples: SweepResamples, confidence: float = 0.95, method: Method = "bca") -> BootstrapResult:
    """The intervals of resamples that are already drawn (so that a slope can use the same ones)."""
    gain = resamples.gain.intervals(confidence, method)
    return BootstrapResult(
        clean_accuracy=resamples.clean.intervals(confidence, method)[0],
        noisy_accuracy=resamples.noisy.intervals(confidence, method),
        gain=gain,
        positive_excess=_cut(gain, resamples.gain.draws),
        mean_gain=resamples.mean_gain.intervals(confidence, method)[0],
        n_resamples=len(resamples.gain.draws),
        n_clusters=int(resamples.gain.jackknife_weight.sum()),
    )


def _cut(gain: tuple[Interval, ...], draws: FloatArray) -> tuple[Interval, ...]:
    excess = np.maximum(draws, 0)
    return tuple(
        Interval(
            max(i.estimate, 0.0), max(i.low, 0.0), max(i.high, 0.0), i.confidence, i.method,
            float(np.nanstd(excess[:, k], ddof=1)) if np.isfinite(i.se) else np.nan,
        )
        for k, i in enumerate(gain)
    )  # fmt: skip
