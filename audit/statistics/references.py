"""Harder or memorised? The drop of one model against the drops of reference models on the same items and wordings.

Rewordings that are harder, or broken, cost every model. What a model loses beyond the references is its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit.errors import DataError
from audit.statistics.between_models import predictive
from audit.statistics.drawing import bootstrap_totals, cluster_sums
from audit.statistics.estimate import (
    Estimate,
    Tested,
    above_pvalue,
    beyond_mean,
    logit_drop,
    mean_of,
    spread_of,
    t_test,
    times,
)
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.performance_curve import MIN_REFERENCES, N_CURVES, CurveResult, curve_test
from audit.statistics.priors import TauPrior
from audit.statistics.wording_drop import equivalence, item_means

Pair = tuple[FloatArray, FloatArray]  # a model's answers to the original (K, n) and the variants (N, n)
Scale = Literal["points", "share", "logit"]
LEVEL = 0.90  # of the intervals: the lower end is the limit of the one-sided test at 5 %
SCALES: tuple[Scale, ...] = ("points", "share", "logit")
FAR = 3.0  # standard deviations between clean models: an assumption, as the prior is


@dataclass(frozen=True, kw_only=True)
class BeyondReference(Tested):
    """drop of the tested model - what the references say it should be (accuracy 0-1). low, high: 90 % interval.

    scale: "points" expects the references' mean drop; "share" expects each reference's drop as a share of its
    accuracy above chance, times the tested model's (a better model has more to lose); "logit" moves the tested model by
    each reference's change in log-odds of a right answer (the same change costs a model near 1 fewer points). Both are
    taken from the accuracies under the variants, which memory of the original wording does not raise. tau: standard
    deviation of true drops between reference models (0 where they differ by no more than sampling explains; NaN with
    one reference, where it cannot be seen). drops: (R,) of each reference, as expected of the tested model. plain: the
    same by what these references show of tau alone, without a prior.
    """

    scale: Scale
    tau: float
    drops: tuple[float, ...]
    references: int
    plain: Tested


def on_scales(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray, prior: TauPrior | None = None
) -> tuple[BeyondReference, ...]:
    """One-sided test, on each scale, that the tested model drops by more than a new model like the references would.

    Parameters
    ----------
    tested, references : of each model, on the same n items
    chance : (n,) accuracy of guessing each item
    cluster : (n,) index 0..G-1
    prior : of tau; without one tau is what the references show

    Notes
    -----
    Two sources of error are added. Items: the models met the same items, so the variance is that of the influence of
    whole items (clusters) on the difference. Models: the references' drops differ by more than items explain where
    wordings suit some models better; that variance tau^2 counts 1 + 1/R times, for the new model and for the
    references' mean. With a prior, p and interval average over the posterior of tau
    (`audit.statistics.between_models.predictive`). Without, tau^2 is a moment estimate (DerSimonian & Laird 1986,
    Controlled Clinical Trials 7, cut at 0), and from two references on t has R - 1 degrees of freedom, as in
    `audit.statistics.set_difference` and for the reason given there; with one reference tau is not in the error.

    With a prior, the spread between models is that of the scale on which the references agree best: where rewording
    acts alike on one scale, the references' abilities spread their drops on the others, and that is no difference
    between models in what rewording costs them.

    Raises DataError without references, or (scale "share") for one that is not above chance.
    """
    if not references:
        raise DataError("A difference in differences needs at least one reference model; found none.")
    each = _beside(tested, references, chance, cluster)
    spreads = [spread_of(expected) for _, expected in each]
    best = min(spreads, key=lambda one: one[0] - one[1])
    return tuple(
        _beyond(*one, scale, spread, best, prior) for one, scale, spread in zip(each, SCALES, spreads, strict=True)
    )


def no_larger_beside(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray, delta: float
) -> float:
    """p for "less than delta is lost beyond the references" (`equivalence`), the largest over the scales.

    Rewordings that are easier than the originals hide a drop by as much as they give every model. The error is that of
    the items: how much models differ is not in it, since a model is cleared by its own drop too. Arguments and errors
    as of `on_scales`.
    """
    each = _beside(tested, references, chance, cluster)
    return max(equivalence(beyond, delta).p_no_larger for beyond, _ in each)


@dataclass(frozen=True)
class FarBeyond:
    """limit: the most that a clean model is taken to lose beyond its references (accuracy 0-1). pvalue: one-sided, for
    more than that."""

    limit: float
    pvalue: float


def far_beyond(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray, tau: float
) -> FarBeyond:
    """Is more lost beyond the references than by any model that differs from them as clean models do, the sensitive
    ones among them? So it must be on every scale; the error is that of the items.

    tau: standard deviation of clean models' drops (accuracy 0-1). Other arguments and errors as of `on_scales`.
    """
    limit = FAR * tau
    each = _beside(tested, references, chance, cluster)
    return FarBeyond(limit, max(above_pvalue(beyond, limit) for beyond, _ in each))


def _beside(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray
) -> list[tuple[Estimate, list[Estimate]]]:
    """On each scale, the tested model's drop less the references' mean, and what each reference's says it should be."""
    own, *others = [answered(*pair, chance, cluster) for pair in (tested, *references)]
    found = []
    for scale in SCALES:
        expected = [_expected(other, own, scale, k) for k, other in enumerate(others)]
        found.append((beyond_mean(own.drop, expected), expected))
    return found


@dataclass(frozen=True)
class Answered:
    """Accuracy under the original and the variants, over n items with both, and what guessing of these gives."""

    original: Estimate
    variants: Estimate
    chance: Estimate
    n: int

    @property
    def drop(self) -> Estimate:
        return self.original.plus(self.variants, -1.0)

    @property
    def height(self) -> Estimate:
        """Accuracy above chance under the variants, which memory of the original wording does not raise."""
        return self.variants.plus(self.chance, -1.0)


def answered(original: FloatArray, variants: FloatArray, chance: FloatArray, cluster: IntArray) -> Answered:
    o, v = item_means(original, variants)
    there = ~np.isnan(o)
    guessed = np.where(there, chance, np.nan)
    return Answered(mean_of(o, cluster), mean_of(v, cluster), mean_of(guessed, cluster), int(there.sum()))


def _beyond(
    difference: Estimate,
    expected: Sequence[Estimate],
    scale: Scale,
    own: tuple[float, float],
    best: tuple[float, float],
    prior: TauPrior | None,
) -> BeyondReference:
    """The test of what `_beside` gives. own, best: `spread_of` on this scale, and on the one where the references agree
    best."""
    r, df = len(expected), difference.df
    tau = float(np.sqrt(max(own[0] - own[1], 0.0))) if np.isfinite(own[0]) else float("nan")
    se = float(np.hypot(difference.se, np.nan_to_num(tau) * np.sqrt(1 + 1 / r)))
    test = t_test(difference.value, se, float(r - 1) if r > 1 else df, LEVEL)
    plain = Tested(**test)
    if prior is not None and difference.se > 0:
        found = predictive(difference.value, difference.se, df, *best, r, prior, LEVEL)
        test |= {"se": found.se, "df": df, "low": found.low, "high": found.high, "pvalue": found.pvalue}
    drops = tuple(e.value for e in expected)
    return BeyondReference(scale=scale, **test, tau=tau, drops=drops, references=r, plain=plain)


def _expected(reference: Answered, tested: Answered, scale: Scale, k: int) -> Estimate:
    """The drop that one reference's says the tested model should have."""
    if scale == "points":
        return reference.drop
    if scale == "logit":
        return logit_drop(reference.original, reference.variants, tested.variants, tested.n)
    if reference.height.value <= 0:
        raise DataError(f"Reference {k} is not above chance: no share of its accuracy can be lost.")
    return times(reference.drop, reference.height, tested.height)


def reference_curve(
    tested: Pair,
    references: Sequence[Pair],
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
