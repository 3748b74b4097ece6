"""What each indicator of one cell says: its p on every scale, or why it was not judged. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.memory.evidence import (
    COMPLETION,
    Evidence,
    Indicator,
    Name,
    Ordered,
    of_another_kind,
    on_both_scales,
    told_by_words,
    unmatched,
)
from audit.memory.record import MemoryCell
from audit.memory.thresholds import MemoryThresholds
from audit.statistics.between_models import one_family
from audit.statistics.order_test import OrderTest
from audit.statistics.paired import FloatArray

NO_REFERENCE = "an order with a sense of its own is likelier to any model, and no reference shows what that is worth"
_MORE_SENSE = "the references find this order likelier, too, and a larger model may feel its sense twice as much"
_OWN_SCALE = "in units of each model's own spread over the held-out items it may be chance"
_NO_SPREAD = "one other order does not tell how much orders differ; ask two or more (orders=2, option_orders=2)"
_ONE_SCALE = "on the scale of ability, which allows for easier and harder items, it is no more than chance"
_UNPARSED = "it is gone where the answers that could not be parsed are held against it"


def indicators(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> tuple[Indicator, ...]:
    """All six, in the order of `Name`."""
    found = (
        _order(cell, e, thresholds),
        _options(cell, e, thresholds),
        *(_completion(cell, e, name, thresholds) for name in COMPLETION),
        _gap(cell, e, thresholds),
    )
    family = one_family(cell.model, [one[0].model for one in cell.references])
    exact = (Name.ORDER, Name.OPTIONS) if cell.recorded else ()
    return tuple(_beside_one_family(one, family) if family and one.name not in exact else one for one in found)


def _beside_one_family(one: Indicator, family: str) -> Indicator:
    """References that are fine-tunes of one base agree on style, and so show too little of how much models differ."""
    if one.pvalue is None:
        return one
    doubt = f"the references are all of one family ({family}), which the model is not"
    return replace(one, pvalue=1.0, unguarded=one.pvalue, doubt=doubt)


def _order(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    if e.order is None:
        return Indicator(
            Name.ORDER,
            why="no other order was asked: the test needs every item (n=all) and a model that gives likelihoods",
        )
    own = e.order.own
    if own.units < thresholds.shards_min:
        return Indicator(Name.ORDER, why=f"{own.units} shards are too few (shards_min={thresholds.shards_min:g})")
    if cell.recorded:
        return _exact(Name.ORDER, own, "nats a shard")
    read = _read_by_all([one[0].order for one in (cell.tested, *cell.references)])
    if read < thresholds.shards_min:
        why = f"{read} shards that every reference could read are too few (shards_min={thresholds.shards_min:g})"
        return Indicator(Name.ORDER, why=why)
    if e.order.beyond is None and told_by_words(e, thresholds):
        return Indicator(
            Name.ORDER,
            why="the words of neighbours alone tell the published order, and no reference shows what that is worth",
        )
    if e.fresh_order is not None and e.fresh_order.unguarded <= thresholds.matched_alpha:
        return Indicator(
            Name.ORDER, why="the order of the held-out items, which cannot have been learnt, is likelier too"
        )
    return _of_order(Name.ORDER, e.order, "nats a shard")


def _options(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    units = e.options.own.units if e.options else 0
    if e.options is None or units < thresholds.items_min:
        why = f"{units} items have options without a natural order (items_min={thresholds.items_min:g})"
        return Indicator(Name.OPTIONS, why=why)
    if cell.recorded:
        return _exact(Name.OPTIONS, e.options.own, "nats an item")
    read = _read_by_all([one[0].options for one in (cell.tested, *cell.references)])
    if read < thresholds.items_min:
        why = f"{read} such items that every reference could read are too few (items_min={thresholds.items_min:g})"
        return Indicator(Name.OPTIONS, why=why)
    return _of_order(Name.OPTIONS, e.options, "nats an item")


def _exact(name: Name, own: OrderTest, unit: str) -> Indicator:
    """Of a published order that was drawn at random: no sense of its own, so nothing to guard against."""
    return Indicator(name, own.pvalue, None, own.gain, own.low, own.high, unit, unguarded=own.pvalue)


def _of_order(name: Name, ordered: Ordered, unit: str) -> Indicator:
    if ordered.beyond is not None and ordered.beyond.units > 1 and ordered.twice is None:
        return Indicator(name, why=_NO_SPREAD)
    shown, p = ordered.shown, ordered.pvalue
    needs = "needs reference models ('references=[..]'): " if p is None else ""
    return Indicator(
        name, p, None, shown.gain, shown.low, shown.high, unit,
        why=f"{needs}{NO_REFERENCE}" if needs else "",
        unguarded=ordered.unguarded,
        doubt=NO_REFERENCE if p is None else ordered.outside or _MORE_SENSE,
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
        return Indicator(name, why=why or "fewer than two items of each set have this text")
    nats, scale = found.nats, 1 / np.log(2)
    if min(nats.n, nats.m) < thresholds.items_min:
        return Indicator(name, why=_few(nats.n, nats.m, thresholds))
    return Indicator(
        name, found.pvalue, None, scale * nats.difference, scale * nats.low, scale * nats.high, "bits a byte",
        # Nothing at all in its own unit is explained by how much of any text the model makes: no doubt is left.
        unguarded=nats.pvalue if found.own_spread.pvalue <= thresholds.alpha else None, doubt=_OWN_SCALE,
    )  # fmt: skip


def _gap(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
    why = _no_comparison(cell, e, thresholds)
    if why or e.gap is None:
        return Indicator(Name.GAP, why=why or "fewer than two items of each set were answered")
    if e.gap.matched is None:
        return Indicator(Name.GAP, why="no reference model is above chance, so none shows how hard the items are")
    did, there = e.gap.did, len(e.gap.did.gaps)
    if there < thresholds.references_min:
        why = f"needs {thresholds.references_min:g} reference models that are above chance; {there} of them are"
        return Indicator(Name.GAP, why=why)
    if min(did.n, did.m) < thresholds.items_min:
        return Indicator(Name.GAP, why=_few(did.n, did.m, thresholds))
    pvalue, low, high = e.limits()
    as_parsed = on_both_scales(e.gap, e.rasch)[0]
    doubt = _ONE_SCALE if as_parsed > thresholds.alpha / len(Name) else _UNPARSED
    return Indicator(
        Name.GAP, pvalue, None, 100 * did.difference, 100 * low, 100 * high, "points of accuracy",
        unguarded=e.gap.pvalue, doubt=doubt,
    )  # fmt: skip


def _few(n: int, m: int, thresholds: MemoryThresholds) -> str:
    return f"{n} and {m} items that every model has are too few (items_min={thresholds.items_min:g} of each set)"


def _no_comparison(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> str:
    if cell.fresh is None and not cell.references:
        return "needs held-out items (control_benchmark=) and reference models ('references=[..]')"
    if cell.fresh is None:
        return "needs held-out items (control_benchmark=): references alone do not part memory from a better model"
    if not cell.references:
        return "needs reference models ('references=[..]'): the held-out items may be harder, or written otherwise"
    if len(cell.references) < thresholds.references_min:
        return (
            f"needs {thresholds.references_min:g} reference models, as fewer do not show how much models differ; one "
            "is enough where it is this model before its training (verdict.references_min=1)"
        )
    if unmatched(e.gap, thresholds):
        return "the held-out items are not as hard as the benchmark's, as the references see it"
    if of_another_kind(e.kind, thresholds):
        return "words alone tell the held-out items from the benchmark's: they differ in more than memory could show"
    return ""
