"""The statistics of one cell, and what each indicator says: its p on every scale, or why it was not judged. Pure.

The analysis and the calibration both call `measure`.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.errors import DataError
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import (
    COMPLETION,
    Apart,
    Evidence,
    Held,
    Indicator,
    Name,
    Ordered,
    Text,
    of_another_kind,
    on_all_scales,
    selected,
    told_by_words,
    unmatched,
)
from audit.memory.record import MemoryCell, ModelSet
from audit.statistics.between_models import one_family
from audit.statistics.completion import Auc, membership_auc
from audit.statistics.fresh_gap import FreshGap, agreement, fresh_gap, unparsed_held
from audit.statistics.order_test import N_RESAMPLES, OrderTest, order_test
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.priors import PRIORS
from audit.statistics.rasch import RaschGap, ability_gaps
from audit.statistics.set_difference import Sets, beside, in_own_spread, set_difference
from audit.statistics.unparsed import DECIDE_AT, GAMMAS
from audit.statistics.values import mean_of
from audit.verdict.result import Reason, because

PRIOR = PRIORS["held_out"]
_NOTHING = np.zeros(2)
_DRAWS = 1999  # of the test of matched items, at least: they are cheap, and Holm over a panel asks for a small p
_STANDARD_ERRORS = 2.0  # above chance, to serve as a reference of the score: a model that guesses sees no difficulty
_MORE_LIKELY = 0.05  # fewer nats a byte than the best reference, from which the references do not bracket
_ABLER = 0.10  # accuracy on held-out items above the best reference, likewise


def measure(
    cell: MemoryCell,
    thresholds: MemoryThresholds,
    *,
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
    gammas: Sequence[float] = GAMMAS,
    describe: bool = True,
) -> Evidence:
    """All statistics of one cell; indicators as yet without the panel's correction.

    gammas: at which unparsed answers are held; DECIDE_AT is always among them. describe: with what no verdict rests on.
    """
    own, references = cell.tested[0], [one[0] for one in cell.references]
    outside = _outside(cell)
    order = _ordered(own.order, [r.order for r in references], rng, n_resamples, outside, describe)
    options = _ordered(own.options, [r.options for r in references], rng, n_resamples, outside, describe)
    fresh_order = None
    if cell.tested[1] is not None:
        theirs = [r[1].order for r in cell.references if r[1] is not None]
        fresh_order = _ordered(cell.tested[1].order, theirs, rng, n_resamples, None, describe)
    exchangeable = {
        name: order_test(values, rng=rng, n_resamples=n_resamples).pvalue
        for name, values in cell.published.neighbours.items()
        if values.shape[1] > 1
    }
    kept, left_out = _above_guessing(cell)
    gap, abilities, held = _gap(cell, kept, thresholds, sorted({*gammas, DECIDE_AT}), rng, n_resamples)
    texts = COMPLETION.items() if references and cell.fresh is not None else ()
    both = [(a.score, b.score) for a, b in cell.references if b is not None]
    evidence = Evidence(
        order=order,
        options=options,
        fresh_order=fresh_order,
        exchangeable=exchangeable,
        completion={name: found for name, text in texts if (found := _text(cell, text)) is not None},
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
    )
    return replace(evidence, indicators=indicators(cell, evidence, thresholds))


def _outside(cell: MemoryCell) -> Reason | None:
    """How the references do not bracket the tested model on the held-out items: None where they do, or none is there.

    What an order's sense, or a popular text, is worth to a model goes with its size. A model that finds any text
    likelier than every reference does, or answers more of the held-out items, may feel it more than all of them.
    """
    if not cell.references:
        return None
    sides = [pair[1] for pair in (cell.tested, *cell.references) if pair[1] is not None]
    if len(sides) < 2:
        return because("no_bracket")
    texts = [mean_of(one.texts["item"]) for one in sides]
    if texts[0] < 0 and texts[0] > (1 - _MORE_LIKELY) * max(texts[1:]):
        return because("any_text_likelier")
    scores = [mean_of(one.score) for one in sides]
    if scores[0] > max(scores[1:]) + _ABLER:
        return because("abler")
    return None


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
            # Against nothing: of one set of units, the test is whether the mean beyond the references is above 0.
            unit, theirs = _in_own_unit(own), [_in_own_unit(r) for r in references]
            known = not any(np.isnan(r).all() for r in (unit, *theirs))  # one other order of a unit has no spread
            twice = set_difference((unit, _NOTHING), [(2 * r, _NOTHING) for r in theirs]) if known else None
            if len(references) > 1:
                spread = set_difference((_gains(own), _NOTHING), [(_gains(r), _NOTHING) for r in references])
                own_spread = set_difference((unit, _NOTHING), [(r, _NOTHING) for r in theirs]) if known else None
    tests = tuple(order_test(r, rng=rng, n_resamples=0) for r in references) if describe else ()
    return Ordered(alone, beyond, spread, own_spread, twice, tests, outside)


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


def _text(cell: MemoryCell, text: str) -> Text | None:
    sides: list[Sets] = [(a.texts[text], b.texts[text]) for a, b in (cell.tested, *cell.references) if b is not None]
    if cell.fresh and cell.published.log_length is not None and cell.fresh.log_length is not None:
        sides = [beside(one, (cell.published.log_length, cell.fresh.log_length)) for one in sides]
    clusters = _clusters(cell)
    try:
        nats = set_difference(sides[0], sides[1:], clusters)
        scaled = [in_own_spread(one) for one in sides]
        return Text(nats, set_difference(scaled[0], scaled[1:], clusters))
    except DataError:
        return None  # not two items of each set have this text: the indicator says so


def _above_guessing(cell: MemoryCell) -> tuple[list[tuple[ModelSet, ModelSet]], tuple[str, ...]]:
    """The tested model and the references of the score, and the names of those that are left out of it."""
    models = [(a, b) for a, b in (cell.tested, *cell.references) if b is not None]
    if cell.fresh is None or not models:
        return [], ()
    chance = float(np.average(cell.chance, weights=(cell.published.n, cell.fresh.n)))
    kept, left_out = models[:1], []
    for a, b in models[1:]:
        values = np.concatenate([a.score, b.score])
        values = values[~np.isnan(values)]
        se = np.sqrt(max(chance * (1 - chance), 1e-12) / max(values.size, 1))
        if values.size and values.mean() > chance + _STANDARD_ERRORS * se:
            kept.append((a, b))
        else:
            left_out.append(a.model)
    return kept, tuple(left_out)


def _gap(
    cell: MemoryCell,
    models: Sequence[tuple[ModelSet, ModelSet]],
    thresholds: MemoryThresholds,
    gammas: Sequence[float],
    rng: np.random.Generator,
    n_resamples: int,
) -> tuple[FreshGap | None, tuple[RaschGap, ...], tuple[Held, ...]]:
    """The gap as parsed, in points and on scales of ability, and with unparsed answers held at each gamma, where
    there are any."""

    def judged(scores: Sequence[Sets], heights: Sequence[FloatArray] | None = None) -> FreshGap:
        return fresh_gap(
            scores[0], scores[1:], clusters, rng=rng, alpha=thresholds.alpha / len(Name), power=thresholds.power,
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
            on_all_scales(judged(*made), able(made[0]))
            for made in (unparsed_held(scores, unparsed, gamma, against=side) for side in (True, False))
        )
        held.append(Held(gamma, against[0], against[1], favour[2]))
    return found, abilities, tuple(held)


def _apart(references: Sequence[tuple[ModelSet, ModelSet]], clusters: tuple[IntArray, IntArray]) -> tuple[Apart, ...]:
    """Each reference's gap against the rest of them, as one more clean model's; none with fewer than three."""
    found = []
    for k, (one, _) in enumerate(references if len(references) > 2 else ()):
        sets: list[Sets] = [(a.score, b.score) for a, b in references]
        gap = fresh_gap(
            sets[k], [*sets[:k], *sets[k + 1 :]], clusters, rng=np.random.default_rng(0), n_resamples=1, prior=PRIOR
        )
        above = gap.did.pvalue if gap.predicted is None else gap.predicted.pvalue
        found.append(Apart(one.model, gap.did.difference, gap.low, gap.high, min(1.0, 2 * min(above, 1 - above))))
    return tuple(found)


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


def indicators(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> tuple[Indicator, ...]:
    """All six, in the order of `Name`."""
    found = (
        _order(cell, e, thresholds),
        _options(cell, e, thresholds),
        *(_completion(cell, e, name, thresholds) for name in COMPLETION),
        _gap_indicator(cell, e, thresholds),
    )
    return tuple(
        replace(one, pvalue=1.0, unguarded=one.pvalue, doubt=doubt)
        if one.judged and (doubt := _doubt(cell, one.name))
        else one
        for one in found
    )


def _doubt(cell: MemoryCell, name: Name) -> Reason | None:
    """A cause beside memory that no number of this indicator can exclude."""
    exact = cell.recorded and name in (Name.ORDER, Name.OPTIONS)
    # Fine-tunes of one base agree on style, and so show too little of how much models differ.
    if (family := one_family(cell.model, [one[0].model for one in cell.references], cell.families)) and not exact:
        return because("one_family", family=family)
    return because("undated") if cell.undated and name == Name.GAP else None


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


def _gap_indicator(cell: MemoryCell, e: Evidence, thresholds: MemoryThresholds) -> Indicator:
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
