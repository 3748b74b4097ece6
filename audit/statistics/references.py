"""Test whether a drop under rewording is specific to the tested model or occurs in all models.

The drop of the tested model is compared with the drops of reference models on the same items and
wordings. If rewordings are harder or broken, the accuracy of every model drops. A drop that is
larger than the references' drops is specific to the tested model. It indicates that this model has
memorised the originals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from audit.core.errors import DataError
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

# Answers of one model to the original (K, n) and to the variants (N, n).
Pair = tuple[FloatArray, FloatArray]
Scale = Literal["points", "share", "logit"]
LEVEL = 0.90  # The lower end of a 90 % interval is the limit of the one-sided test at 5 %.
SCALES: tuple[Scale, ...] = ("points", "share", "logit")
FAR = 3.0  # largest drop assumed for a clean model, in standard deviations between clean models


@dataclass(frozen=True, kw_only=True)
class BeyondReference(Tested):
    """Report the tested model's drop minus the drop expected from the references, as a fraction.

    Attributes
    ----------
    scale : {"points", "share", "logit"}
        How the expected drop is computed (see Notes).
    tau : float
        Standard deviation of true drops between reference models. It is 0 if the drops differ by no
        more than sampling explains. It is NaN with one reference, from which it cannot be
        estimated.
    drops : (R,) tuple of float
        Expected drop of the tested model, computed from each reference.
    references : int
        Number of references R.
    plain : Tested
        Result of the same test without a prior: tau is then estimated from the references alone.

    Notes
    -----
    `low` and `high` are the ends of a 90 % interval. The scales are:

    - "points": the expected drop is the mean of the references' drops.
    - "share": a better model has more to lose. So each reference's drop is divided by its accuracy
      above chance, and multiplied by the tested model's accuracy above chance. The mean is taken.
    - "logit": each reference's change in log-odds is applied to the tested model, and the mean is
      taken. Near an accuracy of 1, the same change in log-odds costs fewer points.

    "share" and "logit" start from the accuracies on the variants, because memory of the original
    wording cannot inflate these accuracies.
    """

    scale: Scale
    tau: float
    drops: tuple[float, ...]
    references: int
    plain: Tested


def on_scales(
    tested: Pair,
    references: Sequence[Pair],
    chance: FloatArray,
    cluster: IntArray,
    prior: TauPrior | None = None,
) -> tuple[BeyondReference, ...]:
    """Test on each scale whether the tested model drops more than its references predict.

    Parameters
    ----------
    tested, references : Pair
        Each model's answers to the original and to the variants of the same n items.
    chance : (n,) array
        Probability that a guess at each item is right.
    cluster : (n,) array
        Cluster of each item, 0..G-1.
    prior : TauPrior or None
        Prior of tau; None estimates tau from the references alone.

    Returns
    -------
    tuple of BeyondReference
        One-sided test on each of SCALES.

    Raises
    ------
    DataError
        If there are no references, or if a reference is not above chance (scale "share").

    Notes
    -----
    The variance of the difference has two parts:

    - Items: all models answered the same items. So this part is the variance of the influence of
      whole items (clusters) on the difference.
    - Models: some wordings suit some models better. Then the references' drops vary by more than
      the sampling of items explains. The excess variance tau^2 is multiplied by 1 + 1/R: 1 for the
      tested model, and 1/R for the mean of the R references.

    With a prior, the p-value and the interval average over the posterior of tau
    (`audit.statistics.between_models.predictive`). Without a prior, tau^2 is a moment estimate, set
    to 0 if it is negative (DerSimonian & Laird 1986, Controlled Clinical Trials 7). The t
    distribution then has R - 1 degrees of freedom, for the reason given in
    `audit.statistics.set_difference`. With one reference, the error does not include tau.

    With a prior, the spread between models is taken from the scale on which the references agree
    best. Suppose that rewording has the same effect on all references on one scale. Their drops
    then still vary on the other scales, because the references have different abilities. This
    variation does not mean that rewording affects some models more.
    """
    if not references:
        raise DataError(
            "The number of reference models is 0. Expected at least 1, whose drops are compared "
            "with the tested model's."
        )
    each = _beside(tested, references, chance, cluster)
    spreads = [spread_of(expected) for _, expected in each]
    best = min(spreads, key=lambda parts: parts[0] - parts[1])
    by_scale = zip(each, SCALES, spreads, strict=True)
    return tuple(_beyond(*drops, scale, spread, best, prior) for drops, scale, spread in by_scale)


def no_larger_beside(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray, delta: float
) -> float:
    """Return the p-value of the non-inferiority test of the drop beyond the references.

    Alternative hypothesis: the tested model's drop exceeds the drop expected from the references by
    less than `delta`. The p-value is the largest of the p-values on the three scales. On each scale
    it is computed by `equivalence`.

    Parameters
    ----------
    tested, references, chance, cluster : object
        Arguments of `on_scales`.
    delta : float
        Smallest drop that matters.

    Returns
    -------
    float
        The p-value.

    Raises
    ------
    DataError
        If there are no references, or if a reference is not above chance (scale "share").

    Notes
    -----
    If the rewordings are easier than the originals, every model gains accuracy, and this gain hides
    a drop. The references show the size of the gain.

    The standard error includes only the sampling of items, not the differences between models. This
    suffices because a model passes only if its drop without references is small too.
    """
    each = _beside(tested, references, chance, cluster)
    return max(equivalence(beyond, delta).p_no_larger for beyond, _ in each)


@dataclass(frozen=True)
class FarBeyond:
    """Report whether a drop is larger than a clean model's drop could be.

    The drop beyond the references is the tested model's drop minus the drop expected from the
    references. For a clean model, it is assumed to be at most `limit`.

    Attributes
    ----------
    limit : float
        Largest drop beyond the references that is assumed possible for a clean model (accuracy
        0-1).
    pvalue : float
        One-sided p-value. Alternative: the drop beyond the references exceeds `limit`.
    """

    limit: float
    pvalue: float


def far_beyond(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray, tau: float
) -> FarBeyond:
    """Test whether the drop beyond the references is too large for any clean model.

    Parameters
    ----------
    tested, references, chance, cluster : object
        Arguments of `on_scales`.
    tau : float
        Standard deviation between clean models' drops (accuracy 0-1).

    Returns
    -------
    FarBeyond
        The limit, and the largest p over the scales.

    Raises
    ------
    DataError
        If there are no references, or if a reference is not above chance (scale "share").

    Notes
    -----
    Some clean models are sensitive to wording. So the drop beyond the references must exceed FAR *
    tau on every scale. The standard error includes only the sampling of items.
    """
    limit = FAR * tau
    each = _beside(tested, references, chance, cluster)
    return FarBeyond(limit, max(above_pvalue(beyond, limit) for beyond, _ in each))


def _beside(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray
) -> list[tuple[Estimate, list[Estimate]]]:
    """Return the observed minus the expected drop, and the expected drops, for each scale.

    Each reference gives one expected drop. The mean of the expected drops is subtracted from the
    tested model's drop.
    """
    tested_answers, *others = [answered(*pair, chance, cluster) for pair in (tested, *references)]
    by_scale = []
    for scale in SCALES:
        expected = [_expected(other, tested_answers, scale, k) for k, other in enumerate(others)]
        by_scale.append((beyond_mean(tested_answers.drop, expected), expected))
    return by_scale


@dataclass(frozen=True)
class Answered:
    """Hold one model's accuracies under the original and under the variants.

    Only items that were answered under the original and under a variant are counted.

    Attributes
    ----------
    original, variants : Estimate
        Accuracy under the original and under the variants.
    chance : Estimate
        Mean probability that a guess at these items is right.
    n : int
        Number of items.
    """

    original: Estimate
    variants: Estimate
    chance: Estimate
    n: int

    @property
    def drop(self) -> Estimate:
        """Return the drop: the accuracy under the original minus the accuracy under the variants.

        Returns
        -------
        Estimate
            The drop, with its standard error.
        """
        return self.original.plus(self.variants, -1.0)

    @property
    def height(self) -> Estimate:
        """Return the accuracy above chance under the variants.

        Returns
        -------
        Estimate
            The accuracy above chance. Memory of the original wording does not raise it.
        """
        return self.variants.plus(self.chance, -1.0)


def answered(
    original: FloatArray, variants: FloatArray, chance: FloatArray, cluster: IntArray
) -> Answered:
    """Return a model's accuracies under the original and under the variants.

    Only items that were answered under the original and under a variant are counted.

    Parameters
    ----------
    original : (K, n) array
        Answers to the original, NaN if missing.
    variants : (N, n) array
        Answers to the variants, NaN if missing.
    chance : (n,) array
        Probability that a guess at each item is right.
    cluster : (n,) array
        Cluster of each item, 0..G-1.

    Returns
    -------
    Answered
        Accuracies under the original and the variants, and the expected accuracy of guessing.

    Raises
    ------
    DataError
        If no item was answered under the original and under a variant.
    """
    o, v = item_means(original, variants)
    compared = ~np.isnan(o)
    guessed = np.where(compared, chance, np.nan)
    return Answered(
        mean_of(o, cluster), mean_of(v, cluster), mean_of(guessed, cluster), int(compared.sum())
    )


def _beyond(
    difference: Estimate,
    expected: Sequence[Estimate],
    scale: Scale,
    spread: tuple[float, float],
    best: tuple[float, float],
    prior: TauPrior | None,
) -> BeyondReference:
    """Return the test of the drop beyond the references on one scale.

    `spread` is the result of `spread_of` on this scale. `best` is the result of `spread_of` on the
    scale on which the references agree best.
    """
    r, df = len(expected), difference.df
    tau = (
        float(np.sqrt(max(spread[0] - spread[1], 0.0))) if np.isfinite(spread[0]) else float("nan")
    )
    se = float(np.hypot(difference.se, np.nan_to_num(tau) * np.sqrt(1 + 1 / r)))
    test = t_test(difference.value, se, float(r - 1) if r > 1 else df, LEVEL)
    plain = Tested(**test)
    if prior is not None and difference.se > 0:
        judged = predictive(difference.value, difference.se, df, *best, r, prior, LEVEL)
        test |= {
            "se": judged.se,
            "df": df,
            "low": judged.low,
            "high": judged.high,
            "pvalue": judged.pvalue,
        }
    drops = tuple(e.value for e in expected)
    return BeyondReference(scale=scale, **test, tau=tau, drops=drops, references=r, plain=plain)


def _expected(reference: Answered, tested: Answered, scale: Scale, k: int) -> Estimate:
    """Return the drop of the tested model that is expected from one reference."""
    if scale == "points":
        return reference.drop
    if scale == "logit":
        return logit_drop(reference.original, reference.variants, tested.variants, tested.n)
    if reference.height.value <= 0:
        raise DataError(
            f"The accuracy of reference {k} is not above chance, so the share of accuracy that it "
            "loses is undefined. Expected references with an accuracy above chance."
        )
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
    """Compare the tested model with ConStat's curve, with rewordings as reference benchmark.

    Parameters
    ----------
    tested, references, chance, cluster : object
        Arguments of `on_scales`.
    n_draws : int
        Number of resamples.
    rng : numpy.random.Generator
        Source of the resamples.

    Returns
    -------
    CurveResult
        The tested model's accuracy compared with the curve (`audit.statistics.performance_curve`).

    Raises
    ------
    DataError
        If there are fewer than five reference models.

    Notes
    -----
    Each item (cluster) is resampled together with its variants, since the original and the variants
    are versions of the same item. Two different benchmarks would be resampled independently.
    """
    if len(references) < MIN_REFERENCES:
        raise DataError(
            f"The number of reference models is {len(references)}. Expected at least "
            f"{MIN_REFERENCES} to fit a curve."
        )
    rows, n = [], 0
    for original, variants in (tested, *references):
        o, v = item_means(original, variants)
        present = ~np.isnan(o)
        n = n or int(present.sum())
        rows += [np.where(present, o, 0.0), np.where(present, v, 0.0), present.astype(float)]
    sums = cluster_sums(np.stack(rows), cluster)
    count = np.ones(sums.shape[1], dtype=np.int64)
    totals = np.concatenate([sums.sum(axis=1)[None], bootstrap_totals(sums, count, n_draws, rng)])
    y, x, present = totals[:, 0::3], totals[:, 1::3], np.maximum(totals[:, 2::3], 1.0)
    guess = float(np.mean(chance))
    return curve_test(y / present, x / present, anchor=(guess, guess), anchor_items=(n, n), rng=rng)
