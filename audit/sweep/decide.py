"""Decide a cell from its evidence and gates: a grade, its code and its reasons.

The ladder of grades is in `audit.judging`.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.judge.record import holm_rows
from audit.judging.ladder import NO_ROOM, Bound, Contrast, Grade, Guard, grade
from audit.judging.result import Gate, Reason, Status, advice_of, because, failed
from audit.judging.vocabulary import gate_reasons
from audit.statistics.run_variance import RunShifts
from audit.statistics.unparsed import DECIDE_AT
from audit.sweep.design import SweepThresholds
from audit.sweep.evidence import Evidence, Reading
from audit.sweep.vocabulary import GATES, Decision, Verdict
from audit.sweep.vocabulary import Contrast as Row

CONTROLS = ("clean", "direct", "ensemble")
_VERDICTS = {
    Grade.CHECK_FAILED: Verdict.WITHHELD,
    Grade.NOT_IDENTIFIED: Verdict.NOT_IDENTIFIED,
    Grade.FOUND_STRONG: Verdict.EXCESS,
    Grade.CAUSE_UNKNOWN: Verdict.UNCONTROLLED,
    Grade.UNDECIDED: Verdict.UNDERPOWERED,
    Grade.CLEARED: Verdict.NO_EXCESS,
}


@dataclass(frozen=True)
class Corrected:
    """p-values of a cell after Holm over the testable cells of the panel, and the number of these
    cells.

    excess: from `Evidence.p_value`. fall: from the test of "noisy is below clean".
    """

    excess: float | None
    fall: float | None
    cells: int


def over_panel(evidence: Sequence[Evidence | None]) -> list[Corrected]:
    """Apply Holm's correction over the cells of a panel.

    Parameters
    ----------
    evidence : sequence of Evidence or None
        One for each cell; None if the cell could not be compared.

    Returns
    -------
    list of Corrected
        One for each cell; its p-values are None if the cell could not be compared.
    """
    excess = holm_rows([[e.p_value if e else None] for e in evidence])
    fall = holm_rows([[e.clean.fall_p if e else None] for e in evidence])
    cells = max(sum(e is not None for e in evidence), 1)
    return [Corrected(p, f, cells) for (p,), (f,) in zip(excess, fall, strict=True)]


@dataclass(frozen=True)
class Claim:
    """A contrast, with the reasons and the advice to give if the verdict rests on it.

    check: a check of the whole measurement that failed on this contrast. explained: a clearance by
    this contrast means that repetition explains the gain.
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
) -> Decision:
    """Decide one cell.

    Parameters
    ----------
    evidence : Evidence
        The comparisons of the cell.
    gates : sequence of Gate
        The checks of its measurement.
    thresholds : SweepThresholds
        State the levels and the smallest effect that matters.
    corrected : Corrected, optional
        Corrected over the panel (`over_panel`); over the cell alone if None.

    Returns
    -------
    Decision
        The grade of the ladder with the sweep's code and reasons.

    Notes
    -----
    The chance that any cell of a panel is called an excess, although noisy does not beat one of its
    controls, is at most alpha. Statements about one control are tested at alpha / cells. Noisy
    beats a control if the test says so; against clean the simultaneous interval must lie above zero
    too.

    A cell is cleared by its data: the upper limit of the gain is at most the smallest effect that
    matters (Schuirmann 1987, J Pharmacokinet Biopharm 15). A fall under noise is expected and
    decides nothing.
    """
    if blocking := failed(gates):
        graded = grade((), [g.name for g in blocking])
        return Decision(
            _VERDICTS[graded.grade],
            graded.grade,
            gate_reasons(blocking, GATES),
            advice_of(blocking),
        )
    claims = _claims(evidence, gates, thresholds, corrected or over_panel([evidence])[0])
    checks = []
    for claim in claims:
        if claim.check:
            checks.append(claim.check)
    graded = grade([claim.contrast for claim in claims], checks)
    basis = next(
        (c for c in claims if c.check or (not checks and c.contrast.name in graded.by)), claims[-1]
    )
    verdict = _VERDICTS[graded.grade]
    if verdict == Verdict.NO_EXCESS and basis.explained:
        verdict = Verdict.EXCESS_EXPLAINED
    reasons, advice = basis.reasons, basis.advice
    if graded.codes == (NO_ROOM,):
        room = because(NO_ROOM, score=evidence.clean_accuracy, effect=thresholds.effect_of_interest)
        reasons, advice = (*reasons, room), (because("harder_questions"),)
    if fallen := _fallen(evidence, thresholds, corrected):
        reasons = (*reasons, fallen)
    return Decision(verdict, graded.grade, reasons, advice, basis.routers, basis.check)


def _claims(
    e: Evidence, gates: Sequence[Gate], t: SweepThresholds, corrected: Corrected
) -> list[Claim]:
    """Return the claims: a gain over every control, a gain in one run, and the bound of the
    gain."""
    alpha, cell_alpha = t.alpha, t.alpha / corrected.cells
    overall = e.p_value if corrected.excess is None else corrected.excess
    # Holm's correction over the panel multiplies this cell's p by a factor. The level of the tests at
    # single router counts is divided by the same factor.
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
    claims = [_gain(e, gates, above, level)] if above else []
    if steady and not e.repeated:
        why = (
            because("above_zero", routers=sorted(steady)),
            because("run_once", sd=t.run_sd_plausible),
        )
        once = Contrast("gain_in_one_run", speaks=True, guards=(Guard("run_once", excluded=False),))
        claims.append(Claim(once, why, (because("run_twice"),), tuple(sorted(steady))))
    return [*claims, _bounded(e, gates, t, cell_alpha, overall)]


def _gain(e: Evidence, gates: Sequence[Gate], routers: frozenset[int], level: float) -> Claim:
    """Return the gain over every control at these r, with its guards: controls, leaks, unparsed and
    hints.
    """
    why = [_beats_controls(e, routers, CONTROLS)]
    silent = Contrast("gain_over_controls")
    if e.without_leak is not None:
        # A few leaks pass the gate, but at a high r a few in a hundred messages affect many
        # questions. So the gain must stand without these questions whenever there are leaks.
        routers &= _beaten(e.without_leak, e, level)
        if not routers:
            leaks = []
            for g in gates:
                if g.name == "answer_leak":
                    leaks.append(g)
            gone = (because("gone_without_leaks"), *gate_reasons(leaks, GATES))
            return Claim(silent, gone, advice_of(leaks), check="answer_leak")
        why.append(because("stands_without_leaks"))
    if e.adverse is not None:
        routers &= _beaten(e.adverse, e, level)
        if not routers:
            gone = (because("gone_if_unparsed", odds_ratio=DECIDE_AT),)
            return Claim(silent, gone, (because("mend_unparsed"),), check="parseability")
        why.append(because("stands_if_unparsed", odds_ratio=DECIDE_AT))
    controlled = frozenset(filter(e.controlled, routers))
    beyond = controlled & (e.hints.beyond(level) if e.hints is not None else frozenset())
    # A gain of NaN means that the reference showed none.
    alone = e.hints is not None and not e.hints.reference_p <= level
    guards = (
        Guard("controls", bool(controlled)),
        Guard("hints", bool(beyond)),
        Guard("reference_gains", alone),
    )
    speaks = replace(silent, speaks=True, guards=guards)
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
    """Return the first explanation that is not excluded, and the advice that would exclude it."""
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
    """Return the bound of the gain over the ensemble control, the original question or the clean
    baseline.

    The first two bound it if noisy beats the other controls.
    """
    over_base = (
        _beaten(e.plain, e, cell_alpha, ensemble=False)
        if e.plain.ensemble is not None
        else frozenset()
    )
    tested = e.clean.beats(cell_alpha)
    over_clean = tested & e.clean.above_zero
    at = tuple(sorted(over_base or over_clean or tested))
    explained, room = False, 1 - e.clean_accuracy >= t.effect_of_interest
    if over_base:
        limit, why = _over_ensemble(e, over_base, cell_alpha)
        explained = limit <= t.effect_of_interest
        last = because("ensemble_bounds", limit=limit, effect=t.effect_of_interest)
        open_, ask, done = (
            because("may_beat_ensemble", limit=limit),
            "ask_more_of_ensemble",
            "is_repetition",
        )
    elif over_clean and e.plain.direct is not None:
        limit, why = e.plain.direct.highest(over_clean), [because("not_above_direct", routers=at)]
        last, open_, ask, done = (
            None,
            because("may_beat_direct", limit=limit),
            "ask_more_of_direct",
            "",
        )
    else:
        limit, done, ask = e.largest_compatible, "", ""
        why = [
            because("interval_holds_zero", routers=at)
            if tested
            else because("beats_no_control", p=overall)
        ]
        imputed = e.favourable is not None and limit > e.clean.largest_compatible
        numbers = {"imputed": imputed, "aided": e.unaided is not None}
        why.append(because("bound", limit=limit, effect=t.effect_of_interest, **numbers))
        last, open_ = because("blind"), None
    excluded = limit <= t.effect_of_interest  # A limit that is NaN clears nobody.
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
    """Return the upper limit of noisy over the ensemble control, and the reasons about both."""
    control, gain = e.plain.ensemble, e.ensemble_gain
    assert control is not None  # noqa: S101 - the caller compared with it
    mean = control.mean
    why = [
        _beats_controls(e, routers, CONTROLS[:2]),
        because("not_above_ensemble", mean=mean.estimate, low=mean.low, high=mean.high),
    ]
    if also := (gain.beats(level) & gain.above_zero & routers) if gain else frozenset():
        why.append(because("ensemble_gains", routers=sorted(also)))
    readings = (e.unaided,) if e.unaided else (e.plain, e.favourable)
    bounds = []
    for reading in readings:
        if reading is not None:
            bounds.append(reading.ensemble)
    return max(c.highest(routers) if c else 1.0 for c in bounds), why


def _fallen(e: Evidence, t: SweepThresholds, corrected: Corrected | None) -> Reason | None:
    """Return the note that noise costs much accuracy on average over r, as is expected; else
    None."""
    mean = e.clean.mean
    fall_p = e.clean.fall_p if corrected is None or corrected.fall is None else corrected.fall
    # The comparison is true for NaN too.
    if not (fall_p <= t.alpha / 2 and mean.high < 0 and mean.estimate <= -t.fall_noted):
        return None
    return because("falls", drop=-mean.estimate, low=-mean.high, high=-mean.low, p=fall_p)


def _beats_controls(e: Evidence, routers: Collection[int], names: Sequence[str]) -> Reason:
    run = []
    for name in names:
        if getattr(e.plain, name) is not None:
            run.append(name)
    return because("beats_controls", routers=sorted(routers), controls=run)


def _not_compared(e: Evidence, routers: frozenset[int]) -> Reason:
    """Name the controls that were not run at these r; the ensemble control may have been run at
    others.
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
    """Return the r at which noisy beats every control and its interval against clean lies above
    zero.
    """
    if reading.clean is None:
        return frozenset()
    p = reading.adjusted(e.clean.routers, ensemble=ensemble)
    beaten = (r for r, value in zip(e.clean.routers, p, strict=True) if value <= alpha + 1e-12)
    return frozenset(beaten) & reading.clean.above_zero


def _above_zero(reading: Reading, routers: frozenset[int]) -> frozenset[int]:
    """Return those of these r at which the lower limit of every comparison lies above zero."""
    for c in reading.comparisons():
        routers -= set(c.routers) - c.above_zero
    return routers


def asked_enough(gates: Sequence[Gate], verdict: Verdict) -> tuple[Gate, ...]:
    """Mark `enough_data` as not applicable if an effect was found, however large it may still be.

    Parameters
    ----------
    gates : sequence of Gate
        All gates of a cell.
    verdict : Verdict
        Its verdict.

    Returns
    -------
    tuple of Gate
        The gates in their order.
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
    """Return the headline of a cell.

    Parameters
    ----------
    model, benchmark : str
        The cell.
    decision : Decision
        Its verdict and reasons.
    e : Evidence or None
        Its evidence; None if it could not be compared.
    failing : sequence of str
        Names of the gates that withhold the verdict.

    Returns
    -------
    Reason
        A code with the numbers of the sentence.
    """
    if decision.verdict == Verdict.WITHHELD or e is None:
        why = [GATES[name].because if name in GATES else name for name in failing]
        code = "headline_withheld" if why else "headline_not_comparable"
        return because(code, model=model, benchmark=benchmark, why=why)
    c, reasons = e.clean, [reason for reason in decision.reasons if reason.code != "falls"]
    about = reasons[0 if decision.verdict == Verdict.NO_EXCESS else -1]
    # At these r every comparison passed.
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
    """Return what the control benchmark says about a gain; empty without a control benchmark.

    Parameters
    ----------
    contrasts : sequence of Contrast
        The rows of a cell.

    Returns
    -------
    tuple of Reason
        Whether the gain is larger than on held-out items on every scale, on one, or on no scale.
    """
    scales = []
    for c in contrasts:
        if c.name.startswith("difference_in_differences") and c.ci_low is not None:
            scales.append(c)
    points = next((c for c in scales if c.name == "difference_in_differences"), None)
    if points is None:
        return ()
    above = []
    for c in scales:
        if c.ci_low is not None and c.ci_low > 0:
            above.append(c.name)
    if len(above) == len(scales):
        code = "larger_on_every_scale"
    else:
        code = "larger_on_one_scale" if points.name in above else "larger_on_no_scale"
    return (because(code, gain=points.estimate, low=points.ci_low, high=points.ci_high),)


def shift_reasons(shifts: RunShifts, *, repeated: bool) -> tuple[Reason, ...]:
    """State the shifts of whole runs that the intervals and tests allow for.

    Parameters
    ----------
    shifts : RunShifts
        Variances of whole runs.
    repeated : bool
        Whether the noisy arm was run more than once.

    Returns
    -------
    tuple of Reason
        One for each side, and one if the test assumes a larger shift.
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
    """State how far the verdict stands whatever the unparsed answers would have been.

    Parameters
    ----------
    e : Evidence or None
        Evidence of the cell.
    gamma : float or None
        Largest odds ratio under which the verdict stands; None if there is none to state.

    Returns
    -------
    tuple of Reason
        Empty if all answers were parsed.
    """
    if e is None or e.worst_case is None:
        return ()
    worst = because("worst_case", gain=e.worst_case)
    if gamma is None:
        return (worst,)
    if np.isinf(gamma):
        return because("stands_at_worst", odds_ratio=DECIDE_AT), worst
    return because("stands_up_to", odds_ratio=DECIDE_AT, up_to=gamma), worst
