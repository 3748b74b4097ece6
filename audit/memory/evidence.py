"""Measure the statistics that a verdict on one cell rests on, and make the indicators from them.
Pure.

An indicator has its p on every scale, or the reason why it was not judged. Analysis and calibration
call `measure`.
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
# Normal quantile of a one-sided 95 % limit, divided by that of a two-sided one.
ONE_SIDED = 1.6449 / 1.96
# Fewest permutations in the test of matched items; they are cheap, and Holm's correction needs a
# small p.
_DRAWS = 1999
_STANDARD_ERRORS = (
    # Standard errors by which a reference's score must exceed chance, as guesses show no
    # difficulty.
    2.0
)
_MORE_LIKELY = (
    # If texts are likelier to the model than to the best reference by this the share of nats a byte,
    # references do not bracket it.
    0.05
)
_ABLER = (
    # If held-out accuracy exceeds the best reference's by more, the references do not bracket the
    # model.
    0.10
)
_ALIKE = 0.01  # largest difference between the chances of two sets that count as guessed alike


class Name(StrEnum):
    """Name the indicators: the first five are of the text, the last of the score."""

    ORDER = "order"
    OPTIONS = "options"
    ITEM = "completion_item"
    HALF = "completion_half"
    WRONG = "completion_wrong"
    GAP = "gap"


COMPLETION = dict(zip((Name.ITEM, Name.HALF, Name.WRONG), TEXT_SCORES, strict=True))


@dataclass(frozen=True)
class Indicator:
    """One indicator of one cell.

    pvalue: one-sided, at its own level, on every scale and against every control that it has.
    adjusted: the same after Holm over the panel. Both are None if it was not judged; why then
    states what is missing.

    unguarded, unguarded_adjusted: p without the guards against another cause than memory
    (references, a second scale, unparsed answers). If only this p is small, the cause is unknown,
    and doubt names the other cause. estimate, low, high: excess of the published items, in `unit`,
    with a 95 % interval.
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
        """Return whether the indicator has a p."""
        return self.pvalue is not None

    def seen(self, alpha: float) -> bool:
        """Return whether it speaks for memory after the panel's correction, with an interval above
        zero.
        """
        return (
            self.adjusted is not None
            and self.adjusted <= alpha
            and self.low is not None
            and self.low > 0
        )

    def open(self, alpha: float) -> bool:
        """Return whether it would speak if another cause were excluded (`doubt`)."""
        alone = self.unguarded_adjusted
        return (
            alone is not None and alone <= alpha and self.doubt is not None and not self.seen(alpha)
        )

    def contrast(self, alpha: float) -> Contrast:
        """Return the indicator as a contrast of the ladder, without bound and checks."""
        seen = self.seen(alpha)
        guard = Guard(self.doubt.code if self.doubt else "", excluded=seen)
        return Contrast(self.name, speaks=seen or self.open(alpha), guards=(guard,))


@dataclass(frozen=True)
class Ordered:
    """An order test of the tested model, of its gain beyond its references' mean, and of each
    reference.

    spread: from two references on, the mean gain beyond theirs, whose spread is in the error, as a
    meaningful order may be worth more to some models. own_spread: the same with gains in units of
    each model's own spread over the other orders. twice: the gain beyond twice the references'
    mean, in that unit, as a larger model may gain that much more from a meaningful order. outside:
    how the references fail to bracket the tested model; None if they bracket it.
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
        """Return p of the model's own gain and of its gain beyond the references, which both must
        be small.

        The content of a published order can make it likelier to any model (an intersection-union
        test). If the model does not differ from the references at all, p is 1.
        """
        if self.beyond is None:
            return self.own.pvalue
        if np.isnan(self.beyond.pvalue):
            return 1.0
        return max(self.own.pvalue, self.beyond.pvalue, self.spread.pvalue if self.spread else 0.0)

    @property
    def pvalue(self) -> float | None:
        """Return p on both scales and beyond twice the references' gain.

        It is 1 if the references do not bracket the tested model. It is None without references, as
        a meaningful order is likelier to any model.
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
        """Return the test whose gain is quoted: the gain beyond the references if it could be
        measured.
        """
        return self.own if self.beyond is None or np.isnan(self.beyond.pvalue) else self.beyond


@dataclass(frozen=True)
class Text:
    """A likelihood's difference in differences on two scales, both of which must speak.

    nats: nats a byte. own_spread: units of each model's own spread over the held-out items. A model
    that finds any text likelier than its references do has more nats, but not more of its own
    spread.
    """

    nats: SetDifference
    own_spread: SetDifference

    @property
    def pvalue(self) -> float:
        """Return the larger of both p-values."""
        return max(self.nats.pvalue, self.own_spread.pvalue)


@dataclass(frozen=True)
class ImputedGap:
    """The gap with unparsed answers imputed at odds ratio gamma (`fresh_gap.unparsed_held`).

    p and lower limit are imputed against a gap, the upper limits for one.
    """

    gamma: float
    pvalue: float
    low: float
    high: float
    upper: float = float("nan")  # one-sided 95 % limit


@dataclass(frozen=True)
class ReferenceGap:
    """The gap of a reference beyond that of the other references; pvalue is two-sided."""

    model: str
    difference: float
    low: float
    high: float
    pvalue: float


@dataclass(frozen=True)
class Evidence:
    """Hold everything that gates, `decide` and the report read.

    exchangeable: p of each measure by which neighbours' words give away the published order.
    completion: by text; None without references or held-out items. aucs: each token score,
    published against held-out items, of the tested model and of its excess over its references'
    mean; descriptive only. left_out: references of the score that are not above chance.
    fresh_order: the order of the held-out items, which cannot have been learnt.

    gap: as parsed. abilities: the gap on scales of ability (`ability_gaps`). held: the gap with
    unparsed answers imputed, by gamma; empty if all were parsed. kind: how well words alone
    separate the two sets. apart: each reference's gap against the rest. alike:
    `fresh_gap.agreement` of the references' answers to both sets; None without them. outside: as in
    `Ordered`.

    lucky: gaps that another rate of lucky answers on held-out items would cause (`by_guessing`),
    against the references' mean. unbracketed: the same against the nearest reference, 0 for a model
    inside their range.

    same_chance: p of the gap with held-out scores as they would be at the benchmark's chance of a
    guess (`as_guessed`); None if the sets have equal chances.
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
        """Return the indicator of that name; an empty one if it was not measured."""
        return next(
            (indicator for indicator in self.indicators if indicator.name == name), Indicator(name)
        )

    def upper(self, gamma: float = DECIDE_AT) -> float:
        """Return the one-sided 95 % upper limit of the gap on all scales.

        Parameters
        ----------
        gamma : float
            Odds ratio at which unparsed answers are imputed.

        Returns
        -------
        float
            NaN without a gap.
        """
        if self.gap is None:
            return float("nan")
        held = self._imputed(gamma)
        return (
            upper_limit(self.gap, self.abilities) if held is None else held.upper
        ) - self.unbracketed[0]

    def limits(self, gamma: float = DECIDE_AT) -> tuple[float, float, float]:
        """Return p, lower and upper 95 % limit of the gap on all scales.

        Parameters
        ----------
        gamma : float
            Odds ratio at which unparsed answers are imputed; as parsed if none were imputed at it.

        Returns
        -------
        tuple of float
            NaN without a gap.
        """
        if self.gap is None:
            return float("nan"), float("nan"), float("nan")
        held = self._imputed(gamma)
        return (
            on_all_scales(self.gap, self.abilities)
            if held is None
            else (held.pvalue, held.low, held.high)
        )

    def _imputed(self, gamma: float) -> ImputedGap | None:
        return next((imputed for imputed in self.held if imputed.gamma == gamma), None)


def upper_limit(points: FreshGap, abilities: Sequence[RaschGap]) -> float:
    """Return the one-sided 95 % upper limit of a gap on all scales.

    Parameters
    ----------
    points : FreshGap
        The gap in points.
    abilities : sequence of RaschGap
        The gap on scales of ability.

    Returns
    -------
    float
        In points (0-1); NaN if one of the limits is.

    Notes
    -----
    On each scale it is the same share of the way from the estimate to the two-sided 95 % limit as
    for a normal error. Errors with heavier tails (t, between models) have a smaller share, so the
    limit is never too low.
    """
    estimate = np.array([points.did.difference, *(ability.gap for ability in abilities)])
    high = np.array([points.high, *(ability.gap_high for ability in abilities)])
    return float((estimate + ONE_SIDED * (high - estimate)).max())


def correct(panel: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """Apply Holm's correction over every judged indicator of every cell.

    Parameters
    ----------
    panel : sequence of Evidence
        One for each cell.

    Returns
    -------
    tuple of Evidence
        With the adjusted p-values.
    """
    pvalues, unguarded_pvalues = [], []
    for e in panel:
        pvalues.append([indicator.pvalue for indicator in e.indicators])
        unguarded_pvalues.append([indicator.unguarded for indicator in e.indicators])
    return tuple(map(with_adjusted, panel, holm_rows(pvalues), holm_rows(unguarded_pvalues)))


def with_adjusted(
    e: Evidence, adjusted: Sequence[float | None], unguarded: Sequence[float | None]
) -> Evidence:
    """Set the adjusted p-values of a cell's indicators.

    Parameters
    ----------
    e : Evidence
        The cell.
    adjusted, unguarded : sequence of float or None
        One for each indicator, in their order.

    Returns
    -------
    Evidence
        With the adjusted p-values.
    """
    corrected = []
    for indicator, p, q in zip(e.indicators, adjusted, unguarded, strict=True):
        corrected.append(replace(indicator, adjusted=p, unguarded_adjusted=q))
    return replace(e, indicators=tuple(corrected))


def unmatched(e: Evidence, limits: MemoryThresholds) -> bool:
    """Return whether the held-out set is too unlike the benchmark in difficulty to judge the gap.

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
    Held-out items that are harder for every model are the normal case: newer problems are. Each
    scale allows for that in its own way, as many points or as much ability for all models, and the
    gap is judged on all of them. It is not judged in two cases: the references find the sets
    unequal and the scales disagree about a finding, or too few of the benchmark's items have
    held-out ones that are as hard.
    """
    gap = e.gap
    if gap is None or gap.matched is None or gap.reference_pvalue is None:
        return False
    if gap.matched.share < limits.matched_share_min:
        return True
    level = limits.alpha / len(Name)
    speaks = {gap.pvalue <= level}
    for ability in e.abilities:
        speaks.add(ability.pvalue <= level)
    return gap.reference_pvalue <= limits.matched_alpha and len(speaks) > 1


def selected(alike: float | None, limits: MemoryThresholds) -> bool:
    """Return whether the references' answers to both sets agree too well for independently drawn
    items.

    Parameters
    ----------
    alike : float or None
        `fresh_gap.agreement`; None without references.
    limits : MemoryThresholds
        The level.

    Returns
    -------
    bool
        True if the held-out items seem to be chosen by the references' answers.
    """
    return alike is not None and alike <= limits.drawn_alpha


def of_another_kind(kind: Auc | None, limits: MemoryThresholds) -> bool:
    """Return whether words alone separate the two sets so well that more than memory differs
    between them.

    Parameters
    ----------
    kind : Auc or None
        AUC of a classifier of words.
    limits : MemoryThresholds
        The largest AUC.

    Returns
    -------
    bool
        True if the AUC is above the threshold beyond doubt.
    """
    return kind is not None and kind.low > limits.kind_auc_max


def on_all_scales(points: FreshGap, abilities: Sequence[RaschGap]) -> tuple[float, float, float]:
    """Return p, lower and upper limit of a gap over all scales.

    Parameters
    ----------
    points : FreshGap
        The gap in points.
    abilities : sequence of RaschGap
        The gap on scales of ability.

    Returns
    -------
    tuple of float
        The largest p, and the hull of the intervals in points.
    """
    on_abilities = [(ability.pvalue, ability.gap_low, ability.gap_high) for ability in abilities]
    return hull([(points.pvalue, points.low, points.high), *on_abilities])


def contaminated(evidence: Evidence, alpha: float) -> tuple[ReferenceGap, ...]:
    """Return the references whose gap exceeds the rest's, as they may have learnt the benchmark.

    Parameters
    ----------
    evidence : Evidence
        The gap of each reference.
    alpha : float
        Level of Holm's correction over the references.

    Returns
    -------
    tuple of ReferenceGap
        Those with a positive, significant difference.
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


def told_by_words(evidence: Evidence, limits: MemoryThresholds) -> bool:
    """Return whether neighbours' words or lengths give away the published order.

    Parameters
    ----------
    evidence : Evidence
        p of each measure.
    limits : MemoryThresholds
        The level, with Bonferroni's correction over the measures.

    Returns
    -------
    bool
        False if no measure has a p.
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
        The outcomes and likelihoods.
    limits : MemoryThresholds
        The thresholds.
    rng : Generator
        Source of randomness.
    n_resamples : int
        Permutations of the order tests.
    gammas : sequence of float
        Odds ratios at which unparsed answers are imputed; DECIDE_AT is always added.
    describe : bool
        Whether to measure what no verdict rests on.

    Returns
    -------
    Evidence
        Its indicators are not yet corrected over the panel.
    """
    (own, own_fresh), references = cell.tested, [reference for reference, _ in cell.references]
    on_both = [(a, b) for a, b in cell.references if b is not None]
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
        alike=agreement([(a.score, b.score) for a, b in on_both]) if on_both else None,
        outside=outside,
        lucky=lucky,
        unbracketed=unbracketed,
        same_chance=None if gap is None else _same_chance(cell, kept),
    )
    return replace(evidence, indicators=indicators(cell, evidence, limits))


def _completions(cell: MemoryCell) -> dict[Name, Text]:
    """Return the likelihoods of completions beyond the references', by indicator."""
    completion: dict[Name, Text] = {}
    if not cell.references or cell.fresh is None:
        return completion
    for indicator, text in COMPLETION.items():
        compared = text_of(cell, text)
        if compared is not None:
            completion[indicator] = compared
    return completion


def guessed_apart(cell: MemoryCell) -> bool:
    """Return whether a guess is right more often in one set than in the other, by the numbers of
    their options.
    """
    return cell.fresh is not None and abs(cell.chance[0] - cell.chance[1]) > _ALIKE


def _same_chance(cell: MemoryCell, models: Sequence[tuple[ModelSet, ModelSet]]) -> float | None:
    """Return `Evidence.same_chance`: options of other numbers move a score without memory."""
    if len(models) < 2 or not guessed_apart(cell):
        return None
    tested, *references = [as_guessed((a.score, b.score), cell.chance) for a, b in models]
    did = set_difference(tested, references, _clusters(cell))
    parts = did.items_se, did.items_df, did.spread, did.sampling
    return predictive(did.difference, *parts, len(references), PRIOR).pvalue


def _lucky(
    models: Sequence[tuple[ModelSet, ModelSet]], chance: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return `Evidence.lucky` and `Evidence.unbracketed`, from the scores on held-out items."""
    own, *others = (mean_of(fresh.score) for _, fresh in models) if models else [float("nan")]
    if not others or np.isnan([own, *others]).any():
        return (0.0, 0.0), (0.0, 0.0)
    beyond = own - float(np.clip(own, min(others), max(others)))
    return by_guessing(own - float(np.mean(others)), chance), by_guessing(beyond, chance)


def _outside(cell: MemoryCell) -> Reason | None:
    """Return how the references fail to bracket the tested model on the held-out items; None if
    they do not fail.

    What a meaningful order or a popular text is worth to a model depends on its size. A model that
    finds any text likelier than every reference does, or answers more of the held-out items, may
    gain more from it than all of them.
    """
    sides = []
    for _, fresh in (cell.tested, *cell.references):
        if fresh is not None:
            sides.append(fresh)
    if not cell.references or len(sides) < 2:
        return because("no_bracket") if cell.references else None
    texts = [mean_of(model.texts["item"]) for model in sides]
    if texts[0] < 0 and texts[0] > (1 - _MORE_LIKELY) * max(texts[1:]):
        return because("any_text_likelier")
    scores = [mean_of(model.score) for model in sides]
    return because("abler") if scores[0] > max(scores[1:]) + _ABLER else None


def _ordered(
    own: FloatArray,
    references: Sequence[FloatArray],
    rng: np.random.Generator,
    n_resamples: int,
    outside: Reason | None,
    describe: bool,
) -> Ordered | None:
    if own.shape[1] < 2 or np.isnan(own[:, 0]).all():
        return None
    alone = order_test(own, rng=rng, n_resamples=n_resamples)
    beyond = spread = own_spread = twice = None
    if references:
        beyond = order_test(own - np.mean(references, axis=0), rng=rng, n_resamples=n_resamples)
        if beyond.units > 1:
            unit, theirs = _in_own_unit(own), [_in_own_unit(r) for r in references]
            # A single other order has no spread.
            known = not any(np.isnan(r).all() for r in (unit, *theirs))
            twice = _beyond(unit, [2 * r for r in theirs]) if known else None
            if len(references) > 1:
                spread = _beyond(_gains(own), [_gains(r) for r in references])
                own_spread = _beyond(unit, theirs) if known else None
    tests = tuple(order_test(r, rng=rng, n_resamples=0) for r in references) if describe else ()
    return Ordered(alone, beyond, spread, own_spread, twice, tests, outside)


def _beyond(own: FloatArray, references: Sequence[FloatArray]) -> SetDifference:
    """Test on one set of units whether the mean beyond the references is above 0."""
    return set_difference((own, _NOTHING), [(r, _NOTHING) for r in references])


def _gains(x: FloatArray) -> FloatArray:
    """Return (units,) the published order minus the mean of the others; NaN if either is
    missing."""
    return x[:, 0] - np.ma.masked_invalid(x[:, 1:]).mean(axis=1).filled(np.nan)


def _in_own_unit(x: FloatArray) -> FloatArray:
    """Return (units,) gains over the model's own spread between the other orders, pooled over
    units.
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
    """Return the likelihoods of one text for each model with held-out items.

    Parameters
    ----------
    cell : MemoryCell
        Its sets give the length of the texts.
    models : sequence of (ModelSet, ModelSet or None)
        Each model on both sets.
    text : str
        A name of `TEXT_SCORES`.

    Returns
    -------
    list of Sets
        Residuals after the length of the texts, if it is known.
    """
    sides: list[Sets] = []
    for a, b in models:
        if b is not None:
            sides.append((a.texts[text], b.texts[text]))
    if cell.fresh and cell.published.log_length is not None and cell.fresh.log_length is not None:
        sides = [beside(side, (cell.published.log_length, cell.fresh.log_length)) for side in sides]
    return sides


def text_of(cell: MemoryCell, text: str) -> Text | None:
    """Compare the likelihood of one text with the references, on both scales.

    Parameters
    ----------
    cell : MemoryCell
        The tested model and its references.
    text : str
        A name of `TEXT_SCORES`.

    Returns
    -------
    Text or None
        None if a set has fewer than two items with this text.
    """
    sides, clusters = likelihoods(cell, (cell.tested, *cell.references), text), _clusters(cell)
    try:
        nats = set_difference(sides[0], sides[1:], clusters)
        scaled = [in_own_spread(side) for side in sides]
        apart = apartness(scaled[0], scaled[1:])
        return Text(nats, set_difference(scaled[0], scaled[1:], clusters, apart=apart))
    except DataError:
        return None  # a set has fewer than two items with this text, which the indicator states


def _above_guessing(cell: MemoryCell) -> tuple[list[tuple[ModelSet, ModelSet]], tuple[str, ...]]:
    models = []
    for a, b in (cell.tested, *cell.references):
        if b is not None:
            models.append((a, b))
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
    """Return the gap as parsed, in points and on scales of ability, and with unparsed answers
    imputed.
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
    scores: list[Sets] = [(a.score, b.score) for a, b in models]
    unparsed = [(a.unread, b.unread) for a, b in models]
    try:
        gap, abilities = judged(scores), able(scores)
    except DataError:
        return None, (), ()  # a set has fewer than two parsed items, which the gates state
    if not any(a.any() or b.any() for a, b in unparsed):
        return gap, abilities, ()

    def imputed(gamma: float, *, against: bool) -> tuple[FreshGap, tuple[RaschGap, ...]]:
        values, heights = unparsed_held(scores, unparsed, gamma, against=against)
        return judged(values, heights), able(values)

    held = []
    for gamma in gammas:
        against, favour = imputed(gamma, against=True), imputed(gamma, against=False)
        pvalue, low, _ = on_all_scales(*against)
        held.append(ImputedGap(gamma, pvalue, low, on_all_scales(*favour)[2], upper_limit(*favour)))
    return gap, abilities, tuple(held)


def _apart(
    references: Sequence[tuple[ModelSet, ModelSet]], clusters: tuple[IntArray, IntArray]
) -> tuple[ReferenceGap, ...]:
    """Return each reference's gap against the other references; empty with fewer than three."""
    if len(references) < 3:
        return ()
    gaps, sets = [], [(a.score, b.score) for a, b in references]
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
    own, fresh = cell.tested
    if fresh is None:
        return {}
    aucs: dict[str, tuple[Auc, Auc | None]] = {}
    pairs = []
    for a, b in cell.references:
        if b is not None:
            pairs.append((a, b))
    for name in own.tokens:
        x, y = own.tokens[name], fresh.tokens[name]
        if min(int((~np.isnan(side)).sum()) for side in (x, y)) < 2:
            continue
        beyond = None
        if pairs:
            published_mean = np.mean([a.tokens[name] for a, _ in pairs], axis=0)
            fresh_mean = np.mean([b.tokens[name] for _, b in pairs], axis=0)
            beyond = membership_auc(x - published_mean, y - fresh_mean, _clusters(cell))
        aucs[name] = (membership_auc(x, y, _clusters(cell)), beyond)
    return aucs


def indicators(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> tuple[Indicator, ...]:
    """Return all six indicators, in the order of `Name`.

    Parameters
    ----------
    cell : MemoryCell
        The measured cell.
    e : Evidence
        Its statistics.
    limits : MemoryThresholds
        The thresholds.

    Returns
    -------
    tuple of Indicator
        Without the panel's correction.
    """
    measured = [
        _order(cell, e, limits),
        _options(cell, e, limits),
        *(_completion(cell, e, name, limits) for name in COMPLETION),
        _gap_indicator(cell, e, limits),
    ]
    for k, indicator in enumerate(measured):
        doubt = _doubt(cell, indicator.name) if indicator.judged else None
        if doubt:
            measured[k] = replace(indicator, pvalue=1.0, unguarded=indicator.pvalue, doubt=doubt)
    return tuple(measured)


def _doubt(cell: MemoryCell, name: Name) -> Reason | None:
    exact = cell.recorded and name in (Name.ORDER, Name.OPTIONS)
    references = [reference.model for reference, _ in cell.references]
    # Of logs, no option states a family.
    family = family_doubt(cell.model, references, cell.families, options=not cell.log_checks)
    if family is not None and not exact:
        return family
    if cell.undated and name == Name.GAP:
        return because("undated", missing=list(cell.undated))
    return None


def family_doubt(
    tested: str, references: Sequence[str], families: Mapping[str, str], *, options: bool
) -> Reason | None:
    """Return the doubt that all references are of one family, and the tested model of another.

    Parameters
    ----------
    tested : str
        Name of the tested model.
    references : sequence of str
        Names of the references.
    families : mapping of str to str
        The stated family of each model.
    options : bool
        Whether model.NAME.family= can state one.

    Returns
    -------
    Reason or None
        With the family, whether all are stated, and, if not, two references to state others of.

    Notes
    -----
    Fine-tunes of one base model agree on style, and so understate how much models differ.
    """
    family = one_family(tested, references, families)
    if not family:
        return None
    stated = all(name in families for name in references)
    named = list(references[:2]) if options and not stated else []
    return because("one_family", family=family, references=named, stated=stated)


def _order(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Indicator:
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
        if e.order.beyond is None and told_by_words(e, limits):
            return Indicator(name, why=because("words_tell_order"))
        if e.fresh_order is not None and e.fresh_order.unguarded <= limits.matched_alpha:
            return Indicator(name, why=because("held_out_order_likelier"))
    return _order_indicator(name, e.order, "nats a shard", recorded=cell.recorded)


def _options(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Indicator:
    name, least, items = Name.OPTIONS, limits.items_min, e.options.own.units if e.options else 0
    if e.options is None or items < least:
        return Indicator(name, why=because("few_orders", items=items, least=least))
    read = _read_by_all([model.options for model, _ in (cell.tested, *cell.references)])
    if read < least and not cell.recorded:
        return Indicator(name, why=because("few_orders_read", items=read, least=least))
    return _order_indicator(name, e.options, "nats an item", recorded=cell.recorded)


def _order_indicator(name: Name, ordered: Ordered, unit: str, *, recorded: bool) -> Indicator:
    own, shown, p = ordered.own, ordered.shown, ordered.pvalue
    if recorded:  # A random order carries no meaning, so no guard is needed.
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
    of another.

    Without such units no gain beyond the references can be measured, which does not show that there
    is none.
    """
    known = ~np.isnan(np.sum(orders, axis=0))
    return int(np.sum(known[:, 0] & known[:, 1:].any(axis=1)))


def _completion(cell: MemoryCell, e: Evidence, name: Name, limits: MemoryThresholds) -> Indicator:
    why = _no_comparison(cell, e, limits)
    text = e.completion.get(name)
    if why or text is None:
        return Indicator(name, why=why or because("few_with_text"))
    nats, scale = text.nats, 1 / np.log(2)
    if few := _few(nats, limits):
        return Indicator(name, why=few)
    return Indicator(
        name,
        1.0 if e.outside else text.pvalue,
        None,
        scale * nats.difference,
        scale * nats.low,
        scale * nats.high,
        "bits a byte",
        # Without an effect in its own unit, the nats are explained by how likely any text is to the
        # model.
        unguarded=nats.pvalue if text.own_spread.pvalue <= limits.alpha else None,
        doubt=e.outside or because("own_scale"),
    )


def _gap_indicator(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Indicator:
    why = _no_comparison(cell, e, limits)
    if why or e.gap is None:
        return Indicator(Name.GAP, why=why or because("few_answered"))
    did, least = e.gap.did, limits.references_min
    if e.gap.matched is None:
        why = because("references_guess")
    elif len(did.gaps) < least:
        why = because("few_able_references", references=len(did.gaps), least=least)
    if why or (why := _few(did, limits)):
        return Indicator(Name.GAP, why=why)
    pvalue, low, high = e.limits()
    as_parsed = on_all_scales(e.gap, e.abilities)[0]
    doubt = because("ability_scale" if as_parsed > limits.alpha / len(Name) else "unparsed")
    # A gap that options alone can make has a known cause.
    unguarded = max(e.gap.pvalue, e.same_chance or 0.0)
    if 0 < low <= e.lucky[1]:
        pvalue, doubt = 1.0, because("guessing_rate", gap=e.lucky[1])
    return Indicator(
        Name.GAP,
        pvalue,
        None,
        100 * did.difference,
        100 * low,
        100 * high,
        "points of accuracy",
        unguarded=unguarded,
        doubt=doubt,
    )


def _few(difference: SetDifference, limits: MemoryThresholds) -> Reason | None:
    if min(difference.n, difference.m) >= limits.items_min:
        return None
    return because("few_items", items=difference.n, held_out=difference.m, least=limits.items_min)


def _no_comparison(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Reason | None:
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
