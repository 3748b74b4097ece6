"""Evidence and gates -> one of six verdicts, with its reasons. The order is the policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.memory.evidence import Evidence, Indicator, Name
from audit.memory.result import Decision, MemoryVerdict
from audit.memory.thresholds import MemoryThresholds
from audit.memory.vocabulary import GATES, INDICATORS
from audit.statistics.multiplicity import holm
from audit.statistics.unparsed import DECIDE_AT, tipping_point
from audit.verdict.gates import failed
from audit.verdict.result import Gate, Status, points
from audit.verdict.vocabulary import gate_reasons

TAKEN_AWAY = ("fresh_matched", "same_kind")  # gates whose failure takes away the indicators that need held-out items


def found(indicators: Sequence[Indicator], alpha: float) -> tuple[Indicator, ...]:
    """Those that speak for memory."""
    return tuple(one for one in indicators if one.seen(alpha))


def unexplained(indicators: Sequence[Indicator], alpha: float) -> tuple[Indicator, ...]:
    """Those that stand out, and may do so for another cause."""
    return tuple(one for one in indicators if one.open(alpha))


def finding(indicators: Sequence[Indicator], alpha: float) -> MemoryVerdict | None:
    """The finding that the indicators alone support, or None: of the text before that of the score."""
    names = {one.name for one in found(indicators, alpha)}
    if names - {Name.GAP}:
        return MemoryVerdict.MEMORY_OF_TEXT
    return MemoryVerdict.GAP_TO_FRESH if names else None


def decide(evidence: Evidence, gates: Sequence[Gate], thresholds: MemoryThresholds) -> Decision:
    """The first that applies: withheld, memory of the text seen, gap to held-out items, cause unknown, underpowered,
    nothing seen.

    Findings keep their error rate however few data there are, so they stand before `underpowered`. What stands out, and
    may have another cause, is no finding. Nothing is said to be not seen unless both kinds of indicator looked, one of
    the text and the score against held-out items, and unless the data refute the gap of interest: that none was found
    is no sign of none where Holm's correction over a panel stood in its way. An unmatched held-out set withholds the
    verdict where nothing else speaks.
    """
    blocking = failed(gates)
    if blocking:
        return Decision(
            MemoryVerdict.WITHHELD,
            gate_reasons(blocking, GATES),
            tuple(g.advice for g in blocking if g.advice),
        )
    indicators, alpha = evidence.indicators, thresholds.alpha
    said = tuple(_said(one, alpha) for one in indicators)
    verdict = finding(indicators, alpha)
    if verdict is not None:
        return Decision(verdict, said, _what_to_do(verdict, indicators))
    if open_ := unexplained(indicators, alpha):
        causes = tuple(f"{INDICATORS[one.name].title}: it stands out, but {one.doubt}." for one in open_)
        return Decision(MemoryVerdict.CAUSE_UNKNOWN, (*causes, *said), _to_part_causes(open_))
    return _nothing_found(evidence, gates, thresholds, said)


def _nothing_found(
    evidence: Evidence, gates: Sequence[Gate], thresholds: MemoryThresholds, said: tuple[str, ...]
) -> Decision:
    """What no indicator that speaks means: withheld where none could look, underpowered where one is missing."""
    unfit = [g for g in gates if g.name in TAKEN_AWAY and g.status == Status.FAIL]
    if unfit:
        return Decision(MemoryVerdict.WITHHELD, tuple(g.detail for g in unfit), tuple(g.advice for g in unfit))
    if not any(one.judged or one.unguarded is not None for one in evidence.indicators):
        return Decision(
            MemoryVerdict.WITHHELD,
            ("No indicator could be judged.", *said),
            ("Take every item (n=all), held-out items (control_benchmark=) and references ('references=[..]').",),
        )
    missing, advice = _missing(evidence, thresholds)
    if advice:
        return Decision(MemoryVerdict.UNDERPOWERED, (*missing, *said), advice)
    return Decision(MemoryVerdict.NOTHING_SEEN, said)


def _missing(evidence: Evidence, thresholds: MemoryThresholds) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What stands in the way of `nothing seen`, and what to do about it; advice is empty where nothing does."""
    reasons, advice = [], []
    alone = holm([np.nan if one.pvalue is None else one.pvalue for one in evidence.indicators])
    if any(p <= thresholds.alpha for p in alone):
        reasons.append(
            "Judged by itself this model would be found: the correction over the panel takes the finding away."
        )
        advice.append("Judge this model by itself, or with more references.")
    if not any(one.judged and one.name != Name.GAP for one in evidence.indicators):
        advice.append("Run with reference models and every item (n=all): the tests of order and text need both.")
    high = evidence.limits()[2]
    if not evidence.indicator(Name.GAP).judged:
        reasons.append("The score was not compared with held-out items: memory of questions and answers goes unseen.")
        advice.append("Run held-out items and references: control_benchmark=<set> 'references=[..]'.")
    elif not high <= thresholds.effect_of_interest:  # NaN clears nobody
        lost = evidence.limits(gamma=1.0)[2] <= thresholds.effect_of_interest
        held = f" if unparsed answers were right {DECIDE_AT:g} times as often as expected" if lost else ""
        reasons.append(
            f"A gap of {points(high)} to the held-out items is still compatible with the data (97.5 %){held}."
        )
        advice.append("Take more items, held-out ones above all, and more reference models.")
    return tuple(reasons), tuple(advice)


def tipping(evidence: Evidence, verdict: MemoryVerdict, thresholds: MemoryThresholds) -> float | None:
    """Up to which odds ratio of unparsed answers (`audit.statistics.unparsed`) what is said of the gap holds: a finding
    of it, or its clearance. None where all were parsed, or the verdict does not rest on it."""
    gap = evidence.indicator(Name.GAP)
    if not evidence.held or not gap.pvalue or gap.adjusted is None:
        return None
    factor = gap.adjusted / gap.pvalue  # of Holm's correction

    def holds(gamma: float) -> bool:
        p, low, high = evidence.limits(gamma)
        if verdict == MemoryVerdict.NOTHING_SEEN:
            return high <= thresholds.effect_of_interest
        return p * factor <= thresholds.alpha and low > 0

    if verdict != MemoryVerdict.NOTHING_SEEN and gap not in found(evidence.indicators, thresholds.alpha):
        return None
    return tipping_point(holds)


def _said(one: Indicator, alpha: float) -> str:
    title = INDICATORS[one.name].title
    if one.pvalue is None or one.estimate is None or one.low is None or one.high is None:
        return f"{title}: not judged: {one.why}."
    adjusted = one.pvalue if one.adjusted is None else one.adjusted
    return (
        f"{title}: {'seen' if one.seen(alpha) else 'not seen'}; {one.estimate:+.3g} {one.unit} "
        f"(95 % interval {one.low:+.3g} to {one.high:+.3g}), p={one.pvalue:.2g}, {adjusted:.2g} after correction over "
        f"all indicators{f'; {one.doubt}' if one.low > 0 and one.doubt and not one.seen(alpha) else ''}."
    )


def _what_to_do(verdict: MemoryVerdict, indicators: Sequence[Indicator]) -> tuple[str, ...]:
    first = (
        "Take the score on this benchmark as that of a model that has read it."
        if verdict == MemoryVerdict.MEMORY_OF_TEXT
        else "Quote the score on the held-out items beside that on the benchmark."
    )
    if not any(one.judged and one.name != Name.GAP for one in indicators):
        return (first, "Look at the items that are likely answered from memory (tables/items_from_memory.csv).")
    return (first, "Look at the items whose text is likeliest against the references (tables/items.csv).")


def _to_part_causes(open_: Sequence[Indicator]) -> tuple[str, ...]:
    """What would tell memory from the other cause."""
    advice = []
    if any(not one.judged for one in open_):
        advice.append("Run reference models ('references=[..]'): they show what the published order is worth to any.")
    if any(one.judged and one.name != Name.GAP for one in open_):
        advice.append(
            "Take references of this model's size or larger, so that some find any text as likely as it does."
        )
    if any(one.name == Name.GAP for one in open_):
        advice.append(
            "Read the unparsed replies and mend what makes them so, or read answers by likelihood; take references "
            "that are as able as this model."
        )
    return tuple(advice)
