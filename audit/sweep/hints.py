"""Does a gain belong to the router messages? Another model answers from the very same messages (pure).

A noisy message that hints at the answer without stating it lifts every reader. So the tested model's gain at each r is
set against that of a reference that was given the same messages and has the same questions' clean messages too. Which
of two gains is larger depends on the scale where the two are not equally able: the tested one must be larger in points,
in log-odds and in the log share of wrong answers repaired (an intersection over the scales, as in
`contrasts.difference_in_differences`). A weaker reader may miss hints: see `HintTest.reads_as_well`.
"""

from dataclasses import dataclass

import numpy as np
import scipy

from audit.statistics.drawing import cluster_df, influence
from audit.statistics.multiplicity import holm
from audit.statistics.paired import CellOutcomes, FloatArray, IntArray
from audit.statistics.run_variance import RunShifts
from audit.statistics.values import average, levels_of, replicates_of, runs_of
from audit.sweep.compare import distinct
from audit.sweep.design import Arm

WEAKER_MAX = 0.03  # accuracy from clean messages by which the reference may be below the tested model


@dataclass(frozen=True)
class HintTest:
    """The tested model's gain less the reference's.

    pvalues: (R,) one-sided, the largest over the scales; mean_p: of the mean over r. difference: (R,) in points (0-1).
    reference_gain: the reference's, on average over r. reads_as_well: the reference is not weaker by WEAKER_MAX.
    """

    reference: str
    routers: tuple[int, ...]
    difference: FloatArray
    reference_gain: float
    pvalues: FloatArray
    mean_p: float
    reads_as_well: bool

    def beyond(self, alpha: float) -> frozenset[int]:
        """Router counts at which the gain is more than the messages give the reference: all where the mean over r
        is, else those that stand after Holm; each way has half of alpha."""
        if not self.reads_as_well:
            return frozenset()
        if self.mean_p <= alpha / 2:
            return frozenset(self.routers)
        return frozenset(r for r, p in zip(self.routers, holm(self.pvalues), strict=True) if p <= alpha / 2)


def hint_test(
    cell: CellOutcomes, reference: CellOutcomes, shifts: RunShifts, of_reference: RunShifts
) -> HintTest | None:
    """None where the two share no router count, or no answered question. Normal approximation, clustered by item."""
    place = {q: i for i, q in enumerate(reference.question_ids)}
    here = np.array([q in place for q in cell.question_ids], dtype=bool)
    there = np.array([place[q] for q in cell.question_ids if q in place], dtype=int)
    both = set(levels_of(reference, Arm.NOISY_REWRITE))
    routers = tuple(r for r in levels_of(cell, Arm.NOISY_REWRITE) if r in both)
    if not routers or not here.any() or not replicates_of(reference, Arm.FORWARD_FULL, 1):
        return None
    sides = []
    for one, at, known in ((cell, here, shifts), (reference, there, of_reference)):
        noisy = distinct(runs_of(one, Arm.NOISY_REWRITE, routers)[:, :, at])
        clean = distinct(runs_of(one, Arm.FORWARD_FULL, (1,))[:, :, at])
        own, shared = known.used
        sides.append((average(noisy), average(clean)[0], own / len(noisy), shared / len(clean)))
    (noisy, clean, own, shared), (other, base, other_own, other_shared) = sides
    groups = cell.cluster[here]

    def test(t: FloatArray, u: FloatArray, runs: int) -> tuple[float, float, float]:
        variances = (own / runs, shared, other_own / runs, other_shared)
        return _larger((t, clean, u, base), groups, variances)

    each = [test(noisy[k], other[k], 1) for k in range(len(routers))]
    mean = test(average(noisy), average(other), len(routers))
    return HintTest(
        reference=reference.model,
        routers=routers,
        difference=np.array([d for d, _, _ in each]),
        reference_gain=mean[1],
        pvalues=np.array([p for *_, p in each]),
        mean_p=mean[2],
        reads_as_well=bool(np.nanmean(base) >= np.nanmean(clean) - WEAKER_MAX),
    )


def _larger(
    values: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    cluster: IntArray,
    variances: tuple[float, float, float, float],
) -> tuple[float, float, float]:
    """Tested noisy and clean, reference noisy and clean, each (n,): the difference of gains in points, the reference's
    gain, and p. variances: of the shift of each one's runs."""
    x = np.stack(values)
    x, groups = x[:, ~np.isnan(x).any(axis=0)], cluster[~np.isnan(x).any(axis=0)]
    n = x.shape[1]
    if n < 2:
        return float("nan"), float("nan"), 1.0
    sign = np.array([1.0, -1.0, -1.0, 1.0])
    mean = x.mean(axis=1).clip(0.5 / n, 1 - 0.5 / n)
    _, index = np.unique(groups, return_inverse=True)
    g = int(index.max()) + 1
    df = np.inf if g == n else max(cluster_df(index), 1.0)
    worst = 0.0
    for value, slope in (
        (mean, np.ones(4)),
        (scipy.special.logit(mean), 1 / (mean * (1 - mean))),
        (-np.log1p(-mean), 1 / (1 - mean)),
    ):
        by_item = (sign * slope) @ (x - x.mean(axis=1, keepdims=True)) / n
        sampling = np.sum(influence(by_item[None] * n, index) ** 2) * g / max(g - 1, 1)
        se = float(np.sqrt(sampling + np.sum(slope**2 * np.array(variances))))
        worst = max(worst, float(scipy.stats.t.sf(sign @ value / se, df)) if se > 0 else 1.0)
    return float(sign @ x.mean(axis=1)), float(x[2].mean() - x[3].mean()), worst
