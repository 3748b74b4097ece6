"""Decide a cell from its evidence and gates: a grade, its code and its reasons. The ladder is in audit.judging."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from audit.judge.record import holm_rows
from audit.judging.ladder import NO_ROOM, Bound, Contrast, Grade, Guard, grade
from audit.statistics.run_variance import RunShifts
from audit.statistics.unparsed import DECIDE_AT
from audit.sweep.design import SweepThresholds
from audit.sweep.evidence import Evidence, Reading
from audit.sweep.vocabulary import GATES, Decision, Verdict
from audit.sweep.vocabulary import Contrast as Row
from audit.verdict.result import Gate, Reason, Status, advice_of, because, failed
from audit.verdict.vocabulary import gate_reasons

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
    """A cell's p-values after Holm over the cells of the panel that can be tested, and how many these are.

    excess: of `Evidence.p_value`. fall: of "noisy falls below clean".
    """

    excess: float | None
    fall: float | None
    cells: int


def over_panel(evidence: Sequence[Evidence | None]) -> list[Corrected]:
    """Holm over the cells of a panel; None where a cell could not be compared."""
    excess = holm_rows([[e.p_value if e else None] for e in evidence])
    fall = holm_rows([[e.clean.fall_p if e else None] for e in evidence])
    cells = max(sum(e is not None for e in evidence), 1)
    return [Corrected(p, f, cells) for (p,), (f,) in zip(excess, fall, strict=True)]


@dataclass(frozen=True)
class Claim:
    """A contrast, and what is said if the verdict rests on it. check: a failed check of the whole measurement that this
    contrast showed. explained: a clearance by it says that repetition explains the gain."""

    contrast: Contrast
    reasons: tuple[Reason, ...] = ()
    advice: tuple[Reason, ...] = ()
    routers: tuple[int, ...] = ()
    check: str = ""
    explained: bool = False


def decide(
    evidence: Evidence, gates: Sequence[Gate], thresholds: SweepThresholds, corrected: Corrected | None = None
) -> Decision:
    """Return the grade of the ladder with the sweep's code and reasons.

    corrected: over the panel (`over_panel`); the cell alone where None. So the chance that any cell of a panel is
    called an excess although noisy does not beat one of its controls is at most alpha. What is said of one control is
    tested at alpha / cells. Noisy beats a control where the test says so; against clean the simultaneous interval must
    lie above zero too.

    A cell is cleared by its data: the upper limit of the gain is at most the smallest effect that matters (Schuirmann
    1987, J Pharmacokinet Biopharm 15). A fall under noise is expected and decides nothing.
    """
    if blocking := failed(gates):
        graded = grade((), [g.name for g in blocking])
        return Decision(_VERDICTS[graded.grade], graded.grade, gate_reasons(blocking, GATES), advice_of(blocking))
    claims = _claims(evidence, gates, thresholds, corrected or over_panel([evidence])[0])
    checks = [claim.check for claim in claims if claim.check]
    graded = grade([claim.contrast for claim in claims], checks)
    by = next((c for c in claims if c.check or (not checks and c.contrast.name in graded.by)), claims[-1])
    verdict = _VERDICTS[graded.grade]
    if verdict == Verdict.NO_EXCESS and by.explained:
        verdict = Verdict.EXCESS_EXPLAINED
    reasons, advice = by.reasons, by.advice
    if graded.codes == (NO_ROOM,):
        room = because(NO_ROOM, score=evidence.clean_accuracy, effect=thresholds.effect_of_interest)
        reasons, advice = (*reasons, room), (because("harder_questions"),)
    if fallen := _fallen(evidence, thresholds, corrected):
        reasons = (*reasons, fallen)
    return Decision(verdict, graded.grade, reasons, advice, by.routers, by.check)


def _claims(e: Evidence, gates: Sequence[Gate], t: SweepThresholds, own: Corrected) -> list[Claim]:
    """Return what noisy is compared with: every control, every control but once, and what bounds the gain."""
    alpha, apart = t.alpha, t.alpha / own.cells
    overall = e.p_value if own.excess is None else own.excess
    # The panel's correction scales this cell's p; the same factor is applied to each of its router counts.
    level = alpha / max(overall / e.p_value, 1.0)
    n, least = int(e.clean.n.min()), t.finding_questions_min
    above, steady = _found(e.plain, e, level), _above_zero(e.plain, e.clean.above_zero)
    if n < least and (above or (steady and not e.repeated)):
        few = because("few_questions", n=n, least=least)
        undecided = Contrast("gain", bound=Bound(excluded=False))
        return [Claim(undecided, (few,), (because("ask_at_least", least=least),), tuple(sorted(above or steady)))]
    claims = [_gain(e, gates, above, level)] if above else []
    if steady and not e.repeated:
        why = because("above_zero", routers=sorted(steady)), because("run_once", sd=t.run_sd_plausible)
        once = Contrast("gain_in_one_run", speaks=True, guards=(Guard("run_once", excluded=False),))
        claims.append(Claim(once, why, (because("run_twice"),), tuple(sorted(steady))))
    return [*claims, _bounded(e, gates, t, apart, overall)]


def _gain(e: Evidence, gates: Sequence[Gate], routers: frozenset[int], level: float) -> Claim:
    """Return the gain over every control at these r, with its guards: controls, and what the messages give away."""
    why = [_beats_controls(e, routers, CONTROLS)]
    silent = Contrast("gain_over_controls")
    if e.without_leak is not None:
        # Few leaks pass the gate, and at a high r a few in a hundred messages are many questions: so they are looked at
        # whenever there are any.
        routers &= _found(e.without_leak, e, level)
        if not routers:
            leaks = [g for g in gates if g.name == "answer_leak"]
            gone = (because("gone_without_leaks"), *gate_reasons(leaks, GATES))
            return Claim(silent, gone, advice_of(leaks), check="answer_leak")
        why.append(because("stands_without_leaks"))
    if e.adverse is not None:
        routers &= _found(e.adverse, e, level)
        if not routers:
            gone = (because("gone_if_unparsed", odds_ratio=DECIDE_AT),)
            return Claim(silent, gone, (because("mend_unparsed"),), check="parseability")
        why.append(because("stands_if_unparsed", odds_ratio=DECIDE_AT))
    controlled = frozenset(r for r in routers if e.controlled(r))
    beyond = controlled & (e.hints.beyond(level) if e.hints is not None else frozenset())
    alone = e.hints is not None and not e.hints.reference_p <= level  # NaN is no gain that was seen
    guards = Guard("controls", bool(controlled)), Guard("hints", bool(beyond)), Guard("reference_gains", alone)
    speaks = replace(silent, speaks=True, guards=guards)
    if speaks.open:
        doubt, advice = _doubt(e, routers, controlled, bool(beyond))
        return Claim(speaks, (*why, doubt), (advice,), tuple(sorted(controlled or routers)))
    assert e.hints is not None  # noqa: S101 - a guard that is excluded needs it
    why.append(because("hints_excluded", reference=e.hints.reference, gain=e.hints.reference_gain))
    if 1 in beyond:
        why.append(because("one_router"))
    if untested := sorted(r for r in routers if not e.controlled(r)):
        why.append(because("ensemble_not_run", routers=untested))
    return Claim(speaks, tuple(why), (because("hold_out"), because("read_improved")), tuple(sorted(beyond)))


def _doubt(e: Evidence, routers: frozenset[int], controlled: frozenset[int], beyond: bool) -> tuple[Reason, Reason]:
    """Return the first explanation that is not excluded, and what would exclude it."""
    if not controlled:
        return _not_compared(e, routers), because("run_controls")
    if e.hints is None:
        return because("no_reference"), because("give_reference")
    gains = {"reference": e.hints.reference, "gain": e.hints.reference_gain}
    if not beyond and not e.hints.reads_as_well:
        return because("weak_reference", **gains), because("take_abler_reference")
    return because("reference_gains_too", **gains), because("read_messages")


def _bounded(e: Evidence, gates: Sequence[Gate], t: SweepThresholds, apart: float, overall: float) -> Claim:
    """Return what bounds the gain: the ensemble control or the original question where noisy beats the others, else
    the clean baseline."""
    over_base = _found(e.plain, e, apart, ensemble=False) if e.plain.ensemble is not None else frozenset()
    tested = e.clean.beats(apart)
    over_clean = tested & e.clean.above_zero
    at = tuple(sorted(over_base or over_clean or tested))
    explained, room = False, 1 - e.clean_accuracy >= t.effect_of_interest
    if over_base:
        limit, why = _over_ensemble(e, over_base, apart)
        explained = limit <= t.effect_of_interest
        last = because("ensemble_bounds", limit=limit, effect=t.effect_of_interest)
        open_, ask, done = because("may_beat_ensemble", limit=limit), "ask_more_of_ensemble", "is_repetition"
    elif over_clean and e.plain.direct is not None:
        limit, why = e.plain.direct.highest(over_clean), [because("not_above_direct", routers=at)]
        last, open_, ask, done = None, because("may_beat_direct", limit=limit), "ask_more_of_direct", ""
    else:
        limit, done, ask = e.largest_compatible, "", ""
        why = [because("interval_holds_zero", routers=at) if tested else because("beats_no_control", p=overall)]
        imputed = e.favourable is not None and limit > e.clean.largest_compatible
        numbers = {"imputed": imputed, "aided": e.unaided is not None}
        why.append(because("bound", limit=limit, effect=t.effect_of_interest, **numbers))
        last, open_ = because("blind"), None
    excluded = limit <= t.effect_of_interest  # NaN clears nobody
    contrast = Contrast("gain", bound=Bound(excluded, room))
    said = last if excluded else open_
    few = advice_of([g for g in gates if g.name == "enough_data"])
    code = done if excluded else ask
    advice = (because(code),) if code else () if excluded else few
    reasons = (*why, said) if said is not None else tuple(why)
    return Claim(contrast, reasons, advice, at, explained=explained)


def _over_ensemble(e: Evidence, routers: frozenset[int], level: float) -> tuple[float, list[Reason]]:
    """Return the upper limit of noisy over as many routers that delete nothing, and what was seen of both."""
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
    bounds = [reading.ensemble for reading in readings if reading is not None]
    return max(c.highest(routers) if c else 1.0 for c in bounds), why


def _fallen(e: Evidence, t: SweepThresholds, own: Corrected | None) -> Reason | None:
    """Return the note that damage costs much on average over r, as is expected; None if it does not."""
    mean = e.clean.mean
    fall_p = e.clean.fall_p if own is None or own.fall is None else own.fall
    if not (fall_p <= t.alpha / 2 and mean.high < 0 and mean.estimate <= -t.fall_noted):  # NaN neither
        return None
    return because("falls", drop=-mean.estimate, low=-mean.high, high=-mean.low, p=fall_p)


def _beats_controls(e: Evidence, routers: Collection[int], names: Sequence[str]) -> Reason:
    run = [name for name in names if getattr(e.plain, name) is not None]
    return because("beats_controls", routers=sorted(routers), controls=run)


def _not_compared(e: Evidence, routers: frozenset[int]) -> Reason:
    """The controls that a gain at these r lacks. ensemble_routers: where the ensemble control was run at others."""
    direct = e.plain.direct is None
    never = e.plain.ensemble is None and any(r > 1 for r in routers)
    at = sorted(routers) if not (direct or never) else []
    missing = ["direct"] * direct + ["ensemble"] * (never or bool(at))
    return because("not_compared", controls=missing, ensemble_routers=at)


def _found(reading: Reading, e: Evidence, alpha: float, *, ensemble: bool = True) -> frozenset[int]:
    """Router counts at which noisy beats every control, its interval against clean lying above zero too."""
    if reading.clean is None:
        return frozenset()
    p = reading.adjusted(e.clean.routers, ensemble=ensemble)
    beaten = (r for r, value in zip(e.clean.routers, p, strict=True) if value <= alpha + 1e-12)
    return frozenset(beaten) & reading.clean.above_zero


def _above_zero(reading: Reading, routers: frozenset[int]) -> frozenset[int]:
    """Of these router counts, those at which the lower limit of every comparison that was made lies above zero."""
    for c in reading.comparisons():
        routers -= set(c.routers) - c.above_zero
    return routers


def asked_enough(gates: Sequence[Gate], verdict: Verdict) -> tuple[Gate, ...]:
    """The same gates; `enough_data` does not apply where an effect was found, however large it may still be."""
    if verdict not in (Verdict.EXCESS, Verdict.UNCONTROLLED, Verdict.EXCESS_EXPLAINED):
        return tuple(gates)
    said = "An effect was found, and shows that the questions were enough."
    moot = partial(replace, status=Status.NOT_APPLICABLE, detail=said, advice="")
    return tuple(moot(g) if g.name == "enough_data" and g.status == Status.FAIL else g for g in gates)


def headline(model: str, benchmark: str, decision: Decision, e: Evidence | None, failing: Sequence[str]) -> Reason:
    """Who, on what, and what was found. failing: names of the gates that withhold the verdict."""
    if decision.verdict == Verdict.WITHHELD or e is None:
        why = [GATES[name].because if name in GATES else name for name in failing]
        code = "headline_withheld" if why else "headline_not_comparable"
        return because(code, model=model, benchmark=benchmark, why=why)
    c, told = e.clean, [one for one in decision.reasons if one.code != "falls"]
    about = told[0 if decision.verdict == Verdict.NO_EXCESS else -1]
    shown = [k for k, r in enumerate(c.routers) if r in decision.routers] or [c.best]
    best = max(shown, key=lambda k: c.gain[k])  # of those that passed every comparison
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
    """What the control benchmark says of a gain, where one was run."""
    scales = [c for c in contrasts if c.name.startswith("difference_in_differences") and c.ci_low is not None]
    points = next((c for c in scales if c.name == "difference_in_differences"), None)
    if points is None:
        return ()
    above = [c.name for c in scales if c.ci_low is not None and c.ci_low > 0]
    on = "every_scale" if len(above) == len(scales) else "one_scale" if points.name in above else "no_scale"
    return (because(f"larger_on_{on}", gain=points.estimate, low=points.ci_low, high=points.ci_high),)


def shifts_said(found: RunShifts, *, repeated: bool) -> tuple[Reason, ...]:
    """What was reckoned with for the difference between whole runs. repeated: whether the noisy arm was."""
    measured = dict(zip(("noisy", "clean"), (found.noisy, found.controls), strict=True))
    used = dict(zip(measured, found.used, strict=True))
    tested = dict(zip(measured, found.tested(repeated=repeated), strict=True))
    out = [
        because("shift", side=side, sd=used[side] ** 0.5, estimate=v.estimate**0.5, df=v.df, capped=v.capped)
        for side, v in measured.items()
    ]
    if sides := [side for side in measured if tested[side] != used[side]]:
        out.append(because("shift_tested", sides=sides, sd=found.plausible_sd))
    return tuple(out)


def unparsed(e: Evidence | None, gamma: float | None) -> tuple[Reason, ...]:
    """How far the verdict stands whatever the unparsed answers would have been."""
    if e is None or e.worst_case is None:
        return ()
    worst = because("worst_case", gain=e.worst_case)
    if gamma is None:
        return (worst,)
    if np.isinf(gamma):
        return because("stands_at_worst", odds_ratio=DECIDE_AT), worst
    return because("stands_up_to", odds_ratio=DECIDE_AT, up_to=gamma), worst
