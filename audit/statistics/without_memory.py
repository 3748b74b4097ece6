"""Estimate the score that a model would have on published items without memory of the items.

The module also lists the items that the model probably answered from memory. Both results are
computed from held-out items and reference models. The module does no I/O.
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
# models, since clean models also differ in these likelihoods.
_ALLOWED = 2.0


@dataclass(frozen=True)
class WithoutMemory:
    """Report a model's score on the published items with and without memory (accuracies 0-1).

    Attributes
    ----------
    score : Limits
        Observed score.
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
        Score without memory, computed without a prior (from the references alone). The interval is
        the hull of the intervals of all scales.
    share : Limits
        Of the items that the model would answer wrong without memory, the share that it answers
        right from memory: (score - without) / (1 - without), at least 0.
    tau : float
        Standard deviation between clean models, as an accuracy.
    references : int
        Number of references.
    theirs : Limits
        Mean of the references' gaps (accuracy on published minus accuracy on held-out items).
    at_most : bool
        True if `theirs` is significantly above 0. Then either the held-out items are harder, or the
        references have learnt part of the benchmark; the data do not show which is true. So the
        interval of `without` is extended down to the score that follows if the references have
        learnt part of the benchmark. Quote only the upper limit of this interval.
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


# A gap, which is the score minus the score without memory: estimate, lower and upper limit.
Gap = tuple[float, float, float]


def without_memory(
    tested: Sets,
    references: Sequence[Sets],
    clusters: tuple[IntArray, IntArray] | None = None,
    *,
    prior: TauPrior = PRIORS["score"],
    imputed_gaps: Sequence[Gap] = (),
    chance: tuple[float, float] = (0.0, 0.0),
) -> WithoutMemory:
    """Estimate the score that the tested model would have without memory.

    The model's gain on published items over held-out items is compared with the references' gain.
    The difference of the gains is subtracted from the score.

    Parameters
    ----------
    tested, references, clusters, chance : object
        Arguments of `ability_gaps`.
    prior : TauPrior
        Prior of the differences between models. Unlike the prior of a test against 0, it includes
        an error between sets (`TauPrior.between_sets`).
    imputed_gaps : sequence of Gap
        Gaps that are computed with unparsed answers imputed: once in favour of a gap, once against
        a gap. These gaps widen the interval.

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
    There are two or three scales:

    - Points: a harder set costs every model the same number of points of accuracy.
    - Ability: a harder set costs every model the same number of logits. The spread of difficulties
      may differ between sets.
    - Ability with guessing, if answers can be guessed.

    At most one scale is right (docs/understand/score_without_memory.md), and a few references do
    not show which scale is right. So the interval is the hull of the intervals of all scales. It
    covers the true value whenever the interval of one scale does. The estimate is the mean over
    scales, which is never further from the true value than the worst scale. Limits are cut at 0 and
    1.
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
        """Return the gap on each scale of ability, with the given prior.

        Parameters
        ----------
        given : TauPrior or None
            Prior of the standard deviation between models; None if there is no prior.

        Returns
        -------
        list of tuple
            For each scale, the gap and its lower and upper limit, from -1 to 1.
        """
        gaps = ability_gaps(tested, references, clusters, prior=given, chance=chance)
        return [(gap.gap, gap.gap_low, gap.gap_high) for gap in gaps]

    able, alone = by_ability(prior), by_ability(None)

    def less(gaps: Sequence[Gap], wider: Sequence[Gap] = ()) -> Limits:
        """Return the score minus the mean of the gaps.

        The limits are the score minus the ends of the hull of the gaps' intervals.

        Parameters
        ----------
        gaps : sequence of Gap
            Gaps whose mean and intervals are used.
        wider : sequence of Gap
            Further gaps. Their intervals widen the limits, but the mean does not include them.

        Returns
        -------
        Limits
            The estimate and its lower and upper limit, each cut at 0 and 1.
        """
        estimate = np.mean([gap[0] for gap in gaps])
        _, lows, highs = zip(*gaps, *wider, strict=True)
        low, high = max(highs), min(lows)
        return Limits(
            *(float(np.clip(score.estimate - gap, 0, 1)) for gap in (estimate, low, high))
        )

    points = did.difference, expected.low, expected.high
    reference_gap = _mean_reference_gap(references, clusters, expected.tau)
    at_most = reference_gap.low > 0
    tested_gap = set_difference(tested, (), clusters)
    learnt_too = [(tested_gap.difference, expected.low, tested_gap.high)] if at_most else []
    without = less([points, *able], [*imputed_gaps, *learnt_too])
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
        theirs=reference_gap,
        at_most=at_most,
    )


def _mean_reference_gap(
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
    """Return the mean outcome with the interval that the report's tables of accuracy use.

    Parameters
    ----------
    outcomes : (n,) array
        Outcomes 0 to 1, NaN if missing.
    clusters : (n,) array or None
        Cluster of each item; If None, each item is a separate cluster.

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
    """Report the evidence of memory for each of n published items.

    The values of an item without an answer are NaN.

    Attributes
    ----------
    chance : (n,) array
        Probability that the tested model without memory answers the item right, at the upper limit
        of its ability.
    text : (n,) array or None
        Likelihood of the item's text minus the references' mean, in standard deviations of held-out
        items; None without likelihoods.
    pvalue : (n,) array
        Conformal p-value: the share of held-out items with at least as much evidence of memory as
        this item.
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
    """Test which published items were answered from memory.

    The false discovery rate is controlled.

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
    Two observations are evidence that an item was answered from memory:

    - The tested model is right, although a right answer is unlikely given the references' answers
      and the model's ability without memory.
    - The tested model gives the item's text a higher likelihood than the references do.

    A single binary answer gives little evidence, so only two kinds of items can be named: items
    whose text the model has read and, if the model has learnt many items, hard items.

    The evidence of an item is a log likelihood ratio. For a wrong answer it is 0. For a right
    answer it is

      -log(chance) + max(z, 0)^2 / 2,

    where z is the standardised excess likelihood of the text. The p-value is

      (1 + number of held-out items with at least this evidence) / (1 + number of held-out items).

    It is exact if a published item that was not learnt is exchangeable with the held-out items,
    even if the model of the chances or of z is wrong. So Benjamini & Hochberg's procedure controls
    the false discovery rate (Bates et al. 2023, Annals of Statistics 51, 149).

    Items are not exchangeable if one of the sets suits some models better than other models. Two
    corrections allow for this:

    - The chance of a published item is computed at the upper limit of the model's ability without
      memory.
    - The z of a published text is reduced by two standard deviations between models. It is then
      divided by a ratio: the references' spread on published texts over that on held-out texts.
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


def _chance(fit: RaschFit, tested: FloatArray, ability: float) -> FloatArray:
    """Return the probability (n,) that a model of a given ability answers each item right.

    The difficulties of the items are estimated from the references' answers only.

    The tested model's own answer is removed from the posterior of each item's difficulty.
    """
    at_tested = np.clip(scipy.special.expit(fit.ability[0] - fit.difficulty), 1e-12, 1 - 1e-12)
    x = np.nan_to_num(tested)[:, None]
    weight = fit.posterior / np.where(
        np.isnan(tested)[:, None], 1.0, at_tested**x * (1 - at_tested) ** (1 - x)
    )
    return weight @ scipy.special.expit(ability - fit.difficulty) / weight.sum(axis=1)


def _texts(texts: Sequence[Sets]) -> tuple[FloatArray, FloatArray]:
    """Return each text's log-likelihood under the tested model minus the references' mean.

    The result is an array for each set, (n,) and (m,). The unit is the standard deviation of
    held-out items.
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
    # If z is NaN, the text gives no evidence.
    sd = known.std(ddof=1) if known.size > 1 and np.ptp(known) > 0 else float("nan")
    return (beyond[0] - known.mean() - allowed) / (sd * _wider(scaled[1:])), (
        beyond[1] - known.mean()
    ) / sd


def _wider(references: Sequence[Sets]) -> float:
    """Return the references' spread on published texts divided by that on held-out texts.

    The result is at least 1.

    For each reference, its log-likelihood of each text is compared with the mean over the remaining
    references. The spread is the standard deviation of this difference over texts, and the ratio is
    averaged over references. With a single reference, the result is 1.
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
