"""Estimate the score that a model would have on published items without memory of them, and list
the items that it probably answered from memory.

Both results are computed from held-out items and reference models. The module does no I/O.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from audit.core.errors import DataError
from audit.statistics.between_models import predictive
from audit.statistics.chance import Limits, interval
from audit.statistics.estimate import ROUNDING
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.priors import PRIORS, TauPrior
from audit.statistics.rasch import RaschFit, ability_gaps, fit_rasch, rasch_gap
from audit.statistics.set_difference import Sets, in_own_spread, set_difference
from audit.statistics.values import average

FDR = 0.10
# The z score of a text's likelihood is reduced by this number of standard deviations between clean
# models.
_ALLOWED = 2.0


@dataclass(frozen=True)
class WithoutMemory:
    """Report a model's score on the published items with and without memory (accuracies 0-1).

    Attributes
    ----------
    score : Limits
        Score as answered.
    without : Limits
        Score without memory. The estimate is the mean over all scales. The interval is the hull of
        the intervals of all scales.
    by_points : Limits
        Score without memory on the scale of accuracies: the score minus the difference in
        differences.
    by_ability, by_guessing : Limits, Limits or None
        Score without memory on the scale of ability, without and with guessing (`ability_gaps`).
        by_guessing is None if answers cannot be guessed.
    alone : Limits
        Score without memory, with the hull of the intervals that are computed without a prior, from
        the references alone.
    share : Limits
        Estimated share of the items unknown to the model that it answers from memory: (score -
        without) / (1 - without), at least 0.
    tau : float
        Standard deviation between clean models, as an accuracy.
    references : int
        Number of references.
    theirs : Limits
        Mean over the references of their gaps between the two sets.
    at_most : bool
        True if `theirs` is significantly above 0. Then either the held-out items are harder, or the
        references have learnt part of the benchmark; the data do not show which is true. The
        interval of `without` then extends down to the score that is implied if the references have
        learnt part of the benchmark. Only its upper limit should be quoted.
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


# Score minus score without memory: the estimate, its lower limit and its upper limit.
Gap = tuple[float, float, float]


def without_memory(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior = PRIORS["score"],
    held: Sequence[Gap] = (),
    chance: tuple[float, float] = (0.0, 0.0),
) -> WithoutMemory:
    """Estimate the tested model's score without memory: its score minus its gain on published items
    beyond the references' gain.

    Parameters
    ----------
    tested, references, clusters, chance : object
        Arguments of `ability_gaps`.
    prior : TauPrior
        Prior of the differences between models. It includes an error between sets, which the prior
        of a test does not include: an estimate needs this error, and a test against 0 does not.
    held : sequence of Gap
        Gaps that are computed with unparsed answers imputed in favour of a gap and against a gap.
        These gaps widen the interval.

    Returns
    -------
    WithoutMemory
        The score without memory on every scale.

    Raises
    ------
    DataError
        If there are no references, or if a set has fewer than two items.

    Notes
    -----
    On the scale of points, a harder set costs every model the same number of points. On the scale
    of ability, it costs every model the same number of logits, and the spread of difficulties may
    differ between sets. If answers can be guessed, ability with guessing is a third scale. If one
    scale is right, the others are wrong (docs/understand/score_without_memory.md). A few references
    do not show which scale is right. So the interval is the hull of the intervals of all scales,
    and it covers the true value whenever one of them does. The estimate is the mean over scales,
    which is never further from the truth than the worst scale. Limits are cut at 0 and 1.
    """
    score = score_of(tested[0], None if clusters is None else clusters[0])
    if score is None:
        raise DataError(
            "The number of published items with an answer is 0. Expected at least 1 for a score."
        )
    did = set_difference(tested, references, clusters)
    expected = predictive(
        did.difference, did.items_se, did.items_df, did.spread, did.sampling, len(references), prior
    )

    def by_ability(given: TauPrior | None) -> list[Gap]:
        """Return the gap on each scale of ability, with the given prior."""
        gaps = ability_gaps(tested, references, clusters, prior=given, chance=chance)
        return [(gap.gap, gap.gap_low, gap.gap_high) for gap in gaps]

    able, alone = by_ability(prior), by_ability(None)

    def less(gaps: Sequence[Gap], wider: Sequence[Gap] = ()) -> Limits:
        """Return the score minus the mean of the gaps. Its limits are the hull of the intervals of
        all gaps."""
        estimate = np.mean([gap[0] for gap in gaps])
        _, lows, highs = zip(*gaps, *wider, strict=True)
        low, high = max(highs), min(lows)
        return Limits(
            *(float(np.clip(score.estimate - gap, 0, 1)) for gap in (estimate, low, high))
        )

    points = did.difference, expected.low, expected.high
    theirs = _own_gap(references, clusters, expected.tau)
    at_most = theirs.low > 0
    tested_gap = set_difference(tested, (), clusters)
    learnt_too = [(tested_gap.difference, expected.low, tested_gap.high)] if at_most else []
    without = less([points, *able], [*held, *learnt_too])
    shares = (
        _share(score.estimate, limit) for limit in (without.estimate, without.high, without.low)
    )
    return WithoutMemory(
        score=score,
        without=without,
        by_points=less([points]),
        by_ability=less(able[:1]),
        by_guessing=less(able[1:]) if able[1:] else None,
        alone=less([(did.difference, did.low, did.high), *alone]),
        share=Limits(*shares),
        tau=expected.tau,
        references=len(references),
        theirs=theirs,
        at_most=at_most,
    )


def _own_gap(
    references: Sequence[Sets], clusters: tuple[IntArray, IntArray] | None, tau: float
) -> Limits:
    """Return the references' mean gap between the sets, with its 95 % interval.

    The interval includes the sampling of items and the differences between models (tau).
    """
    published = np.mean([np.asarray(reference[0], dtype=float) for reference in references], axis=0)
    fresh = np.mean([np.asarray(reference[1], dtype=float) for reference in references], axis=0)
    gap = set_difference((published, fresh), (), clusters)
    half = (gap.high - gap.difference) * np.hypot(
        1, tau / np.sqrt(len(references)) / max(gap.se, ROUNDING)
    )
    return Limits(gap.difference, gap.difference - float(half), gap.difference + float(half))


def _share(score: float, without: float) -> float:
    return max(0.0, (score - without) / (1 - without)) if without < 1 else 0.0


def score_of(outcomes: ArrayLike, clusters: IntArray | None = None) -> Limits | None:
    """Return the mean of outcomes with an interval, computed as in the tables of accuracy.

    Parameters
    ----------
    outcomes : (n,) array
        Outcomes 0 to 1, NaN if missing.
    clusters : (n,) array or None
        Cluster of each item; None makes every item its own cluster.

    Returns
    -------
    Limits or None
        The mean and its interval; None without outcomes.
    """
    values = np.asarray(outcomes, dtype=float)
    limits = interval(values, np.arange(values.size) if clusters is None else np.asarray(clusters))
    return Limits(*limits) if limits else None


@dataclass(frozen=True)
class FromMemory:
    """Report the evidence of memory for each of n published items. The values of an item without an
    answer are NaN.

    Attributes
    ----------
    chance : (n,) array
        Probability that the tested model without memory answers the item right, at the upper limit
        of its ability.
    text : (n,) array or None
        Likelihood of the item's text minus the references' mean, in standard deviations of held-out
        items; None without likelihoods.
    pvalue : (n,) array
        Share of held-out items with at least as much evidence of memory (conformal p-value).
    qvalue : (n,) array
        p-value adjusted by Benjamini & Hochberg's procedure. An item is named if its q-value is at
        most FDR.
    """

    chance: FloatArray
    text: FloatArray | None
    pvalue: FloatArray
    qvalue: FloatArray

    @property
    def named(self) -> BoolArray:
        """Return which published items are named as answered from memory.

        Returns
        -------
        (n,) bool array
            True if the q-value is at most FDR.
        """
        return np.nan_to_num(self.qvalue, nan=1.0) <= FDR

    @property
    def order(self) -> list[int]:
        """Return the positions of the answered items, sorted by evidence of memory, the strongest
        first.

        Of items with equal evidence, the right answer that is least likely without memory comes
        first.

        Returns
        -------
        list of int
            Positions of items.
        """
        answered = np.flatnonzero(~np.isnan(self.pvalue))
        return sorted(answered.tolist(), key=lambda i: (self.pvalue[i], self.chance[i], i))


def from_memory(tested: Sets, references: Sequence[Sets], texts: Sequence[Sets] = ()) -> FromMemory:
    """Test which published items were answered from memory, with control of the false discovery
    rate.

    Parameters
    ----------
    tested, references : Sets
        Outcomes of each model on the published and held-out items, as in `rasch_gap`.
    texts : sequence of Sets
        Log-likelihoods (published (n,), held-out (m,)) of the tested model, then of each reference;
        empty without likelihoods.

    Returns
    -------
    FromMemory
        p- and q-value of each published item.

    Raises
    ------
    DataError
        If there are no references.

    Notes
    -----
    Two observations are evidence that an item was answered from memory. First, the tested model is
    right although this is unlikely, given the references' answers and its ability without memory.
    Second, the item's text is likelier to the tested model than to the references. A single binary
    answer gives little evidence, so few items can be named. These are items whose text the model
    has read, or hard items if the model has learnt many items.

    The evidence of an item is 0 for a wrong answer. For a right answer it is -log(chance), plus z^2
    / 2 if its text is likelier (z > 0): a log likelihood ratio. The p-value is (1 + number of
    held-out items with at least this evidence) / (1 + number of held-out items). It is exact if a
    published item that was not learnt is exchangeable with the held-out items, even if the chances
    or the normal z are wrong. So Benjamini & Hochberg's procedure controls the false discovery rate
    (Bates et al. 2023, Annals of Statistics 51, 149).

    Items are not exchangeable if some models find one set easier than other models do. Two
    corrections allow for this. First, the chance of a published item is computed at the upper limit
    of the model's ability without memory. Second, the z of a published text is reduced by two
    standard deviations between models. It is then divided by a factor: the references' spread on
    published texts divided by their spread on held-out texts.
    """
    models = (tested, *references)
    gap = rasch_gap(tested, references)
    fits = [fit_rasch(side) for side in zip(*models, strict=True)]
    tested_answers = [np.asarray(side, dtype=float) for side in tested]
    ability = float(fits[0].ability[0]) - min(gap.low, gap.difference), float(fits[1].ability[0])
    chance = [_chance(fit, x, a) for fit, x, a in zip(fits, tested_answers, ability, strict=True)]
    z = (
        _texts(texts)
        if texts
        else (np.zeros(tested_answers[0].size), np.zeros(tested_answers[1].size))
    )
    values = []
    for x, c, t in zip(tested_answers, chance, z, strict=True):
        values.append(np.where(x > 0.5, -np.log(c) + np.maximum(np.nan_to_num(t), 0) ** 2 / 2, 0.0))
    answered = [~np.isnan(x) for x in tested_answers]
    null = np.sort(values[1][answered[1]])
    reached = null.size - np.searchsorted(null, values[0], side="left")
    pvalue = np.where(answered[0], (1 + reached) / (1 + null.size), np.nan)
    qvalue = np.full_like(pvalue, np.nan)
    qvalue[answered[0]] = scipy.stats.false_discovery_control(pvalue[answered[0]])
    return FromMemory(
        np.where(answered[0], chance[0], np.nan), z[0] if texts else None, pvalue, qvalue
    )


def _chance(fit: RaschFit, own: FloatArray, ability: float) -> FloatArray:
    """Return the probability (n,) of a right answer at an ability, given the references' answers
    only.

    The tested model's own answer is removed from the posterior of each item's difficulty.
    """
    at_own = np.clip(scipy.special.expit(fit.ability[0] - fit.difficulty), 1e-12, 1 - 1e-12)
    x = np.nan_to_num(own)[:, None]
    weight = fit.posterior / np.where(
        np.isnan(own)[:, None], 1.0, at_own**x * (1 - at_own) ** (1 - x)
    )
    return weight @ scipy.special.expit(ability - fit.difficulty) / weight.sum(axis=1)


def _texts(texts: Sequence[Sets]) -> tuple[FloatArray, FloatArray]:
    """Return the log-likelihood of the tested model minus the references' mean, for each text of
    both sets (n,) and (m,).

    The unit is the standard deviation of held-out items.
    """
    scaled = [in_own_spread(text_pair) for text_pair in texts]
    beyond = [side[0] - np.mean(side[1:], axis=0) for side in zip(*scaled, strict=True)]
    try:
        difference = set_difference(scaled[0], scaled[1:])
    except DataError:  # Fewer than two items of a set have the likelihoods of all models.
        return np.full(beyond[0].size, np.nan), np.full(beyond[1].size, np.nan)
    models = len(scaled) - 1
    allowed = _ALLOWED * np.nan_to_num(difference.tau) * np.sqrt(1 + 1 / models)
    known = beyond[1][~np.isnan(beyond[1])]
    # A NaN z counts as no evidence.
    sd = known.std(ddof=1) if known.size > 1 and np.ptp(known) > 0 else float("nan")
    return (beyond[0] - known.mean() - allowed) / (sd * _wider(scaled[1:])), (
        beyond[1] - known.mean()
    ) / sd


def _wider(references: Sequence[Sets]) -> float:
    """Return the spread of likelihoods of published texts divided by that of held-out texts, at
    least 1.

    Each reference is compared with the other references. The result is 1 with a single reference.
    """
    if len(references) < 2:
        return 1.0
    ratios = []
    for k, reference in enumerate(references):
        others = [*references[:k], *references[k + 1 :]]
        sides = zip(reference, zip(*others, strict=True), strict=True)
        beyond = [np.asarray(values) - average(np.stack(of_others)) for values, of_others in sides]
        published, held_out = float(np.nanstd(beyond[0])), float(np.nanstd(beyond[1]))
        ratios.append(published / held_out if held_out > 0 else 1.0)
    return max(1.0, float(np.mean(ratios)))
