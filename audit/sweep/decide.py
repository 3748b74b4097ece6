"""Decide the verdict of a cell from its evidence and gates.

A decision has a grade, a verdict and reasons. `audit.judging.ladder` defines the order of the
grades.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.judge.record import holm_rows
from audit.judging.ladder import NO_ROOM, Bound, Contrast, Guard, grade
from audit.judging.result import Gate, Reason, Status, advice_of, because, failed
from audit.judging.vocabulary import gate_reasons, verdict_of
from audit.statistics.run_variance import RunShifts
from audit.statistics.unparsed import DECIDE_AT
from audit.sweep.design import SweepThresholds
from audit.sweep.evidence import Evidence, Reading
from audit.sweep.vocabulary import GATES, VERDICTS, Decision, Verdict
from audit.sweep.vocabulary import Contrast as Row

CONTROLS = ("clean", "direct", "ensemble")
LARGER = "larger_on_every_scale"  # code for a gain that is larger than the gain on held-out items


@dataclass(frozen=True)
class Corrected:
    """Hold the p-values of a cell, corrected by Holm's procedure over the panel.

    Attributes
    ----------
    excess : float or None
        The corrected `Evidence.p_value`; None if the cell could not be compared.
    fall : float or None
        The corrected p-value. Alternative: the noisy arm is less accurate than the clean baseline.
    cells : int
        The number of cells of the panel that could be compared.
    """

    excess: float | None
    fall: float | None
    cells: int


def over_panel(evidence: Sequence[Evidence | None]) -> list[Corrected]:
    """Apply Holm's correction over the cells of a panel.

    Parameters
    ----------
    evidence : sequence of Evidence or None
        The evidence of each cell; None if the cell could not be compared.

    Returns
    -------
    list of Corrected
        The result of each cell; its p-values are None if the cell could not be compared.
    """
    excess_rows: list[list[float | None]] = []
    fall_rows: list[list[float | None]] = []
    compared = 0
    for e in evidence:
        compared += e is not None
        excess_rows.append([e.p_value if e else None])
        fall_rows.append([e.clean.fall_p if e else None])
    corrected = []
    for (p,), (f,) in zip(holm_rows(excess_rows), holm_rows(fall_rows), strict=True):
        corrected.append(Corrected(p, f, max(compared, 1)))
    return corrected


@dataclass(frozen=True)
class Claim:
    """Hold a contrast, with the reasons and the advice of a verdict that is based on it.

    Attributes
    ----------
    contrast : Contrast
        The contrast, from which `audit.judging.ladder` computes the grade.
    reasons, advice : tuple of Reason
        The reasons and the advice of the verdict.
    routers : tuple of int
        The router counts r at which the contrast was computed.
    check : str
        The name of a gate that failed for this contrast; empty if no gate failed.
    explained : bool
        Used if the model is cleared, which means that a gain that matters is excluded. True if
        repetition then explains the gain over the clean baseline.
    """

    contrast: Contrast
    reasons: tuple[Reason, ...] = ()
    advice: tuple[Reason, ...] = ()
    routers: tuple[int, ...] = ()
    check: str = ""
    explained: bool = False


def decide(
    evidence: Evidence,
    gates: Sequence[Gate],
    thresholds: SweepThresholds,
    corrected: Corrected | None = None,
    held_out_reasons: Sequence[Reason] = (),
) -> Decision:
    """Decide the verdict on one cell.

    Parameters
    ----------
    evidence : Evidence
        The comparisons of the cell.
    gates : sequence of Gate
        The checks of the cell's measurement.
    thresholds : SweepThresholds
        The levels and the smallest effect that matters.
    corrected : Corrected, optional
        The p-values corrected over the panel (`over_panel`). With None, the cell is corrected as a
        panel of one cell.
    held_out_reasons : sequence of Reason
        The comparison of the gain with the gain on held-out items (`held_out`). If the gain is not
        larger on every scale, the cause of the gain is unknown, since memory cannot cause a gain on
        held-out items.

    Returns
    -------
    Decision
        The grade, the sweep's code of the verdict, and the reasons.

    Notes
    -----
    Suppose that no model of the panel truly gains over every control. Then the probability that any
    cell gets the verdict excess is at most alpha. A comparison with a single control is tested at
    the level alpha / (number of cells). The noisy arm beats a control if this test rejects the
    hypothesis of no gain. For the clean baseline, the simultaneous interval must also be above
    zero.

    A cell is cleared if the upper limit of the gain is at most the smallest effect that matters
    (Schuirmann 1987, J Pharmacokinet Biopharm 15). A fall of accuracy under noise is expected and
    does not affect the verdict.
    """
    if blocking := failed(gates):
        return Decision.withheld(Verdict.WITHHELD, blocking, GATES)
    claims = _claims(
        evidence, gates, thresholds, corrected or over_panel([evidence])[0], held_out_reasons
    )
    checks, contrasts = [], []
    for claim in claims:
        contrasts.append(claim.contrast)
        if claim.check:
            checks.append(claim.check)
    graded = grade(contrasts, checks)
    basis = _basis(claims, graded.by, checks)
    verdict = verdict_of(VERDICTS, graded.grade)
    if verdict == Verdict.EXCESS_EXPLAINED and not basis.explained:
        verdict = Verdict.NO_EXCESS
    reasons, advice = basis.reasons, basis.advice
    if graded.codes == (NO_ROOM,):
        room = because(NO_ROOM, score=evidence.clean_accuracy, effect=thresholds.effect_of_interest)
        reasons, advice = (*reasons, room), (because("harder_questions"),)
    if fallen := _fallen(evidence, thresholds, corrected):
        reasons = (*reasons, fallen)
    return Decision(verdict, graded.grade, reasons, advice, basis.routers, basis.check)


def _basis(claims: Sequence[Claim], by: Collection[str], checks: Sequence[str]) -> Claim:
    """Return the claim (a contrast with its reasons) on which a verdict is based.

    If a check of a claim failed, this claim is returned. Otherwise the claim of the contrast that
    decides the verdict is returned.
    """
    for claim in claims:
        if claim.check or (not checks and claim.contrast.name in by):
            return claim
    return claims[-1]


def _claims(
    e: Evidence,
    gates: Sequence[Gate],
    t: SweepThresholds,
    corrected: Corrected,
    held_out_reasons: Sequence[Reason],
) -> list[Claim]:
    """Return up to three claims about the gain.

    The claims are that the noisy arm gains over every control, that the noisy arm gains in its only
    run, and that the gain is too small to matter.
    """
    alpha, cell_alpha = t.alpha, t.alpha / corrected.cells
    overall = e.p_value if corrected.excess is None else corrected.excess
    # Holm's correction over the panel multiplies the p-value of this cell by a factor. So the level
    # of this cell's tests at single router counts is divided by this factor.
    level = alpha / max(overall / e.p_value, 1.0)
    n, least = int(e.clean.n.min()), t.finding_questions_min
    above, steady = _beaten(e.plain, e, level), _above_zero(e.plain, e.clean.above_zero)
    if n < least and (above or (steady and not e.repeated)):
        few = because("few_questions", n=n, least=least)
        undecided = Contrast("gain", bound=Bound(excluded=False))
        return [
            Claim(
                undecided,
                (few,),
                (because("ask_at_least", least=least),),
                tuple(sorted(above or steady)),
            )
        ]
    claims = [_gain(e, gates, above, level, held_out_reasons)] if above else []
    if steady and not e.repeated:
        why = (
            because("above_zero", routers=sorted(steady)),
            because("run_once", sd=t.run_sd_plausible),
        )
        once = Contrast("gain_in_one_run", speaks=True, guards=(Guard("run_once", excluded=False),))
        claims.append(Claim(once, why, (because("run_twice"),), tuple(sorted(steady))))
    return [*claims, _bounded(e, gates, t, cell_alpha, overall)]


def _gain(
    e: Evidence,
    gates: Sequence[Gate],
    routers: frozenset[int],
    level: float,
    held_out_reasons: Sequence[Reason],
) -> Claim:
    """Return the claim that the noisy arm gains over every control at the given router counts.

    Five other explanations of a gain are checked: a control that was not run, messages that state
    the answer, unparsed replies, hints, and an effect of noise that held-out items show too.
    """
    why = [_beats_controls(e, routers, CONTROLS)]
    silent = Contrast("gain_over_controls")
    if e.without_leak is not None:
        # The gate `answer_leak` passes if only a small share of messages state the answer. At a
        # high r, even a small share affects many questions. So the gain must remain after these
        # questions are left out.
        routers &= _beaten(e.without_leak, e, level)
        if not routers:
            leaks = []
            for g in gates:
                if g.name == "answer_leak":
                    leaks.append(g)
            vanished = (because("gone_without_leaks"), *gate_reasons(leaks, GATES))
            return Claim(silent, vanished, advice_of(leaks), check="answer_leak")
        why.append(because("stands_without_leaks"))
    if e.adverse is not None:
        routers &= _beaten(e.adverse, e, level)
        if not routers:
            vanished = (because("gone_if_unparsed", odds_ratio=DECIDE_AT),)
            return Claim(silent, vanished, (because("mend_unparsed"),), check="parseability")
        why.append(because("stands_if_unparsed", odds_ratio=DECIDE_AT))
    controlled = frozenset(filter(e.controlled, routers))
    beyond = controlled & (e.hints.beyond(level) if e.hints is not None else frozenset())
    # If the p-value is NaN, the reference counts as having no gain.
    alone = e.hints is not None and not e.hints.reference_p <= level
    larger = not held_out_reasons or held_out_reasons[0].code == LARGER
    guards = (
        Guard("controls", bool(controlled)),
        Guard("hints", bool(beyond)),
        Guard("reference_gains", alone),
        Guard("held_out_gains", larger),
    )
    speaks = replace(silent, speaks=True, guards=guards)
    if speaks.open == guards[-1:]:
        return Claim(
            speaks,
            (*why, *held_out_reasons),
            (because("read_messages"),),
            tuple(sorted(controlled)),
        )
    if speaks.open:
        doubt, advice = _doubt(e, routers, controlled, bool(beyond))
        return Claim(speaks, (*why, doubt), (advice,), tuple(sorted(controlled or routers)))
    assert e.hints is not None  # noqa: S101 - the guard "hints" can only be excluded with hints
    why.append(because("hints_excluded", reference=e.hints.reference, gain=e.hints.reference_gain))
    if 1 in beyond:
        why.append(because("one_router"))
    if untested := sorted(routers - controlled):
        why.append(because("ensemble_not_run", routers=untested))
    return Claim(
        speaks, tuple(why), (because("hold_out"), because("read_improved")), tuple(sorted(beyond))
    )


def _doubt(
    e: Evidence, routers: frozenset[int], controlled: frozenset[int], beyond: bool
) -> tuple[Reason, Reason]:
    """Return the first explanation of a gain other than memory that the data do not exclude.

    The result contains advice on how to exclude the explanation.
    """
    if not controlled:
        return _not_compared(e, routers), because("run_controls")
    if e.hints is None:
        return because("no_reference"), because("give_reference")
    gains = {"reference": e.hints.reference, "gain": e.hints.reference_gain}
    if not beyond and not e.hints.reads_as_well:
        return because("weak_reference", **gains), because("take_abler_reference")
    return because("reference_gains_too", **gains), because("read_messages")


def _bounded(
    e: Evidence, gates: Sequence[Gate], t: SweepThresholds, cell_alpha: float, overall: float
) -> Claim:
    """Return the claim that the gain is at most the smallest effect that matters.

    The claim is usually based on the upper limit of the gain over the clean baseline. If the noisy
    arm beats the clean baseline, the claim may instead be based on the gain over the ensemble
    control or over the original question.
    """
    over_base: frozenset[int] = frozenset()
    if e.plain.ensemble is not None:
        over_base = _beaten(e.plain, e, cell_alpha, ensemble=False)
    tested = e.clean.beats(cell_alpha)
    over_clean = tested & e.clean.above_zero
    at = tuple(sorted(over_base or over_clean or tested))
    explained, room = False, 1 - e.clean_accuracy >= t.effect_of_interest
    if over_base:
        limit, why = _over_ensemble(e, over_base, cell_alpha)
        explained = limit <= t.effect_of_interest
        last = because("ensemble_bounds", limit=limit, effect=t.effect_of_interest)
        open_ = because("may_beat_ensemble", limit=limit)
        ask, done = "ask_more_of_ensemble", "is_repetition"
    elif over_clean and e.plain.direct is not None:
        limit, why = e.plain.direct.highest(over_clean), [because("not_above_direct", routers=at)]
        if e.unstated is not None:
            direct = e.unstated.direct
            limit = max(limit, direct.highest(over_clean) if direct else 1.0)
        last, open_ = None, because("may_beat_direct", limit=limit)
        ask, done = "ask_more_of_direct", ""
    else:
        limit, done, ask = e.largest_compatible, "", ""
        why = [because("beats_no_control", p=overall)]
        if tested:
            why = [because("interval_holds_zero", routers=at)]
        imputed = e.favourable is not None and limit > e.clean.largest_compatible
        aided = e.unaided is not None
        numbers = {"imputed": imputed, "aided": aided, "stated": e.unstated is not None}
        why.append(because("bound", limit=limit, effect=t.effect_of_interest, **numbers))
        last, open_ = because("blind"), None
    excluded = limit <= t.effect_of_interest  # False if the limit is NaN
    contrast = Contrast("gain", bound=Bound(excluded, room))
    closing = last if excluded else open_
    code = done if excluded else ask
    advice: tuple[Reason, ...] = ()
    if code:
        advice = (because(code),)
    elif not excluded:
        few = []
        for g in gates:
            if g.name == "enough_data":
                few.append(g)
        advice = advice_of(few)
    reasons = (*why, closing) if closing is not None else tuple(why)
    return Claim(contrast, reasons, advice, at, explained=explained)


def _over_ensemble(
    e: Evidence, routers: frozenset[int], level: float
) -> tuple[float, list[Reason]]:
    """Return the upper limit of the gain over the ensemble control, with the reasons."""
    control, gain = e.plain.ensemble, e.ensemble_gain
    assert control is not None  # noqa: S101 - the caller compared with it
    mean = control.mean
    why = [
        _beats_controls(e, routers, CONTROLS[:2]),
        because("not_above_ensemble", mean=mean.estimate, low=mean.low, high=mean.high),
    ]
    ensemble_gains = gain.beats(level) & gain.above_zero & routers if gain else frozenset()
    if ensemble_gains:
        why.append(because("ensemble_gains", routers=sorted(ensemble_gains)))
    readings = (e.unaided, e.unstated) if e.unaided else (e.plain, e.favourable, e.unstated)
    limits = []
    for reading in readings:
        if reading is not None:
            limits.append(reading.ensemble.highest(routers) if reading.ensemble else 1.0)
    return max(limits), why


def _fallen(e: Evidence, t: SweepThresholds, corrected: Corrected | None) -> Reason | None:
    """Return a note if noise lowers the mean accuracy much (as expected); otherwise None."""
    mean = e.clean.mean
    fall_p = e.clean.fall_p if corrected is None or corrected.fall is None else corrected.fall
    # The condition is negated because comparisons with NaN are False.
    if not (fall_p <= t.alpha / 2 and mean.high < 0 and mean.estimate <= -t.fall_noted):
        return None
    return because("falls", drop=-mean.estimate, low=-mean.high, high=-mean.low, p=fall_p)


def _beats_controls(e: Evidence, routers: Collection[int], names: Sequence[str]) -> Reason:
    """Return a reason which states that the noisy arm beats the given controls.

    Controls that were not run are left out of the reason.
    """
    controls = []
    for name in names:
        if getattr(e.plain, name) is not None:
            controls.append(name)
    return because("beats_controls", routers=sorted(routers), controls=controls)


def _not_compared(e: Evidence, routers: frozenset[int]) -> Reason:
    """Return a reason that names the controls that were not run at these router counts.

    The ensemble control may have been run at other router counts.
    """
    missing = ["direct"] if e.plain.direct is None else []
    if e.plain.ensemble is None and any(r > 1 for r in routers):
        missing.append("ensemble")
    if missing:
        return because("not_compared", controls=missing, ensemble_routers=[])
    return because(
        "not_compared", controls=["ensemble"] if routers else [], ensemble_routers=sorted(routers)
    )


def _beaten(
    reading: Reading, e: Evidence, alpha: float, *, ensemble: bool = True
) -> frozenset[int]:
    """Return the router counts at which the noisy arm beats every control.

    At these router counts, the simultaneous interval of the gain over the clean baseline must also
    be above zero.
    """
    if reading.clean is None:
        return frozenset()
    p = reading.adjusted(e.clean.routers, ensemble=ensemble)
    beaten = (r for r, value in zip(e.clean.routers, p, strict=True) if value <= alpha + 1e-12)
    return frozenset(beaten) & reading.clean.above_zero


def _above_zero(reading: Reading, routers: frozenset[int]) -> frozenset[int]:
    """Return the router counts at which the lower limit of the gain is above zero.

    The lower limits of all given comparisons must be above zero.
    """
    for c in reading.comparisons():
        routers -= set(c.routers) - c.above_zero
    return routers


def asked_enough(gates: Sequence[Gate], verdict: Verdict) -> tuple[Gate, ...]:
    """Mark the gate `enough_data` as not applicable if the verdict reports an effect.

    Parameters
    ----------
    gates : sequence of Gate
        All gates of a cell.
    verdict : Verdict
        The verdict of the cell.

    Returns
    -------
    tuple of Gate
        The gates in the same order.
    """
    if verdict not in (Verdict.EXCESS, Verdict.UNCONTROLLED, Verdict.EXCESS_EXPLAINED):
        return tuple(gates)
    detail = "An effect was found, so the questions were enough."
    changed = []
    for gate in gates:
        if gate.name == "enough_data" and gate.status == Status.FAIL:
            gate = replace(gate, status=Status.NOT_APPLICABLE, detail=detail, advice="")
        changed.append(gate)
    return tuple(changed)


def headline(
    model: str, benchmark: str, decision: Decision, e: Evidence | None, failing: Sequence[str]
) -> Reason:
    """Return the headline of a cell as a code with numbers.

    Parameters
    ----------
    model, benchmark : str
        The cell.
    decision : Decision
        The verdict and its reasons.
    e : Evidence or None
        The evidence; None if the cell could not be compared.
    failing : sequence of str
        Names of the gates that withhold the verdict.

    Returns
    -------
    Reason
        A code of `audit.sweep.texts`, with the numbers that its sentence contains.
    """
    if decision.verdict == Verdict.WITHHELD or e is None:
        why = []
        for name in failing:
            why.append(GATES[name].because if name in GATES else name)
        code = "headline_withheld" if why else "headline_not_comparable"
        return because(code, model=model, benchmark=benchmark, why=why)
    c, reasons = e.clean, [reason for reason in decision.reasons if reason.code != "falls"]
    about = reasons[0 if decision.verdict == Verdict.NO_EXCESS else -1]
    # The headline quotes the largest gain at the router counts of the decision.
    passed = []
    for k, r in enumerate(c.routers):
        if r in decision.routers:
            passed.append(k)
    best = max(passed or [c.best], key=lambda k: c.gain[k])
    return because(
        f"headline_{decision.verdict}",
        model=model,
        benchmark=benchmark,
        about=about.code,
        routers=c.routers[best],
        gain=float(c.gain[best]),
        low=float(c.low[best]),
        limit=e.largest_compatible,
        score=e.score,
    )


def held_out(contrasts: Sequence[Row]) -> tuple[Reason, ...]:
    """Return the reasons from the control benchmark; empty without a control benchmark.

    Parameters
    ----------
    contrasts : sequence of Contrast
        The rows of a cell.

    Returns
    -------
    tuple of Reason
        A reason that compares the gain with the gain on held-out items. It states that the gain is
        larger on every scale, only in points of accuracy, or on no scale.
    """
    scales: dict[str, Row] = {}
    above = []
    for c in contrasts:
        if c.name.startswith("difference_in_differences") and c.ci_low is not None:
            scales[c.name] = c
            if c.ci_low > 0:
                above.append(c.name)
    points = scales.get("difference_in_differences")
    if points is None:
        return ()
    if len(above) == len(scales):
        code = LARGER
    else:
        code = "larger_on_one_scale" if points.name in above else "larger_on_no_scale"
    return (because(code, gain=points.estimate, low=points.ci_low, high=points.ci_high),)


def shift_reasons(shifts: RunShifts, *, repeated: bool) -> tuple[Reason, ...]:
    """Describe the shifts of whole runs that intervals and tests include.

    Parameters
    ----------
    shifts : RunShifts
        Variances of whole runs.
    repeated : bool
        Whether the noisy arm was run more than once.

    Returns
    -------
    tuple of Reason
        One reason for the noisy runs and one for the clean runs. A third reason is added if the
        test assumes a larger shift.
    """
    measured = dict(zip(("noisy", "clean"), (shifts.noisy, shifts.controls), strict=True))
    used = dict(zip(measured, shifts.used, strict=True))
    tested = dict(zip(measured, shifts.tested(repeated=repeated), strict=True))
    reasons = []
    for side, variance in measured.items():
        numbers = {"estimate": variance.estimate**0.5, "df": variance.df, "capped": variance.capped}
        reasons.append(because("shift", side=side, sd=used[side] ** 0.5, **numbers))
    sides = []
    for side in measured:
        if tested[side] != used[side]:
            sides.append(side)
    if sides:
        reasons.append(because("shift_tested", sides=sides, sd=shifts.plausible_sd))
    return tuple(reasons)


def unparsed(e: Evidence | None, gamma: float | None) -> tuple[Reason, ...]:
    """Describe how much the verdict depends on the unparsed answers.

    Parameters
    ----------
    e : Evidence or None
        The evidence of the cell.
    gamma : float or None
        The largest odds ratio of unparsed answers at which the verdict does not change; None if no
        ratio is reported.

    Returns
    -------
    tuple of Reason
        The reasons; empty if all answers were parsed.
    """
    if e is None or e.worst_case is None:
        return ()
    worst = because("worst_case", gain=e.worst_case)
    if gamma is None:
        return (worst,)
    if np.isinf(gamma):
        return because("stands_at_worst", odds_ratio=DECIDE_AT), worst
    return because("stands_up_to", odds_ratio=DECIDE_AT, up_to=gamma), worst
