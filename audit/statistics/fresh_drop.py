"""The drop of one model under rewording, on a benchmark against held-out items that were reworded the same way. Pure.

Held-out items cannot have been learnt, so what rewording costs this model there is what it costs without memory. No
other model is needed. What it rests on: that the rewordings of both sets are equally hard, which one model cannot show.
"""

from dataclasses import dataclass

import numpy as np

from audit.errors import DataError
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.references import LEVEL, Scale, drop_and_height, times
from audit.statistics.set_difference import welch
from audit.statistics.wording_drop import Estimate, Tested, item_means, t_test

# original (K, n), variants (N, n), chance (n,) of guessing each item, cluster (n,) of what belongs together
Asked = tuple[FloatArray, FloatArray, FloatArray, IntArray]


@dataclass(frozen=True, kw_only=True)
class BeyondFresh(Tested):
    """drop on the benchmark - what the held-out items say it should be (accuracy 0-1). low, high: 90 % interval.

    scale: "points" expects the held-out items' drop; "share" expects it as a share of the accuracy above chance there,
    times that on the benchmark (who has more can lose more), both under the variants, which memory of the original
    wording does not raise.
    """

    scale: Scale
    expected: float


def beyond_fresh(benchmark: Asked, fresh: Asked, *, scale: Scale = "points") -> BeyondFresh:
    """One-sided test that a model drops by more on the benchmark than on held-out items, in points or as a share.

    Notes
    -----
    The two sets share no item, so the variance is that of the influence of whole items (clusters) within each, added
    (Welch 1947, Biometrika 34, with Satterthwaite's degrees of freedom). The share is a ratio: its influence is that of
    the delta method, as in `audit.statistics.references`.

    Raises DataError for a set with fewer than two clusters answered under both wordings, and (scale="share") for fresh
    items on which the model is not above chance.
    """
    (own, above), (other, height) = _estimates(benchmark), _estimates(fresh)
    cut, more, dfs = own.influence.size, other.influence.size, (own.df, other.df)
    own, above = (Estimate(e.value, np.concatenate([e.influence, np.zeros(more)])) for e in (own, above))
    other, height = (Estimate(e.value, np.concatenate([np.zeros(cut), e.influence])) for e in (other, height))
    if scale == "share":
        if height.value <= 0:
            raise DataError(
                "The model is not above chance on the held-out items: no share of its accuracy can be lost."
            )
        other = times(other, height, above)
    difference = own.plus(other, -1.0)
    variance, df = welch(difference.influence, cut, dfs)
    return BeyondFresh(
        scale=scale, expected=other.value, **t_test(difference.value, float(np.sqrt(variance)), df, LEVEL)
    )  # fmt: skip


def _estimates(asked: Asked) -> tuple[Estimate, Estimate]:
    """Drop and height of one set, over the items that were answered under both wordings."""
    original, variants, chance, cluster = asked
    there = ~np.isnan(item_means(original, variants)[0])
    if np.unique(cluster[there]).size < 2:
        raise DataError(
            f"A set needs two items that share no cluster, with an answer to the original and to a variant; found "
            f"{int(there.sum())}."
        )
    return drop_and_height(original[:, there], variants[:, there], chance[there], cluster[there])
