"""What each indicator of one cell says: its p on every scale, or why it was not judged. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.memory.design import MemoryThresholds
from audit.memory.evidence import (
    COMPLETION,
    Evidence,
    Indicator,
    Name,
    Ordered,
    of_another_kind,
    on_all_scales,
    selected,
    told_by_words,
    unmatched,
)
from audit.memory.record import MemoryCell
from audit.statistics.between_models import one_family
from audit.statistics.order_test import OrderTest
from audit.statistics.paired import FloatArray
from audit.verdict.result import Reason, because


def indicators(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> tuple[Indicator, ...]:
    """All six, in the order of `Name`."""
    found = (
        _order(cell, e, thresholds),
        _options(cell, e, thresholds),
        *(_completion(cell, e, name, thresholds) for name in COMPLETION),
        _gap(cell, e, thresholds),
    )
    return tuple(one if (doubt := _doubt(cell, one.name)) is None else _doubted(one, doubt) for one in found)


def _doubt(cell: MemoryCell, name: Name) -> Reason | None:
    """A cause beside memory that no number of this indicator can exclude."""
    exact = cell.recorded and name in (Name.ORDER, Name.OPTIONS)
    # Fine-tunes of one base agree on style, and so show too little of how much models differ.
    if (family := one_family(cell.model, [one[0].model for one in cell.references], cell.families)) and not exact:
        return because("one_family", family=family)
    return because("undated") if cell.undated and name == Name.GAP else None


def _doubted(one: Indicator, doubt: Reason) -> Indicator:
    return one if one.pvalue is None else replace(one, pvalue=1.0, unguarded=one.pvalue, doubt=doubt)


def _order(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    name, least = Name.ORDER, thresholds.shards_min
    if e.order is None:
        return Indicator(name, why=because("no_other_order"))
    if (shards := e.order.own.units) < least:
        return Indicator(name, why=because("few_shards", shards=shards, least=least))
    if cell.recorded:
        return _exact(name, e.order.own, "nats a shard")
    if (read := _read_by_all([one[0].order for one in (cell.tested, *cell.references)])) < least:
        return Indicator(name, why=because("few_shards_read", shards=read, least=least))
    if e.order.beyond is None and told_by_words(e, thresholds):
        return Indicator(name, why=because("words_tell_order"))
    if e.fresh_order is not None and e.fresh_order.unguarded <= thresholds.matched_alpha:
        return Indicator(name, why=because("held_out_order_likelier"))
    return _of_order(name, e.order, "nats a shard")


def _options(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    name, least, items = Name.OPTIONS, thresholds.items_min, e.options.own.units if e.options else 0
    if e.options is None or items < least:
        return Indicator(name, why=because("few_orders", items=items, least=least))
    if cell.recorded:
        return _exact(name, e.options.own, "nats an item")
    if (read := _read_by_all([one[0].options for one in (cell.tested, *cell.references)])) < least:
        return Indicator(name, why=because("few_orders_read", items=read, least=least))
    return _of_order(name, e.options, "nats an item")


def _exact(name: Name, own: OrderTest, unit: str) -> Indicator:
    """Of a published order that was drawn at random: no sense of its own, so nothing to guard against."""
    return Indicator(name, own.pvalue, None, own.gain, own.low, own.high, unit, unguarded=own.pvalue)


def _of_order(name: Name, ordered: Ordered, unit: str) -> Indicator:
    if ordered.beyond is not None and ordered.beyond.units > 1 and ordered.twice is None:
        return Indicator(name, why=because("one_other_order"))
    shown, p = ordered.shown, ordered.pvalue
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


def _completion(cell: MemoryCell, e: Evidence, name: Name, thresholds: MemoryThresholds) -> Indicator:
    why = _no_comparison(cell, e, thresholds)
    found = e.completion.get(name)
    if why or found is None:
        return Indicator(name, why=why or because("few_with_text"))
    nats, scale = found.nats, 1 / np.log(2)
    if min(nats.n, nats.m) < thresholds.items_min:
        return Indicator(name, why=_few(nats.n, nats.m, thresholds))
    return Indicator(
        name, 1.0 if e.outside else found.pvalue, None, scale * nats.difference, scale * nats.low, scale * nats.high,
        "bits a byte",
        # Nothing at all in its own unit is explained by how much of any text the model makes: no doubt is left.
        unguarded=nats.pvalue if found.own_spread.pvalue <= thresholds.alpha else None,
        doubt=e.outside or because("own_scale"),
    )  # fmt: skip


def _gap(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    why = _no_comparison(cell, e, thresholds)
    if why or e.gap is None:
        return Indicator(Name.GAP, why=why or because("few_answered"))
    if e.gap.matched is None:
        return Indicator(Name.GAP, why=because("references_guess"))
    did, there = e.gap.did, len(e.gap.did.gaps)
    if there < thresholds.references_min:
        return Indicator(
            Name.GAP, why=because("few_able_references", references=there, least=thresholds.references_min)
        )
    if min(did.n, did.m) < thresholds.items_min:
        return Indicator(Name.GAP, why=_few(did.n, did.m, thresholds))
    pvalue, low, high = e.limits()
    as_parsed = on_all_scales(e.gap, e.abilities)[0]
    doubt = because("ability_scale" if as_parsed > thresholds.alpha / len(Name) else "unparsed")
    return Indicator(
        Name.GAP, pvalue, None, 100 * did.difference, 100 * low, 100 * high, "points of accuracy",
        unguarded=e.gap.pvalue, doubt=doubt,
    )  # fmt: skip


def _few(n: int, m: int, thresholds: MemoryThresholds) -> Reason:
    return because("few_items", items=n, held_out=m, least=thresholds.items_min)


def _no_comparison(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Reason | None:
    references = len(cell.references)
    if cell.fresh is None:
        return because("needs_held_out" if references else "needs_both")
    if not references:
        return because("needs_references")
    if references < thresholds.references_min:
        return because("few_references", references=references, least=thresholds.references_min)
    if unmatched(e.gap, thresholds):
        return because("not_as_hard")
    if selected(e.alike, thresholds):
        return because("chosen")
    return because("another_kind") if of_another_kind(e.kind, thresholds) else None
