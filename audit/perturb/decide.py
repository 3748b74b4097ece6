"""Decide a cell from its evidence and gates: a grade, its code and its reasons, and how far it holds. The ladder is in
audit.judging."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.errors import DataError
from audit.json_types import attributes
from audit.judging.ladder import FINDINGS, NO_ROOM, Bound, Contrast, Grade, Graded, Guard, grade
from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import Evidence, Grounds, Tests, adverse, beside_references, no_larger
from audit.perturb.record import PerturbCell
from audit.perturb.vocabulary import GATES, Decision
from audit.perturb.vocabulary import PerturbVerdict as V
from audit.statistics.unparsed import tipping_point
from audit.verdict.result import Gate, Reason, Status, advice_of, because, failed
from audit.verdict.vocabulary import gate_reasons

Reasons = tuple[Reason, ...]
REFERENCES = 5  # that are asked for where there are fewer
_COMPARED = ("difference", "low", "high", "pvalue")
BEYOND = (V.DROP_BEYOND_REFERENCE, V.DROP_SUGGESTS_MEMORY)
COUNTED = (*BEYOND, V.CAUSE_UNKNOWN)  # a drop counts


def finding(alpha: float, found_p: float, beyond_p: float | None) -> V | None:
    """The finding that these p-values support, or None. beyond_p: None where it was not tested; NaN finds nothing."""
    if beyond_p is not None and beyond_p <= alpha:
        return V.DROP_BEYOND_REFERENCE
    return V.CAUSE_UNKNOWN if found_p <= alpha else None


def standing(tests: Tests, alpha: float, found_p: float, beyond_p: float | None) -> V | None:
    """The finding that the tests support with unparsed answers imputed against it, too.

    The panel's correction scales a cell's p as parsed; the same factor is applied to the adverse one.
    """
    found = finding(alpha, found_p, beyond_p)
    if found is None or (held := tests.adverse) is None:
        return found

    def corrected(adverse: float | None, as_read: float | None, panel: float | None) -> float:
        factor = max(panel / as_read, 1.0) if panel and as_read else 1.0
        return np.nan if adverse is None else adverse * factor

    own = corrected(held.found_p, tests.found_p, found_p)
    left = finding(alpha, own, corrected(held.beyond_p, tests.beyond_p, beyond_p))
    return found if left and found == V.CAUSE_UNKNOWN else left


_VERDICTS = {
    Grade.CHECK_FAILED: V.WITHHELD,
    Grade.NOT_IDENTIFIED: V.NOT_IDENTIFIED,
    Grade.FOUND_STRONG: V.DROP_BEYOND_REFERENCE,
    Grade.FOUND_SUGGESTIVE: V.DROP_SUGGESTS_MEMORY,
    Grade.CAUSE_UNKNOWN: V.CAUSE_UNKNOWN,
    Grade.UNDECIDED: V.UNDERPOWERED,
    Grade.CLEARED: V.NO_DROP_DETECTED,
}


def decide(
    evidence: Grounds | None,
    gates: Sequence[Gate],
    limits: PerturbThresholds,
    found_p: float | None = None,
    beyond_p: float | None = None,
) -> Decision:
    """Return the grade of the ladder with the audit's code and reasons. p-values: after correction over the panel;
    without one the evidence's own.

    A drop counts where the permutation test speaks for it, its 95 % interval excludes zero, and it is larger than
    broken variants could make. It is beyond reference where the references bracket the tested model and are not all of
    one other family, it is larger than theirs on all three scales, off their curve where there are ten or more, and
    not what a model loses that is sensitive to wording (`Tests.own_p`). It is strong where it is more than any such
    model loses, or more than this one loses on reworded held-out items; else suggestive, as a model that is sensitive
    on hard items alone makes the same data. Held-out items alone make no such finding: rewordings of theirs that are
    less hard would make it. A model is cleared by its data alone: a drop of the smallest effect that matters must be
    refuted (Schuirmann 1987), and one beyond the references' where there are any, as easier rewordings hide memory.
    """
    blocking = failed(gates)
    if evidence is None or blocking:
        return _unmeasured(evidence, blocking)
    if found_p is None:
        found_p, beyond_p = evidence.tests.found_p, evidence.tests.beyond_p
    few = [g for g in gates if g.name == "enough_data" and g.status == Status.FAIL]
    found = finding(limits.alpha, found_p, beyond_p) if not few and evidence.drop.drop.low > 0 else None
    lost = _lost(found, evidence.tests, limits.alpha, found_p, beyond_p)
    contrast = _contrast(evidence, limits, found, beyond_p, few)
    graded = grade([contrast], [lost] if lost else [])
    if lost:
        reasons, advice, doubt = _of_lost(lost, limits)
    elif few:
        reasons, advice, doubt = _of_few(few[0], evidence.tests)
    elif found is None:
        reasons, advice, doubt = _not_found(evidence, limits, found_p, gates, graded)
    else:
        reasons, advice, doubt = _of_drop(evidence, limits, found_p, graded)
    return Decision(_VERDICTS[graded.grade], graded.grade, reasons, advice, doubt)


def _unmeasured(evidence: Grounds | None, blocking: Sequence[Gate]) -> Decision:
    """Return the decision of a cell without anything to compare, or with a failed check."""
    code = "" if evidence is not None else "nothing_to_compare"
    graded = grade((), [g.name for g in blocking] or [code])
    why = (because(code),) if code else gate_reasons(blocking, GATES)
    return Decision(_VERDICTS[graded.grade], graded.grade, why, advice_of(blocking), code)


def _lost(found: V | None, tests: Tests, alpha: float, found_p: float, beyond_p: float | None) -> str:
    """Return which finding unparsed answers take away, as a code; "" if none."""
    left = found and standing(tests, alpha, found_p, beyond_p)
    if left == found:
        return ""
    return "unparsed_beyond" if left else "unparsed_drop"


def _contrast(
    evidence: Grounds, limits: PerturbThresholds, found: V | None, beyond_p: float | None, few: Sequence[Gate]
) -> Contrast:
    """Return the drop as a contrast of the ladder. few: the check of enough data, if it failed."""
    guards = (
        Guard("beyond_references", excluded=found == V.DROP_BEYOND_REFERENCE),
        Guard("hard_items", excluded=strong(evidence.tests, limits.alpha, beyond_p), stated=True),
    )
    alone = evidence.equivalence.p_no_larger <= limits.alpha  # false for NaN
    beside = evidence.beside is None or evidence.beside <= limits.alpha
    room = 1 - evidence.drop.variants >= limits.effect_of_interest
    return Contrast("drop", found is not None, guards, Bound(not few and alone and beside, room))


Said = tuple[Reasons, Reasons, str]  # reasons, advice, doubt


def _of_lost(lost: str, limits: PerturbThresholds) -> Said:
    advice = [because("mend_unparsed")]
    if lost == "unparsed_beyond":
        advice.append(because("mend_references"))
    return (because(lost, gamma=limits.unparsed_gamma),), tuple(advice), lost


def _of_few(few: Gate, tests: Tests) -> Said:
    reasons = Reason(f"gate_{few.name}", few.numbers, few.detail), *_held_out(tests)
    return reasons, advice_of([few]), "few_questions"


def _of_drop(evidence: Grounds, limits: PerturbThresholds, found_p: float, graded: Graded) -> Said:
    """Return what is said of a drop that counts: of its grade, and of its cause if that is unknown."""
    tests = evidence.tests
    broken = because("variants_not_read")
    if tests.broken_p is not None:
        broken = because("above_broken", margin=tests.margin, pvalue=tests.broken_p)
    reasons = (*_fallen(evidence, found_p), broken, *_beyond(tests), *tests.left_out)
    if graded.grade in FINDINGS:
        suggestive = graded.grade == Grade.FOUND_SUGGESTIVE
        stated = (because("hard_items"),) if suggestive else ()
        first = because("reword_held_out" if suggestive else "repeat_on_held_out")
        return (*reasons, *stated, *_held_out(tests), because("lower_bound")), (first, because("read_items")), ""
    doubt = _doubt(tests, limits.alpha)
    stated = (because(doubt),) if doubt == "not_clearly_more" else ()
    return (*reasons, *stated, *_held_out(tests)), _to_tell(tests), doubt


def strong(tests: Tests, alpha: float, beyond_p: float | None) -> bool:
    """Return whether a drop beyond reference is more than any model loses that is sensitive to wording, with unparsed
    answers held against it too. beyond_p: after the panel's correction, whose factor is applied here as well."""
    if tests.strong_p is None or beyond_p is None:
        return False
    factor = max(beyond_p / tests.beyond_p, 1.0) if tests.beyond_p else 1.0
    held = tests.strong_p
    if tests.adverse is not None:
        held = max(held, np.nan if tests.adverse.strong_p is None else tests.adverse.strong_p)
    return bool(held * factor <= alpha)


def _not_found(
    evidence: Grounds, limits: PerturbThresholds, found_p: float, gates: Sequence[Gate], graded: Graded
) -> Said:
    """Return what is said where no drop counts: is one of the smallest effect that matters refuted?"""
    tests, alpha, equivalence = evidence.tests, limits.alpha, evidence.equivalence
    doubt = ""  # why a drop that seems to be there does not count
    if tests.exchange.pvalue <= alpha and tests.broken_p is not None and tests.broken_p > alpha:
        doubt = "broken_could_make"
    elif found_p <= alpha:
        doubt = "includes_zero"
    seen: Reasons = (because("not_counted", pvalue=found_p),)
    if doubt:
        seen = (*_fallen(evidence, found_p), because(doubt, margin=tests.margin))
    alone = equivalence.p_no_larger <= alpha
    reasons = [
        *seen,
        because("largest", largest=evidence.drop.largest),
        because("ruled_out" if alone else "not_ruled_out", delta=equivalence.delta, pvalue=equivalence.p_no_larger),
    ]
    advice = [because("ask_memory")]
    if graded.codes == (NO_ROOM,):
        reasons.append(because(NO_ROOM, score=evidence.drop.variants, effect=equivalence.delta))
    elif graded.grade == Grade.CLEARED:
        reasons.append(because("learnt_answers"))
        if evidence.beside is None:
            advice.append(because("run_references"))
    else:
        advice = [_more(gates)]
        if alone:
            doubt = doubt or "beside_references"
            reasons.append(because("not_beside_references", delta=equivalence.delta, pvalue=evidence.beside))
        if np.isfinite(evidence.detectable):
            reasons.append(because("power", drop=evidence.detectable, power=limits.power))
    return (*reasons, *_held_out(tests)), tuple(advice), doubt


def _more(gates: Sequence[Gate]) -> Reason:
    """What to do where a drop that matters is possible still: in numbers where the plan needs more than were asked."""
    size = next((g.numbers for g in gates if g.name == "enough_data"), {})
    asked, needed = size.get("asked") or 0.0, size.get("needed") or 0.0
    return because("more_questions", asked=asked, needed=needed) if needed > asked else because("more_items")


def _fallen(evidence: Grounds, found_p: float) -> Reasons:
    drop = attributes(evidence.drop.drop, "estimate", "low", "high")
    fallen = because("fallen", **drop, pvalue=evidence.tests.exchange.pvalue)
    return fallen, because("corrected", pvalue=found_p)


def _beyond(tests: Tests) -> Reasons:
    if not tests.beyond:
        return (because("no_usable_references" if tests.left_out else "no_references"),)
    found = [because(f"beyond_{b.scale}", **attributes(b, *_COMPARED)) for b in tests.beyond]
    if tests.prior:
        found.append(because("prior", **vars(tests.prior), plain=max(b.plain.pvalue for b in tests.beyond)))
    if tests.bracket is not None and not tests.bracket.holds:
        found.append(because("not_bracketed", **vars(tests.bracket), references=tests.beyond[0].references))
    if tests.family:
        found.append(because("one_family", family=tests.family))
    if tests.fall is not None:
        found.append(because("fall", **vars(tests.fall)))
    if tests.far is not None:
        found.append(because("far", **vars(tests.far)))
    if tests.curve is not None:
        numbers = attributes(tests.curve, "references", "expected", "accuracy", "pvalue")
        found.append(because("curve" if tests.curve_counts else "curve_vague", **numbers))
    return tuple(found)


def _doubt(tests: Tests, alpha: float) -> str:
    control, bracket = tests.held_out, tests.bracket
    above = bracket is not None and tests.broken_p is not None and tests.reference_p <= alpha
    if control is not None and (above or bracket is None):
        if control.pvalue > alpha:
            return "touchy"
        if bracket is None:
            return "beyond_held_out"
    if bracket is None:
        return "no_usable_references" if tests.left_out else "no_references"
    if not above:
        return "variants_not_read" if tests.broken_p is None else "not_clearly_more"
    if not bracket.holds:
        return "not_bracketed"
    if tests.family:
        return "one_family"
    return "common_fall" if tests.own_p > alpha else "not_clearly_more"  # by the panel's correction alone


def _held_out(tests: Tests) -> Reasons:
    """What was measured on held-out items, whatever the verdict; why they were not asked where they were not."""
    control = tests.control
    if control is None:
        return ()
    if control.why is not None:
        return (control.why,)
    found = [because("held_out_drop", benchmark=control.benchmark, n=control.n, drop=control.drop)]
    found += [because(f"held_out_{b.scale}", **attributes(b, *_COMPARED)) for b in control.beyond]
    if control.references is not None:
        numbers = attributes(control.references, "difference", "low", "high")
        found.append(because("held_out_references", **numbers, references=control.reference_models))
    return tuple(found)


def _to_tell(tests: Tests) -> Reasons:
    bracket = tests.bracket
    found = [] if tests.broken_p is not None else [because("review_variants")]
    if not tests.beyond:
        found.append(because("run_references"))
    if bracket is not None and bracket.highest < bracket.own - bracket.margin:
        found.append(because("abler_reference", accuracy=bracket.own - bracket.margin))
    elif bracket is not None and not bracket.holds:
        found.append(because("weaker_reference", accuracy=bracket.own + bracket.margin))
    if tests.family:
        found.append(because("other_family"))
    if tests.beyond and tests.beyond[0].references < REFERENCES:
        found.append(because("more_references"))
    if tests.control is None:
        found.append(because("reword_held_out"))
    return (*found, because("ask_memory"))


def headline(cell: PerturbCell, decision: Decision, e: Evidence | None, gates: Sequence[Gate]) -> Reason:
    """Who, on what, and what was found."""
    code = f"headline_{decision.verdict}"
    who = {"model": cell.tested.model, "benchmark": cell.benchmark, "doubt": decision.doubt}
    if e is None or decision.verdict == V.WITHHELD:
        return because(code, **who, why=[GATES[g.name].because for g in failed(gates)])
    beyond = min((b.difference for b in e.tests.beyond), default=None)
    d = e.drop
    return because(code, **who, score=d.original, drop=d.drop.estimate, largest=d.largest, beyond=beyond)


def cannot_exclude(cell: PerturbCell, e: Evidence | None) -> Reasons:
    """What stays open whatever the verdict, and what stays open because a control was not run."""
    if e is None:
        return (because("answers_as_facts"),)
    beyond, control, unlike = e.tests.beyond, e.tests.control, cell.control.unlike if cell.control else ()
    many = beyond[0].references if beyond else 0
    asked = control is not None and control.asked
    found = (
        (True, because("answers_as_facts")),
        (not beyond, because("harder_variants")),
        (many == 1, because("one_reference")),
        (many > 1, because("suits_less", references=many, tau=max((b.tau for b in beyond), default=0.0))),
        (many > 1, because("references_remember")),
        (control is not None and not asked, because("held_out_not_asked")),
        (asked, because("held_out_easier")),  # that rewordings of two sets are equally hard cannot be shown
        (asked, because("held_out_harder")),
        (asked and unlike, because("held_out_unlike", unlike=unlike)),
        (cell.broken is None, because("broken_variants")),
        (e.noise.replicates < 2, because("runs_differ")),
        (not e.items.can_flag, because("which_items", smallest_p=e.items.smallest_p)),
    )
    return tuple(reason for there, reason in found if there)


@dataclass(frozen=True)
class Unparsed:
    """share: unparsed of the tested model's answers (0-1). holds: of which verdict the tipping point is; None where
    none hangs on them. tipping_point: the odds ratio up to which it holds, null in verdict.json where the worst case
    leaves it (`worst_case`). largest_worst: the largest drop in the worst case, 0-1."""

    share: float
    holds: V | None
    tipping_point: float
    worst_case: bool
    largest_worst: float | None

    @property
    def reason(self) -> Reason:
        return because("unparsed", **vars(self))


def unparsed(
    cell: PerturbCell,
    evidence: Evidence,
    decision: Decision,
    limits: PerturbThresholds,
    pvalues: tuple[float, float | None],
    rng: np.random.Generator,
) -> Unparsed | None:
    """Of one cell; None where all that was asked was parsed, of the references too. pvalues: (found, beyond) after the
    panel's correction. A finding that is withheld for its unparsed answers has its tipping point, too."""
    if all(w.parsed for w in (cell.tested, *cell.references)):
        return None
    alpha, tests = limits.alpha, evidence.tests
    of = finding(alpha, *pvalues) if evidence.drop.drop.low > 0 else None
    if cleared := decision.verdict == V.NO_DROP_DETECTED:
        of = V.NO_DROP_DETECTED
    elif decision.verdict == V.UNDERPOWERED:
        of = None

    def holds(gamma: float) -> bool:
        if cleared:
            beside = beside_references(cell, limits, gamma) or 0.0
            return max(no_larger(cell, limits, gamma)[0].p_no_larger, beside) <= alpha
        try:
            held = adverse(cell, tests, limits, gamma, rng)
        except DataError:  # a reference that is not above chance then
            return False
        return standing(replace(tests, adverse=held), alpha, *pvalues) == of

    point = tipping_point(holds) if of else float("nan")
    there = cell.tested.was_asked
    asked = int(there.sum()) + len(cell.tested.original) * int(there.any(axis=0).sum())
    share = sum(int(part.sum()) for part in cell.tested.unread) / max(asked, 1)
    return Unparsed(share, of, point, bool(np.isinf(point)), evidence.largest_worst)
