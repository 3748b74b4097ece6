"""What a model would score on published items without memory of them, and which items it likely answered from memory:
both from held-out items and references. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.errors import DataError
from audit.statistics.between_models import predictive
from audit.statistics.chance import Limits, interval
from audit.statistics.estimate import ROUNDING
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.priors import PRIORS, TauPrior
from audit.statistics.rasch import RaschFit, ability_gaps, fit_rasch, rasch_gap
from audit.statistics.set_difference import Sets, in_own_spread, set_difference
from audit.statistics.values import average

FDR = 0.10
_ALLOWED = 2.0  # standard deviations between clean models that a text's likelihood is moved by before it speaks


@dataclass(frozen=True)
class WithoutMemory:
    """Accuracies on the published items, 0-1.

    score: as answered. without: what the score would be without memory; its estimate is the mean of all scales', its
    interval their hull. by_points: on the scale of accuracies (score - difference in differences). by_ability,
    by_guessing: on those of ability (`ability_gaps`), the last None where nobody can guess. alone: the hull where the
    references alone tell how models differ, without a prior. share: of the items that it would not know, how many it
    answers from memory: (score - without) / (1 - without), not below 0. tau: what clean models differ by, accuracy.
    theirs: the references' own mean gap. at_most: it is above 0 beyond chance, because held-out items are harder or
    because the references learnt some of the benchmark, and nothing tells which. `without` then reaches down to what
    the second would leave, and only its upper limit is to be quoted.
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
    theirs: Limits
    at_most: bool = False


Gap = tuple[float, float, float]  # estimate, low, high of score - score without memory


def without_memory(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior = PRIORS["score"],
    held: Sequence[Gap] = (),
    chance: tuple[float, float] = (0.0, 0.0),
) -> WithoutMemory:
    """The score less what the tested model has more on published items than on held-out ones, beyond its references.

    Parameters are those of `ability_gaps`. prior: as of the test of a gap, with an error between sets, which a number
    has and a test against 0 does not need. held: gaps with unparsed answers held for and against; they widen the
    interval.
    Raises DataError without references, or with fewer than two items in a set.

    Notes
    -----
    On the points scale a harder set costs every model as many points; on that of ability as many logits, and its
    difficulties may be spread differently; where answers can be guessed, the same holds of what is known. Each is wrong
    where another holds (docs/understand/score_without_memory.md), and a few references do not tell which holds. So the
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
    theirs = _own_gap(references, clusters, told.tau)
    at_most = theirs.low > 0
    own = set_difference(tested, (), clusters)
    learnt_too = [(own.difference, told.low, own.high)] if at_most else []
    without = less([points, *able], [*held, *learnt_too])
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
        theirs=theirs,
        at_most=at_most,
    )


def _own_gap(references: Sequence[Sets], clusters: tuple[IntArray, IntArray] | None, tau: float) -> Limits:
    """Return the references' mean gap between the sets, with its 95 % interval over items and models (tau)."""
    published, fresh = (np.mean([np.asarray(one[side], dtype=float) for one in references], axis=0) for side in (0, 1))
    found = set_difference((published, fresh), (), clusters)
    half = (found.high - found.difference) * np.hypot(1, tau / np.sqrt(len(references)) / max(found.se, ROUNDING))
    return Limits(found.difference, found.difference - float(half), found.difference + float(half))


def _share(score: float, without: float) -> float:
    return max(0.0, (score - without) / (1 - without)) if without < 1 else 0.0


def score_of(outcomes: ArrayLike, clusters: IntArray | None = None) -> Limits | None:
    """Mean of (n,) outcomes with the interval that tables of accuracy show; None without any."""
    values = np.asarray(outcomes, dtype=float)
    found = interval(values, np.arange(values.size) if clusters is None else np.asarray(clusters))
    return Limits(*found) if found else None


@dataclass(frozen=True)
class FromMemory:
    """Of each of n published items; NaN where the tested model has no answer.

    chance: of a right answer without memory. text: how much likelier the text is than to the references, in standard
    deviations of held-out items; None where likelihoods were not told. pvalue: share of held-out items that speak for
    memory as much (conformal). qvalue: after Benjamini & Hochberg; named: at most FDR.
    """

    chance: FloatArray
    text: FloatArray | None
    pvalue: FloatArray
    qvalue: FloatArray

    @property
    def named(self) -> BoolArray:
        """(n,) true where the item is named."""
        return np.nan_to_num(self.qvalue, nan=1.0) <= FDR

    @property
    def order(self) -> list[int]:
        """Items that were answered, the likeliest from memory first; right answers that should be rarest break ties."""
        there = np.flatnonzero(~np.isnan(self.pvalue))
        return sorted(there.tolist(), key=lambda i: (self.pvalue[i], self.chance[i], i))


def from_memory(tested: Sets, references: Sequence[Sets], texts: Sequence[Sets] = ()) -> FromMemory:
    """Which published items were answered from memory? Each against held-out items, false discoveries controlled.

    An item speaks for memory where the tested model is right though it should rarely be, going by the references'
    answers and its ability without memory, and where the item's text is likelier to it than to the references. One
    binary answer says little, so what can be named is few items: those of a text that was read, or hard ones where much
    was learnt.

    tested, references: as in `rasch_gap`. texts: log-likelihoods (published (n,), held-out (m,)) of the tested model,
    then of each reference; empty where they were not told.

    Notes
    -----
    An item's value is 0 for a wrong answer, else -log(chance) of the right one plus z^2 / 2 of a likelier text (z > 0):
    a log likelihood ratio. The p-value is (1 + held-out items of at least that value) / (1 + held-out items), which is
    exact where a published item that was not learnt is exchangeable with the held-out ones, however wrong chances and
    the normal z are; so Benjamini & Hochberg's procedure controls the false discovery rate (Bates et al. 2023, Annals
    of Statistics 51, 149). That models suit two sets differently breaks the exchange, so a published item is judged at
    the highest ability without memory that the interval holds, and its text less two standard deviations of models, in
    a spread as much wider than the held-out items' as the references' is.
    """
    models = (tested, *references)
    gap = rasch_gap(tested, references)
    fits = [fit_rasch([one[side] for one in models]) for side in (0, 1)]
    own = [np.asarray(side, dtype=float) for side in tested]
    ability = float(fits[0].ability[0]) - min(gap.low, gap.difference), float(fits[1].ability[0])
    chance = [_chance(fit, x, a) for fit, x, a in zip(fits, own, ability, strict=True)]
    z = _texts(texts) if texts else (np.zeros(own[0].size), np.zeros(own[1].size))
    values = [
        np.where(x > 0.5, -np.log(c) + np.maximum(np.nan_to_num(t), 0) ** 2 / 2, 0.0)
        for x, c, t in zip(own, chance, z, strict=True)
    ]
    there = [~np.isnan(x) for x in own]
    null = np.sort(values[1][there[1]])
    reached = null.size - np.searchsorted(null, values[0], side="left")
    pvalue = np.where(there[0], (1 + reached) / (1 + null.size), np.nan)
    qvalue = np.full_like(pvalue, np.nan)
    qvalue[there[0]] = scipy.stats.false_discovery_control(pvalue[there[0]])
    return FromMemory(np.where(there[0], chance[0], np.nan), z[0] if texts else None, pvalue, qvalue)


def _chance(fit: RaschFit, own: FloatArray, ability: float) -> FloatArray:
    """(n,) of a right answer at this ability, by the references' answers alone: the own one is taken out again."""
    at_own = np.clip(scipy.special.expit(fit.ability[0] - fit.difficulty), 1e-12, 1 - 1e-12)
    x = np.nan_to_num(own)[:, None]
    weight = fit.posterior / np.where(np.isnan(own)[:, None], 1.0, at_own**x * (1 - at_own) ** (1 - x))
    return weight @ scipy.special.expit(ability - fit.difficulty) / weight.sum(axis=1)


def _texts(texts: Sequence[Sets]) -> tuple[FloatArray, FloatArray]:
    """(n,), (m,) the tested model's likelihood less the references' mean, in standard deviations of held-out items."""
    scaled = [in_own_spread(one) for one in texts]
    beyond = [scaled[0][side] - np.mean([one[side] for one in scaled[1:]], axis=0) for side in (0, 1)]
    try:
        found = set_difference(scaled[0], scaled[1:])
    except DataError:  # not two items of each set have the likelihoods of all models
        return np.full(beyond[0].size, np.nan), np.full(beyond[1].size, np.nan)
    models = len(scaled) - 1
    allowed = _ALLOWED * np.nan_to_num(found.tau) * np.sqrt(1 + 1 / models)
    there = beyond[1][~np.isnan(beyond[1])]
    sd = there.std(ddof=1) if there.size > 1 and np.ptp(there) > 0 else float("nan")  # NaN: nothing is told
    return (beyond[0] - there.mean() - allowed) / (sd * _wider(scaled[1:])), (beyond[1] - there.mean()) / sd


def _wider(references: Sequence[Sets]) -> float:
    """How much wider published texts spread than held-out ones, at least 1, by each reference beside the others: a
    single one cannot tell."""
    if len(references) < 2:
        return 1.0
    ratios = []
    for k, one in enumerate(references):
        others = [*references[:k], *references[k + 1 :]]
        beyond = [np.asarray(one[side]) - average(np.stack([o[side] for o in others])) for side in (0, 1)]
        published, held_out = (float(np.nanstd(side)) for side in beyond)
        ratios.append(published / held_out if held_out > 0 else 1.0)
    return max(1.0, float(np.mean(ratios)))
