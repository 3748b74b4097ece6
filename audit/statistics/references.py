"""Harder or memorised? The drop of one model against the drops of reference models on the same items and wordings.

Rewordings that are harder, or broken, cost every model. What a model loses beyond the references is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit.errors import DataError
from audit.statistics.drawing import bootstrap_totals, cluster_sums
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.performance_curve import MIN_REFERENCES, N_CURVES, CurveResult, curve_test
from audit.statistics.wording_drop import Estimate, Tested, item_means, mean_of, t_test

Scale = Literal["points", "share"]


@dataclass(frozen=True, kw_only=True)
class BeyondReference(Tested):
    """drop of the tested model - what the references say it should be (accuracy 0-1).

    scale: "points" expects the references' mean drop; "share" expects each reference's drop as a share of its
    accuracy above chance, times the tested model's (a better model has more to lose); these accuracies are the ones
    under the variants, which memory of the original wording does not raise. tau: standard deviation of true drops
    between reference models (0 where they differ by no more than sampling explains; NaN with one reference, where it
    cannot be seen). drops: (R,) of each reference, as expected of the tested model.
    """

    scale: Scale
    tau: float
    drops: tuple[float, ...]
    references: int


def difference_in_differences(
    tested: tuple[FloatArray, FloatArray],
    references: Sequence[tuple[FloatArray, FloatArray]],
    chance: FloatArray,
    cluster: IntArray,
    *,
    scale: Scale = "points",
) -> BeyondReference:
    """One-sided test that the tested model drops by more than a new model like the references would.

    Parameters
    ----------
    tested, references : (original (K, n), variants (N, n)) of each model, on the same n items
    chance : (n,) accuracy of guessing each item
    cluster : (n,) index 0..G-1

    Notes
    -----
    Two sources of error are added. Items: the models met the same items, so the variance is that of the influence of
    whole items (clusters) on the difference. Models: the references' drops differ by more than items explain where
    wordings suit some models better; that variance tau^2 (moment estimate, as DerSimonian & Laird 1986, Controlled
    Clinical Trials 7, cut at 0) counts 1 + 1/R times, for the new model and for the references' mean. From two
    references on t has R - 1 degrees of freedom, as in `audit.statistics.set_difference` and for the reason given
    there. With one reference tau cannot be seen and is not in the error.

    Raises DataError without references, or (scale="share") for one that is not above chance.
    """
    if not references:
        raise DataError("A difference in differences needs at least one reference model; found none.")
    own, above = drop_and_height(*tested, chance, cluster)
    expected = []
    for k, reference in enumerate(references):
        drop, height = drop_and_height(*reference, chance, cluster)
        if scale == "share":
            if height.value <= 0:
                raise DataError(f"Reference {k} is not above chance: no share of its accuracy can be lost.")
            drop = times(drop, height, above)
        expected.append(drop)
    r = len(expected)
    difference = own
    for drop in expected:
        difference = difference.plus(drop, -1 / r)
    units = difference.units
    items, models, tau = difference.se**2, 0.0, float("nan")
    if r > 1 and units > 1:
        drops = np.array([e.value for e in expected])
        own_part = np.stack([e.influence for e in expected])
        spread = own_part - own_part.mean(axis=0)
        sampling = np.sum(spread**2) * units / (units - 1) / (r - 1)
        tau = float(np.sqrt(max(drops.var(ddof=1) - sampling, 0.0)))
        models = tau**2 * (1 + 1 / r)
    se = float(np.sqrt(items + models))
    df = float(r - 1 if r > 1 else max(units - 1, 1))
    return BeyondReference(
        scale=scale,
        **t_test(difference.value, se, df),
        tau=tau,
        drops=tuple(e.value for e in expected),
        references=r,
    )


def reference_curve(
    tested: tuple[FloatArray, FloatArray],
    references: Sequence[tuple[FloatArray, FloatArray]],
    chance: FloatArray,
    cluster: IntArray,
    *,
    n_draws: int = N_CURVES,
    rng: np.random.Generator,
) -> CurveResult:
    """ConStat's curve (`audit.statistics.performance_curve`) with the rewordings as reference benchmark.

    Items (clusters) are resampled together for the original and the variants: here, unlike between two benchmarks, they
    are the same items.
    """
    if len(references) < MIN_REFERENCES:
        raise DataError(f"A curve needs at least {MIN_REFERENCES} reference models; found {len(references)}.")
    rows, n = [], 0
    for original, variants in (tested, *references):
        o, v = item_means(original, variants)
        there = ~np.isnan(o)
        n = n or int(there.sum())
        rows += [np.where(there, o, 0.0), np.where(there, v, 0.0), there.astype(float)]
    sums = cluster_sums(np.stack(rows), cluster)
    count = np.ones(sums.shape[1], dtype=np.int64)
    totals = np.concatenate([sums.sum(axis=1)[None], bootstrap_totals(sums, count, n_draws, rng)])
    y, x, there = totals[:, 0::3], totals[:, 1::3], np.maximum(totals[:, 2::3], 1.0)
    guess = float(np.mean(chance))
    return curve_test(y / there, x / there, anchor=(guess, guess), anchor_items=(n, n), rng=rng)


def drop_and_height(
    original: FloatArray, variants: FloatArray, chance: FloatArray, cluster: IntArray
) -> tuple[Estimate, Estimate]:
    """Drop, and accuracy above chance under the variants, which memory of the original wording does not raise."""
    o, v = item_means(original, variants)
    return mean_of(o - v, cluster), mean_of(v - chance, cluster)


def times(drop: Estimate, height: Estimate, other: Estimate) -> Estimate:
    """drop x other / height: a reference's drop as a share of its own height, of the tested model's height."""
    ratio, share = other.value / height.value, drop.value / height.value
    influence = ratio * drop.influence - share * ratio * height.influence + share * other.influence
    return Estimate(drop.value * ratio, influence, min(drop.empty, height.empty, other.empty))
