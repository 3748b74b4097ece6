"""Measure the statistics of one cell (one model on one benchmark) and derive its six indicators.

Analysis and calibration both call `measure`. An indicator has a p-value, or a reason why it was not
judged. This module does no I/O.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from audit.core.errors import DataError
from audit.judge.record import holm_rows
from audit.judging.ladder import Contrast, Guard
from audit.judging.result import Reason, because
from audit.memory.design import MemoryThresholds
from audit.memory.record import TEXT_SCORES, MemoryCell, ModelSet
from audit.statistics.between_models import one_family, predictive
from audit.statistics.completion import Auc, membership_auc
from audit.statistics.estimate import hull
from audit.statistics.fresh_gap import FreshGap, agreement, by_guessing, fresh_gap, unparsed_held
from audit.statistics.multiplicity import holm
from audit.statistics.order_test import N_RESAMPLES, OrderTest, order_test
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.priors import PRIORS
from audit.statistics.rasch import RaschGap, ability_gaps
from audit.statistics.set_difference import (
    SetDifference,
    Sets,
    apartness,
    as_guessed,
    beside,
    in_own_spread,
    set_difference,
)
from audit.statistics.unparsed import DECIDE_AT, GAMMAS
from audit.statistics.values import mean_of

PRIOR = PRIORS["held_out"]
_NOTHING = np.zeros(2)
# The normal quantile of a one-sided 95 % limit, divided by the normal quantile of a two-sided 95 %
# limit.
ONE_SIDED = 1.6449 / 1.96
# Least number of permutations in the test of matched items. Permutations are cheap here, and Holm's
# correction needs small p-values.
_DRAWS = 1999
# A reference is used only if its score exceeds chance by this number of standard errors. The
# answers of a model that guesses do not show how hard the items are.
_STANDARD_ERRORS = 2.0
# If the tested model's mean log-likelihood (nats a byte) is closer to zero than the best
# reference's by more than this share, the references do not bracket the tested model.
_MORE_LIKELY = 0.05
# If the tested model's accuracy on held-out items exceeds the best reference's by more than this
# difference (0-1), the references do not bracket the tested model.
_ABLER = 0.10
# Two sets count as equally easy to guess if their chances of a right guess differ by at most this.
_ALIKE = 0.01


class Name(StrEnum):
    """Name the six indicators: five concern the text of the items, and GAP concerns the score."""

    ORDER = "order"
    OPTIONS = "options"
    ITEM = "completion_item"
    HALF = "completion_half"
    WRONG = "completion_wrong"
    GAP = "gap"


COMPLETION = dict(zip((Name.ITEM, Name.HALF, Name.WRONG), TEXT_SCORES, strict=True))


@dataclass(frozen=True)
class Indicator:
    """Hold one indicator: a statistic of one cell that may be evidence of memory.

    Attributes
    ----------
    name : Name
        The indicator.
    pvalue : float or None
        One-sided p-value, the largest over all scales and controls. None if the indicator was not
        judged.
    adjusted : float or None
        The p-value after Holm's correction over the panel.
    estimate, low, high : float or None
        The effect in `unit` with its 95 % interval: the published items minus the comparison.
    unit : str
        Unit of the estimate.
    why : Reason or None
        The reason why the indicator was not judged.
    unguarded, unguarded_adjusted : float or None
        The p-values without the guards, before and after Holm's correction. A guard is a check that
        excludes a cause other than memory: references, a second scale, or unparsed answers. If only
        the p-values without guards are small, the cause is unknown.
    doubt : Reason or None
        A cause other than memory that is not excluded.
    """

    name: Name
    pvalue: float | None = None
    adjusted: float | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    why: Reason | None = None
    unguarded: float | None = None
    unguarded_adjusted: float | None = None
    doubt: Reason | None = None

    @property
    def judged(self) -> bool:
        """Return whether the indicator has a p-value."""
        return self.pvalue is not None

    def seen(self, alpha: float) -> bool:
        """Return whether the indicator is significant evidence of memory.

        Parameters
        ----------
        alpha : float
            Level of the test.

        Returns
        -------
        bool
            True if the adjusted p-value is at most alpha and the interval lies above zero.
        """
        return (
            self.adjusted is not None
            and self.adjusted <= alpha
            and self.low is not None
            and self.low > 0
        )

    def open(self, alpha: float) -> bool:
        """Return whether the indicator is significant, but a cause other than memory is not
        excluded.

        Parameters
        ----------
        alpha : float
            Level of the test.

        Returns
        -------
        bool
            True if the p-value without guards is at most alpha, and `doubt` names another cause.
        """
        alone = self.unguarded_adjusted
        return (
            alone is not None and alone <= alpha and self.doubt is not None and not self.seen(alpha)
        )

    def contrast(self, alpha: float) -> Contrast:
        """Return the indicator as a `Contrast` without bound and checks."""
        seen = self.seen(alpha)
        guard = Guard(self.doubt.code if self.doubt else "", excluded=seen)
        return Contrast(self.name, speaks=seen or self.open(alpha), guards=(guard,))


@dataclass(frozen=True)
class Ordered:
    """Hold the tests of whether the published order is likelier than other orders.

    The gain is the log-likelihood of the published order minus the mean of the other orders. If the
    published order has a meaning, its gain can be positive for any model. The tested model's gain
    is therefore also compared with the references' gain.

    Attributes
    ----------
    own : OrderTest
        Test of the tested model alone.
    beyond : OrderTest or None
        Test of the tested model's gain minus the references' mean gain; None without references.
    spread : SetDifference or None
        The test of `beyond`, with a standard error that includes how much the references differ.
        None with fewer than two references.
    own_spread : SetDifference or None
        The test of `spread` on another scale: the gains of each model are divided by the standard
        deviation of this model's log-likelihoods over the other orders.
    twice : SetDifference or None
        Test of the tested model's gain minus twice the references' mean gain, on the scale of
        `own_spread`. A model that is larger than its references may gain twice as much from a
        meaningful order.
    references : tuple of OrderTest
        Test of each reference.
    outside : Reason or None
        How the tested model exceeds all references; None if the references bracket the tested
        model.
    """

    own: OrderTest
    beyond: OrderTest | None
    spread: SetDifference | None
    own_spread: SetDifference | None
    twice: SetDifference | None
    references: tuple[OrderTest, ...]
    outside: Reason | None = None

    @property
    def unguarded(self) -> float:
        """Return the p-value without the guards against causes other than memory.

        Returns
        -------
        float
            The larger p-value of two tests: of the tested model's gain, and of this gain minus the
            references' mean gain. The p-value is 1 if the model does not differ from the
            references.

        Notes
        -----
        Both tests must reject (intersection-union test), since the content of a published order can
        make this order likelier to any model.
        """
        if self.beyond is None:
            return self.own.pvalue
        if np.isnan(self.beyond.pvalue):
            return 1.0
        return max(self.own.pvalue, self.beyond.pvalue, self.spread.pvalue if self.spread else 0.0)

    @property
    def pvalue(self) -> float | None:
        """Return the p-value that includes the guards.

        Returns
        -------
        float or None
            The largest p-value of the tests on both scales and of the test against twice the
            references' gain. The p-value is 1 if the references do not bracket the tested model. It
            is None without references, since a meaningful order is likelier to any model.
        """
        if self.beyond is None:
            return None
        guards = []
        for guard in (self.own_spread, self.twice):
            if guard is not None:
                guards.append(guard.pvalue)
        return 1.0 if self.outside else max([self.unguarded, *guards])

    @property
    def shown(self) -> OrderTest:
        """Return the test whose gain is reported.

        Returns
        -------
        OrderTest
            The test of the gain beyond the references, if this gain could be measured; otherwise
            the test of the tested model alone.
        """
        return self.own if self.beyond is None or np.isnan(self.beyond.pvalue) else self.beyond


@dataclass(frozen=True)
class Text:
    """Hold how much likelier published texts are than held-out texts, compared with the references.

    The difference is measured on two scales.

    The difference must be significant on both scales. If a model gives any text a higher likelihood
    than its references do, the difference in nats grows. The difference in units of the model's own
    standard deviation does not grow.

    Attributes
    ----------
    nats : SetDifference
        Difference in nats a byte.
    own_spread : SetDifference
        Difference in units of each model's standard deviation over the held-out items.
    """

    nats: SetDifference
    own_spread: SetDifference

    @property
    def pvalue(self) -> float:
        """Return the larger of the p-values on the two scales."""
        return max(self.nats.pvalue, self.own_spread.pvalue)


@dataclass(frozen=True)
class ImputedGap:
    """Hold the gap to held-out items with unparsed answers imputed at one odds ratio.

    Unparsed answers are imputed in two ways (`fresh_gap.unparsed_held`). The way that makes the gap
    small gives the p-value and the lower limit. The way that makes the gap large gives the upper
    limits. The estimate is the middle of both gaps, so it lies between the limits.

    Attributes
    ----------
    gamma : float
        Odds ratio of the imputation, between the benchmark and the held-out items.
    pvalue : float
        One-sided p-value of the gap.
    low, high : float
        Limits of the 95 % interval of the gap, as a difference in accuracy (0-1).
    upper : float
        One-sided 95 % upper limit of the gap.
    difference : float
        Estimate of the gap beyond the references' gap, in points of accuracy (0-1), over all items.
    """

    gamma: float
    pvalue: float
    low: float
    high: float
    upper: float = float("nan")
    difference: float = float("nan")


@dataclass(frozen=True)
class ReferenceGap:
    """Hold the gap of one reference minus the gap of the other references.

    Attributes
    ----------
    model : str
        Name of the reference.
    difference, low, high : float
        The difference between the two gaps, and its 95 % interval (accuracy 0-1).
    pvalue : float
        Two-sided p-value.
    """

    model: str
    difference: float
    low: float
    high: float
    pvalue: float


@dataclass(frozen=True)
class Evidence:
    """Hold all statistics of one cell. The gates, the decision and the report are based on these
    statistics.

    Attributes
    ----------
    order, options : Ordered or None
        Order tests of the items within shards, and of the options within items.
    fresh_order : Ordered or None
        Order test of the held-out items, as a control: no model can have learnt the order of these
        items.
    exchangeable : dict
        Map each measure of similarity between neighbouring items to a p-value. A small p-value
        means that the measure reveals the published order.
    completion : dict
        Map each text to the difference in its likelihood (`Text`); empty without references or
        held-out items.
    aucs : dict
        Map each token score to two AUCs for separating published from held-out items. The first
        uses the tested model's score, and the second this score minus the references' mean. No
        verdict depends on the AUCs.
    gap : FreshGap or None
        The gap to held-out items in points, over parsed answers.
    abilities : tuple of RaschGap
        The gap on scales of ability (`ability_gaps`).
    left_out : tuple of str
        References that are not used for the score because they are not above chance.
    indicators : tuple of Indicator
        The indicators, in the order of `Name`.
    held : tuple of ImputedGap
        The gap with unparsed answers imputed, for each odds ratio; empty if all answers were
        parsed.
    kind : Auc or None
        AUC of a classifier that separates the two sets of items by words alone.
    apart : tuple of ReferenceGap
        The gap of each reference against the other references.
    alike : float or None
        Probability that the references agree at least as well on two independently drawn sets as on
        these two sets (`fresh_gap.agreement`). None without references.
    outside : Reason or None
        How the tested model exceeds all references on held-out items; None if the references
        bracket the tested model.
    lucky : tuple of float
        Lowest and highest gap that could arise merely because guessing succeeds more or less often
        on held-out items than on the benchmark (`by_guessing`). The model is compared with the
        references' mean.
    unbracketed : tuple of float
        The two gaps of `lucky`, but the model is compared with the nearest reference. Both values
        are 0 if the model's score lies within the range of the references.
    same_chance : float or None
        The p-value of the gap after the held-out scores are adjusted to the benchmark's chance of a
        right guess (`as_guessed`). None if this chance is the same on both sets.
    """

    order: Ordered | None
    options: Ordered | None
    fresh_order: Ordered | None
    exchangeable: dict[str, float]
    completion: dict[Name, Text]
    aucs: dict[str, tuple[Auc, Auc | None]]
    gap: FreshGap | None
    abilities: tuple[RaschGap, ...]
    left_out: tuple[str, ...]
    indicators: tuple[Indicator, ...]
    held: tuple[ImputedGap, ...] = ()
    kind: Auc | None = None
    apart: tuple[ReferenceGap, ...] = ()
    alike: float | None = None
    outside: Reason | None = None
    lucky: tuple[float, float] = (0.0, 0.0)
    unbracketed: tuple[float, float] = (0.0, 0.0)
    same_chance: float | None = None

    def indicator(self, name: Name) -> Indicator:
        """Return the indicator with a given name.

        Parameters
        ----------
        name : Name
            The name.

        Returns
        -------
        Indicator
            The indicator. If it was not measured, it has no numbers.
        """
        for indicator in self.indicators:
            if indicator.name == name:
                return indicator
        return Indicator(name)

    def upper(self, gamma: float = DECIDE_AT) -> float:
        """Return the one-sided 95 % upper limit of the gap: the largest limit of all scales.

        Parameters
        ----------
        gamma : float
            Odds ratio at which unparsed answers are imputed.

        Returns
        -------
        float
            The limit, accuracy 0-1; NaN without a gap.
        """
        if self.gap is None:
            return float("nan")
        imputed = self._imputed(gamma)
        upper = upper_limit(self.gap, self.abilities) if imputed is None else imputed.upper
        return upper - self.unbracketed[0]

    @property
    def difference(self) -> float:
        """Return the gap beyond the references' gap (0-1), to which `limits` belongs.

        Returns
        -------
        float
            The gap in points over all items, with unparsed answers imputed; NaN without a gap.
            The gap `gap.did` leaves out each item for which any model has no answer.
        """
        if self.gap is None:
            return float("nan")
        imputed = self._imputed(DECIDE_AT)
        return self.gap.did.difference if imputed is None else imputed.difference

    def limits(self, gamma: float = DECIDE_AT) -> tuple[float, float, float]:
        """Return the p-value and the 95 % limits of the gap over all scales.

        Parameters
        ----------
        gamma : float
            Odds ratio at which unparsed answers are imputed. If no answers were imputed at this
            ratio, the result is that of the parsed answers.

        Returns
        -------
        tuple of float
            p-value, lower limit and upper limit of the gap; NaN without a gap.
        """
        if self.gap is None:
            return float("nan"), float("nan"), float("nan")
        imputed = self._imputed(gamma)
        if imputed is None:
            return on_all_scales(self.gap, self.abilities)
        return imputed.pvalue, imputed.low, imputed.high

    @property
    def favours_held_out(self) -> bool:
        """Return whether the gap is below zero by more than chance (95 %) on every scale.

        Such a result can hide a gap. It has two possible causes: the held-out items suit this model
        better, or the model has learnt the held-out items.
        """
        return self.limits()[2] < 0

    def _imputed(self, gamma: float) -> ImputedGap | None:
        for imputed in self.held:
            if imputed.gamma == gamma:
                return imputed
        return None


def upper_limit(points: FreshGap, abilities: Sequence[RaschGap]) -> float:
    """Return the one-sided 95 % upper limit of a gap: the largest limit of all scales.

    Parameters
    ----------
    points : FreshGap
        The gap in points.
    abilities : sequence of RaschGap
        The gap on scales of ability.

    Returns
    -------
    float
        The limit, accuracy 0-1; NaN if the limit on one scale is NaN.

    Notes
    -----
    On each scale, the limit is

        estimate + c * (two-sided 95 % limit - estimate),

    where c is the ratio of the normal quantiles for a one-sided and a two-sided 95 % limit. If the
    error has heavier tails (Student's t, between models), the exact ratio is smaller, so this limit
    is never too low.
    """
    estimate = np.array([points.did.difference, *(ability.gap for ability in abilities)])
    high = np.array([points.high, *(ability.gap_high for ability in abilities)])
    return float((estimate + ONE_SIDED * (high - estimate)).max())


def correct(panel: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Adjust the p-values of all judged indicators of all cells together by Holm's procedure.

    Parameters
    ----------
    panel : sequence of Evidence
        The evidence of each cell.

    Returns
    -------
    tuple of Evidence
        The same evidence with adjusted p-values.
    """
    pvalues, unguarded_pvalues = [], []
    for e in panel:
        pvalues.append([indicator.pvalue for indicator in e.indicators])
        unguarded_pvalues.append([indicator.unguarded for indicator in e.indicators])
    return tuple(map(with_adjusted, panel, holm_rows(pvalues), holm_rows(unguarded_pvalues)))


def with_adjusted(
    e: Evidence, adjusted: Sequence[float | None], unguarded: Sequence[float | None]
) -> Evidence:
    """Return a copy of the evidence of a cell, with adjusted p-values.

    Parameters
    ----------
    e : Evidence
        The evidence.
    adjusted, unguarded : sequence of float or None
        Adjusted p-values with and without the guards, in the order of the indicators.

    Returns
    -------
    Evidence
        The copy.
    """
    corrected = []
    for indicator, p, q in zip(e.indicators, adjusted, unguarded, strict=True):
        corrected.append(replace(indicator, adjusted=p, unguarded_adjusted=q))
    return replace(e, indicators=tuple(corrected))


def unmatched(e: Evidence, limits: MemoryThresholds) -> bool:
    """Return whether the difficulty of the held-out items differs so much that the gap cannot be
    judged.

    Parameters
    ----------
    e : Evidence
        The gap on all scales.
    limits : MemoryThresholds
        The levels and the least share of matched items.

    Returns
    -------
    bool
        False without a gap.

    Notes
    -----
    Held-out items are often newer, and therefore harder for every model. One scale assumes that all
    models lose the same number of points, and another that all models lose the same ability. The
    gap is judged on all scales, except in two cases:

    - The two sets are not equally hard for the references, and the scales disagree about
      significance.
    - Too few items of the benchmark have a held-out item of equal difficulty.
    """
    gap = e.gap
    if gap is None or gap.matched is None or gap.reference_pvalue is None:
        return False
    if gap.matched.share < limits.matched_share_min:
        return True
    level = limits.alpha / len(Name)
    significant = {gap.pvalue <= level}
    for ability in e.abilities:
        significant.add(ability.pvalue <= level)
    return gap.reference_pvalue <= limits.matched_alpha and len(significant) > 1


def selected(alike: float | None, limits: MemoryThresholds) -> bool:
    """Return whether the held-out items seem to have been chosen by the references' answers.

    Parameters
    ----------
    alike : float or None
        The probability `Evidence.alike`; None without references.
    limits : MemoryThresholds
        The level.

    Returns
    -------
    bool
        True if the references agree significantly better on both sets than on independently drawn
        items.
    """
    return alike is not None and alike <= limits.drawn_alpha


def of_another_kind(kind: Auc | None, limits: MemoryThresholds) -> bool:
    """Return whether words alone separate the two sets of items.

    If so, the sets differ by more than what the model remembers.

    Parameters
    ----------
    kind : Auc or None
        AUC of a classifier that sees only the words.
    limits : MemoryThresholds
        The largest AUC that is allowed.

    Returns
    -------
    bool
        True if the lower limit of the AUC exceeds the threshold.
    """
    return kind is not None and kind.low > limits.kind_auc_max


def on_all_scales(points: FreshGap, abilities: Sequence[RaschGap]) -> tuple[float, float, float]:
    """Combine the results on all scales into one p-value and one interval of the gap.

    Parameters
    ----------
    points : FreshGap
        The gap in points.
    abilities : sequence of RaschGap
        The gap on scales of ability.

    Returns
    -------
    tuple of float
        The largest p-value, and the limits of the smallest interval that contains the intervals of
        all scales (accuracy 0-1).
    """
    on_abilities = [(ability.pvalue, ability.gap_low, ability.gap_high) for ability in abilities]
    return hull([(points.pvalue, points.low, points.high), *on_abilities])


def contaminated(evidence: Evidence, alpha: float) -> tuple[ReferenceGap, ...]:
    """Return the references that may have learnt the benchmark.

    Parameters
    ----------
    evidence : Evidence
        The gap of each reference.
    alpha : float
        Level of Holm's correction over the references.

    Returns
    -------
    tuple of ReferenceGap
        References whose gap is significantly larger than that of the other references.
    """
    if not evidence.apart:
        return ()
    adjusted = holm([reference.pvalue for reference in evidence.apart]).tolist()
    pairs = zip(evidence.apart, adjusted, strict=True)
    apart = []
    for reference, p in pairs:
        if p <= alpha and reference.difference > 0:
            apart.append(reference)
    return tuple(apart)


def words_reveal_order(evidence: Evidence, limits: MemoryThresholds) -> bool:
    """Return whether the words or lengths of neighbouring items reveal the published order.

    Parameters
    ----------
    evidence : Evidence
        Statistics of the cell, with the p-value of each measure of similarity.
    limits : MemoryThresholds
        The level, with Bonferroni's correction over the measures.

    Returns
    -------
    bool
        False if no measure has a p-value.
    """
    pvalues = []
    for p in evidence.exchangeable.values():
        if not np.isnan(p):
            pvalues.append(p)
    return bool(pvalues) and min(pvalues) * len(pvalues) <= limits.exchangeable_alpha


def measure(
    cell: MemoryCell,
    limits: MemoryThresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    gammas: Sequence[float] = GAMMAS,
    describe: bool = True,
) -> Evidence:
    """Measure all statistics of one cell.

    Parameters
    ----------
    cell : MemoryCell
        The answers and likelihoods.
    limits : MemoryThresholds
        Thresholds of the memory audit.
    rng : numpy.random.Generator
        Source of the permutations.
    n_resamples : int
        Permutations of each order test.
    gammas : sequence of float
        Odds ratios at which unparsed answers are imputed. DECIDE_AT is always added.
    describe : bool
        Whether to also measure statistics on which no verdict depends.

    Returns
    -------
    Evidence
        The statistics. The p-values are not yet corrected over the panel.
    """
    own, own_fresh = cell.tested
    references = [reference for reference, _ in cell.references]
    on_both = _on_both_sets(cell.references)
    outside = _outside(cell)

    def ordered(
        x: FloatArray, theirs: Sequence[FloatArray], outside: Reason | None
    ) -> Ordered | None:
        return _ordered(x, theirs, rng, n_resamples, outside, describe)

    order = ordered(own.order, [r.order for r in references], outside)
    options = ordered(own.options, [r.options for r in references], outside)
    fresh_order = None
    if own_fresh is not None:
        fresh_order = ordered(own_fresh.order, [b.order for _, b in on_both], None)
    exchangeable = {}
    for name, values in cell.published.neighbours.items():
        if values.shape[1] > 1:
            exchangeable[name] = order_test(values, rng=rng, n_resamples=n_resamples).pvalue
    kept, left_out = _above_guessing(cell)
    gap, abilities, held = _gap(cell, kept, limits, sorted({*gammas, DECIDE_AT}), rng, n_resamples)
    lucky, unbracketed = _lucky(kept, cell.chance[1])
    evidence = Evidence(
        order=order,
        options=options,
        fresh_order=fresh_order,
        exchangeable=exchangeable,
        completion=_completions(cell),
        aucs=_aucs(cell),
        gap=gap,
        abilities=abilities,
        left_out=left_out,
        indicators=(),
        held=held,
        kind=cell.kind,
        apart=_apart(kept[1:], _clusters(cell)) if gap is not None and describe else (),
        alike=agreement(score_pairs(on_both)) if on_both else None,
        outside=outside,
        lucky=lucky,
        unbracketed=unbracketed,
        same_chance=None if gap is None else _same_chance(cell, kept),
    )
    return replace(evidence, indicators=indicators(cell, evidence, limits))


def _on_both_sets(
    models: Sequence[tuple[ModelSet, ModelSet | None]],
) -> list[tuple[ModelSet, ModelSet]]:
    """Return the models that have answers on the benchmark and on the held-out items."""
    pairs = []
    for published, fresh in models:
        if fresh is not None:
            pairs.append((published, fresh))
    return pairs


def score_pairs(models: Sequence[tuple[ModelSet, ModelSet]]) -> list[Sets]:
    """Return the scores of each model on both sets of items.

    Parameters
    ----------
    models : sequence of (ModelSet, ModelSet)
        For each model, its results on the benchmark and on the held-out items.

    Returns
    -------
    list of Sets
        The scores on the benchmark and on the held-out items.
    """
    return [(published.score, fresh.score) for published, fresh in models]


def _completions(cell: MemoryCell) -> dict[Name, Text]:
    """Map each indicator to the likelihood of its text, compared with the references (`Text`)."""
    completion: dict[Name, Text] = {}
    if not cell.references or cell.fresh is None:
        return completion
    for indicator, text in COMPLETION.items():
        compared = text_of(cell, text)
        if compared is not None:
            completion[indicator] = compared
    return completion


def chances_differ(cell: MemoryCell) -> bool:
    """Return whether guessing succeeds more often on one set of items than on the other.

    Parameters
    ----------
    cell : MemoryCell
        The items of both sets with their numbers of options.

    Returns
    -------
    bool
        False without held-out items.
    """
    return cell.fresh is not None and abs(cell.chance[0] - cell.chance[1]) > _ALIKE


def _same_chance(cell: MemoryCell, models: Sequence[tuple[ModelSet, ModelSet]]) -> float | None:
    """Return the p-value of the gap if guessing were equally successful on both sets."""
    if len(models) < 2 or not chances_differ(cell):
        return None
    tested, *references = [as_guessed(pair, cell.chance) for pair in score_pairs(models)]
    did = set_difference(tested, references, _clusters(cell))
    parts = did.items_se, did.items_df, did.spread, did.sampling
    return predictive(did.difference, *parts, len(references), PRIOR).pvalue


def _lucky(
    models: Sequence[tuple[ModelSet, ModelSet]], chance: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return the gaps that could arise merely from guessing (`Evidence.lucky` and
    `Evidence.unbracketed`).
    """
    own, *others = (mean_of(fresh.score) for _, fresh in models) if models else [float("nan")]
    if not others or np.isnan([own, *others]).any():
        return (0.0, 0.0), (0.0, 0.0)
    beyond = own - float(np.clip(own, min(others), max(others)))
    return by_guessing(own - float(np.mean(others)), chance), by_guessing(beyond, chance)


def _outside(cell: MemoryCell) -> Reason | None:
    """Return how the tested model exceeds all references on the held-out items; None if it does not
    exceed them.

    A larger model may gain more from a meaningful order or a popular text. The tested model may be
    larger than its references in two cases: if its likelihoods of held-out texts are higher than
    every reference's, or if it answers more held-out items right than every reference.
    """
    if not cell.references:
        return None
    texts, scores = [], []
    for _, fresh in _on_both_sets((cell.tested, *cell.references)):
        texts.append(mean_of(fresh.texts["item"]))
        scores.append(mean_of(fresh.score))
    if len(texts) < 2:
        return because("no_bracket")
    if texts[0] < 0 and texts[0] > (1 - _MORE_LIKELY) * max(texts[1:]):
        return because("any_text_likelier")
    return because("abler") if scores[0] > max(scores[1:]) + _ABLER else None


def _ordered(
    own: FloatArray,
    references: Sequence[FloatArray],
    rng: np.random.Generator,
    n_resamples: int,
    outside: Reason | None,
    describe: bool,
) -> Ordered | None:
    """Return the tests of the order of items in shards, or of options in items. None if only the
    published order was sent.
    """
    if own.shape[1] < 2 or np.isnan(own[:, 0]).all():
        return None
    alone = order_test(own, rng=rng, n_resamples=n_resamples)
    beyond = spread = own_spread = twice = None
    if references:
        beyond = order_test(own - np.mean(references, axis=0), rng=rng, n_resamples=n_resamples)
        if beyond.units > 1:
            unit, theirs = _in_own_unit(own), list(map(_in_own_unit, references))
            # The unit is NaN if there is a single other order, since one value has no spread.
            known = not any(np.isnan(r).all() for r in (unit, *theirs))
            twice = _beyond(unit, [2 * r for r in theirs]) if known else None
            if len(references) > 1:
                spread = _beyond(_gains(own), list(map(_gains, references)))
                own_spread = _beyond(unit, theirs) if known else None
    tests = tuple(order_test(r, rng=rng, n_resamples=0) for r in references) if describe else ()
    return Ordered(alone, beyond, spread, own_spread, twice, tests, outside)


def _beyond(own: FloatArray, references: Sequence[FloatArray]) -> SetDifference:
    """Test whether the tested model's mean gain (over shards or items) exceeds the references' mean
    gain.
    """
    return set_difference((own, _NOTHING), [(r, _NOTHING) for r in references])


def _gains(x: FloatArray) -> FloatArray:
    """Return the gain of each unit (shard or item).

    The gain is the log-likelihood of the published order minus the mean of the other orders. It is
    NaN if the published order or all other orders are missing.
    """
    return x[:, 0] - np.ma.masked_invalid(x[:, 1:]).mean(axis=1).filled(np.nan)


def _in_own_unit(x: FloatArray) -> FloatArray:
    """Return the gain of each unit (shard or item), divided by the model's standard deviation over
    other orders.
    """
    others = np.ma.masked_invalid(x[:, 1:])
    free = np.maximum(others.count(axis=1) - 1, 0).sum()
    squares = float(np.sum(others.anom(axis=1).filled(0.0) ** 2))
    return _gains(x) / np.sqrt(squares / free) if free and squares > 0 else np.full(len(x), np.nan)


def _clusters(cell: MemoryCell) -> tuple[IntArray, IntArray]:
    return cell.published.cluster, cell.fresh.cluster if cell.fresh else cell.published.cluster


def likelihoods(
    cell: MemoryCell, models: Sequence[tuple[ModelSet, ModelSet | None]], text: str
) -> list[Sets]:
    """Return the log-likelihoods of one text for each model that has held-out items.

    Parameters
    ----------
    cell : MemoryCell
        The cell, whose sets hold the lengths of the texts.
    models : sequence of (ModelSet, ModelSet or None)
        Each model on both sets.
    text : str
        Name of the text, one of `TEXT_SCORES`.

    Returns
    -------
    list of Sets
        For each model, the log-likelihoods on both sets in nats a byte. If the lengths of the texts
        are known, the effect of length is removed by regression (`beside`).
    """
    sides: list[Sets] = []
    for a, b in _on_both_sets(models):
        sides.append((a.texts[text], b.texts[text]))
    if cell.fresh and cell.published.log_length is not None and cell.fresh.log_length is not None:
        sides = [beside(side, (cell.published.log_length, cell.fresh.log_length)) for side in sides]
    return sides


def text_of(cell: MemoryCell, text: str) -> Text | None:
    """Compare the likelihood of one text between the tested model and its references, on two
    scales.

    Parameters
    ----------
    cell : MemoryCell
        The tested model and its references.
    text : str
        Name of the text, one of `TEXT_SCORES`.

    Returns
    -------
    Text or None
        The comparison; None if a set has fewer than two items with this text.
    """
    sides, clusters = likelihoods(cell, (cell.tested, *cell.references), text), _clusters(cell)
    try:
        nats = set_difference(sides[0], sides[1:], clusters)
        scaled = list(map(in_own_spread, sides))
        apart = apartness(scaled[0], scaled[1:])
        return Text(nats, set_difference(scaled[0], scaled[1:], clusters, apart=apart))
    except DataError:
        return None  # A set has fewer than two items with this text. The indicator states this.


def _above_guessing(cell: MemoryCell) -> tuple[list[tuple[ModelSet, ModelSet]], tuple[str, ...]]:
    """Return the tested model and the references above chance, and the names of the references that
    are not above chance.
    """
    models = _on_both_sets((cell.tested, *cell.references))
    if cell.fresh is None or not models:
        return [], ()
    chance = float(np.average(cell.chance, weights=(cell.published.n, cell.fresh.n)))
    kept, left_out = models[:1], models[:0]
    for a, b in models[1:]:
        values = np.concatenate([a.score, b.score])
        values = values[~np.isnan(values)]
        se = np.sqrt(max(chance * (1 - chance), 1e-12) / max(values.size, 1))
        able = values.size and values.mean() > chance + _STANDARD_ERRORS * se
        (kept if able else left_out).append((a, b))
    return kept, tuple(a.model for a, _ in left_out)


def _gap(
    cell: MemoryCell,
    models: Sequence[tuple[ModelSet, ModelSet]],
    limits: MemoryThresholds,
    gammas: Sequence[float],
    rng: np.random.Generator,
    n_resamples: int,
) -> tuple[FreshGap | None, tuple[RaschGap, ...], tuple[ImputedGap, ...]]:
    """Return three results: the gap of parsed answers in points, this gap on scales of ability, and
    the gaps with unparsed answers imputed.
    """

    def judged(scores: Sequence[Sets], heights: Sequence[FloatArray] | None = None) -> FreshGap:
        return fresh_gap(
            scores[0],
            scores[1:],
            clusters,
            rng=rng,
            alpha=limits.alpha / len(Name),
            power=limits.power,
            n_resamples=max(n_resamples, _DRAWS),
            heights=heights,
            prior=PRIOR,
        )

    def able(scores: Sequence[Sets]) -> tuple[RaschGap, ...]:
        return (
            ability_gaps(scores[0], scores[1:], clusters, prior=PRIOR, chance=cell.chance)
            if len(scores) > 1
            else ()
        )

    if cell.fresh is None:
        return None, (), ()
    clusters = _clusters(cell)
    scores = score_pairs(models)
    unparsed = [(a.unread, b.unread) for a, b in models]
    try:
        gap, abilities = judged(scores), able(scores)
    except DataError:
        return None, (), ()  # A set has fewer than two parsed items. The gates state this.
    if not any(a.any() or b.any() for a, b in unparsed):
        return gap, abilities, ()

    def imputed(gamma: float, *, against: bool) -> tuple[FreshGap, tuple[RaschGap, ...]]:
        values, heights = unparsed_held(scores, unparsed, gamma, against=against)
        return judged(values, heights), able(values)

    held = []
    for gamma in gammas:
        against, favour = imputed(gamma, against=True), imputed(gamma, against=False)
        pvalue, low, _ = on_all_scales(*against)
        middle = (against[0].did.difference + favour[0].did.difference) / 2
        high, upper = on_all_scales(*favour)[2], upper_limit(*favour)
        held.append(ImputedGap(gamma, pvalue, low, high, upper, middle))
    return gap, abilities, tuple(held)


def _apart(
    references: Sequence[tuple[ModelSet, ModelSet]], clusters: tuple[IntArray, IntArray]
) -> tuple[ReferenceGap, ...]:
    """Return the gap of each reference minus that of the other references; empty with fewer than
    three references.
    """
    if len(references) < 3:
        return ()
    gaps, sets = [], score_pairs(references)
    for k, (reference, _) in enumerate(references):
        rest = [*sets[:k], *sets[k + 1 :]]
        gap = fresh_gap(
            sets[k], rest, clusters, rng=np.random.default_rng(0), n_resamples=1, prior=PRIOR
        )
        above = gap.did.pvalue if gap.predicted is None else gap.predicted.pvalue
        two_sided = min(1.0, 2 * min(above, 1 - above))
        gaps.append(ReferenceGap(reference.model, gap.did.difference, gap.low, gap.high, two_sided))
    return tuple(gaps)


def _aucs(cell: MemoryCell) -> dict[str, tuple[Auc, Auc | None]]:
    """Return how well each token score separates the published from the held-out items."""
    own, fresh = cell.tested
    if fresh is None:
        return {}
    aucs: dict[str, tuple[Auc, Auc | None]] = {}
    pairs = _on_both_sets(cell.references)
    for name in own.tokens:
        x, y = own.tokens[name], fresh.tokens[name]
        if min(np.count_nonzero(~np.isnan(x)), np.count_nonzero(~np.isnan(y))) < 2:
            continue
        beyond = None
        if pairs:
            published_mean = np.mean([a.tokens[name] for a, _ in pairs], axis=0)
            fresh_mean = np.mean([b.tokens[name] for _, b in pairs], axis=0)
            beyond = membership_auc(x - published_mean, y - fresh_mean, _clusters(cell))
        aucs[name] = (membership_auc(x, y, _clusters(cell)), beyond)
    return aucs


def indicators(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> tuple[Indicator, ...]:
    """Return all six indicators of a cell.

    Parameters
    ----------
    cell : MemoryCell
        Measured results of the tested model and its references.
    e : Evidence
        Statistics of the cell.
    limits : MemoryThresholds
        Thresholds of the memory audit.

    Returns
    -------
    tuple of Indicator
        The indicators in the order of `Name`, before p-values are corrected over the panel.
    """
    measured = [_order(cell, e, limits), _options(cell, e, limits)]
    for name in COMPLETION:
        measured.append(_completion(cell, e, name, limits))
    measured.append(_gap_indicator(cell, e, limits))
    for k, indicator in enumerate(measured):
        doubt = _doubt(cell, indicator.name) if indicator.judged else None
        if doubt:
            measured[k] = replace(indicator, pvalue=1.0, unguarded=indicator.pvalue, doubt=doubt)
    return tuple(measured)


def _doubt(cell: MemoryCell, name: Name) -> Reason | None:
    """Return another cause that the families or dates of the models leave open; None if no cause
    is left open.
    """
    exact = cell.recorded and name in (Name.ORDER, Name.OPTIONS)
    # For imported logs, no option exists to state a family.
    options = not cell.log_checks
    family = family_doubt(cell.model, cell.reference_names, cell.families, options=options)
    if family is not None and not exact:
        return family
    if cell.undated and name == Name.GAP:
        return because("undated", missing=list(cell.undated))
    return None


def family_doubt(
    tested: str, references: Sequence[str], families: Mapping[str, str], *, options: bool
) -> Reason | None:
    """Return a doubt if all references are of one model family and the tested model is of another.

    Parameters
    ----------
    tested : str
        Name of the tested model.
    references : sequence of str
        Names of the references.
    families : mapping of str to str
        The stated family of each model.
    options : bool
        Whether the user can state a family with model.NAME.family=.

    Returns
    -------
    Reason or None
        The doubt. Its numbers are the family, whether all families are stated and, if not, two
        references whose families can be stated. None if there is no such doubt.

    Notes
    -----
    Fine-tuned versions of one base model resemble each other, so such references understate how
    much models differ.
    """
    family = one_family(tested, references, families)
    if not family:
        return None
    stated = all(name in families for name in references)
    named = list(references[:2]) if options and not stated else []
    return because("one_family", family=family, references=named, stated=stated)


def _order(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Indicator:
    """Return the indicator for the order of the items within shards."""
    name, least = Name.ORDER, limits.shards_min
    if e.order is None:
        return Indicator(name, why=because("no_other_order"))
    shards = e.order.own.units
    if shards < least:
        return Indicator(name, why=because("few_shards", shards=shards, least=least))
    if not cell.recorded:
        read = _read_by_all([model.order for model, _ in (cell.tested, *cell.references)])
        if read < least:
            return Indicator(name, why=because("few_shards_read", shards=read, least=least))
        if e.order.beyond is None and words_reveal_order(e, limits):
            return Indicator(name, why=because("words_tell_order"))
        if e.fresh_order is not None and e.fresh_order.unguarded <= limits.matched_alpha:
            return Indicator(name, why=because("held_out_order_likelier"))
    return _order_indicator(name, e.order, "nats a shard", recorded=cell.recorded)


def _options(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Indicator:
    """Return the indicator for the order of the options within items."""
    name, least, items = Name.OPTIONS, limits.items_min, e.options.own.units if e.options else 0
    if e.options is None or items < least:
        return Indicator(name, why=because("few_orders", items=items, least=least))
    read = _read_by_all([model.options for model, _ in (cell.tested, *cell.references)])
    if read < least and not cell.recorded:
        return Indicator(name, why=because("few_orders_read", items=read, least=least))
    return _order_indicator(name, e.options, "nats an item", recorded=cell.recorded)


def _order_indicator(name: Name, ordered: Ordered, unit: str, *, recorded: bool) -> Indicator:
    """Return the indicator that an order test gives."""
    own, shown, p = ordered.own, ordered.shown, ordered.pvalue
    if recorded:  # The order was drawn at random and has no meaning, so no guard is needed.
        return Indicator(
            name, own.pvalue, None, own.gain, own.low, own.high, unit, unguarded=own.pvalue
        )
    if ordered.beyond is not None and ordered.beyond.units > 1 and ordered.twice is None:
        return Indicator(name, why=because("one_other_order"))
    alone = because("no_reference") if p is None else None
    return Indicator(
        name,
        p,
        None,
        shown.gain,
        shown.low,
        shown.high,
        unit,
        why=alone,
        unguarded=ordered.unguarded,
        doubt=alone or ordered.outside or because("references_feel_it"),
    )


def _read_by_all(orders: Sequence[FloatArray]) -> int:
    """Return the number of units for which every model has a likelihood of the published order and
    of another order.

    If this number is 0, a gain beyond the references cannot be measured, although it may exist.
    """
    known = ~np.isnan(np.sum(orders, axis=0))
    return int(np.sum(known[:, 0] & known[:, 1:].any(axis=1)))


def _completion(cell: MemoryCell, e: Evidence, name: Name, limits: MemoryThresholds) -> Indicator:
    """Return the indicator for the likelihood of one text."""
    why = _no_comparison(cell, e, limits)
    text = e.completion.get(name)
    if why or text is None:
        return Indicator(name, why=why or because("few_with_text"))
    nats, scale = text.nats, 1 / np.log(2)
    few = _few(nats, limits)
    if few:
        return Indicator(name, why=few)
    return Indicator(
        name,
        1.0 if e.outside else text.pvalue,
        None,
        scale * nats.difference,
        scale * nats.low,
        scale * nats.high,
        "bits a byte",
        # If there is no effect in units of the model's own standard deviation, the difference in
        # nats only shows that any text is likelier to this model.
        unguarded=nats.pvalue if text.own_spread.pvalue <= limits.alpha else None,
        doubt=e.outside or because("own_scale"),
    )


def _gap_indicator(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Indicator:
    """Return the indicator for the gap between the scores on published and held-out items."""
    why = _no_comparison(cell, e, limits)
    if why or e.gap is None:
        return Indicator(Name.GAP, why=why or because("few_answered"))
    did, least = e.gap.did, limits.references_min
    if e.gap.matched is None:
        why = because("references_guess")
    elif len(did.gaps) < least:
        why = because("few_able_references", references=len(did.gaps), least=least)
    why = why or _few(did, limits)
    if why:
        return Indicator(Name.GAP, why=why)
    pvalue, low, high = e.limits()
    as_parsed = on_all_scales(e.gap, e.abilities)[0]
    doubt = because("ability_scale" if as_parsed > limits.alpha / len(Name) else "unparsed")
    # If different numbers of options can explain the gap, the cause of the gap is known.
    unguarded = max(e.gap.pvalue, e.same_chance or 0.0)
    if 0 < low <= e.lucky[1]:
        pvalue, doubt = 1.0, because("guessing_rate", gap=e.lucky[1])
    return Indicator(
        Name.GAP,
        pvalue,
        None,
        100 * e.difference,
        100 * low,
        100 * high,
        "points of accuracy",
        unguarded=unguarded,
        doubt=doubt,
    )


def _few(difference: SetDifference, limits: MemoryThresholds) -> Reason | None:
    """Return a reason if a set has too few items; None if both sets have enough items."""
    if min(difference.n, difference.m) >= limits.items_min:
        return None
    return because("few_items", items=difference.n, held_out=difference.m, least=limits.items_min)


def _no_comparison(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Reason | None:
    """Return why the published and held-out items cannot be compared; None if a comparison is
    possible.
    """
    references = len(cell.references)
    if cell.fresh is None:
        return because("needs_held_out" if references else "needs_both")
    if not references:
        return because("needs_references")
    if references < limits.references_min:
        return because("few_references", references=references, least=limits.references_min)
    if unmatched(e, limits):
        return because("not_as_hard")
    if selected(e.alike, limits):
        return because("chosen")
    return because("another_kind") if of_another_kind(e.kind, limits) else None
