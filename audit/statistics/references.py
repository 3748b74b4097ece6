"""Test whether a drop under rewording is specific to the tested model or occurs in all models.

The drop of the tested model is compared with the drops of reference models on the same items and
wordings. Rewordings that are harder, or broken, lower the accuracy of every model. A drop that is
larger than the references' drops is specific to the tested model and indicates that it has
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
FAR = 3.0  # assumed largest drop of a clean model, in standard deviations between clean models


@dataclass(frozen=True, kw_only=True)
class BeyondReference(Tested):
    """Report the tested model's drop minus the drop expected from the references (accuracy 0-1).

    Attributes
    ----------
    scale : {"points", "share", "logit"}
        How the expected drop is computed. "points": the mean of the references' drops. "share":
        each reference's drop as a share of its accuracy above chance, multiplied by the tested
        model's accuracy above chance (a better model has more to lose). "logit": the tested model's
        log-odds of a right answer change as much as each reference's (the same change costs a model
        near accuracy 1 fewer points). "share" and "logit" use the accuracies under the variants,
        which memory of the original wording does not raise.
    tau : float
        Standard deviation of true drops between reference models. It is 0 if the drops differ by no
        more than sampling explains. It is NaN with one reference, from which it cannot be
        estimated.
    drops : (R,) tuple of float
        Expected drop of the tested model, computed from each reference.
    references : int
        Number of references R.
    plain : Tested
        The test without a prior, in which the references alone determine tau.

    Notes
    -----
    `low` and `high` are a 90 % interval.
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
        Answers (original, variants) of each model to the same n items.
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
    The variance has two parts. The first part is due to items: all models answered the same items,
    so it is the variance of the influence of whole items (clusters) on the difference. The second
    part is due to models: if wordings suit some models better, the references' drops differ by more
    than items explain. This variance tau^2 is multiplied by 1 + 1/R, where 1 is for the tested
    model and 1/R for the references' mean. With a prior, p and interval average over the posterior
    of tau (`audit.statistics.between_models.predictive`). Without a prior, tau^2 is a moment
    estimate, set to 0 if it is negative (DerSimonian & Laird 1986, Controlled Clinical Trials 7).
    With two references or more, t then has R - 1 degrees of freedom, for the reason given in
    `audit.statistics.set_difference`. With one reference, the error does not include tau.

    With a prior, the spread between models is taken from the scale on which the references agree
    best. If rewording has the same effect on all references on one scale, their drops still differ
    on the other scales, because their abilities differ. That spread does not mean that rewording
    affects some models more.
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
    """Return the p-value for the claim that the tested model drops less than delta beyond the
    references.

    The p-value is the largest one over the scales (`equivalence`).

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
    If the rewordings are easier than the originals, every model gains, and the gain hides a drop.
    The references show this gain. The standard error includes only the sampling of items. It does
    not include differences between models, because a model is cleared only if its drop alone is
    small too.
    """
    each = _beside(tested, references, chance, cluster)
    return max(equivalence(beyond, delta).p_no_larger for beyond, _ in each)


@dataclass(frozen=True)
class FarBeyond:
    """Report a test against the largest drop beyond the references that a clean model is assumed to
    show.

    Attributes
    ----------
    limit : float
        Largest drop beyond the references that is assumed possible for a clean model (accuracy
        0-1).
    pvalue : float
        One-sided p for a drop beyond the references that exceeds `limit`.
    """

    limit: float
    pvalue: float


def far_beyond(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray, tau: float
) -> FarBeyond:
    """Test whether the drop beyond the references is larger than any clean model's could be.

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
    Clean models include models that are sensitive to wording. The drop beyond the references must
    exceed FAR * tau on every scale. The standard error includes only the sampling of items.
    """
    limit = FAR * tau
    each = _beside(tested, references, chance, cluster)
    return FarBeyond(limit, max(above_pvalue(beyond, limit) for beyond, _ in each))


def _beside(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray
) -> list[tuple[Estimate, list[Estimate]]]:
    """Return, for each scale, the tested model's drop beyond the references, and the drops that the
    references predict.

    The drop beyond the references is the tested model's drop minus the mean of the expected drops.
    Each reference gives one expected drop.
    """
    tested_answers, *others = [answered(*pair, chance, cluster) for pair in (tested, *references)]
    by_scale = []
    for scale in SCALES:
        expected = [_expected(other, tested_answers, scale, k) for k, other in enumerate(others)]
        by_scale.append((beyond_mean(tested_answers.drop, expected), expected))
    return by_scale


@dataclass(frozen=True)
class Answered:
    """Hold the accuracies of one model over the items answered under both wordings.

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
    """Return a model's accuracies over the items that it answered under both wordings.

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
        Accuracies under the original and the variants, and the accuracy of guessing.

    Raises
    ------
    DataError
        If no item is answered under both wordings.
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
    own: tuple[float, float],
    best: tuple[float, float],
    prior: TauPrior | None,
) -> BeyondReference:
    """Return the test of the drop beyond the references on one scale.

    `own` is the result of `spread_of` on this scale. `best` is its result on the scale on which the
    references agree best.
    """
    r, df = len(expected), difference.df
    tau = float(np.sqrt(max(own[0] - own[1], 0.0))) if np.isfinite(own[0]) else float("nan")
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
    """Compare the tested model with ConStat's curve. The rewordings are the reference benchmark.

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
