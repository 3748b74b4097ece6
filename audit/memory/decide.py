"""Decide one cell from its evidence and gates: its grade, its verdict, reasons and advice.

`audit.judging.ladder` defines the grades.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.judging.ladder import NO_ROOM, Bound, Contrast, Grade, grade
from audit.judging.result import Gate, Reason, Status, because, failed
from audit.judging.vocabulary import verdict_of
from audit.memory.design import MemoryThresholds
from audit.memory.evidence import Evidence, Indicator, Name, contaminated
from audit.memory.record import MemoryCell
from audit.memory.vocabulary import GATES, VERDICTS, Decision
from audit.memory.vocabulary import MemoryVerdict as V
from audit.statistics.multiplicity import holm
from audit.statistics.unparsed import DECIDE_AT, tipping_point

# If one of these gates fails, the indicators that need held-out items are not judged.
TAKEN_AWAY = ("fresh_matched", "fresh_drawn", "same_kind", "above_guessing")
_TEXT = (Name.ITEM, Name.HALF, Name.WRONG)
# Map the code of a cause other than memory to the code of the advice that helps to exclude this
# cause. The default advice is to use larger references.
_EXCLUDES = {
    "no_reference": "add_references",
    "one_family": "other_families",
    "abler": "abler_references",
    "no_bracket": "add_held_out",
    "ability_scale": "abler_references",
    "guessing_rate": "near_references",
    "unparsed": "mend_unparsed",
    "undated": "state_dates",
}
# Codes of advice whose sentences contain the numbers of the doubt.
_DETAILED = ("other_families", "state_dates")


def significant(indicators: Sequence[Indicator], alpha: float) -> tuple[Indicator, ...]:
    """Return the indicators that are evidence of memory.

    Parameters
    ----------
    indicators : sequence of Indicator
        The indicators after the panel's correction.
    alpha : float
        Level of the tests.

    Returns
    -------
    tuple of Indicator
        The indicators that are significant even with the guards against other causes.
    """
    return tuple(indicator for indicator in indicators if indicator.seen(alpha))


def unexplained(indicators: Sequence[Indicator], alpha: float) -> tuple[Indicator, ...]:
    """Return the indicators that are significant, but possibly because of a cause other than
    memory.

    Parameters
    ----------
    indicators : sequence of Indicator
        The indicators after the panel's correction.
    alpha : float
        Level of the tests.

    Returns
    -------
    tuple of Indicator
        The indicators that are significant only without the guards against other causes.
    """
    return tuple(indicator for indicator in indicators if indicator.open(alpha))


def finding(indicators: Sequence[Indicator], alpha: float) -> V | None:
    """Return the finding that the indicators support.

    Parameters
    ----------
    indicators : sequence of Indicator
        The indicators after the panel's correction.
    alpha : float
        Level of the tests.

    Returns
    -------
    MemoryVerdict or None
        Memory of the text if an indicator of the text is significant. Otherwise a gap, if the
        indicator of the score is significant. None if no indicator is significant.
    """
    names = _names(significant(indicators, alpha))
    if set(names) - {Name.GAP}:
        return V.MEMORY_OF_TEXT
    return V.GAP_TO_FRESH if names else None


def _names(indicators: Sequence[Indicator]) -> list[Name]:
    """Return the names of indicators."""
    return [indicator.name for indicator in indicators]


# Map the code of what an indicator lacks to the code of the advice. The default advice is to ask
# more items.
_LACKS = {
    "needs_both": "add_held_out",
    "needs_held_out": "add_held_out_alone",
    "needs_references": "name_references",
    "few_references": "name_references",
    "references_guess": "abler_references",
    "few_able_references": "abler_references",
    "no_other_order": "ask_every_item",
    "no_reference": "name_references",
}


def decide(evidence: Evidence, gates: Sequence[Gate], limits: MemoryThresholds) -> Decision:
    """Return the decision on one cell: its grade, its verdict, the reasons and the advice.

    Parameters
    ----------
    evidence : Evidence
        The indicators, corrected over the panel.
    gates : sequence of Gate
        Results of the checks of the measurement.
    limits : MemoryThresholds
        The level and the smallest effect that matters.

    Returns
    -------
    Decision
        The grade and the verdict, with reasons and advice.

    Notes
    -----
    Each indicator is a contrast with guards against causes other than memory.

    Only the gap to held-out items has a bound, so only the gap can clear a cell. Memory of answers
    is excluded if the one-sided 95 % upper limit of the gap is at most the smallest effect that
    matters. The likelihood of the text plays no role in this.

    A cell is not cleared if a finding is significant only without the panel's correction, or if the
    gap is significantly below zero. If the held-out items do not match the benchmark and there is
    no other finding, the verdict is withheld.
    """
    indicators, alpha = evidence.indicators, limits.alpha
    blocking = failed(gates)
    unfit = _unfit(gates)
    contrasts = [_contrast(indicator, evidence, unfit, limits) for indicator in indicators]
    graded = grade(contrasts, [g.name for g in blocking])
    statements = tuple(_statement(indicator, alpha) for indicator in indicators)
    if graded.grade == Grade.CHECK_FAILED:
        return Decision.withheld(V.WITHHELD, blocking or unfit, GATES)
    verdict = verdict_of(VERDICTS, graded.grade)
    if graded.grade == Grade.FOUND_STRONG:
        verdict = finding(indicators, alpha) or verdict
        return Decision(verdict, graded.grade, statements, _advice(verdict, indicators))
    if graded.grade == Grade.CAUSE_UNKNOWN:
        first = sorted(statements, key=lambda statement: statement.code != "stands_out")
        advice = _to_exclude(graded.codes, indicators)
        return Decision(verdict, graded.grade, tuple(first), advice)
    if graded.codes == (NO_ROOM,):
        room = because(NO_ROOM, score=_ability(evidence), effect=limits.effect_of_interest)
        return Decision(verdict, graded.grade, (room, *statements), (because("harder_items"),))
    if graded.grade == Grade.NOT_IDENTIFIED:
        return Decision(
            verdict,
            graded.grade,
            (because("nothing_bounded"), *statements),
            _to_identify(indicators, limits),
        )
    missing, advice = _missing(evidence, limits)
    return Decision(
        verdict,
        graded.grade,
        (*missing, *statements),
        advice if graded.grade == Grade.UNDECIDED else (),
    )


def _to_exclude(codes: Sequence[str], indicators: Sequence[Indicator]) -> tuple[Reason, ...]:
    """Return the advice that excludes other causes, given the codes of these causes."""
    doubts = {}
    for indicator in indicators:
        if indicator.doubt is not None:
            doubts[indicator.doubt.code] = indicator.doubt
    advice: dict[str, Reason] = {}
    for code in codes:
        step = _EXCLUDES.get(code, "larger_references")
        numbers = doubts[code].numbers if step in _DETAILED and code in doubts else {}
        advice.setdefault(step, because(step, **numbers))
    return tuple(advice.values())


def _contrast(
    indicator: Indicator, e: Evidence, unfit: Sequence[Gate], limits: MemoryThresholds
) -> Contrast:
    """Convert an indicator to a contrast, from which `audit.judging.ladder` computes the grade."""
    alpha, gap = limits.alpha, indicator.name == Name.GAP
    judged = indicator.judged or indicator.unguarded is not None
    contrast = indicator.contrast(alpha)
    missing: tuple[str, ...] = ()
    if not judged and not (gap and unfit):
        missing = (indicator.why.code if indicator.why else "few_answered",)
    bound = None
    if gap:
        room = 1 - _ability(e) >= limits.effect_of_interest
        # The comparison is false for NaN, so a limit of NaN clears no model.
        excluded = e.upper() <= limits.effect_of_interest
        hidden = e.favours_held_out or _found_alone(e, alpha)
        bound = Bound(excluded and not hidden, room)
    checks = tuple(g.name for g in unfit) if gap and not contrast.speaks else ()
    return replace(contrast, bound=bound, failed=checks, missing=missing)


def _ability(e: Evidence) -> float:
    """Return the score on the benchmark minus the gap (0-1); NaN without a gap."""
    return float("nan") if e.gap is None else e.gap.published - e.gap.did.difference


def _found_alone(e: Evidence, alpha: float) -> bool:
    """Return whether the cell would have a finding without the correction over the panel."""
    pvalues = []
    for indicator in e.indicators:
        pvalues.append(np.nan if indicator.pvalue is None else indicator.pvalue)
    return bool(np.any(holm(pvalues) <= alpha))


def _unfit(gates: Sequence[Gate]) -> tuple[Gate, ...]:
    """Return the failed gates that must pass before the held-out items can be compared."""
    return tuple(g for g in gates if g.name in TAKEN_AWAY and g.status == Status.FAIL)


def _to_identify(indicators: Sequence[Indicator], limits: MemoryThresholds) -> tuple[Reason, ...]:
    """Return advice on which data could answer the question. Advice on the gap comes first."""
    ordered = sorted(indicators, key=lambda indicator: indicator.name != Name.GAP)
    codes = []
    for indicator in ordered:
        if indicator.why:
            codes.append(_LACKS.get(indicator.why.code, "ask_more"))
    return tuple(because(code, least=limits.references_min) for code in dict.fromkeys(codes))


def _missing(
    evidence: Evidence, limits: MemoryThresholds
) -> tuple[tuple[Reason, ...], tuple[Reason, ...]]:
    """Return the reasons why the cell is not cleared, and advice; both are empty if it is cleared."""
    reasons, advice = [], []
    if _found_alone(evidence, limits.alpha):
        reasons.append(because("found_alone"))
        advice.append(because("judge_alone"))
    if evidence.favours_held_out:
        reasons.append(because("held_out_favoured", low=-evidence.limits()[2]))
        advice.append(because("other_held_out"))
    high = evidence.upper()
    lost = evidence.upper(gamma=1.0) <= limits.effect_of_interest < high
    reasons.append(because("gap_compatible", high=high, gamma=DECIDE_AT if lost else None))
    if not high <= limits.effect_of_interest:
        advice.append(because("ask_more"))
    doubts = set()
    for indicator in evidence.indicators:
        if indicator.doubt is not None:
            doubts.add(indicator.doubt.code)
    if "one_family" in doubts:
        advice += _to_exclude(["one_family"], evidence.indicators)
    return tuple(reasons), tuple(advice)


def tipping(evidence: Evidence, verdict: V, limits: MemoryThresholds) -> float | None:
    """Return the largest odds ratio of imputed unparsed answers at which the statement on the gap
    holds.

    Parameters
    ----------
    evidence : Evidence
        The statistics, with unparsed answers imputed at several odds ratios
        (`audit.statistics.unparsed`).
    verdict : MemoryVerdict
        A clearance, or a verdict that may depend on a gap.
    limits : MemoryThresholds
        The level and the smallest effect that matters.

    Returns
    -------
    float or None
        The odds ratio. None if all answers were parsed, or if the verdict does not depend on the
        gap.
    """
    gap = evidence.indicator(Name.GAP)
    if not evidence.held or not gap.pvalue or gap.adjusted is None:
        return None
    holm_factor = gap.adjusted / gap.pvalue

    def holds(gamma: float) -> bool:
        """Return whether the statement holds at odds ratio gamma."""
        p, low, _ = evidence.limits(gamma)
        if verdict == V.NOTHING_SEEN:
            return evidence.upper(gamma) <= limits.effect_of_interest
        return p * holm_factor <= limits.alpha and low > 0

    if verdict != V.NOTHING_SEEN and gap not in significant(evidence.indicators, limits.alpha):
        return None
    return tipping_point(holds)


def _statement(indicator: Indicator, alpha: float) -> Reason:
    """Return the statement on one indicator, as a code with numbers."""
    if indicator.open(alpha):
        code, p, adjusted = "stands_out", indicator.unguarded, indicator.unguarded_adjusted
    elif indicator.pvalue is None:
        return because("not_judged", indicator=indicator.name, why=indicator.why)
    else:
        code = "seen" if indicator.seen(alpha) else "not_seen"
        p, adjusted = indicator.pvalue, indicator.adjusted
    positive = indicator.low is not None and indicator.low > 0
    doubted = code == "stands_out" or (code == "not_seen" and positive)
    return because(
        code,
        indicator=indicator.name,
        unit=indicator.unit,
        estimate=indicator.estimate,
        low=indicator.low,
        high=indicator.high,
        p=p,
        adjusted=p if adjusted is None else adjusted,
        doubt=indicator.doubt if doubted else None,
    )


def _advice(verdict: V, indicators: Sequence[Indicator]) -> tuple[Reason, ...]:
    """Return what the user can do after a finding."""
    text = any(indicator.judged and indicator.name != Name.GAP for indicator in indicators)
    return (
        because("take_as_read" if verdict == V.MEMORY_OF_TEXT else "quote_held_out"),
        because("see_likely_items" if text else "see_named_items"),
    )


def headline(
    cell: MemoryCell, verdict: V, evidence: Evidence, gates: Sequence[Gate], alpha: float
) -> Reason:
    """Return the headline of a cell as a code with numbers.

    Parameters
    ----------
    cell : MemoryCell
        The cell, with the names of model and benchmark.
    verdict : MemoryVerdict
        The verdict on the cell.
    evidence : Evidence
        The statistics, with the indicators.
    gates : sequence of Gate
        Results of the checks of the measurement.
    alpha : float
        Level of the indicators.

    Returns
    -------
    Reason
        The code of a sentence of `audit.memory.texts`, with its numbers.
    """

    def of(code: str, **numbers: object) -> Reason:
        """Return the headline of a code, with the names of model and benchmark."""
        return because(f"headline_{code}", model=cell.model, benchmark=cell.benchmark, **numbers)

    open_ = unexplained(evidence.indicators, alpha)
    judged = []
    for indicator in evidence.indicators:
        if indicator.judged:
            judged.append(indicator.name)
    if verdict == V.WITHHELD:
        why = [GATES[g.name].because for g in failed(gates) or _unfit(gates)]
        return of("withheld", why=why)
    if verdict == V.NOT_IDENTIFIED:
        return of("not_identified")
    if verdict == V.MEMORY_OF_TEXT:
        names = _names(significant(evidence.indicators, alpha))
        texts = [name for name in names if name != Name.GAP]
        return of("text", indicators=texts, gap=Name.GAP in names)
    if verdict == V.GAP_TO_FRESH:
        published, held_out = cell.scores
        return of("gap", published=published, held_out=held_out, difference=evidence.difference)
    if verdict == V.CAUSE_UNKNOWN:
        return of("unknown", indicators=_names(open_), doubt=open_[0].doubt)
    return of("underpowered" if verdict == V.UNDERPOWERED else "nothing", judged=judged)


def cannot_exclude(cell: MemoryCell, evidence: Evidence, alpha: float) -> tuple[Reason, ...]:
    """Return the explanations that the verdict does not exclude.

    Parameters
    ----------
    cell : MemoryCell
        The cell, with its references and held-out items.
    evidence : Evidence
        The judged indicators.
    alpha : float
        Level at which a reference counts as contaminated.

    Returns
    -------
    tuple of Reason
        Explanations that no verdict excludes, and those that a missing control leaves open.
    """
    judged = set()
    for indicator in evidence.indicators:
        if indicator.judged:
            judged.add(indicator.name)
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
        "other_guessing": cell.fresh is not None and any(cell.chance),
        "other_sampling": cell.fresh is not None,
    }
    reasons = []
    for code, applies in codes.items():
        if applies:
            reasons.append(because(code))
    for reference in contaminated(evidence, alpha):
        reasons.append(
            because("reference_learnt", model=reference.model, difference=reference.difference)
        )
    return tuple(reasons)
