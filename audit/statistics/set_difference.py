"""Test whether a model's gap between published and held-out items exceeds that of reference models.

Each item has one value for each model: a score (0 or 1), or the log-likelihood of its text. The
reference models either cannot have seen the published items, or have seen these items as much as
the tested model has. Their gaps show how much the two sets differ for any model.

`beyond_fresh` compares the drop of one model under rewording between the two sets. Both sets are
reworded in the same way. The drop on held-out items is the effect of rewording without memory, so
no other model is needed. The comparison assumes that the rewordings of both sets are equally hard.
One model cannot show whether this is true. The module does no I/O.
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

# Values of the published items (n,) and of the held-out items (m,).
Sets = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, kw_only=True)
class SetDifference(Tested):
    """Report the tested model's gap between published and held-out items, minus the mean gap of the
    references. The unit is that of the values.

    Attributes
    ----------
    own, gaps : float, tuple of float
        Mean value on published items minus mean value on held-out items, for the tested model and
        for each reference.
    tau : float
        Standard deviation between models of their true gaps. It is 0 if the gaps differ by no more
        than sampling explains. It is NaN with fewer than two references; the error then does not
        include it.
    n, m : int
        Number of published items and of held-out items that are used.
    items_se, items_df : float
        Standard error of the difference due to items alone, and its degrees of freedom.
    spread, sampling : float
        Variance of the references' observed gaps, and the part of this variance that is due to item
        sampling. `between_models.predictive` needs both numbers. Both are NaN with fewer than two
        references.
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
    apart: float = 1.0,
) -> SetDifference:
    """Test whether the tested model's gap is larger than its references predict.

    The gap is the mean on published items minus the mean on held-out items.

    Parameters
    ----------
    tested, references : Sets
        Values (published (n,), fresh (m,)) of each model on the same items. An item for which any
        model has no value (NaN) is left out for all models.
    clusters : tuple of arrays or None
        Clusters (n,) and (m,) within each set; None makes every item its own cluster.
    apart : float
        Factor by which tau is multiplied, because the tested model may differ more from the
        references than the references differ from each other (`apartness`).

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
    The squared error has two parts. The first is due to items: the variance of the mean of (tested
    - mean of references) over items or clusters, computed separately in each set (Welch). The
    second is due to models: tau^2 (1 + 1/R), where tau^2 is the part of the references' spread that
    sampling does not explain. If item sampling affects all models alike, the sum is s^2 (1 + 1/R),
    where s^2 is the variance of the references' gaps. This is the test of Crawford & Howell (1998,
    The Clinical Neuropsychologist 12) for one case against a few controls. If the estimate of tau^2
    is negative, it is set to 0 and the sum is larger. With two references or more, t has R - 1
    degrees of freedom, because more items do not give more information on how much models differ.
    Satterthwaite's degrees of freedom would treat tau^2 = 0 as certain whenever three references
    happen to be close together, which is frequent.
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
        models_part, df = (apart * tau) ** 2 * (1 + 1 / r), r - 1.0
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
    """Return the residuals of a regression of the values on a covariate and on the covariate's
    square.

    Parameters
    ----------
    values : Sets
        Values of the published and of the held-out items.
    covariate : Sets
        Covariate of the same items, such as the length of a text.

    Returns
    -------
    tuple of arrays
        Residuals of both sets. The regression is fitted by least squares on the held-out items
        only, because no model can have read them.

    Notes
    -----
    For example, if the published texts are longer, a model whose values depend more on length would
    otherwise show a larger gap. The dependence need not be linear: a fitted line would be
    extrapolated, and a curved dependence in one model would look like memory.
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
    """Return the values in units of their standard deviation over the held-out items.

    Parameters
    ----------
    values : Sets
        Values of the published and of the held-out items.

    Returns
    -------
    tuple of arrays
        Values of both sets in this unit; NaN if the held-out values do not vary.

    Notes
    -----
    No model can have read the held-out items. Suppose that a model's values react 1.5 times as
    strongly to what makes a text likely. Then its difference between two sets and this standard
    deviation are both 1.5 times as large. In this unit, a difference that is due to the texts alone
    is therefore the same for every model.
    """
    published, held_out = _two_arrays(values)
    known = held_out[~np.isnan(held_out)]
    sd = known.std(ddof=1) if known.size > 1 and np.ptp(known) > 0 else float("nan")
    return published / sd, held_out / sd


def apartness(tested: Sets, references: Sequence[Sets]) -> float:
    """Return the ratio of two differences: that of the tested model from the references, and that
    of the references from each other.

    Parameters
    ----------
    tested : Sets
        Values of the tested model.
    references : sequence of Sets
        Values of each reference.

    Returns
    -------
    float
        Ratio of the standard deviations of these differences over the held-out items, at least 1.
        It is 1 with two references or fewer.

    Notes
    -----
    Fine-tuned models of one base model differ little. Such references underestimate how much models
    differ, even if their names do not show that they are related.
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


# Answers to the original (K, n) and to the variants (N, n), probability that a guess is right (n,),
# and cluster of each item (n,).
Asked = tuple[FloatArray, FloatArray, FloatArray, IntArray]


@dataclass(frozen=True, kw_only=True)
class BeyondFresh(Tested):
    """Report the drop on the benchmark minus the drop expected from held-out items (accuracy 0-1).

    Attributes
    ----------
    scale : {"points", "share", "logit"}
        How the expected drop is computed. "points": the drop on the held-out items. "share": that
        drop as a share of the accuracy above chance on held-out items, multiplied by the accuracy
        above chance on the benchmark (a higher score can lose more). These two accuracies are those
        under the variants, which memory of the original wording does not raise. "logit": the
        log-odds of a right answer change as much as on the held-out items. This scale suits a model
        that is sensitive to wording if the sets are not equally hard.
    expected : float
        The expected drop.

    Notes
    -----
    `low` and `high` are a 90 % interval.
    """

    scale: Scale
    expected: float


def beyond_fresh(benchmark: Asked, fresh: Asked, *, scale: Scale = "points") -> BeyondFresh:
    """Test on one scale whether a model drops more on the benchmark than on held-out items.

    Parameters
    ----------
    benchmark, fresh : Asked
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
        If a set has fewer than two clusters answered under both wordings, or if the model is not
        above chance on the held-out items (scale "share").

    Notes
    -----
    The two sets share no item, so the variance is the sum of the variances within each set. These
    are computed from the influence of whole items (clusters) (Welch 1947, Biometrika 34, with
    Satterthwaite's degrees of freedom). The share is a ratio; its influence is computed by the
    delta method, as in `audit.statistics.references`.
    """
    ours, theirs = answered(*_kept(benchmark)), answered(*_kept(fresh))
    drop, other = ours.drop.with_set(theirs.drop), theirs.drop.of_second(ours.drop)

    def held_out(estimate: Estimate) -> Estimate:
        return estimate.of_second(ours.drop)

    if scale == "share":
        if theirs.height.value <= 0:
            raise DataError(
                "The accuracy on the held-out items is not above chance, so the share of accuracy "
                "that is lost is undefined."
            )
        other = times(other, held_out(theirs.height), ours.height.with_set(theirs.drop))
    elif scale == "logit":
        other = logit_drop(
            held_out(theirs.original),
            held_out(theirs.variants),
            ours.variants.with_set(theirs.drop),
            theirs.n,
        )
    difference = drop.plus(other, -1.0)
    test = t_test(difference.value, difference.se, difference.df, LEVEL)
    return BeyondFresh(scale=scale, expected=other.value, **test)


def _kept(models: Asked) -> Asked:
    """Return one set with only the items that were answered under both wordings."""
    original, variants, chance, cluster = models
    compared = ~np.isnan(item_means(original, variants)[0])
    if np.unique(cluster[compared]).size < 2:
        raise DataError(
            "The number of items of a set with an answer to the original and to a variant is "
            f"{int(compared.sum())}. Expected at least two such items in different clusters."
        )
    return original[:, compared], variants[:, compared], chance[compared], cluster[compared]
