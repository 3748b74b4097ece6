"""Test whether rewordings are harder for all models, or the tested model has memorised the
originals.

The drop of one model is compared with the drops of reference models on the same items and wordings.
Rewordings that are harder, or broken, cost every model. What a model loses beyond the references is
its own.
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

# A model's answers to the original (K, n) and the variants (N, n).
Pair = tuple[FloatArray, FloatArray]
Scale = Literal["points", "share", "logit"]
LEVEL = 0.90  # level of the intervals, whose lower end is the limit of the one-sided test at 5 %
SCALES: tuple[Scale, ...] = ("points", "share", "logit")
FAR = 3.0  # number of standard deviations between clean models, an assumption like the prior


@dataclass(frozen=True, kw_only=True)
class BeyondReference(Tested):
    """Report the drop of the tested model less what the references say it should be (accuracy 0-1).

    Attributes
    ----------
    scale : {"points", "share", "logit"}
        "points" expects the references' mean drop. "share" expects each reference's drop as a share
        of its accuracy above chance, times the tested model's (a better model has more to lose).
        "logit" moves the tested model by each reference's change in log-odds of a right answer (the
        same change costs a model near 1 fewer points). The last two use the accuracies under the
        variants, which memory of the original wording does not raise.
    tau : float
        Standard deviation of true drops between reference models: 0 if they differ by no more than
        sampling explains, NaN with one reference, when it cannot be seen.
    drops : (R,) tuple of float
        Drop that each reference expects of the tested model.
    references : int
        Number of references R.
    plain : Tested
        The same by what these references alone show of tau, without a prior.

    Notes
    -----
    low and high are a 90 % interval.
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
    """Test, on each scale, that the tested model drops by more than a new model like the references
    would.

    Parameters
    ----------
    tested, references : Pair
        Answers (original, variants) of each model, on the same n items.
    chance : (n,) array
        Accuracy of guessing each item.
    cluster : (n,) array
        Cluster of each item, 0..G-1.
    prior : TauPrior or None
        Prior of tau; without one tau is what the references show.

    Returns
    -------
    tuple of BeyondReference
        One-sided test on each of SCALES.

    Raises
    ------
    DataError
        If there are no references, or (scale "share") one is not above chance.

    Notes
    -----
    Two sources of error are added. Items: the models met the same items, so the variance is that of
    the influence of whole items (clusters) on the difference. Models: the references' drops differ
    by more than items explain if wordings suit some models better; that variance tau^2 counts 1 +
    1/R times, for the new model and for the references' mean. With a prior, p and interval average
    over the posterior of tau (`audit.statistics.between_models.predictive`). Without, tau^2 is a
    moment estimate (DerSimonian & Laird 1986, Controlled Clinical Trials 7, cut at 0), and from two
    references on t has R - 1 degrees of freedom, as in `audit.statistics.set_difference` and for
    the reason given there; with one reference tau is not in the error.

    With a prior, the spread between models is that of the scale on which the references agree best.
    If rewording acts alike on one scale, the references' abilities spread their drops on the
    others, and that is not a difference between models in what rewording costs them.
    """
    if not references:
        raise DataError(
            "A difference in differences needs at least one reference model; found none."
        )
    each = _beside(tested, references, chance, cluster)
    spreads = [spread_of(expected) for _, expected in each]
    best = min(spreads, key=lambda parts: parts[0] - parts[1])
    by_scale = zip(each, SCALES, spreads, strict=True)
    return tuple(_beyond(*drops, scale, spread, best, prior) for drops, scale, spread in by_scale)


def no_larger_beside(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray, delta: float
) -> float:
    """Return the p for "less than delta is lost beyond the references" (`equivalence`), the largest
    over the scales.

    Parameters
    ----------
    tested, references, chance, cluster : object
        As in `on_scales`.
    delta : float
        Largest drop that counts as none.

    Returns
    -------
    float
        The p-value.

    Raises
    ------
    DataError
        As in `on_scales`.

    Notes
    -----
    If the rewordings are easier than the originals, every model gains and a drop is hidden; the
    references show this gain. The error is that of the items. How much models differ is not in it,
    since a model is cleared by its own drop too.
    """
    each = _beside(tested, references, chance, cluster)
    return max(equivalence(beyond, delta).p_no_larger for beyond, _ in each)


@dataclass(frozen=True)
class FarBeyond:
    """Report a test against the most that clean models lose beyond their references.

    Attributes
    ----------
    limit : float
        The most that a clean model is taken to lose beyond its references (accuracy 0-1).
    pvalue : float
        One-sided, for more than that.
    """

    limit: float
    pvalue: float


def far_beyond(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray, tau: float
) -> FarBeyond:
    """Test that more is lost beyond the references than by any model that differs from them as
    clean models do.

    Parameters
    ----------
    tested, references, chance, cluster : object
        As in `on_scales`.
    tau : float
        Standard deviation of clean models' drops (accuracy 0-1).

    Returns
    -------
    FarBeyond
        The limit and the largest p over the scales.

    Raises
    ------
    DataError
        As in `on_scales`.

    Notes
    -----
    Clean models include those that are sensitive to wording. The loss must exceed FAR tau on every
    scale; the error is that of the items.
    """
    limit = FAR * tau
    each = _beside(tested, references, chance, cluster)
    return FarBeyond(limit, max(above_pvalue(beyond, limit) for beyond, _ in each))


def _beside(
    tested: Pair, references: Sequence[Pair], chance: FloatArray, cluster: IntArray
) -> list[tuple[Estimate, list[Estimate]]]:
    """Return, on each scale, the tested model's drop less the references' mean, and the drop that
    each reference expects."""
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
        Accuracy of guessing these items.
    n : int
        Number of items.
    """

    original: Estimate
    variants: Estimate
    chance: Estimate
    n: int

    @property
    def drop(self) -> Estimate:
        """Return original - variants.

        Returns
        -------
        Estimate
            The drop.
        """
        return self.original.plus(self.variants, -1.0)

    @property
    def height(self) -> Estimate:
        """Return the accuracy above chance under the variants.

        Returns
        -------
        Estimate
            The height, which memory of the original wording does not raise.
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
        Accuracy of guessing each item.
    cluster : (n,) array
        Cluster of each item, 0..G-1.

    Returns
    -------
    Answered
        Accuracies.

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
    """Return the test of one scale.

    own, best: `spread_of` on this scale, and on the one where the references agree best.
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
    """Return the drop that one reference expects of the tested model."""
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
    """Return ConStat's curve (`audit.statistics.performance_curve`) with the rewordings as
    reference benchmark.

    Parameters
    ----------
    tested, references, chance, cluster : object
        As in `on_scales`.
    n_draws : int
        Number of resamples.
    rng : numpy.random.Generator
        Source of the resamples.

    Returns
    -------
    CurveResult
        The tested model against the curve.

    Raises
    ------
    DataError
        If there are fewer than five reference models.

    Notes
    -----
    Items (clusters) are resampled together for the original and the variants. Unlike two
    benchmarks, they are the same items.
    """
    if len(references) < MIN_REFERENCES:
        raise DataError(
            f"A curve needs at least {MIN_REFERENCES} reference models; found {len(references)}."
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
