"""Evidence and gates -> one of six verdicts, with its reasons. The order is the policy."""

from collections.abc import Sequence

import numpy as np

from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Evidence, Indicator, Name, contaminated
from audit.memory.record import MemoryCell
from audit.memory.vocabulary import GATES, Decision
from audit.memory.vocabulary import MemoryVerdict as V
from audit.statistics.multiplicity import holm
from audit.statistics.unparsed import DECIDE_AT, tipping_point
from audit.verdict.result import Gate, Reason, Status, advice_of, because, failed
from audit.verdict.vocabulary import gate_reasons

# Gates whose failure takes away the indicators that need held-out items.
TAKEN_AWAY = ("fresh_matched", "fresh_drawn", "same_kind", "above_guessing")
_TEXT = (Name.ITEM, Name.HALF, Name.WRONG)
_TELLS_APART = {  # what to do about another cause, where it is not to take larger references
    "no_reference": "add_references", "one_family": "other_families", "abler": "abler_references",
    "no_bracket": "add_held_out",
    "ability_scale": "abler_references", "unparsed": "mend_unparsed", "undated": "state_dates",
}  # fmt: skip


def found(indicators: Sequence[Indicator], alpha: float) -> tuple[Indicator, ...]:
    """Those that speak for memory."""
    return tuple(one for one in indicators if one.seen(alpha))


def unexplained(indicators: Sequence[Indicator], alpha: float) -> tuple[Indicator, ...]:
    """Those that stand out, and may do so for another cause."""
    return tuple(one for one in indicators if one.open(alpha))


def finding(indicators: Sequence[Indicator], alpha: float) -> V | None:
    """The finding that the indicators alone support, or None: of the text before that of the score."""
    names = {one.name for one in found(indicators, alpha)}
    if names - {Name.GAP}:
        return V.MEMORY_OF_TEXT
    return V.GAP_TO_FRESH if names else None


def decide(evidence: Evidence, gates: Sequence[Gate], limits: MemoryThresholds) -> Decision:
    """The first that applies: withheld, memory of the text seen, gap to held-out items, cause unknown, underpowered,
    nothing seen.

    Findings keep their error rate however few data there are, so they stand before `underpowered`. What stands out, and
    may have another cause, is no finding. Nothing is said to be not seen unless both kinds of indicator looked, one of
    the text and the score against held-out items, and unless the data refute the gap of interest: that none was found
    is no sign of none where Holm's correction over a panel stood in its way. An unmatched held-out set withholds the
    verdict where nothing else speaks.
    """
    if blocking := failed(gates):
        return _withheld(blocking)
    indicators, alpha = evidence.indicators, limits.alpha
    said = tuple(_said(one, alpha) for one in indicators)
    verdict = finding(indicators, alpha)
    if verdict is not None:
        return Decision(verdict, said, _what_to_do(verdict, indicators))
    if open_ := unexplained(indicators, alpha):
        first = sorted(said, key=lambda one: one.code != "stands_out")
        codes = [_TELLS_APART.get(one.doubt.code, "larger_references") for one in open_ if one.doubt]
        return Decision(V.CAUSE_UNKNOWN, tuple(first), tuple(map(because, dict.fromkeys(codes))))
    if unfit := _unfit(gates):
        return _withheld(unfit)
    if not any(one.judged or one.unguarded is not None for one in indicators):
        few = [one.why for one in indicators if one.why and one.why.code == "few_references"]
        to_do = because("name_references", **few[0].numbers) if few else because("ask_all")
        return Decision(V.WITHHELD, (because("nothing_judged"), *said), (to_do,))
    missing, advice = _missing(evidence, limits)
    verdict = V.UNDERPOWERED if advice else V.NOTHING_SEEN
    return Decision(verdict, (*missing, *said), advice)


def _withheld(gates: Sequence[Gate]) -> Decision:
    return Decision(V.WITHHELD, gate_reasons(gates, GATES), advice_of(gates))


def _unfit(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    return tuple(g for g in gates if g.name in TAKEN_AWAY and g.status == Status.FAIL)


def _missing(evidence: Evidence, limits: MemoryThresholds) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """What stands in the way of `nothing seen`, and what to do about it; both are empty where nothing does."""
    reasons, advice = [], []
    alone = holm([np.nan if one.pvalue is None else one.pvalue for one in evidence.indicators])
    if any(p <= limits.alpha for p in alone):
        reasons.append(because("found_alone"))
        advice.append(because("judge_alone"))
    high = evidence.limits()[2]
    if not evidence.indicator(Name.GAP).judged:
        reasons.append(because("gap_not_compared"))
        advice.append(because("add_held_out"))
    elif not high <= limits.effect_of_interest:  # NaN clears nobody
        lost = evidence.limits(gamma=1.0)[2] <= limits.effect_of_interest
        reasons.append(because("gap_compatible", high=high, gamma=DECIDE_AT if lost else None))
        advice.append(because("ask_more"))
    if not any(one.judged and one.name != Name.GAP for one in evidence.indicators):
        advice.append(because("ask_texts"))
    return tuple(reasons), tuple(advice)


def tipping(evidence: Evidence, verdict: V, limits: MemoryThresholds) -> float | None:
    """Up to which odds ratio of unparsed answers (`audit.statistics.unparsed`) what is said of the gap holds: a finding
    of it, or its clearance. None where all were parsed, or the verdict does not rest on it."""
    gap = evidence.indicator(Name.GAP)
    if not evidence.held or not gap.pvalue or gap.adjusted is None:
        return None
    factor = gap.adjusted / gap.pvalue  # of Holm's correction

    def holds(gamma: float) -> bool:
        p, low, high = evidence.limits(gamma)
        if verdict == V.NOTHING_SEEN:
            return high <= limits.effect_of_interest
        return p * factor <= limits.alpha and low > 0

    if verdict != V.NOTHING_SEEN and gap not in found(evidence.indicators, limits.alpha):
        return None
    return tipping_point(holds)


def _said(one: Indicator, alpha: float) -> Reason:
    if one.open(alpha):
        code, p, adjusted = "stands_out", one.unguarded, one.unguarded_adjusted
    elif one.pvalue is None:
        return because("not_judged", indicator=one.name, why=one.why)
    else:
        code, p, adjusted = "seen" if one.seen(alpha) else "not_seen", one.pvalue, one.adjusted
    doubted = code == "stands_out" or (code == "not_seen" and one.low is not None and one.low > 0)
    return because(
        code, indicator=one.name, unit=one.unit, estimate=one.estimate, low=one.low, high=one.high, p=p,
        adjusted=p if adjusted is None else adjusted, doubt=one.doubt if doubted else None,
    )  # fmt: skip


def _what_to_do(verdict: V, indicators: Sequence[Indicator]) -> tuple[Reason, ...]:
    text = any(one.judged and one.name != Name.GAP for one in indicators)
    return (
        because("take_as_read" if verdict == V.MEMORY_OF_TEXT else "quote_held_out"),
        because("see_likely_items" if text else "see_named_items"),
    )


def headline(cell: MemoryCell, verdict: V, evidence: Evidence, gates: Sequence[Gate], alpha: float) -> Reason:
    """Who, on what, and what was found."""

    def of(code: str, **numbers: object) -> Reason:
        return because(f"headline_{code}", model=cell.model, benchmark=cell.benchmark, **numbers)

    seen = found(evidence.indicators, alpha)
    open_ = unexplained(evidence.indicators, alpha)
    judged = [one.name for one in evidence.indicators if one.judged]
    if verdict == V.WITHHELD:
        why = [GATES[g.name].because for g in failed(gates) or _unfit(gates)]
        return of("withheld", why=why or ["no indicator could be judged"])
    if verdict == V.MEMORY_OF_TEXT:
        names = [one.name for one in seen]
        return of("text", indicators=[name for name in names if name != Name.GAP], gap=Name.GAP in names)
    if verdict == V.GAP_TO_FRESH:
        assert evidence.gap is not None  # noqa: S101 - nothing else makes this verdict
        published, held_out = cell.scores
        return of("gap", published=published, held_out=held_out, difference=evidence.gap.did.difference)
    if verdict == V.CAUSE_UNKNOWN:
        return of("unknown", indicators=[one.name for one in open_], doubt=open_[0].doubt)
    if not judged:
        return of("none")
    return of("underpowered" if verdict == V.UNDERPOWERED else "nothing", judged=judged)


def cannot_exclude(cell: MemoryCell, evidence: Evidence, alpha: float) -> tuple[Reason, ...]:
    """What stays open whatever the verdict, and what stays open because a control was not run."""
    judged = {one.name for one in evidence.indicators if one.judged}
    codes = {
        "answers_learnt": Name.GAP not in judged,
        "order_read": Name.ORDER not in judged,
        "items_read": not judged.intersection(_TEXT),
        "other_layout": True,
        "read_once": True,
        "other_words": True,
        "references_read": bool(cell.references),
        "one_reference": len(cell.references) == 1,
        "held_out_differ": cell.fresh is not None,
    }
    learnt = contaminated(evidence, alpha)
    return (
        *(because(code) for code, there in codes.items() if there),
        *(because("reference_learnt", model=one.model, difference=one.difference) for one in learnt),
    )
