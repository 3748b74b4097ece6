"""Test whether a model's gap between published and held-out items exceeds that of reference models.

Each item has one value for each model: a score (0 or 1), or the log-likelihood of its text. The
reference models either cannot have seen the published items, or have seen these items as often as
the tested model has. So the references' gaps show how much the two sets differ for any model.

`beyond_fresh` needs no reference model. It compares the drop of one model under rewording between
the two sets, which are reworded in the same way. The drop on held-out items is the effect of
rewording without memory. The comparison assumes that the rewordings of the two sets are equally
hard, which the answers of one model cannot confirm. The module does no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.estimate import (
    Estimate,
    Tested,
    beyond_mean,
    logit_drop,
    means_of,
    spread_of,
    t_test,
    times,
)
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.references import LEVEL, Scale, answered
from audit.statistics.wording_drop import item_means

# One model's values of the published items (n,) and of the held-out items (m,).
Sets = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, kw_only=True)
class SetDifference(Tested):
    """Report the tested model's gap minus the mean gap of the references.

    A gap is the mean value on published items minus the mean value on held-out items.

    Attributes
    ----------
    own, gaps : float, tuple of float
        Gap of the tested model, and gap of each reference.
    tau : float
        Standard deviation of true gaps between models. It is 0 if the references' gaps vary by no
        more than sampling explains. It is NaN with fewer than two references; the standard error
        then does not include differences between models.
    n, m : int
        Number of published items and of held-out items that are used.
    items_se, items_df : float
        Standard error of the difference due to items alone, and its degrees of freedom.
    spread, sampling : float
        Variance of the references' observed gaps, and the part of this variance that is due to item
        sampling. Both numbers are inputs of `between_models.predictive`, and are NaN with fewer
        than two references.
    """

    own: float
    gaps: tuple[float, ...]
    tau: float
    n: int
    m: int
    items_se: float
    items_df: float
    spread: float
    sampling: float


def set_difference(
    tested: Sets,
    references: Sequence[Sets] = (),
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    tau_factor: float = 1.0,
) -> SetDifference:
    """Test whether the tested model's gap is larger than its references predict.

    The gap is the mean on published items minus the mean on held-out items.

    Parameters
    ----------
    tested, references : Sets
        Values (published (n,), fresh (m,)) of each model on the same items. An item for which any
        model has no value (NaN) is left out for all models.
    clusters : tuple of arrays or None
        Clusters (n,) and (m,) within each set; If None, each item is a separate cluster.
    tau_factor : float
        Factor by which tau is multiplied (`apartness`). It is above 1 if the tested model differs
        more from the references than the references differ from each other.

    Returns
    -------
    SetDifference
        One-sided test, and the estimates that it uses.

    Raises
    ------
    DataError
        If a set has fewer than two clusters.

    Notes
    -----
    The squared standard error is the sum of two parts:

    - Items: the variance of the mean of (tested - mean of references) over items or clusters,
      computed separately in each set (Welch).
    - Models: tau^2 (1 + 1/R), where R is the number of references. tau^2 is the part of the
      variance of the references' gaps that item sampling does not explain. A negative estimate of
      tau^2 is set to 0.

    If item sampling affects all models alike, the sum is s^2 (1 + 1/R), where s^2 is the variance
    of the references' gaps. This is the test of Crawford & Howell (1998, The Clinical
    Neuropsychologist 12) for one case against a few controls.

    With two references or more, the t distribution has R - 1 degrees of freedom, because more items
    give no information on how much models differ. Satterthwaite's degrees of freedom are not used.
    They would treat tau^2 = 0 as certain whenever the gaps of a few references happen to be close
    together, which is frequent.
    """
    models = [tested, *references]
    published, n = means_of(_rows(models, 0), None if clusters is None else clusters[0])
    fresh, m = means_of(_rows(models, 1), None if clusters is None else clusters[1])
    tested_gap, *others = (a.less_independent(b) for a, b in zip(published, fresh, strict=True))
    r = len(references)
    difference = beyond_mean(tested_gap, others)
    items, items_df = difference.variance, difference.df
    df, models_part, tau, spread, sampling = items_df, 0.0, *3 * (float("nan"),)
    if r > 1:
        spread, sampling = spread_of(others)
        tau = float(np.sqrt(max(spread - sampling, 0.0)))
        models_part, df = (tau_factor * tau) ** 2 * (1 + 1 / r), r - 1.0
    se = float(np.sqrt(items + models_part))
    return SetDifference(
        **t_test(difference.value, se, df),
        own=tested_gap.value,
        gaps=tuple(gap.value for gap in others),
        tau=tau,
        n=n,
        m=m,
        items_se=float(np.sqrt(items)),
        items_df=items_df,
        spread=spread,
        sampling=sampling,
    )


def _rows(models: Sequence[Sets], side: int) -> FloatArray:
    return np.stack([np.asarray(model[side], dtype=float) for model in models])


def _two_arrays(values: Sets) -> tuple[FloatArray, FloatArray]:
    return np.asarray(values[0], dtype=float), np.asarray(values[1], dtype=float)


def beside(values: Sets, covariate: Sets) -> tuple[FloatArray, FloatArray]:
    """Return the residuals of the values after quadratic regression on a covariate.

    Parameters
    ----------
    values : Sets
        Values of the published and of the held-out items.
    covariate : Sets
        A property of the same items, such as the length of the text.

    Returns
    -------
    tuple of arrays
        Residuals of each set. The regression is fitted by least squares on the held-out items only,
        because no model can have read these items.

    Notes
    -----
    Suppose that the published texts are longer. Without the regression, a model whose values depend
    more on length would show a larger gap. The regression is quadratic because the dependence may
    be curved: extrapolation of a straight line would then look like memory.
    """
    published, held_out = _two_arrays(values)
    known = ~np.isnan(held_out)
    if not known.any():
        return published, held_out
    longer = [np.asarray(side, dtype=float) for side in covariate]
    centre = longer[1][known].mean()
    terms = []
    for side in longer:
        terms.append(np.stack([np.ones_like(side), side - centre, (side - centre) ** 2], axis=1))
    fitted = np.linalg.lstsq(terms[1][known], held_out[known], rcond=None)[0]
    return published - terms[0][:, 1:] @ fitted[1:], held_out - terms[1][:, 1:] @ fitted[1:]


def as_guessed(values: Sets, chance: tuple[float, float]) -> tuple[FloatArray, FloatArray]:
    """Return the values, after those of the held-out set are converted to the chance level of the
    published set.

    Parameters
    ----------
    values : Sets
        Outcomes (0 to 1) of the published and of the held-out items.
    chance : tuple of float
        Probability (0 to below 1) of a right answer to an unknown item, for each set.

    Returns
    -------
    tuple of arrays
        Outcomes of both sets at the same chance level.

    Notes
    -----
    A score is chance + (1 - chance) * known, where known is the share of items that the model
    knows. This share does not depend on the chance level, so each outcome is converted by this
    linear formula. Single outcomes may then lie outside [0, 1].

    Examples
    --------
    A model that knows 40 % of the items has a score of .55 with four options and .46 with ten
    options.

    >>> [round(float(side), 2) for side in as_guessed((0.55, 0.46), (0.25, 0.10))]
    [0.55, 0.55]
    """
    published, held_out = _two_arrays(values)
    known = (held_out - chance[1]) / (1 - chance[1])
    return published, chance[0] + (1 - chance[0]) * known


def in_own_spread(values: Sets) -> tuple[FloatArray, FloatArray]:
    """Return the values divided by their standard deviation over the held-out items.

    Parameters
    ----------
    values : Sets
        Values of the published and of the held-out items.

    Returns
    -------
    tuple of arrays
        The divided values of each set; NaN if the held-out values do not vary.

    Notes
    -----
    No model can have read the held-out items. Suppose that the likelihoods of a model depend 1.5
    times as strongly on the properties of a text. Then the model's difference between two sets, and
    its standard deviation over held-out items, are both 1.5 times as large. So after the division,
    a difference that is due to the texts alone is the same for every model.
    """
    published, held_out = _two_arrays(values)
    known = held_out[~np.isnan(held_out)]
    sd = known.std(ddof=1) if known.size > 1 and np.ptp(known) > 0 else float("nan")
    return published / sd, held_out / sd


def apartness(tested: Sets, references: Sequence[Sets]) -> float:
    """Return how far the tested model differs from the references, as a ratio.

    The ratio divides the difference between the tested model and the references by the difference
    between the references.

    Parameters
    ----------
    tested : Sets
        Values of the tested model.
    references : sequence of Sets
        Values of each reference.

    Returns
    -------
    float
        Ratio of the standard deviations of the two differences over the held-out items, at least 1.
        It is 1 with two references or fewer.

    Notes
    -----
    Models that were fine-tuned from the same base model differ little. With such references, tau
    would underestimate how much models differ in general. The names of the models may not show that
    they have the same base model.
    """
    values = np.stack([np.asarray(model[1], dtype=float) for model in (tested, *references)])
    values = values[:, ~np.isnan(values).any(axis=0)]
    r = len(references)
    if r < 3 or values.shape[1] < 2:
        return 1.0
    spreads = []
    for k in range(r + 1):
        spreads.append(
            (values[k] - np.delete(values, [0, k], axis=0).mean(axis=0)).std()
            / np.sqrt(1 + 1 / (r if k == 0 else r - 1))
        )
    among = float(np.sqrt(np.mean(np.square(spreads[1:]))))
    return max(1.0, float(spreads[0]) / among) if among > 0 else 1.0


# One set of items, as four arrays: answers to the original (K, n), answers to the variants (N, n),
# probability that a guess is right (n,), and cluster of each item (n,).
PairedAnswers = tuple[FloatArray, FloatArray, FloatArray, IntArray]


@dataclass(frozen=True, kw_only=True)
class BeyondFresh(Tested):
    """Report the drop on the benchmark minus the drop expected from held-out items (accuracy 0-1).

    Attributes
    ----------
    scale : {"points", "share", "logit"}
        How the expected drop is computed (see Notes).
    expected : float
        The expected drop.

    Notes
    -----
    `low` and `high` are the ends of a 90 % interval. The scales are:

    - "points": the expected drop is the drop on the held-out items.
    - "share": a higher accuracy has more to lose. So the drop on the held-out items is divided by
      the accuracy above chance on these items, and multiplied by the accuracy above chance on the
      benchmark. The accuracies on the variants are used, because memory of the original wording
      cannot inflate these accuracies.
    - "logit": the change in log-odds on the held-out items is applied to the benchmark. This scale
      suits a model that is sensitive to wording if the two sets are not equally hard.
    """

    scale: Scale
    expected: float


def beyond_fresh(
    benchmark: PairedAnswers, fresh: PairedAnswers, *, scale: Scale = "points"
) -> BeyondFresh:
    """Test on one scale whether a model drops more on the benchmark than on held-out items.

    Parameters
    ----------
    benchmark, fresh : PairedAnswers
        Answers to originals and variants, chance and clusters of the benchmark and of the held-out
        set.
    scale : {"points", "share", "logit"}
        How the expected drop is computed, as in `BeyondFresh`.

    Returns
    -------
    BeyondFresh
        One-sided test.

    Raises
    ------
    DataError
        If a set has fewer than two clusters with answers to an original and to a variant. Also if
        the model is not above chance on the held-out items (scale "share").

    Notes
    -----
    The two sets share no item, so the variance is the sum of the variances within the sets. Each of
    these variances is computed from the influence of whole items or clusters (Welch 1947,
    Biometrika 34, with Satterthwaite's degrees of freedom). On the scale "share", the expected drop
    contains a ratio, whose influence is computed by the delta method, as in
    `audit.statistics.references`.
    """
    on_benchmark, on_fresh = answered(*_compared(benchmark)), answered(*_compared(fresh))
    drop, other = (
        on_benchmark.drop.with_set(on_fresh.drop),
        on_fresh.drop.of_second(on_benchmark.drop),
    )

    def held_out(estimate: Estimate) -> Estimate:
        return estimate.of_second(on_benchmark.drop)

    if scale == "share":
        if on_fresh.height.value <= 0:
            raise DataError(
                "The accuracy on the held-out items is not above chance, so the share of accuracy "
                "that is lost is undefined."
            )
        other = times(other, held_out(on_fresh.height), on_benchmark.height.with_set(on_fresh.drop))
    elif scale == "logit":
        other = logit_drop(
            held_out(on_fresh.original),
            held_out(on_fresh.variants),
            on_benchmark.variants.with_set(on_fresh.drop),
            on_fresh.n,
        )
    difference = drop.plus(other, -1.0)
    test = t_test(difference.value, difference.se, difference.df, LEVEL)
    return BeyondFresh(scale=scale, expected=other.value, **test)


def _compared(models: PairedAnswers) -> PairedAnswers:
    """Return one set, restricted to items with an answer to the original and to a variant."""
    original, variants, chance, cluster = models
    compared = ~np.isnan(item_means(original, variants)[0])
    if np.unique(cluster[compared]).size < 2:
        raise DataError(
            "The number of items of a set with an answer to the original and to a variant is "
            f"{int(compared.sum())}. Expected at least two such items in different clusters."
        )
    return original[:, compared], variants[:, compared], chance[compared], cluster[compared]
