"""Test whether a model is better on published items than on held-out ones by more than reference
models are. Pure.

One item has one value a model: a score (0, 1), or the log-likelihood of its text. Reference models
that cannot have seen the published items (or have seen them no less) show how much the two sets
differ for any model.

`beyond_fresh` compares the drop of one model under rewording on the two sets, reworded the same
way. What rewording costs this model on held-out items is what it costs without memory, so no other
model is needed. It rests on this: the rewordings of both sets are equally hard, which one model
cannot show.
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

# Values (n,) of the published items and (m,) of the held-out ones.
Sets = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, kw_only=True)
class SetDifference(Tested):
    """Report (published - fresh) of the tested model less the references' mean, in the values'
    unit.

    Attributes
    ----------
    own, gaps : float, tuple of float
        published - fresh of the tested model, and of the references.
    tau : float
        Standard deviation between models of true gaps: 0 if they differ by no more than sampling
        explains, NaN with fewer than two references, when it cannot be seen and is not in the
        error.
    n, m : int
        Items that count, of each set.
    items_se, items_df : float
        Items' part of the error alone, and its degrees of freedom.
    spread, sampling : float
        Variance of the references' observed gaps, and what of it items explain, for
        `between_models.predictive`; NaN with fewer than two references.
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
    """Test that the tested model gains more from published items than a new model like the
    references would.

    Parameters
    ----------
    tested, references : Sets
        (published (n,), fresh (m,)) values of each model on the same items. An item that lacks a
        value (NaN) of any model is left out of all.
    clusters : tuple of arrays or None
        Clusters (n,), (m,) within each set; None makes every item its own cluster.
    apart : float
        How many times tau the tested model may differ from the references (`apartness`).

    Returns
    -------
    SetDifference
        One-sided test and its parts.

    Raises
    ------
    DataError
        If a set has fewer than two clusters.

    Notes
    -----
    The error is that of the mean of (tested - mean of references) over items, or clusters, in each
    set by itself (Welch), and tau^2 (1 + 1/R) for the models, which the references' spread beyond
    sampling shows. If all models are alike this variance is s^2 (1 + 1/R) of the references' gaps,
    as in Crawford & Howell (1998, The Clinical Neuropsychologist 12) for one case against a few
    controls, or more if tau^2 is cut at 0. So from two references on t has R - 1 degrees of
    freedom: how much models differ is not known better, however many items there are.
    Satterthwaite's would take tau^2 = 0 for certain whenever three references happen to lie
    together, which is often.
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
    """Return the values less what a covariate and its square explain of them.

    Parameters
    ----------
    values : Sets
        Values of the published and of the held-out items.
    covariate : Sets
        Covariate of the same items, such as the length of a text.

    Returns
    -------
    tuple of arrays
        Residual values of both sets. The fit is by least squares over the second set, which nobody
        can have read.

    Notes
    -----
    A model that makes more of a longer text would otherwise gain more if the first set's texts are
    longer. How much more need not grow evenly: an extrapolated line would take a bend of one
    model's for memory.
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
    """Return the values with those of the second set as they would be at the first set's chance.

    Parameters
    ----------
    values : Sets
        Outcomes 0 to 1 of the published and of the held-out items.
    chance : tuple of float
        Probability of a right answer to an item that is not known, of each set (0 to below 1).

    Returns
    -------
    tuple of arrays
        Outcomes of both sets.

    Notes
    -----
    A score is chance + (1 - chance) known. What is known is the same share at another chance, so
    its mean is moved along this line; single outcomes may lie outside [0, 1].

    Examples
    --------
    A model that knows 40 % is right in .55 of items with four options, and in .46 with ten.

    >>> [round(float(side), 2) for side in as_guessed((0.55, 0.46), (0.25, 0.10))]
    [0.55, 0.55]
    """
    published, held_out = _two_arrays(values)
    known = (held_out - chance[1]) / (1 - chance[1])
    return published, chance[0] + (1 - chance[0]) * known


def in_own_spread(values: Sets) -> tuple[FloatArray, FloatArray]:
    """Return the values in units of their standard deviation over the second set.

    Parameters
    ----------
    values : Sets
        Values of the published and of the held-out items; nobody can have read the second set.

    Returns
    -------
    tuple of arrays
        Values of both sets in this unit; NaN if nothing varies.

    Notes
    -----
    A model that uses what makes a text likely 1.5 times as much has 1.5 times the difference
    between two sets, and 1.5 times this spread. What it gains from the sets' texts alone is the
    same in this unit.
    """
    published, held_out = _two_arrays(values)
    known = held_out[~np.isnan(held_out)]
    sd = known.std(ddof=1) if known.size > 1 and np.ptp(known) > 0 else float("nan")
    return published / sd, held_out / sd


def apartness(tested: Sets, references: Sequence[Sets]) -> float:
    """Return how many times as much the tested model differs from the references as they do from
    each other.

    Parameters
    ----------
    tested : Sets
        Values of the tested model.
    references : sequence of Sets
        Values of the references.

    Returns
    -------
    float
        Ratio over the items of the second set, at least 1; 1 with two references or fewer.

    Notes
    -----
    Fine-tunes of one base differ little, and show too little of how much models differ, whatever
    they are called.
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


# original (K, n), variants (N, n), chance (n,) of guessing each item, cluster (n,) of items that
# belong together
Asked = tuple[FloatArray, FloatArray, FloatArray, IntArray]


@dataclass(frozen=True, kw_only=True)
class BeyondFresh(Tested):
    """Report the drop on the benchmark less what the held-out items say it should be (accuracy
    0-1).

    Attributes
    ----------
    scale : {"points", "share", "logit"}
        "points" expects the held-out items' drop. "share" expects it as a share of the accuracy
        above chance there, times that on the benchmark (a higher score can lose more), both under
        the variants, which memory of the original wording does not raise. "logit" expects the
        held-out items' change in log-odds: a wording-sensitive model loses the same there if the
        sets are not equally hard.
    expected : float
        The expected drop.

    Notes
    -----
    low and high are a 90 % interval.
    """

    scale: Scale
    expected: float


def beyond_fresh(benchmark: Asked, fresh: Asked, *, scale: Scale = "points") -> BeyondFresh:
    """Test that a model drops by more on the benchmark than on held-out items, on one scale.

    Parameters
    ----------
    benchmark, fresh : Asked
        Answers to originals and variants, chance and clusters of each set.
    scale : {"points", "share", "logit"}
        As in `BeyondFresh`.

    Returns
    -------
    BeyondFresh
        One-sided test.

    Raises
    ------
    DataError
        If a set has fewer than two clusters answered under both wordings, or (scale "share") the
        model is not above chance on the fresh items.

    Notes
    -----
    The two sets share no item, so the variance is that of the influence of whole items (clusters)
    within each, added (Welch 1947, Biometrika 34, with Satterthwaite's degrees of freedom). The
    share is a ratio: its influence is that of the delta method, as in
    `audit.statistics.references`.
    """
    ours, theirs = answered(*_kept(benchmark)), answered(*_kept(fresh))
    drop, other = ours.drop.with_set(theirs.drop), theirs.drop.of_second(ours.drop)

    def held_out(estimate: Estimate) -> Estimate:
        return estimate.of_second(ours.drop)

    if scale == "share":
        if theirs.height.value <= 0:
            raise DataError(
                "The model is not above chance on the held-out items: it has no share to lose."
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
            f"A set needs two items that share no cluster, with an answer to the original and to a variant. "
            f"It has {int(compared.sum())} such items."
        )
    return original[:, compared], variants[:, compared], chance[compared], cluster[compared]
