"""What a model would score on published items without memory of them, from held-out items and references. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.between_models import predictive
from audit.statistics.chance import interval
from audit.statistics.paired import IntArray
from audit.statistics.priors import PRIORS, TauPrior
from audit.statistics.rasch import ability_gaps
from audit.statistics.set_difference import Sets, set_difference


@dataclass(frozen=True)
class Limits:
    """An estimate, 0-1, with its 95 % interval."""

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class WithoutMemory:
    """Accuracies on the published items, 0-1.

    score: as answered. without: what the score would be without memory; its estimate is the mean of all scales', its
    interval their hull. by_points: on the scale of accuracies (score - difference in differences). by_ability,
    by_guessing: on those of ability (`ability_gaps`), the last None where nobody can guess. alone: the hull where the
    references alone tell how models differ, without a prior. share: of the items that it would not know, how many it
    answers from memory: (score - without) / (1 - without), not below 0. tau: what clean models differ by, accuracy.
    """

    score: Limits
    without: Limits
    by_points: Limits
    by_ability: Limits
    by_guessing: Limits | None
    alone: Limits
    share: Limits
    tau: float
    references: int


Gap = tuple[float, float, float]  # estimate, low, high of score - score without memory


def without_memory(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior = PRIORS["held_out_widest"],
    held: Sequence[Gap] = (),
    chance: tuple[float, float] = (0.0, 0.0),
) -> WithoutMemory:
    """The score less what the tested model has more on published items than on held-out ones, beyond its references.

    Parameters are those of `ability_gaps`. prior: the widest that was measured, as a number is quoted for every kind of
    exam; the test of a gap takes the usual one. held: gaps with unparsed answers held for and against; they widen the
    interval.
    Raises DataError without references, or with fewer than two items in a set.

    Notes
    -----
    On the points scale a harder set costs every model as many points; on that of ability as many logits, and its
    difficulties may be spread differently; where answers can be guessed, the same holds of what is known. Each is wrong
    where another holds (docs/score_without_memory.md), and the data of a few references do not tell which holds. So the
    interval is the hull of all, which covers where any does, and the estimate the mean, which is never more wrong than
    the worst of them. Limits are cut at 0 and 1.
    """
    score = score_of(tested[0], None if clusters is None else clusters[0])
    if score is None:
        raise DataError("No published item was answered, so there is no score.")
    did = set_difference(tested, references, clusters)
    told = predictive(did.difference, did.items_se, did.items_df, did.spread, did.sampling, len(references), prior)
    able, alone = (
        [(one.gap, one.gap_low, one.gap_high) for one in found]
        for found in (ability_gaps(tested, references, clusters, prior=p, chance=chance) for p in (prior, None))
    )

    def less(gaps: Sequence[Gap], wider: Sequence[Gap] = ()) -> Limits:
        """The mean of the gaps, and the hull of all."""
        estimate = np.mean([gap[0] for gap in gaps])
        low, high = max(gap[2] for gap in (*gaps, *wider)), min(gap[1] for gap in (*gaps, *wider))
        return Limits(*(float(np.clip(score.estimate - gap, 0, 1)) for gap in (estimate, low, high)))

    points = did.difference, told.low, told.high
    without = less([points, *able], held)
    shares = (_share(score.estimate, one) for one in (without.estimate, without.high, without.low))
    return WithoutMemory(
        score=score,
        without=without,
        by_points=less([points]),
        by_ability=less(able[:1]),
        by_guessing=less(able[1:]) if able[1:] else None,
        alone=less([(did.difference, did.low, did.high), *alone]),
        share=Limits(*shares),
        tau=told.tau,
        references=len(references),
    )


def _share(score: float, without: float) -> float:
    return max(0.0, (score - without) / (1 - without)) if without < 1 else 0.0


def score_of(outcomes: ArrayLike, clusters: IntArray | None = None) -> Limits | None:
    """Mean of (n,) outcomes with the interval that tables of accuracy show; None without any."""
    values = np.asarray(outcomes, dtype=float)
    found = interval(values, np.arange(values.size) if clusters is None else np.asarray(clusters))
    return Limits(*found) if found else None
