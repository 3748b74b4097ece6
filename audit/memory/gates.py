"""Can this measurement carry a verdict at all? Each is a function of one cell and its evidence.

`withholds` tells whether a failure alone withholds the verdict. `fresh_matched` and `order_exchangeable` take away the
indicators that rest on them; `enough_data` decides between `underpowered` and `nothing seen`: see `decide`.
"""

from __future__ import annotations

from collections.abc import Sequence

import scipy

from audit.memory.design import Arm
from audit.memory.evidence import Evidence, told_by_words, unmatched
from audit.memory.record import MemoryCell
from audit.memory.thresholds import MemoryThresholds
from audit.verdict.gates import absent, checked
from audit.verdict.result import Gate, points

_LIKELIHOODS = (Arm.PUBLISHED, Arm.OPTIONS, Arm.ORDER)


def all_gates(cell: MemoryCell, evidence: Evidence, thresholds: MemoryThresholds) -> tuple[Gate, ...]:
    """Every gate, in the order in which the report lists them."""
    return (
        likelihoods_read(cell, thresholds),
        orders_reach_model(cell, thresholds),
        parseability(cell, thresholds),
        fresh_matched(evidence, thresholds),
        order_exchangeable(evidence, thresholds),
        enough_data(evidence, thresholds),
    )


def likelihoods_read(cell: MemoryCell, thresholds: MemoryThresholds) -> Gate:
    """Share of given texts whose likelihood the engine told, by model, set and arm; number: the lowest."""
    return _reads(
        "likelihoods_read",
        cell,
        _LIKELIHOODS,
        thresholds.answered_share_min,
        "of the given texts have a likelihood",
        "Look at the errors of these rows: texts longer than max_model_len, above all.",
        withholds=True,
    )


def orders_reach_model(cell: MemoryCell, thresholds: MemoryThresholds) -> Gate:
    """An order of options, or of a shard, whose requests have the hashes of the published order's, or of another's,
    tests nothing. number: the share of such orders."""
    name, limit = "orders_reach_model", thresholds.noop_share_max
    source = "request_sha256 over the tokens that the model was sent; conf/verdict: noop_share_max"
    counts = [one.requests for one in cell.tested if one is not None]
    compared, same = sum(c.compared for c in counts), sum(c.same_as_original for c in counts)
    repeated = sum(c.repeated for c in counts)
    if not compared:
        return absent(name, limit, source, "No other order was compared with a published one.", withholds=False)
    share = (same + repeated) / compared
    return checked(
        name,
        share <= limit,
        share,
        limit,
        source,
        f"Of {compared} other orders of options and items, {same} were sent as the published order and {repeated} as "
        "another.",
        "Look at the texts that were sent: options with the same text, or texts that are cut off before they differ.",
        items=[id_ for c in counts for id_ in c.items],
    )


def parseability(cell: MemoryCell, thresholds: MemoryThresholds) -> Gate:
    """Share of items with a readable answer, by model and set; it withholds where the score is compared."""
    return _reads(
        "parseability",
        cell,
        (Arm.SCORE,),
        thresholds.answered_share_min,
        "of the answers can be read",
        "Read some unreadable replies: raise max_tokens if they are cut off, mend the prompt, or read answers by "
        "letter_logprob or option_text.",
        withholds=cell.fresh is not None,
    )


def fresh_matched(evidence: Evidence, thresholds: MemoryThresholds) -> Gate:
    """The references find published and fresh items equally hard, and fresh ones are there at every difficulty.

    number: p of the references' own gap.
    """
    name, limit = "fresh_matched", thresholds.matched_alpha
    source = "ours; the references' own gap; conf/verdict: matched_alpha, matched_share_min"
    gap = evidence.gap
    if gap is None or gap.matched is None or gap.reference_gap is None or gap.reference_pvalue is None:
        detail = "Without fresh items, or references above chance, nothing says how hard the fresh items are."
        return absent(name, limit, source, detail, withholds=False)
    return checked(
        name=name,
        passed=not unmatched(gap, thresholds),
        number=gap.reference_pvalue,
        threshold=limit,
        source=source,
        detail=f"The references score {_signed(gap.reference_gap)} on the benchmark against the fresh items "
        f"(p={gap.reference_pvalue:.2g}); {gap.matched.share:.0%} of its items have fresh ones of their difficulty.",
        advice="Draw fresh items that are as hard as the benchmark's: match them on the references' scores.",
        withholds=False,
        numbers={"reference_gap": gap.reference_gap, "matched_share": gap.matched.share},
    )


def order_exchangeable(evidence: Evidence, thresholds: MemoryThresholds) -> Gate:
    """Within shards the published order is not told by how alike the words and lengths of neighbours are.

    number: the smallest p, after Bonferroni over the measures.
    """
    name, limit = "order_exchangeable", thresholds.exchangeable_alpha
    source = "Oren et al. 2023 assume that items are exchangeable; conf/verdict: exchangeable_alpha"
    found = {k: p for k, p in evidence.exchangeable.items() if p == p}
    if not found or evidence.order is None:
        return absent(name, limit, source, "The order test was not run.", withholds=False)
    smallest = min(1.0, min(found.values()) * len(found))
    bad = told_by_words(evidence, thresholds)
    return checked(
        name=name,
        passed=not bad,
        number=smallest,
        threshold=limit,
        source=source,
        detail=f"The words and lengths of neighbours {'tell' if bad else 'do not tell'} the published order "
        f"(p={smallest:.2g}).",
        advice="Run reference models: the order then counts only where it is likelier to this model than to them.",
        withholds=False,
        numbers=dict(found),
    )


def enough_data(evidence: Evidence, thresholds: MemoryThresholds) -> Gate:
    """The gap to fresh items that this design finds, against the effect of interest. A failure means `underpowered`."""
    name, limit = "enough_data", thresholds.effect_of_interest
    source = "the standard error of the difference in differences; conf/verdict: effect_of_interest"
    if evidence.gap is None:
        return absent(name, limit, source, "No score on fresh items was compared.", withholds=False)
    seen = evidence.gap.detectable
    passed = bool(seen <= limit)  # false for NaN: nothing varies, nothing can be told
    return checked(
        name=name,
        passed=passed,
        number=seen,
        threshold=limit,
        source=source,
        detail=f"The smallest gap that this design finds with {thresholds.power:.0%} power is {points(seen)}; the gap "
        f"of interest is {points(limit)}.",
        advice="Take more items, fresh ones above all, and more reference models.",
        withholds=False,
    )


def _reads(
    name: str, cell: MemoryCell, arms: Sequence[Arm], limit: float, what: str, advice: str, *, withholds: bool
) -> Gate:
    source = "li2026, gate G1 (at least 0.95); conf/verdict: answered_share_min"
    shares: dict[str, tuple[float, int, int]] = {}
    for pair in (cell.tested, *cell.references):
        for one, items in zip(pair, (cell.published, cell.fresh), strict=True):
            for arm in arms:
                if one is not None and items is not None and (reads := one.reads.get(arm)) and reads.asked:
                    shares[f"{one.model}, {items.name}, {arm}"] = (reads.share, reads.read, reads.asked)
    if not shares:
        return absent(name, limit, source, "Nothing of the kind was asked.", withholds=False)
    worst = min(shares, key=lambda k: shares[k][0])
    share, read, asked = shares[worst]
    interval = scipy.stats.binomtest(read, asked).proportion_ci(0.95, method="wilson")
    return checked(
        name=name,
        passed=share >= limit,
        number=share,
        threshold=limit,
        source=source,
        detail=f"{share:.1%} (95 % interval {interval.low:.1%} to {interval.high:.1%}) {what}: {worst}, the lowest of "
        f"{len(shares)}.",
        advice=advice,
        withholds=withholds,
        numbers={key: value[0] for key, value in shares.items()},
    )


def _signed(value: float) -> str:
    return f"{100 * value:+.1f} points"
