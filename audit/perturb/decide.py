"""Decide one cell from its evidence and gates.

The decision has a grade, a verdict and reasons, and states how robust the verdict is.
`audit.judging.ladder` defines the grades.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from audit.core.errors import DataError
from audit.core.json_types import attributes
from audit.judging.ladder import FINDINGS, NO_ROOM, Bound, Contrast, Grade, Graded, Guard, grade
from audit.judging.result import Gate, Reason, Status, advice_of, because, failed
from audit.judging.vocabulary import verdict_of
from audit.perturb.design import PerturbThresholds
from audit.perturb.evidence import Evidence, Grounds, Tests, adverse, beside_references, no_larger
from audit.perturb.record import PerturbCell
from audit.perturb.vocabulary import GATES, VERDICTS, Decision, Unparsed
from audit.perturb.vocabulary import PerturbVerdict as V
from audit.statistics.unparsed import tipping_point

Reasons = tuple[Reason, ...]
REFERENCES = 5  # If a run has fewer references, the advice asks for more references.
_NOTHING = "nothing_to_compare"
_COMPARED = ("difference", "low", "high", "pvalue")
BEYOND = (V.DROP_BEYOND_REFERENCE, V.DROP_SUGGESTS_MEMORY)
COUNTED = (*BEYOND, V.CAUSE_UNKNOWN)  # the verdicts that state a drop


def finding(alpha: float, found_p: float, beyond_p: float | None) -> V | None:
    """Return the finding that two p-values support.

    Parameters
    ----------
    alpha : float
        Level of the tests.
    found_p : float
        p-value of a drop that broken variants cannot explain (`Tests.found_p`).
    beyond_p : float or None
        p-value of a drop beyond that of the references (`Tests.beyond_p`); None if it was not
        tested. NaN supports no finding.

    Returns
    -------
    PerturbVerdict or None
        The finding; None if neither p-value supports a finding.
    """
    if beyond_p is not None and beyond_p <= alpha:
        return V.DROP_BEYOND_REFERENCE
    return V.CAUSE_UNKNOWN if found_p <= alpha else None


def standing(tests: Tests, alpha: float, found_p: float, beyond_p: float | None) -> V | None:
    """Return the finding that remains significant if unparsed answers are imputed against this
    finding.

    Parameters
    ----------
    tests : Tests
        The tests over parsed answers, and with imputed answers.
    alpha : float
        Level of the tests.
    found_p, beyond_p : float
        The arguments of `finding`, after correction over the panel.

    Returns
    -------
    PerturbVerdict or None
        The finding; None if no finding remains.

    Notes
    -----
    The correction over the panel multiplies the p-value of a cell by a factor. The p-value that was
    computed with imputed answers is multiplied by the same factor.
    """
    verdict, imputed = finding(alpha, found_p, beyond_p), tests.adverse
    if verdict is None or imputed is None:
        return verdict

    def corrected(p: float | None, parsed_p: float | None, panel_p: float | None) -> float:
        """Return a p-value with imputed answers, multiplied by the factor of the panel."""
        factor = max(panel_p / parsed_p, 1.0) if panel_p and parsed_p else 1.0
        return np.nan if p is None else p * factor

    imputed_found = corrected(imputed.found_p, tests.found_p, found_p)
    imputed_beyond = corrected(imputed.beyond_p, tests.beyond_p, beyond_p)
    remaining = finding(alpha, imputed_found, imputed_beyond)
    return verdict if remaining and verdict == V.CAUSE_UNKNOWN else remaining


def decide(
    evidence: Grounds | None,
    gates: Sequence[Gate],
    limits: PerturbThresholds,
    found_p: float | None = None,
    beyond_p: float | None = None,
) -> Decision:
    """Return the decision on one cell: its grade, its verdict, the reasons and the advice.

    Parameters
    ----------
    evidence : Grounds or None
        The statistics of the cell; None if nothing could be compared.
    gates : sequence of Gate
        Results of the checks of the measurement.
    limits : PerturbThresholds
        The level and the smallest effect that matters.
    found_p, beyond_p : float, optional
        The p-values after correction over the panel; by default those of the evidence.

    Returns
    -------
    Decision
        The grade and the verdict, with reasons and advice.

    Notes
    -----
    A drop counts under three conditions:

    - The permutation test rejects.
    - The 95 % interval of the drop excludes zero.
    - The drop is larger than broken variants could cause.

    A drop that counts is "beyond reference" (larger than that of the references) under four
    conditions:

    - The references bracket the tested model and are not all of one other family.
    - The drop is larger than the references' drop on all three scales.
    - With ten references or more, the tested model lies below the references' performance curve.
    - Sensitivity to wording does not explain the drop (`Tests.own_p`).

    The finding is strong if the drop is larger than for any model that is sensitive to wording, or
    larger than the model's own drop on reworded held-out items. Otherwise the finding is
    suggestive, since sensitivity to wording on hard items gives the same pattern. A drop beyond
    reference cannot be found with held-out items alone, since easier rewordings of the held-out
    items would give the same result.

    A model is cleared if its data exclude the smallest drop that matters (Schuirmann 1987). With
    references, the data must also exclude that the drop exceeds the references' drop by this much,
    since easier rewordings can hide memory.
    """
    blocking = failed(gates)
    if evidence is None:
        graded = grade((), [_NOTHING])
        advice = advice_of(blocking)
        return Decision(V.WITHHELD, graded.grade, (because(_NOTHING),), advice, _NOTHING)
    if blocking:
        return Decision.withheld(V.WITHHELD, blocking, GATES)
    if found_p is None:
        found_p, beyond_p = evidence.tests.found_p, evidence.tests.beyond_p
    few = [g for g in gates if g.name == "enough_data" and g.status == Status.FAIL]
    verdict = None
    if not few and evidence.drop.drop.low > 0:
        verdict = finding(limits.alpha, found_p, beyond_p)
    lost = _lost(verdict, evidence.tests, limits.alpha, found_p, beyond_p)
    contrast = _contrast(evidence, limits, verdict, beyond_p, few)
    graded = grade([contrast], [lost] if lost else [])
    if lost:
        reasons, advice, doubt = _of_lost(lost, limits)
    elif few:
        reasons, advice, doubt = _of_few(few[0], evidence.tests)
    elif verdict is None:
        reasons, advice, doubt = _not_found(evidence, limits, found_p, gates, graded)
    else:
        reasons, advice, doubt = _of_drop(evidence, limits, found_p, graded)
    return Decision(verdict_of(VERDICTS, graded.grade), graded.grade, reasons, advice, doubt)


def _lost(
    verdict: V | None, tests: Tests, alpha: float, found_p: float, beyond_p: float | None
) -> str:
    """Return the code of the finding that is lost when unparsed answers are imputed; "" if no
    finding is lost.
    """
    remaining = verdict and standing(tests, alpha, found_p, beyond_p)
    if remaining == verdict:
        return ""
    return "unparsed_beyond" if remaining else "unparsed_drop"


def _contrast(
    evidence: Grounds,
    limits: PerturbThresholds,
    verdict: V | None,
    beyond_p: float | None,
    few: Sequence[Gate],
) -> Contrast:
    """Return the drop as a contrast, from which `audit.judging.ladder` computes the grade.

    `few` holds the gate `enough_data` if this gate failed.
    """
    guards = (
        Guard("beyond_references", excluded=verdict == V.DROP_BEYOND_REFERENCE),
        Guard("hard_items", excluded=strong(evidence.tests, limits.alpha, beyond_p), stated=True),
    )
    alone = evidence.equivalence.p_no_larger <= limits.alpha  # The comparison is false for NaN.
    beside = evidence.beside is None or evidence.beside <= limits.alpha
    room = 1 - evidence.drop.variants >= limits.effect_of_interest
    return Contrast("drop", verdict is not None, guards, Bound(not few and alone and beside, room))


Statements = tuple[Reasons, Reasons, str]  # reasons, advice, code of the doubt


def _of_lost(lost: str, limits: PerturbThresholds) -> Statements:
    """Return the statements on a finding that is lost when unparsed answers are imputed."""
    advice = [because("mend_unparsed")]
    if lost == "unparsed_beyond":
        advice.append(because("mend_references"))
    return (because(lost, gamma=limits.unparsed_gamma),), tuple(advice), lost


def _of_few(few: Gate, tests: Tests) -> Statements:
    """Return the statements on a cell with too few questions."""
    reasons = Reason(f"gate_{few.name}", few.numbers, few.detail), *_held_out(tests)
    return reasons, advice_of([few]), "few_questions"


def _of_drop(
    evidence: Grounds, limits: PerturbThresholds, found_p: float, graded: Graded
) -> Statements:
    """Return the statements on a drop that counts, with the doubt about its cause."""
    tests = evidence.tests
    broken = because("variants_not_read")
    if tests.broken_p is not None:
        broken = because("above_broken", margin=tests.margin, pvalue=tests.broken_p)
    reasons = (*_fallen(evidence, found_p), broken, *_beyond(tests), *tests.left_out)
    if graded.grade in FINDINGS:
        suggestive = graded.grade == Grade.FOUND_SUGGESTIVE
        stated = (because("hard_items"),) if suggestive else ()
        first = because("reword_held_out" if suggestive else "repeat_on_held_out")
        return (
            (*reasons, *stated, *_held_out(tests), because("lower_bound")),
            (first, because("read_items")),
            "",
        )
    doubt = _doubt(tests, limits.alpha)
    stated = (because(doubt),) if doubt == "not_clearly_more" else ()
    return (*reasons, *stated, *_held_out(tests)), _to_find_cause(tests), doubt


def strong(tests: Tests, alpha: float, beyond_p: float | None) -> bool:
    """Return whether a drop beyond that of the references is too large to be explained by
    sensitivity to wording.

    Parameters
    ----------
    tests : Tests
        The tests over parsed answers, and with unparsed answers imputed against the drop.
    alpha : float
        Level of the tests.
    beyond_p : float or None
        p-value of a drop beyond that of the references, after correction over the panel. The same
        correction factor is applied to the p-values of this function.

    Returns
    -------
    bool
        False also if a drop beyond that of the references was not tested.
    """
    if tests.strong_p is None or beyond_p is None:
        return False
    factor = max(beyond_p / tests.beyond_p, 1.0) if tests.beyond_p else 1.0
    p = tests.strong_p
    if tests.adverse is not None:
        p = max(p, np.nan if tests.adverse.strong_p is None else tests.adverse.strong_p)
    return bool(p * factor <= alpha)


def _not_found(
    evidence: Grounds,
    limits: PerturbThresholds,
    found_p: float,
    gates: Sequence[Gate],
    graded: Graded,
) -> Statements:
    """Return the statements on a cell without a drop that counts."""
    tests, alpha, equivalence = evidence.tests, limits.alpha, evidence.equivalence
    doubt = ""  # code of why an apparent drop does not count
    if tests.exchange.pvalue <= alpha and tests.broken_p is not None and tests.broken_p > alpha:
        doubt = "broken_could_make"
    elif found_p <= alpha:
        doubt = "includes_zero"
    drop: Reasons = (because("not_counted", pvalue=found_p),)
    if doubt:
        drop = (*_fallen(evidence, found_p), because(doubt, margin=tests.margin))
    alone = equivalence.p_no_larger <= alpha
    reasons = [
        *drop,
        because("largest", largest=evidence.drop.largest),
        because(
            "ruled_out" if alone else "not_ruled_out",
            delta=equivalence.delta,
            pvalue=equivalence.p_no_larger,
        ),
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
            reasons.append(
                because("not_beside_references", delta=equivalence.delta, pvalue=evidence.beside)
            )
        if np.isfinite(evidence.detectable):
            reasons.append(because("power", drop=evidence.detectable, power=limits.power))
    return (*reasons, *_held_out(tests)), tuple(advice), doubt


def _more(gates: Sequence[Gate]) -> Reason:
    """Return the advice to ask more questions. The numbers are added if the plan needs more
    questions than were asked.
    """
    questions = needed = 0.0
    for gate in gates:
        if gate.name == "enough_data":
            questions, needed = gate.numbers.get("asked") or 0.0, gate.numbers.get("needed") or 0.0
    if needed > questions:
        return because("more_questions", asked=questions, needed=needed)
    return because("more_items")


def _fallen(evidence: Grounds, found_p: float) -> Reasons:
    """Return the statements on the size of the drop and its p-values."""
    drop = attributes(evidence.drop.drop, "estimate", "low", "high")
    fallen = because("fallen", **drop, pvalue=evidence.tests.exchange.pvalue)
    return fallen, because("corrected", pvalue=found_p)


def _beyond(tests: Tests) -> Reasons:
    """Return the statements on the comparison with the references."""
    if not tests.beyond:
        return (because("no_usable_references" if tests.left_out else "no_references"),)
    reasons = [because(f"beyond_{b.scale}", **attributes(b, *_COMPARED)) for b in tests.beyond]
    if tests.prior:
        plain = max(b.plain.pvalue for b in tests.beyond)
        reasons.append(because("prior", **vars(tests.prior), plain=plain))
    if tests.bracket is not None and not tests.bracket.holds:
        reasons.append(
            because("not_bracketed", **vars(tests.bracket), references=tests.beyond[0].references)
        )
    if tests.family:
        reasons.append(because("one_family", family=tests.family))
    if tests.fall is not None:
        reasons.append(because("fall", **vars(tests.fall)))
    if tests.far is not None:
        reasons.append(because("far", **vars(tests.far)))
    if tests.curve is not None:
        numbers = attributes(tests.curve, "references", "expected", "accuracy", "pvalue")
        reasons.append(because("curve" if tests.curve_counts else "curve_vague", **numbers))
    return tuple(reasons)


def _doubt(tests: Tests, alpha: float) -> str:
    """Return the code of the reason why a drop that counts is not beyond that of the references."""
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
    # If sensitivity to wording is also excluded, the finding is lost only through the correction
    # over the panel.
    return "common_fall" if tests.own_p > alpha else "not_clearly_more"


def _held_out(tests: Tests) -> Reasons:
    """Return statements on the results with held-out items, or on why these items are not used."""
    control = tests.control
    if control is None:
        return ()
    if control.why is not None:
        return (control.why,)
    reasons = [
        because("held_out_drop", benchmark=control.benchmark, n=control.n, drop=control.drop)
    ]
    reasons += [because(f"held_out_{b.scale}", **attributes(b, *_COMPARED)) for b in control.beyond]
    if control.references is not None:
        numbers = attributes(control.references, "difference", "low", "high")
        reasons.append(
            because("held_out_references", **numbers, references=control.reference_models)
        )
    return tuple(reasons)


def _to_find_cause(tests: Tests) -> Reasons:
    """Return the advice that would show the cause of a drop."""
    bracket = tests.bracket
    advice = [] if tests.broken_p is not None else [because("review_variants")]
    if not tests.beyond:
        advice.append(because("run_references"))
    if bracket is not None and bracket.highest < bracket.own - bracket.margin:
        advice.append(because("abler_reference", accuracy=bracket.own - bracket.margin))
    elif bracket is not None and not bracket.holds:
        advice.append(because("weaker_reference", accuracy=bracket.own + bracket.margin))
    if tests.family:
        advice.append(because("other_family"))
    if tests.beyond and tests.beyond[0].references < REFERENCES:
        advice.append(because("more_references"))
    if tests.control is None:
        advice.append(because("reword_held_out"))
    return (*advice, because("ask_memory"))


def headline(
    cell: PerturbCell, decision: Decision, e: Evidence | None, gates: Sequence[Gate]
) -> Reason:
    """Return the headline of a cell as a code with numbers.

    Parameters
    ----------
    cell : PerturbCell
        The cell, which names model and benchmark.
    decision : Decision
        The verdict and the doubt.
    e : Evidence or None
        The statistics; None if nothing could be compared.
    gates : sequence of Gate
        Results of the checks of the measurement.

    Returns
    -------
    Reason
        The code of a sentence of `audit.perturb.texts`, with its numbers.
    """
    code = f"headline_{decision.verdict}"
    names = {"model": cell.tested.model, "benchmark": cell.benchmark, "doubt": decision.doubt}
    if e is None or decision.verdict == V.WITHHELD:
        return because(code, **names, why=[GATES[g.name].because for g in failed(gates)])
    beyond = min((b.difference for b in e.tests.beyond), default=None)
    d = e.drop
    return because(
        code, **names, score=d.original, drop=d.drop.estimate, largest=d.largest, beyond=beyond
    )


def cannot_exclude(cell: PerturbCell, e: Evidence | None) -> Reasons:
    """Return the explanations that the verdict does not exclude.

    Parameters
    ----------
    cell : PerturbCell
        The cell with its library and held-out items.
    e : Evidence or None
        The statistics; None if nothing could be compared.

    Returns
    -------
    tuple of Reason
        Explanations that no verdict excludes, and those that a missing control leaves open.
    """
    if e is None:
        return (because("answers_as_facts"),)
    beyond, control = e.tests.beyond, e.tests.control
    unlike = cell.control.unlike if cell.control else ()
    many = beyond[0].references if beyond else 0
    tau = max((b.tau for b in beyond), default=0.0)
    used = control is not None and control.used
    explanations = (
        (True, because("answers_as_facts")),
        (not beyond, because("harder_variants")),
        (many == 1, because("one_reference")),
        (many > 1, because("suits_less", references=many, tau=tau)),
        (many > 1, because("references_remember")),
        (control is not None and not used, because("held_out_not_asked")),
        # No data can show that the rewordings of two sets are equally hard.
        (used, because("held_out_easier")),
        (used, because("held_out_harder")),
        (used and unlike, because("held_out_unlike", unlike=unlike)),
        (cell.broken is None, because("broken_variants")),
        (e.noise.replicates < 2, because("runs_differ")),
        (not e.items.can_flag, because("which_items", smallest_p=e.items.smallest_p)),
    )
    return tuple(reason for applies, reason in explanations if applies)


def unparsed(
    cell: PerturbCell,
    evidence: Evidence,
    decision: Decision,
    limits: PerturbThresholds,
    pvalues: tuple[float, float | None],
    rng: np.random.Generator,
) -> Unparsed | None:
    """Return up to which odds ratio of imputed unparsed answers the verdict on a cell stays the
    same.

    Parameters
    ----------
    cell : PerturbCell
        Answers of the tested model and its references.
    evidence : Evidence
        The statistics over parsed answers.
    decision : Decision
        The verdict, which may be a finding that is withheld because of unparsed answers.
    limits : PerturbThresholds
        Thresholds of the perturbation audit.
    pvalues : tuple
        `found_p` and `beyond_p` after the panel's correction.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    Unparsed or None
        The result; None if all answers of the model and its references were parsed.
    """
    if all(w.parsed for w in (cell.tested, *cell.references)):
        return None
    alpha, tests = limits.alpha, evidence.tests
    verdict = finding(alpha, *pvalues) if evidence.drop.drop.low > 0 else None
    cleared = decision.verdict == V.NO_DROP_DETECTED
    if cleared:
        verdict = V.NO_DROP_DETECTED
    elif decision.verdict == V.UNDERPOWERED:
        verdict = None

    def holds(gamma: float) -> bool:
        """Return whether the verdict is the same at odds ratio gamma."""
        if cleared:
            beside = beside_references(cell, limits, gamma) or 0.0
            return max(no_larger(cell, limits, gamma)[0].p_no_larger, beside) <= alpha
        try:
            imputed = adverse(cell, tests, limits, gamma, rng)
        # The error means that a reference with imputed answers is not above chance.
        except DataError:
            return False
        return standing(replace(tests, adverse=imputed), alpha, *pvalues) == verdict

    point = tipping_point(holds) if verdict else float("nan")
    requested = cell.tested.requested_variants
    n_requested = int(requested.sum()) + len(cell.tested.original) * int(
        requested.any(axis=0).sum()
    )
    share = sum(int(part.sum()) for part in cell.tested.unread) / max(n_requested, 1)
    return Unparsed(share, verdict, point, bool(np.isinf(point)), evidence.largest_worst)
