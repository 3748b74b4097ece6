"""Is a model better on published items than on held-out ones by more than reference models are? Pure.

One item has one value a model: a score (0, 1), or the log-likelihood of its text. Reference models that cannot have
seen the published items (or have seen them no less) show how much the two sets differ for any model.

`beyond_fresh` compares the drop of one model under rewording on the two sets, reworded the same way. What rewording
costs this model on held-out items is what it costs without memory, so no other model is needed. It rests on this: the
rewordings of both sets are equally hard, which one model cannot show.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.estimate import Estimate, Tested, beyond_mean, logit_drop, means_of, spread_of, t_test, times
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.references import LEVEL, Scale, answered
from audit.statistics.wording_drop import item_means

Sets = tuple[ArrayLike, ArrayLike]  # values (n,) of the published items and (m,) of the held-out ones


@dataclass(frozen=True, kw_only=True)
class SetDifference(Tested):
    """(published - fresh) of the tested model less the references' mean, in the values' unit.

    own: the tested model's published - fresh; gaps: the references'. tau: standard deviation between models of true
    gaps (0 where they differ by no more than sampling explains; NaN with fewer than two references, where it cannot be
    seen and is not in the error). n, m: items that count. items_se, items_df: of the items' part of the error alone;
    spread: variance of the references' observed gaps, and sampling: what of it items explain (both NaN with fewer than
    two references), for `between_models.predictive`.
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
    """One-sided test that the tested model gains more from published items than a new model like the references would.

    Parameters
    ----------
    tested, references : (published (n,), fresh (m,)) values of each model on the same items. An item that lacks a value
        (NaN) of any model is left out of all.
    clusters : indices (n,), (m,) of what belongs together within each set; None: every item by itself
    apart : how many times tau the tested model may differ from the references (`apartness`)

    Notes
    -----
    The error is that of the mean of (tested - mean of references) over items, or clusters, in each set by itself
    (Welch), and tau^2 (1 + 1/R) for the models, of which the references' spread beyond sampling tells. Where all models
    are alike this variance is s^2 (1 + 1/R) of the references' gaps, as in Crawford & Howell (1998, The Clinical
    Neuropsychologist 12) for one case against a few controls, or more where tau^2 is cut at 0. So from two references
    on t has R - 1 degrees of freedom: how much models differ is not known better, however many items there are.
    Satterthwaite's would take tau^2 = 0 for certain wherever three references happen to lie together, which is often.
    Raises DataError for a set of fewer than two clusters.
    """
    models = [tested, *references]
    published, n = means_of(_rows(models, 0), None if clusters is None else clusters[0])
    fresh, m = means_of(_rows(models, 1), None if clusters is None else clusters[1])
    own, *others = (a.less_independent(b) for a, b in zip(published, fresh, strict=True))
    r = len(references)
    difference = beyond_mean(own, others)
    items, items_df = difference.variance, difference.df
    df, models_part, tau, spread, sampling = items_df, 0.0, *3 * (float("nan"),)
    if r > 1:
        spread, sampling = spread_of(others)
        tau = float(np.sqrt(max(spread - sampling, 0.0)))
        models_part, df = (apart * tau) ** 2 * (1 + 1 / r), r - 1.0
    se = float(np.sqrt(items + models_part))
    return SetDifference(
        **t_test(difference.value, se, df),
        own=own.value,
        gaps=tuple(one.value for one in others),
        tau=tau,
        n=n,
        m=m,
        items_se=float(np.sqrt(items)),
        items_df=items_df,
        spread=spread,
        sampling=sampling,
    )


def _rows(models: Sequence[Sets], side: int) -> FloatArray:
    return np.stack([np.asarray(one[side], dtype=float) for one in models])


def beside(values: Sets, covariate: Sets) -> tuple[FloatArray, FloatArray]:
    """The same less what a covariate and its square tell of them, by least squares over the second set, which nobody
    can have read.

    A model that makes more of a longer text would else gain more where the first set's texts are longer. How much more
    need not grow evenly: a line that is drawn on would take a bend of one model's for memory.
    """
    published, held_out = (np.asarray(side, dtype=float) for side in values)
    there = ~np.isnan(held_out)
    if not there.any():
        return published, held_out
    longer = [np.asarray(side, dtype=float) for side in covariate]
    centre = longer[1][there].mean()
    terms = [np.stack([np.ones_like(side), side - centre, (side - centre) ** 2], axis=1) for side in longer]
    fitted = np.linalg.lstsq(terms[1][there], held_out[there], rcond=None)[0]
    return published - terms[0][:, 1:] @ fitted[1:], held_out - terms[1][:, 1:] @ fitted[1:]


def in_own_spread(values: Sets) -> tuple[FloatArray, FloatArray]:
    """The same in units of their standard deviation over the second set, the items that nobody can have read.

    A model that uses what makes a text likely 1.5 times as much has 1.5 times the difference between two sets, and 1.5
    times this spread: what it gains from the sets' texts alone is the same in this unit. All NaN where nothing varies.
    """
    published, held_out = (np.asarray(side, dtype=float) for side in values)
    there = held_out[~np.isnan(held_out)]
    sd = there.std(ddof=1) if there.size > 1 and np.ptp(there) > 0 else float("nan")
    return published / sd, held_out / sd


def apartness(tested: Sets, references: Sequence[Sets]) -> float:
    """How many times as much the tested model differs from the references, item by item over the second set, as each of
    them does from the others: at least 1; 1 with two references or fewer.

    Fine-tunes of one base differ little, and show too little of how much models differ, whatever they are called.
    """
    values = np.stack([np.asarray(one[1], dtype=float) for one in (tested, *references)])
    values = values[:, ~np.isnan(values).any(axis=0)]
    r = len(references)
    if r < 3 or values.shape[1] < 2:
        return 1.0
    spreads = [
        (values[k] - np.delete(values, [0, k], axis=0).mean(axis=0)).std() / np.sqrt(1 + 1 / (r if k == 0 else r - 1))
        for k in range(r + 1)
    ]
    among = float(np.sqrt(np.mean(np.square(spreads[1:]))))
    return max(1.0, float(spreads[0]) / among) if among > 0 else 1.0


# original (K, n), variants (N, n), chance (n,) of guessing each item, cluster (n,) of what belongs together
Asked = tuple[FloatArray, FloatArray, FloatArray, IntArray]


@dataclass(frozen=True, kw_only=True)
class BeyondFresh(Tested):
    """drop on the benchmark - what the held-out items say it should be (accuracy 0-1). low, high: 90 % interval.

    scale: "points" expects the held-out items' drop; "share" expects it as a share of the accuracy above chance there,
    times that on the benchmark (who has more can lose more), both under the variants, which memory of the original
    wording does not raise; "logit" expects the held-out items' change in log-odds: a touchy model loses the same there
    where the sets are not equally hard.
    """

    scale: Scale
    expected: float


def beyond_fresh(benchmark: Asked, fresh: Asked, *, scale: Scale = "points") -> BeyondFresh:
    """One-sided test that a model drops by more on the benchmark than on held-out items, on one scale.

    Notes
    -----
    The two sets share no item, so the variance is that of the influence of whole items (clusters) within each, added
    (Welch 1947, Biometrika 34, with Satterthwaite's degrees of freedom). The share is a ratio: its influence is that of
    the delta method, as in `audit.statistics.references`.

    Raises DataError for a set with fewer than two clusters answered under both wordings, and (scale="share") for fresh
    items on which the model is not above chance.
    """
    ours, theirs = answered(*_kept(benchmark)), answered(*_kept(fresh))
    own, other = ours.drop.with_set(theirs.drop), theirs.drop.of_second(ours.drop)

    def there(one: Estimate) -> Estimate:
        return one.of_second(ours.drop)

    if scale == "share":
        if theirs.height.value <= 0:
            raise DataError("The model is not above chance on the held-out items: it has no share to lose.")
        other = times(other, there(theirs.height), ours.height.with_set(theirs.drop))
    elif scale == "logit":
        other = logit_drop(
            there(theirs.original), there(theirs.variants), ours.variants.with_set(theirs.drop), theirs.n
        )
    difference = own.plus(other, -1.0)
    test = t_test(difference.value, difference.se, difference.df, LEVEL)
    return BeyondFresh(scale=scale, expected=other.value, **test)


def _kept(asked: Asked) -> Asked:
    """One set, the items that were answered under both wordings alone."""
    original, variants, chance, cluster = asked
    there = ~np.isnan(item_means(original, variants)[0])
    if np.unique(cluster[there]).size < 2:
        raise DataError(
            f"A set needs two items that share no cluster, with an answer to the original and to a variant; found "
            f"{int(there.sum())}."
        )
    return original[:, there], variants[:, there], chance[there], cluster[there]
