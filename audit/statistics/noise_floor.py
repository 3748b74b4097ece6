"""The noise floor: clean against clean, through the very tests that noisy against clean goes through.

Replicates of the clean arm differ only in their seeds, so whatever "gain" appears between them is noise, and whatever
the tests reject there is a false alarm of this run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.statistics.contrasts import paired_test
from audit.statistics.paired import FloatArray
from audit.statistics.permutation import max_statistic_permutation
from audit.statistics.resampling import N_RESAMPLES

ALPHA = 0.05


@dataclass(frozen=True)
class NoiseFloor:
    """Clean against clean over C replicates; NaN rates where there are fewer than two.

    comparisons: ordered pairs of replicates. settings_rejected: of these, one-sided tests with p <= alpha.
    families: max-statistic tests, each replicate once the baseline
    of the others. mean_absolute_gain: mean |gain| over pairs (accuracy 0-1). sd_difference: root mean square gain
    between two replicates (accuracy 0-1), whose expectation is 0. flipped: mean share of items whose outcome changed.
    Pairs share replicates, so the rates have fewer degrees of freedom than `comparisons` suggests.
    """

    replicates: int
    comparisons: int
    settings_rejected: int
    rejection_rate: float
    families: int
    families_rejected: int
    family_rejection_rate: float
    sd_difference: float
    flipped: float
    alpha: float
    sentence: str
    mean_absolute_gain: float = float("nan")


def noise_floor_values(
    clean: FloatArray,
    cluster: np.ndarray | None = None,
    *,
    rng: np.random.Generator,
    alpha: float = ALPHA,
    n_permutations: int = N_RESAMPLES,
) -> NoiseFloor:
    """Run the tests of noisy against clean between clean replicates (C, n), each of 0, 1 or NaN."""
    c = clean.shape[0]
    if c < 2:
        nan = float("nan")
        text = f"Noise floor not measured: {c} replicate of the clean arm; ask for at least 2 (clean_replicates=2)."
        return NoiseFloor(c, 0, 0, nan, 0, 0, nan, nan, nan, alpha, text)
    pairs = [(a, b) for a in range(c) for b in range(c) if a != b]
    pvalues = [
        paired_test(clean[[a]], clean[[b]], cluster, rng=rng, n_permutations=n_permutations)[1] for a, b in pairs
    ]
    gaps = [clean[a] - clean[b] for a, b in pairs]  # NaN where either replicate has no answer
    differences = np.array([np.nanmean(g) if np.any(~np.isnan(g)) else np.nan for g in gaps])
    flips = np.array([np.nanmean(np.abs(g)) if np.any(~np.isnan(g)) else np.nan for g in gaps])
    rejected = sum(p <= alpha for p in pvalues)
    families = 0
    for base in range(c):
        others = np.delete(clean, base, axis=0)
        result = max_statistic_permutation(clean[base], others, cluster, n_permutations=n_permutations, rng=rng)
        families += result.pvalue <= alpha
    if np.isnan(differences).all():
        nan = float("nan")
        text = f"Noise floor not measured: no question is answered in two of the {c} replicates of the clean arm."
        return NoiseFloor(c, 0, 0, nan, 0, 0, nan, nan, nan, alpha, text)
    sd = float(np.sqrt(np.nanmean(differences**2)))
    text = (
        f"Clean against clean ({c} replicates): {rejected} of {len(pairs)} comparisons rejected at {alpha:.0%}; a gain "
        f"between identical conditions has a standard deviation of {100 * sd:.1f} points."
    )
    return NoiseFloor(
        replicates=c,
        comparisons=len(pairs),
        settings_rejected=rejected,
        rejection_rate=rejected / len(pairs),
        families=c,
        families_rejected=families,
        family_rejection_rate=families / c,
        sd_difference=sd,
        flipped=float(np.nanmean(flips)),
        alpha=alpha,
        sentence=text,
        mean_absolute_gain=float(np.nanmean(np.abs(differences))),
    )
