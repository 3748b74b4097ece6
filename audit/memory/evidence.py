"""The statistics that a verdict rests on, for one cell, and what each indicator says: its p on every scale, or why it
was not judged. Pure. The analysis and the calibration both call `measure`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from audit.errors import DataError
from audit.judge.record import holm_rows
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
from audit.verdict.result import Reason, because

PRIOR = PRIORS["held_out"]
_NOTHING = np.zeros(2)
ONE_SIDED = 1.6449 / 1.96  # normal quantiles: of a one-sided 95 % limit, and of a two-sided one
_DRAWS = 1999  # of the test of matched items, at least: they are cheap, and Holm over a panel asks for a small p
_STANDARD_ERRORS = 2.0  # above chance, to serve as a reference of the score: a model that guesses sees no difficulty
_MORE_LIKELY = 0.05  # fewer nats a byte than the best reference, from which the references do not bracket
_ALIKE = 0.01  # chance of a guess may differ by so much between sets that are guessed alike
_ABLER = 0.10  # accuracy on held-out items above the best reference, likewise


class Name(StrEnum):
    """The indicators; the first five are of the text, the last of the score."""

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

    pvalue: one-sided, at its own level, on every scale and against every control that it has; adjusted: after Holm over
    the panel. Both None where it was not judged; why then says what is missing. unguarded, unguarded_adjusted: p
    without what guards it against another cause than memory (references, a second scale, unparsed answers), which doubt
    names: where only this p is small, the cause is unknown. estimate, low, high: what the published items have more, in
    `unit`, with a 95 % interval.
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
        return self.pvalue is not None

    def seen(self, alpha: float) -> bool:
        """Whether it speaks for memory after the panel's correction, with an interval above zero."""
        return self.adjusted is not None and self.adjusted <= alpha and self.low is not None and self.low > 0

    def open(self, alpha: float) -> bool:
        """Whether it would speak, were it not for another cause that is not excluded (`doubt`)."""
        alone = self.unguarded_adjusted
        return alone is not None and alone <= alpha and self.doubt is not None and not self.seen(alpha)


@dataclass(frozen=True)
class Ordered:
    """An order test of the tested model, of what it has beyond its references' mean, and of each reference.

    spread: from two references on, the mean gain beyond theirs with their spread in its error, as the sense of an order
    may be worth more to some. own_spread: the same with gains in units of each model's own spread over the other
    orders. twice: the gain beyond twice the references' mean, in that unit: a larger model may feel an order's sense
    that much more. outside: how the references do not bracket the tested model, None where they do.
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
        """Both must speak where there are references (intersection-union): a published order that any model finds
        likelier is told by its content. NaN: a model that does not differ from them at all has nothing beyond."""
        if self.beyond is None:
            return self.own.pvalue
        if np.isnan(self.beyond.pvalue):
            return 1.0
        return max(self.own.pvalue, self.beyond.pvalue, self.spread.pvalue if self.spread else 0.0)

    @property
    def pvalue(self) -> float | None:
        """On both scales, and beyond twice the references' gain; 1 where they do not bracket the tested model. None
        without references: an order with a sense of its own is likelier to any model."""
        if self.beyond is None:
            return None
        guards = [one.pvalue for one in (self.own_spread, self.twice) if one is not None]
        return 1.0 if self.outside else max([self.unguarded, *guards])

    @property
    def shown(self) -> OrderTest:
        """The test whose gain is quoted: what is beyond the references, where there are some and anything is."""
        return self.own if self.beyond is None or np.isnan(self.beyond.pvalue) else self.beyond


@dataclass(frozen=True)
class Text:
    """A likelihood's difference in differences on two scales: nats a byte, and units of each model's own spread over
    the held-out items. A model that uses what makes any text likely more than its references has more nats, and not
    more of its spread; both must speak."""

    nats: SetDifference
    own_spread: SetDifference

    @property
    def pvalue(self) -> float:
        return max(self.nats.pvalue, self.own_spread.pvalue)


@dataclass(frozen=True)
class Held:
    """The gap with unparsed answers held at gamma (`fresh_gap.unparsed_held`): p and lower limit against a gap, upper
    limit for one."""

    gamma: float
    pvalue: float
    low: float
    high: float
    upper: float = float("nan")  # one-sided, 95 %


@dataclass(frozen=True)
class Apart:
    """A reference's own gap beyond that of the other references; pvalue is two-sided."""

    model: str
    difference: float
    low: float
    high: float
    pvalue: float


@dataclass(frozen=True)
class Evidence:
    """Everything that gates, `decide` and the report look at.

    exchangeable: p of each measure by which neighbours' words tell the published order. completion: by text; None
    without references or held-out items. aucs: of each token score, published against held-out items, of the tested
    model and of what it has beyond its references' mean; descriptive. left_out: references of the score that are not
    above chance. fresh_order: of the held-out items, whose order cannot have been learnt. gap: as parsed; abilities:
    the same as `ability_gaps`; held: with unparsed answers, by gamma, none where all were parsed. kind: how well words
    alone part the two sets. apart: each reference's own gap against the rest. alike: `fresh_gap.agreement` of the
    references' answers to both sets; None without them. outside: as in `Ordered`. lucky: gaps that another rate of
    lucky answers on held-out items would make (`by_guessing`), beside the references' mean; unbracketed: the same
    beside the nearest reference, 0 for a model inside their range. same_chance: p of the gap with held-out scores as
    they would be at the benchmark's chance of a guess (`as_guessed`); None where the sets have the same.
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
    held: tuple[Held, ...] = ()
    kind: Auc | None = None
    apart: tuple[Apart, ...] = ()
    alike: float | None = None
    outside: Reason | None = None
    lucky: tuple[float, float] = (0.0, 0.0)
    unbracketed: tuple[float, float] = (0.0, 0.0)
    same_chance: float | None = None

    def indicator(self, name: Name) -> Indicator:
        return next((one for one in self.indicators if one.name == name), Indicator(name))

    def upper(self, gamma: float = DECIDE_AT) -> float:
        """Return the one-sided 95 % upper limit of the gap on all scales, as `limits` holds unparsed answers."""
        if self.gap is None:
            return float("nan")
        held = next((one for one in self.held if one.gamma == gamma), None)
        return (upper_limit(self.gap, self.abilities) if held is None else held.upper) - self.unbracketed[0]

    def limits(self, gamma: float = DECIDE_AT) -> tuple[float, float, float]:
        """p, lower and upper limit (95 %) of the gap on all scales: with unparsed answers held at gamma, or as parsed
        where none were held there. NaN without a gap."""
        if self.gap is None:
            return float("nan"), float("nan"), float("nan")
        held = next((one for one in self.held if one.gamma == gamma), None)
        return on_all_scales(self.gap, self.abilities) if held is None else (held.pvalue, held.low, held.high)


def upper_limit(points: FreshGap, abilities: Sequence[RaschGap]) -> float:
    """Return the one-sided 95 % upper limit of a gap on all scales, in points; NaN if one is.

    It is that share of the way from the estimate to the two-sided 95 % limit that a normal error has. Errors with
    heavier tails (t, between models) have a smaller share, so the limit is never too low.
    """
    parts = [(points.did.difference, points.high), *((one.gap, one.gap_high) for one in abilities)]
    estimate, high = np.array(parts).T
    return float((estimate + ONE_SIDED * (high - estimate)).max())


def correct(panel: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The same with p-values after Holm over every indicator of every cell that was judged."""
    adjusted = holm_rows([[one.pvalue for one in e.indicators] for e in panel])
    unguarded = holm_rows([[one.unguarded for one in e.indicators] for e in panel])
    return tuple(map(with_adjusted, panel, adjusted, unguarded))


def with_adjusted(e: Evidence, adjusted: Sequence[float | None], unguarded: Sequence[float | None]) -> Evidence:
    both = zip(e.indicators, adjusted, unguarded, strict=True)
    return replace(e, indicators=tuple(replace(one, adjusted=p, unguarded_adjusted=q) for one, p, q in both))


def unmatched(e: Evidence, limits: MemoryThresholds) -> bool:
    """Return whether the held-out set is too unlike the benchmark in difficulty to judge the gap.

    Held-out items that are harder for every model are the normal case: newer problems are. Each scale allows for that
    in its own way, as many points or as much ability for all, and the gap is judged on all of them. It is not judged if
    the references find the sets unequal and the scales disagree about a finding, or if too few of the benchmark's items
    have held-out ones as hard.
    """
    gap = e.gap
    if gap is None or gap.matched is None or gap.reference_pvalue is None:
        return False
    if gap.matched.share < limits.matched_share_min:
        return True
    level = limits.alpha / len(Name)
    speaks = {p <= level for p in (gap.pvalue, *(one.pvalue for one in e.abilities))}
    return gap.reference_pvalue <= limits.matched_alpha and len(speaks) > 1


def selected(alike: float | None, limits: MemoryThresholds) -> bool:
    """Whether the references' answers to both sets agree too well for held-out items that were drawn without them."""
    return alike is not None and alike <= limits.drawn_alpha


def of_another_kind(kind: Auc | None, limits: MemoryThresholds) -> bool:
    """Whether words alone part the two sets so well that more than memory differs between them."""
    return kind is not None and kind.low > limits.kind_auc_max


def on_all_scales(points: FreshGap, abilities: Sequence[RaschGap]) -> tuple[float, float, float]:
    """p, lower and upper limit of a gap: the largest p, and the hull of the intervals, in points."""
    able = ((one.pvalue, one.gap_low, one.gap_high) for one in abilities)
    return hull([(points.pvalue, points.low, points.high), *able])


def contaminated(evidence: Evidence, alpha: float) -> tuple[Apart, ...]:
    """References whose own gap is beyond the rest's: they may have learnt the benchmark (Holm over the references)."""
    adjusted = holm([one.pvalue for one in evidence.apart]).tolist() if evidence.apart else []
    return tuple(one for one, p in zip(evidence.apart, adjusted, strict=True) if p <= alpha and one.difference > 0)


def told_by_words(evidence: Evidence, limits: MemoryThresholds) -> bool:
    """Whether neighbours' words or lengths tell the published order (Bonferroni over the measures)."""
    found = [p for p in evidence.exchangeable.values() if not np.isnan(p)]
    return bool(found) and min(found) * len(found) <= limits.exchangeable_alpha


def measure(
    cell: MemoryCell,
    limits: MemoryThresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    gammas: Sequence[float] = GAMMAS,
    describe: bool = True,
) -> Evidence:
    """All statistics of one cell; indicators as yet without the panel's correction.

    gammas: at which unparsed answers are held; DECIDE_AT is always among them. describe: with what no verdict rests on.
    """
    (own, own_fresh), references = cell.tested, [one[0] for one in cell.references]
    outside = _outside(cell)

    def ordered(x: FloatArray, theirs: Sequence[FloatArray], outside: Reason | None) -> Ordered | None:
        return _ordered(x, theirs, rng, n_resamples, outside, describe)

    order = ordered(own.order, [r.order for r in references], outside)
    options = ordered(own.options, [r.options for r in references], outside)
    fresh_order = None
    if own_fresh is not None:
        fresh_order = ordered(own_fresh.order, [b.order for _, b in cell.references if b is not None], None)
    exchangeable = {
        name: order_test(values, rng=rng, n_resamples=n_resamples).pvalue
        for name, values in cell.published.neighbours.items()
        if values.shape[1] > 1
    }
    kept, left_out = _above_guessing(cell)
    gap, abilities, held = _gap(cell, kept, limits, sorted({*gammas, DECIDE_AT}), rng, n_resamples)
    texts = COMPLETION.items() if references and cell.fresh is not None else ()
    both = [(a.score, b.score) for a, b in cell.references if b is not None]
    lucky, unbracketed = _lucky(kept, cell.chance[1])
    evidence = Evidence(
        order=order,
        options=options,
        fresh_order=fresh_order,
        exchangeable=exchangeable,
        completion={name: found for name, text in texts if (found := text_of(cell, text)) is not None},
        aucs=_aucs(cell),
        gap=gap,
        abilities=abilities,
        left_out=left_out,
        indicators=(),
        held=held,
        kind=cell.kind,
        apart=_apart(kept[1:], _clusters(cell)) if gap is not None and describe else (),
        alike=agreement(both) if both else None,
        outside=outside,
        lucky=lucky,
        unbracketed=unbracketed,
        same_chance=None if gap is None else _same_chance(cell, kept),
    )
    return replace(evidence, indicators=indicators(cell, evidence, limits))


def guessed_apart(cell: MemoryCell) -> bool:
    """Return whether a guess is right more often in one set than in the other, by the numbers of their options."""
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
    """How the references do not bracket the tested model on the held-out items: None where they do, or none is there.

    What an order's sense, or a popular text, is worth to a model goes with its size. A model that finds any text
    likelier than every reference does, or answers more of the held-out items, may feel it more than all of them.
    """
    sides = [fresh for _, fresh in (cell.tested, *cell.references) if fresh is not None]
    if not cell.references or len(sides) < 2:
        return because("no_bracket") if cell.references else None
    texts = [mean_of(one.texts["item"]) for one in sides]
    if texts[0] < 0 and texts[0] > (1 - _MORE_LIKELY) * max(texts[1:]):
        return because("any_text_likelier")
    scores = [mean_of(one.score) for one in sides]
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
            known = not any(np.isnan(r).all() for r in (unit, *theirs))  # one other order of a unit has no spread
            twice = _beyond(unit, [2 * r for r in theirs]) if known else None
            if len(references) > 1:
                spread = _beyond(_gains(own), [_gains(r) for r in references])
                own_spread = _beyond(unit, theirs) if known else None
    tests = tuple(order_test(r, rng=rng, n_resamples=0) for r in references) if describe else ()
    return Ordered(alone, beyond, spread, own_spread, twice, tests, outside)


def _beyond(own: FloatArray, references: Sequence[FloatArray]) -> SetDifference:
    """Of one set of units, against nothing: whether the mean beyond the references is above 0."""
    return set_difference((own, _NOTHING), [(r, _NOTHING) for r in references])


def _gains(x: FloatArray) -> FloatArray:
    """(units,) of the published order less the mean of the others; NaN where one is not there."""
    return x[:, 0] - np.ma.masked_invalid(x[:, 1:]).mean(axis=1).filled(np.nan)


def _in_own_unit(x: FloatArray) -> FloatArray:
    """(units,) gains over the model's own spread between the other orders of a unit, pooled over units."""
    others = np.ma.masked_invalid(x[:, 1:])
    free = np.maximum(others.count(axis=1) - 1, 0).sum()
    squares = float(np.sum(others.anom(axis=1).filled(0.0) ** 2))
    return _gains(x) / np.sqrt(squares / free) if free and squares > 0 else np.full(len(x), np.nan)


def _clusters(cell: MemoryCell) -> tuple[IntArray, IntArray]:
    return cell.published.cluster, cell.fresh.cluster if cell.fresh else cell.published.cluster


def likelihoods(cell: MemoryCell, models: Sequence[tuple[ModelSet, ModelSet | None]], text: str) -> list[Sets]:
    """Of one text, of each model with held-out items, beside the texts' length where that is told."""
    sides: list[Sets] = [(a.texts[text], b.texts[text]) for a, b in models if b is not None]
    if cell.fresh and cell.published.log_length is not None and cell.fresh.log_length is not None:
        sides = [beside(one, (cell.published.log_length, cell.fresh.log_length)) for one in sides]
    return sides


def text_of(cell: MemoryCell, text: str) -> Text | None:
    sides, clusters = likelihoods(cell, (cell.tested, *cell.references), text), _clusters(cell)
    try:
        nats = set_difference(sides[0], sides[1:], clusters)
        scaled = [in_own_spread(one) for one in sides]
        apart = apartness(scaled[0], scaled[1:])
        return Text(nats, set_difference(scaled[0], scaled[1:], clusters, apart=apart))
    except DataError:
        return None  # not two items of each set have this text: the indicator says so


def _above_guessing(cell: MemoryCell) -> tuple[list[tuple[ModelSet, ModelSet]], tuple[str, ...]]:
    models = [(a, b) for a, b in (cell.tested, *cell.references) if b is not None]
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
) -> tuple[FreshGap | None, tuple[RaschGap, ...], tuple[Held, ...]]:
    """The gap as parsed, in points and on scales of ability; with unparsed answers held at each gamma, if any."""

    def judged(scores: Sequence[Sets], heights: Sequence[FloatArray] | None = None) -> FreshGap:
        return fresh_gap(
            scores[0], scores[1:], clusters, rng=rng, alpha=limits.alpha / len(Name), power=limits.power,
            n_resamples=max(n_resamples, _DRAWS), heights=heights, prior=PRIOR,
        )  # fmt: skip

    def able(scores: Sequence[Sets]) -> tuple[RaschGap, ...]:
        return ability_gaps(scores[0], scores[1:], clusters, prior=PRIOR, chance=cell.chance) if len(scores) > 1 else ()

    if cell.fresh is None:
        return None, (), ()
    clusters = _clusters(cell)
    scores: list[Sets] = [(a.score, b.score) for a, b in models]
    unparsed = [(a.unread, b.unread) for a, b in models]
    try:
        found, abilities = judged(scores), able(scores)
    except DataError:
        return None, (), ()  # not two items of each set were parsed: the gates say so
    held = []
    for gamma in gammas if any(np.any(side) for one in unparsed for side in one) else ():
        against, favour = (
            (judged(*made), able(made[0]))
            for made in (unparsed_held(scores, unparsed, gamma, against=side) for side in (True, False))
        )
        pvalue, low, _ = on_all_scales(*against)
        held.append(Held(gamma, pvalue, low, on_all_scales(*favour)[2], upper_limit(*favour)))
    return found, abilities, tuple(held)


def _apart(references: Sequence[tuple[ModelSet, ModelSet]], clusters: tuple[IntArray, IntArray]) -> tuple[Apart, ...]:
    """Each reference's gap against the rest of them, as one more clean model's; none with fewer than three."""
    found, sets = [], [(a.score, b.score) for a, b in references]
    for k, (one, _) in enumerate(references if len(references) > 2 else ()):
        rest = [*sets[:k], *sets[k + 1 :]]
        gap = fresh_gap(sets[k], rest, clusters, rng=np.random.default_rng(0), n_resamples=1, prior=PRIOR)
        above = gap.did.pvalue if gap.predicted is None else gap.predicted.pvalue
        found.append(Apart(one.model, gap.did.difference, gap.low, gap.high, min(1.0, 2 * min(above, 1 - above))))
    return tuple(found)


def _aucs(cell: MemoryCell) -> dict[str, tuple[Auc, Auc | None]]:
    own, fresh = cell.tested
    if fresh is None:
        return {}
    found: dict[str, tuple[Auc, Auc | None]] = {}
    pairs = [(a, b) for a, b in cell.references if b is not None]
    for name in own.tokens:
        x, y = own.tokens[name], fresh.tokens[name]
        if min(int((~np.isnan(side)).sum()) for side in (x, y)) < 2:
            continue
        beyond = None
        if pairs:
            theirs, away = (np.mean([one.tokens[name] for one in side], axis=0) for side in zip(*pairs, strict=True))
            beyond = membership_auc(x - theirs, y - away, _clusters(cell))
        found[name] = (membership_auc(x, y, _clusters(cell)), beyond)
    return found


def indicators(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> tuple[Indicator, ...]:
    """All six, in the order of `Name`."""
    found = [
        _order(cell, e, limits),
        _options(cell, e, limits),
        *(_completion(cell, e, name, limits) for name in COMPLETION),
        _gap_indicator(cell, e, limits),
    ]
    for k, one in enumerate(found):
        if one.judged and (doubt := _doubt(cell, one.name)):
            found[k] = replace(one, pvalue=1.0, unguarded=one.pvalue, doubt=doubt)
    return tuple(found)


def _doubt(cell: MemoryCell, name: Name) -> Reason | None:
    exact = cell.recorded and name in (Name.ORDER, Name.OPTIONS)
    # Fine-tunes of one base agree on style, and so show too little of how much models differ.
    if (family := one_family(cell.model, [one[0].model for one in cell.references], cell.families)) and not exact:
        return because("one_family", family=family)
    return because("undated") if cell.undated and name == Name.GAP else None


def _order(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Indicator:
    name, least = Name.ORDER, limits.shards_min
    if e.order is None:
        return Indicator(name, why=because("no_other_order"))
    if (shards := e.order.own.units) < least:
        return Indicator(name, why=because("few_shards", shards=shards, least=least))
    if not cell.recorded:
        if (read := _read_by_all([one[0].order for one in (cell.tested, *cell.references)])) < least:
            return Indicator(name, why=because("few_shards_read", shards=read, least=least))
        if e.order.beyond is None and told_by_words(e, limits):
            return Indicator(name, why=because("words_tell_order"))
        if e.fresh_order is not None and e.fresh_order.unguarded <= limits.matched_alpha:
            return Indicator(name, why=because("held_out_order_likelier"))
    return _of_order(name, e.order, "nats a shard", recorded=cell.recorded)


def _options(cell: MemoryCell, e: Evidence, limits: MemoryThresholds) -> Indicator:
    name, least, items = Name.OPTIONS, limits.items_min, e.options.own.units if e.options else 0
    if e.options is None or items < least:
        return Indicator(name, why=because("few_orders", items=items, least=least))
    read = _read_by_all([one[0].options for one in (cell.tested, *cell.references)])
    if read < least and not cell.recorded:
        return Indicator(name, why=because("few_orders_read", items=read, least=least))
    return _of_order(name, e.options, "nats an item", recorded=cell.recorded)


def _of_order(name: Name, ordered: Ordered, unit: str, *, recorded: bool) -> Indicator:
    own, shown, p = ordered.own, ordered.shown, ordered.pvalue
    if recorded:  # drawn at random, it has no sense of its own, so there is nothing to guard against
        return Indicator(name, own.pvalue, None, own.gain, own.low, own.high, unit, unguarded=own.pvalue)
    if ordered.beyond is not None and ordered.beyond.units > 1 and ordered.twice is None:
        return Indicator(name, why=because("one_other_order"))
    alone = because("no_reference") if p is None else None
    return Indicator(
        name, p, None, shown.gain, shown.low, shown.high, unit,
        why=alone, unguarded=ordered.unguarded, doubt=alone or ordered.outside or because("references_feel_it"),
    )  # fmt: skip


def _read_by_all(orders: Sequence[FloatArray]) -> int:
    """Units (units, 1 + orders) of which every model has a likelihood of the published order and of another: without
    these nothing is beyond the references, and that is no sign of none."""
    there = ~np.isnan(np.sum(orders, axis=0))
    return int(np.sum(there[:, 0] & there[:, 1:].any(axis=1)))


def _completion(cell: MemoryCell, e: Evidence, name: Name, limits: MemoryThresholds) -> Indicator:
    why = _no_comparison(cell, e, limits)
    found = e.completion.get(name)
    if why or found is None:
        return Indicator(name, why=why or because("few_with_text"))
    nats, scale = found.nats, 1 / np.log(2)
    if few := _few(nats, limits):
        return Indicator(name, why=few)
    return Indicator(
        name, 1.0 if e.outside else found.pvalue, None, scale * nats.difference, scale * nats.low, scale * nats.high,
        "bits a byte",
        # Nothing at all in its own unit is explained by how much of any text the model makes: no doubt is left.
        unguarded=nats.pvalue if found.own_spread.pvalue <= limits.alpha else None,
        doubt=e.outside or because("own_scale"),
    )  # fmt: skip


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
    unguarded = max(e.gap.pvalue, e.same_chance or 0.0)  # what options alone make is of known cause
    if 0 < low <= e.lucky[1]:
        pvalue, doubt = 1.0, because("guessing_rate", gap=e.lucky[1])
    return Indicator(
        Name.GAP, pvalue, None, 100 * did.difference, 100 * low, 100 * high, "points of accuracy",
        unguarded=unguarded, doubt=doubt,
    )  # fmt: skip


def _few(found: SetDifference, limits: MemoryThresholds) -> Reason | None:
    if min(found.n, found.m) >= limits.items_min:
        return None
    return because("few_items", items=found.n, held_out=found.m, least=limits.items_min)


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
