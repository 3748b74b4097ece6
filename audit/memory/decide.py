"""Evidence and gates -> one of five verdicts, with its reasons. The order is the policy."""

from __future__ import annotations

from collections.abc import Sequence

from audit.memory.evidence import Evidence, Indicator, Name
from audit.memory.result import Decision, MemoryVerdict
from audit.memory.thresholds import MemoryThresholds
from audit.memory.vocabulary import GATES, INDICATORS
from audit.verdict.gates import failed
from audit.verdict.result import Gate, Status, points
from audit.verdict.vocabulary import gate_reasons


def found(indicators: Sequence[Indicator], alpha: float) -> tuple[Indicator, ...]:
    """Those that speak for memory after the panel's correction."""
    return tuple(one for one in indicators if one.adjusted is not None and one.adjusted <= alpha)


def finding(indicators: Sequence[Indicator], alpha: float) -> MemoryVerdict | None:
    """The finding that the indicators alone support, or None: of the text before that of the score."""
    names = {one.name for one in found(indicators, alpha)}
    if names - {Name.GAP}:
        return MemoryVerdict.MEMORY_OF_TEXT
    return MemoryVerdict.GAP_TO_FRESH if names else None


def decide(evidence: Evidence, gates: Sequence[Gate], thresholds: MemoryThresholds) -> Decision:
    """The first that applies: withheld, memory of the text seen, gap to fresh items, underpowered, nothing seen.

    Findings keep their error rate however few data there are, so they stand before `underpowered`. Nothing is said to
    be not seen unless both kinds of indicator looked: one of the text, and the score against fresh items with enough
    data for the gap of interest, and unless the data refute that gap: that none was found is no sign of none where
    Holm's correction over a panel stood in its way. An unmatched fresh set withholds the verdict where nothing else
    speaks.
    """
    blocking = failed(gates)
    if blocking:
        return Decision(
            MemoryVerdict.WITHHELD,
            gate_reasons(blocking, GATES),
            tuple(g.advice for g in blocking if g.advice),
        )
    indicators, alpha = evidence.indicators, thresholds.alpha
    verdict = finding(indicators, alpha)
    if verdict is not None:
        return Decision(verdict, tuple(_said(one, alpha) for one in indicators), _what_to_do(verdict))
    by_name = {g.name: g for g in gates}
    bad = [by_name[n] for n in ("fresh_matched",) if n in by_name and by_name[n].status == Status.FAIL]
    if bad:
        return Decision(MemoryVerdict.WITHHELD, tuple(g.detail for g in bad), tuple(g.advice for g in bad))
    if _only_as_read(evidence, alpha):
        return Decision(
            MemoryVerdict.WITHHELD,
            (
                "The gap to fresh items is gone if the answers that could not be read are held against it (the model's "
                "counted as wrong on the benchmark and right on the fresh items, the references' the other way round): "
                "it may come from which answers were readable.",
                *(_said(one, alpha) for one in indicators),
            ),
            ("Read the unreadable replies and mend what makes them so, or read answers by likelihood.",),
        )
    judged = [one for one in indicators if one.judged]
    if not judged:
        return Decision(
            MemoryVerdict.WITHHELD,
            ("No indicator could be judged.", *(_said(one, alpha) for one in indicators)),
            ("Take every item (n=all), fresh items (control_benchmark=) and references ('references=[..]').",),
        )
    text = [one for one in judged if one.name != Name.GAP]
    gap = evidence.indicator(Name.GAP)
    reasons, advice = [_said(one, alpha) for one in indicators], []
    missing = False
    if not text:
        missing = True
        advice.append("Take every item (n=all) for the order test, or references for the completion of the text.")
    if not gap.judged:
        missing = True
        reasons.insert(0, "The score was not compared with fresh items: memory of questions and answers goes unseen.")
        advice.append("Run fresh items and references: control_benchmark=<set> 'references=[..]'.")
    elif by_name["enough_data"].status == Status.FAIL and evidence.gap is not None:
        missing = True
        reasons.insert(0, f"A gap below {points(evidence.gap.detectable)} to the fresh items could go unseen.")
        advice.append(by_name["enough_data"].advice)
    elif not evidence.largest_compatible <= thresholds.effect_of_interest:  # NaN clears nobody
        missing = True
        high = evidence.largest_compatible
        lost = evidence.gap is not None and evidence.gap.did.high <= thresholds.effect_of_interest
        held = " if the answers that could not be read are held for it" if lost else ""
        reasons.insert(
            0, f"A gap of {points(high)} to the fresh items is still compatible with the data (97.5 %){held}."
        )
        advice.append("Take more items, fresh ones above all, and more reference models.")
    if missing:
        return Decision(MemoryVerdict.UNDERPOWERED, tuple(reasons), tuple(advice))
    return Decision(MemoryVerdict.NOTHING_SEEN, tuple(reasons))


def _only_as_read(evidence: Evidence, alpha: float) -> bool:
    """Whether the gap would be found but for the reading that holds unread answers against it. No gap is found here."""
    return evidence.gap_as_read is not None and evidence.gap_as_read <= alpha


def _said(one: Indicator, alpha: float) -> str:
    title = INDICATORS[one.name].title
    if one.pvalue is None or one.estimate is None or one.low is None or one.high is None:
        return f"{title}: not judged: {one.why}."
    adjusted = one.pvalue if one.adjusted is None else one.adjusted
    return (
        f"{title}: {'seen' if adjusted <= alpha else 'not seen'}; {one.estimate:+.3g} {one.unit} (95 % interval "
        f"{one.low:+.3g} to {one.high:+.3g}), p={one.pvalue:.2g}, {adjusted:.2g} after correction over all indicators."
    )


def _what_to_do(verdict: MemoryVerdict) -> tuple[str, ...]:
    first = (
        "Take the score on this benchmark as that of a model that has read it."
        if verdict == MemoryVerdict.MEMORY_OF_TEXT
        else "Quote the score on the fresh items beside that on the benchmark."
    )
    return (first, "Look at the items whose text is likeliest against the references (tables/items.csv).")
