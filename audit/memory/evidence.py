"""The statistics that a verdict rests on, for one cell. The analysis and the calibration both call `measure`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from audit.errors import DataError
from audit.memory.record import TEXTS, ItemSet, MemoryCell, ModelSet
from audit.memory.thresholds import MemoryThresholds
from audit.statistics.completion import Auc, membership_auc
from audit.statistics.fresh_gap import FreshGap, fresh_gap, held_gaps
from audit.statistics.multiplicity import holm
from audit.statistics.order_test import N_RESAMPLES, OrderTest, order_test
from audit.statistics.paired import FloatArray
from audit.statistics.set_difference import SetDifference, Sets, set_difference

_NOTHING = np.zeros(2)
_STANDARD_ERRORS = 2.0  # above chance, to serve as a reference of the score: a model that guesses sees no difficulty


class Name(StrEnum):
    """The indicators; the first five are of the text, the last of the score."""

    ORDER = "order"
    OPTIONS = "options"
    ITEM = "completion_item"
    HALF = "completion_half"
    WRONG = "completion_wrong"
    GAP = "gap"


COMPLETION = dict(zip((Name.ITEM, Name.HALF, Name.WRONG), TEXTS, strict=True))


@dataclass(frozen=True)
class Indicator:
    """One indicator of one cell.

    pvalue: one-sided, at its own level; adjusted: after Holm over the indicators of the panel. Both None where it was
    not judged; why says then what is missing. estimate, low, high: what the published items have more, in `unit`, with
    a 95 % interval.
    """

    name: Name
    pvalue: float | None = None
    adjusted: float | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    unit: str = ""
    why: str = ""

    @property
    def judged(self) -> bool:
        return self.pvalue is not None


@dataclass(frozen=True)
class Ordered:
    """An order test of the tested model, of what it has beyond its references' mean, and of each reference.

    spread: from two references on, the mean gain beyond theirs with their spread in its error, as they may differ in
    what the sense of an order is worth to them.
    """

    own: OrderTest
    beyond: OrderTest | None
    spread: SetDifference | None
    references: tuple[OrderTest, ...]

    @property
    def pvalue(self) -> float:
        """Both must speak where there are references (intersection-union): a published order that any model finds
        likelier is told by its content. A model that does not differ from its references at all has nothing beyond."""
        if self.beyond is None:
            return self.own.pvalue
        if np.isnan(self.beyond.pvalue):
            return 1.0
        return max(self.own.pvalue, self.beyond.pvalue, self.spread.pvalue if self.spread else 0.0)

    @property
    def shown(self) -> OrderTest:
        """The test whose gain is quoted: what is beyond the references, where there are some and anything is."""
        return self.own if self.beyond is None or np.isnan(self.beyond.pvalue) else self.beyond


@dataclass(frozen=True)
class Evidence:
    """Everything that gates, `decide` and the report look at.

    exchangeable: p of each measure by which neighbours' words tell the published order. completion: by text; None
    without references or fresh items. aucs: of each token score, published against fresh items, of the tested model
    and, where there are references, of what it has beyond their mean; descriptive. left_out: references of the score
    that are not above chance. fresh_order: the order test of the fresh items, whose order cannot have been learnt.
    """

    order: Ordered | None
    options: Ordered | None
    fresh_order: Ordered | None
    exchangeable: dict[str, float]
    completion: dict[Name, SetDifference]
    aucs: dict[str, tuple[Auc, Auc | None]]
    gap: FreshGap | None
    left_out: tuple[str, ...]
    indicators: tuple[Indicator, ...]
    gap_adverse: FreshGap | None = None
    gap_favourable: FreshGap | None = None
    gap_as_read: float | None = None

    def indicator(self, name: Name) -> Indicator:
        return next(one for one in self.indicators if one.name == name)

    @property
    def largest_compatible(self) -> float:
        """The upper limit of the gap (97.5 %), unread answers held for a gap where there are any. NaN without one."""
        limits = [g.did.high for g in (self.gap, self.gap_favourable) if g is not None]
        return float(np.max(limits)) if limits else float("nan")  # NaN where any is: it clears nobody


def measure(
    cell: MemoryCell, thresholds: MemoryThresholds, *, rng: np.random.Generator, n_resamples: int = N_RESAMPLES
) -> Evidence:
    """All statistics of one cell; indicators as yet without the panel's correction."""
    own, references = cell.tested[0], [one[0] for one in cell.references]
    order = _ordered(own.order, [r.order for r in references], rng, n_resamples)
    options = _ordered(own.options, [r.options for r in references], rng, n_resamples)
    fresh_order = None
    if cell.tested[1] is not None:
        theirs = [r[1].order for r in cell.references if r[1] is not None]
        fresh_order = _ordered(cell.tested[1].order, theirs, rng, n_resamples)
    exchangeable = {
        name: order_test(values, rng=rng, n_resamples=n_resamples).pvalue
        for name, values in cell.published.neighbours.items()
    }
    completion: dict[Name, SetDifference] = {}
    gap: FreshGap | None = None
    held: tuple[FreshGap, FreshGap] | None = None
    left_out: tuple[str, ...] = ()
    if cell.fresh is not None:
        gap, held, left_out = _gap(cell, thresholds, rng, n_resamples)
        if references:
            completion = {
                name: found for name, text in COMPLETION.items() if (found := _difference(cell, text)) is not None
            }
    evidence = Evidence(
        order=order,
        options=options,
        fresh_order=fresh_order,
        exchangeable=exchangeable,
        completion=completion,
        aucs=_aucs(cell),
        gap=gap,
        left_out=left_out,
        indicators=(),
        gap_adverse=held[0] if held else None,
        gap_favourable=held[1] if held else None,
    )
    return replace(evidence, indicators=_indicators(cell, evidence, thresholds))


def correct(panel: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """The same with p-values after Holm over every indicator of every cell that was judged."""
    adjusted = _over_panel([[one.pvalue for one in e.indicators] for e in panel])
    as_read = _over_panel([[_as_read(e, one) for one in e.indicators] for e in panel])
    return tuple(
        replace(
            e,
            indicators=tuple(replace(one, adjusted=p) for one, p in zip(e.indicators, own, strict=True)),
            gap_as_read=None if e.gap_adverse is None else read[[one.name for one in e.indicators].index(Name.GAP)],
        )
        for e, own, read in zip(panel, adjusted, as_read, strict=True)
    )


def _over_panel(raw: Sequence[Sequence[float | None]]) -> list[list[float | None]]:
    """p-values by cell and indicator after Holm over all; None where not judged."""
    flat = [float("nan") if p is None else p for row in raw for p in row]
    adjusted = iter(holm(flat).tolist() if flat else [])
    return [[None if p is None else q for p, q in zip(row, adjusted, strict=False)] for row in raw]


def _as_read(e: Evidence, one: Indicator) -> float | None:
    """An indicator's p without the reading that holds unread answers against it."""
    return e.gap.pvalue if one.name == Name.GAP and one.judged and e.gap is not None else one.pvalue


def unmatched(gap: FreshGap | None, thresholds: MemoryThresholds) -> bool:
    """Whether the fresh set is not as hard as the benchmark, as the references see it."""
    return (
        gap is not None
        and gap.matched is not None
        and gap.reference_pvalue is not None
        and (gap.reference_pvalue <= thresholds.matched_alpha or gap.matched.share < thresholds.matched_share_min)
    )


def told_by_words(evidence: Evidence, thresholds: MemoryThresholds) -> bool:
    """Whether neighbours' words or lengths tell the published order (Bonferroni over the measures)."""
    found = [p for p in evidence.exchangeable.values() if not np.isnan(p)]
    return bool(found) and min(found) * len(found) <= thresholds.exchangeable_alpha


def _ordered(
    own: FloatArray, references: Sequence[FloatArray], rng: np.random.Generator, n_resamples: int
) -> Ordered | None:
    if own.shape[1] < 2 or np.isnan(own[:, 0]).all():
        return None
    alone = order_test(own, rng=rng, n_resamples=n_resamples)
    beyond = spread = None
    if references:
        beyond = order_test(own - np.mean(references, axis=0), rng=rng, n_resamples=n_resamples)
    if len(references) > 1 and beyond is not None and beyond.units > 1:
        # Against nothing: of one set of units, the test is whether the mean beyond the references is above 0.
        spread = set_difference((_gains(own), _NOTHING), [(_gains(r), _NOTHING) for r in references])
    return Ordered(alone, beyond, spread, tuple(order_test(r, rng=rng, n_resamples=n_resamples) for r in references))


def _gains(x: FloatArray) -> FloatArray:
    """(units,) of the published order less the mean of the others; NaN where one is not there."""
    there = ~np.isnan(x[:, 1:])
    others = np.where(there, x[:, 1:], 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    found: FloatArray = np.where(there.any(axis=1), x[:, 0] - others, np.nan)
    return found


def _sets(one: tuple[ModelSet, ModelSet | None], text: str) -> Sets:
    published, fresh = one
    assert fresh is not None  # noqa: S101 - only asked for where there is a fresh set
    return published.texts[text], fresh.texts[text]


def _clusters(cell: MemoryCell) -> tuple[np.ndarray, np.ndarray]:
    assert cell.fresh is not None  # noqa: S101
    return cell.published.cluster, cell.fresh.cluster


def _difference(cell: MemoryCell, text: str) -> SetDifference | None:
    try:
        return set_difference(_sets(cell.tested, text), [_sets(r, text) for r in cell.references], _clusters(cell))
    except DataError:
        return None  # not two items of each set have this text: the indicator says so


def _gap(
    cell: MemoryCell, thresholds: MemoryThresholds, rng: np.random.Generator, n_resamples: int
) -> tuple[FreshGap | None, tuple[FreshGap, FreshGap] | None, tuple[str, ...]]:
    """The gap as read, with unread answers held against it and for it, and the references that are left out."""
    assert cell.fresh is not None  # noqa: S101
    models = [(a, b) for a, b in (cell.tested, *cell.references) if b is not None]
    kept, left_out = models[:1], []
    for a, b in models[1:]:
        if _above_chance((a.score, b.score), cell.published, cell.fresh):
            kept.append((a, b))
        else:
            left_out.append(a.model)
    scores: list[Sets] = [(a.score, b.score) for a, b in kept]
    unread = [(a.unread, b.unread) for a, b in kept]
    level, power = thresholds.alpha / len(Name), thresholds.power
    try:
        found = fresh_gap(
            scores[0], scores[1:], _clusters(cell), rng=rng, alpha=level, power=power, n_resamples=n_resamples
        )
    except DataError:
        return None, None, tuple(left_out)  # not two items of each set were read: the gates say so
    held = held_gaps(
        scores[0], scores[1:], unread, _clusters(cell), rng=rng, alpha=level, power=power, n_resamples=n_resamples
    )
    return found, held, tuple(left_out)


def _above_chance(scores: tuple[FloatArray, FloatArray], published: ItemSet, fresh: ItemSet) -> bool:
    values = np.concatenate(scores)
    values = values[~np.isnan(values)]
    chance = (published.chance * published.n + fresh.chance * fresh.n) / (published.n + fresh.n)
    se = np.sqrt(max(chance * (1 - chance), 1e-12) / max(values.size, 1))
    return bool(values.size and values.mean() > chance + _STANDARD_ERRORS * se)


def _aucs(cell: MemoryCell) -> dict[str, tuple[Auc, Auc | None]]:
    if cell.tested[1] is None:
        return {}
    found: dict[str, tuple[Auc, Auc | None]] = {}
    for name in cell.tested[0].tokens:
        own = [one.tokens[name] for one in cell.tested if one is not None]
        if min(int((~np.isnan(x)).sum()) for x in own) < 2:
            continue
        beyond = None
        if cell.references:
            means = [np.mean([r[side].tokens[name] for r in cell.references if r[side]], axis=0) for side in (0, 1)]  # type: ignore[union-attr]
            beyond = membership_auc(own[0] - means[0], own[1] - means[1])
        found[name] = (membership_auc(own[0], own[1]), beyond)
    return found


def _indicators(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> tuple[Indicator, ...]:
    return (
        _order_indicator(cell, e, thresholds),
        _options_indicator(cell, e, thresholds),
        *(_completion_indicator(cell, e, name, thresholds) for name in COMPLETION),
        _gap_indicator(cell, e, thresholds),
    )


def _order_indicator(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    if e.order is None:
        return Indicator(Name.ORDER, why="the order test needs every item: n=all")
    own = e.order.own
    if own.units < thresholds.shards_min:
        return Indicator(Name.ORDER, why=f"{own.units} shards are too few (shards_min={thresholds.shards_min:g})")
    read = _read_by_all([one[0].order for one in (cell.tested, *cell.references)])
    if read < thresholds.shards_min:
        why = f"{read} shards that every reference could read are too few (shards_min={thresholds.shards_min:g})"
        return Indicator(Name.ORDER, why=why)
    if e.order.beyond is None and told_by_words(e, thresholds):
        return Indicator(
            Name.ORDER,
            why="the words of neighbours alone tell the published order, and no reference shows what that is worth",
        )
    if e.fresh_order is not None and e.fresh_order.pvalue <= thresholds.matched_alpha:
        return Indicator(Name.ORDER, why="the order of the fresh items, which cannot have been learnt, is likelier too")
    shown = e.order.shown
    return Indicator(Name.ORDER, e.order.pvalue, None, shown.gain, shown.low, shown.high, "nats a shard")


def _read_by_all(orders: Sequence[FloatArray]) -> int:
    """Units (units, 1 + orders) of which every model has a likelihood of the published order and of another: without
    these nothing is beyond the references, and that is no sign of none."""
    there = ~np.isnan(np.sum(orders, axis=0))
    return int(np.sum(there[:, 0] & there[:, 1:].any(axis=1)))


def _options_indicator(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    own = e.options.own if e.options else None
    units = own.units if own else 0
    if e.options is None or own is None or units < thresholds.items_min:
        why = f"{units} items have options without a natural order (items_min={thresholds.items_min:g})"
        return Indicator(Name.OPTIONS, why=why)
    read = _read_by_all([one[0].options for one in (cell.tested, *cell.references)])
    if read < thresholds.items_min:
        why = f"{read} such items that every reference could read are too few (items_min={thresholds.items_min:g})"
        return Indicator(Name.OPTIONS, why=why)
    shown = e.options.shown
    return Indicator(Name.OPTIONS, e.options.pvalue, None, shown.gain, shown.low, shown.high, "nats an item")


def _completion_indicator(cell: MemoryCell, e: Evidence, name: Name, thresholds: MemoryThresholds) -> Indicator:
    why = _no_comparison(cell, e, thresholds)
    found = e.completion.get(name)
    if why or found is None:
        return Indicator(name, why=why or "fewer than two items of each set have this text")
    scale = 1 / np.log(2)
    return Indicator(
        name, found.pvalue, None, scale * found.difference, scale * found.low, scale * found.high, "bits a byte"
    )  # fmt: skip


def _gap_indicator(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    why = _no_comparison(cell, e, thresholds)
    if why or e.gap is None:
        return Indicator(Name.GAP, why=why or "fewer than two items of each set were answered")
    if e.gap.matched is None:
        return Indicator(Name.GAP, why="no reference model is above chance, so none shows how hard the items are")
    if len(e.gap.did.gaps) < thresholds.references_min:
        there = len(e.gap.did.gaps)
        why = f"needs {thresholds.references_min:g} reference models that are above chance; {there} of them are"
        return Indicator(Name.GAP, why=why)
    did = e.gap.did
    # A finding must hold with unread answers held against it, too.
    pvalue = e.gap.pvalue if e.gap_adverse is None else max(e.gap.pvalue, e.gap_adverse.pvalue)
    return Indicator(Name.GAP, pvalue, None, 100 * did.difference, 100 * did.low, 100 * did.high, "points of accuracy")


def _no_comparison(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> str:
    if cell.fresh is None and not cell.references:
        return "needs fresh items (control_benchmark=) and reference models ('references=[..]')"
    if cell.fresh is None:
        return "needs fresh items (control_benchmark=): references alone do not part memory from a better model"
    if not cell.references:
        return "needs reference models ('references=[..]'): the fresh items may be harder, or written otherwise"
    if len(cell.references) < thresholds.references_min:
        return (
            f"needs {thresholds.references_min:g} reference models, as fewer do not show how much models differ; one "
            "is enough where it is this model before its training (verdict.references_min=1)"
        )
    if unmatched(e.gap, thresholds):
        return "the fresh items are not as hard as the benchmark's, as the references see it"
    return ""
