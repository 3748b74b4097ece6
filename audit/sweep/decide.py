"""Decide a cell from its evidence and gates: seven verdicts, with reasons as codes. The order is the policy."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from audit.judge.record import holm_rows
from audit.statistics.run_variance import RunShifts
from audit.statistics.unparsed import DECIDE_AT
from audit.sweep.design import SweepThresholds
from audit.sweep.evidence import Evidence, Reading
from audit.sweep.vocabulary import GATES, Contrast, Decision, Verdict
from audit.verdict.result import Gate, Reason, Status, advice_of, because, failed
from audit.verdict.vocabulary import gate_reasons

FINDINGS = frozenset({Verdict.EXCESS, Verdict.UNCONTROLLED, Verdict.BRITTLE})
CONTROLS = ("clean", "direct", "ensemble")


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


def decide(
    evidence: Evidence, gates: Sequence[Gate], thresholds: SweepThresholds, corrected: Corrected | None = None
) -> Decision:
    """The first that applies: withheld, excess or gain uncontrolled, explained by ensembling, brittle, underpowered, no
    excess.

    corrected: over the panel (`over_panel`); the cell alone where None. So the chance that any cell of a panel is
    called an excess although noisy does not beat one of its controls is at most alpha. What is said of one control is
    tested at alpha / cells. Noisy beats a control where the test says so; against clean the simultaneous interval must
    lie above zero too.

    `underpowered` stands after the findings: the tests hold their error rate at any n. A model is cleared by its data:
    no excess where the upper limit of the gain is at most the smallest effect that matters (Schuirmann 1987, J
    Pharmacokinet Biopharm 15).
    """
    if blocking := failed(gates):
        return Decision(Verdict.WITHHELD, gate_reasons(blocking, GATES), advice_of(blocking))
    decision = _decide(evidence, gates, thresholds, corrected or over_panel([evidence])[0])
    n, least = int(evidence.clean.n.min()), thresholds.finding_questions_min
    if decision.verdict in FINDINGS and n < least:
        few = because("few_questions", n=n, least=least)
        return Decision(Verdict.UNDERPOWERED, (*decision.reasons, few), (because("ask_at_least", least=least),))
    return decision


def _decide(e: Evidence, gates: Sequence[Gate], t: SweepThresholds, own: Corrected) -> Decision:
    alpha, apart = t.alpha, t.alpha / own.cells
    overall = e.p_value if own.excess is None else own.excess
    # The panel's correction scales this cell's p; the same factor is applied to each of its router counts.
    level = alpha / max(overall / e.p_value, 1.0)
    if found := _found(e.plain, e, level):
        return _gain(e, gates, found, level)
    # At which noisy beats every control that was run there, if its one run is shifted by no more than was measured.
    steady = _above_zero(e.plain, e.clean.above_zero)
    if steady and not e.repeated:
        why = because("above_zero", routers=sorted(steady))
        return _uncontrolled([why], steady, because("run_once", sd=t.run_sd_plausible), because("run_twice"))
    if over_base := _found(e.plain, e, apart, ensemble=False):
        return _not_beyond_ensembling(e, t, over_base, apart)
    seen = _against_clean(e, t, apart, overall)
    if seen.verdict != Verdict.NO_EXCESS:
        return seen
    return _fallen(e, t, own, seen) or _bounded(e, gates, t, seen)


def _gain(e: Evidence, gates: Sequence[Gate], routers: frozenset[int], level: float) -> Decision:
    """Noisy beats every control at these r: under the other readings too, with all controls, beyond the messages?"""
    why = [_beats_controls(e, routers, CONTROLS)]
    if e.without_leak is not None:
        # Few leaks pass the gate, and at a high r a few in a hundred messages are many questions: so they are looked at
        # whenever there are any.
        routers &= _found(e.without_leak, e, level)
        if not routers:
            leaks = [g for g in gates if g.name == "answer_leak"]
            gone = (because("gone_without_leaks"), *gate_reasons(leaks, GATES))
            return Decision(Verdict.WITHHELD, gone, advice_of(leaks), gate="answer_leak")
        why.append(because("stands_without_leaks"))
    if e.adverse is not None:
        routers &= _found(e.adverse, e, level)
        if not routers:
            gone = (because("gone_if_unparsed", odds_ratio=DECIDE_AT),)
            return Decision(Verdict.WITHHELD, gone, (because("mend_unparsed"),), gate="parseability")
        why.append(because("stands_if_unparsed", odds_ratio=DECIDE_AT))
    controlled = frozenset(r for r in routers if e.controlled(r))
    if not controlled:
        return _uncontrolled(why, routers, _not_compared(e, routers), because("run_controls"))
    return _by_hints(e, why, routers, controlled, level)


def _by_hints(
    e: Evidence, why: list[Reason], routers: frozenset[int], controlled: frozenset[int], level: float
) -> Decision:
    """An excess at the router counts where a reference gains less from the same messages."""
    hints = e.hints
    if hints is None:
        return _uncontrolled(why, controlled, because("no_reference"), because("give_reference"))
    gains = {"reference": hints.reference, "gain": hints.reference_gain}
    beyond = controlled & hints.beyond(level)
    if not beyond and not hints.reads_as_well:
        return _uncontrolled(why, controlled, because("weak_reference", **gains), because("take_abler_reference"))
    if not beyond:
        return _uncontrolled(why, controlled, because("reference_gains_too", **gains), because("read_messages"))
    why.append(because("hints_excluded", **gains))
    if 1 in beyond:
        why.append(because("one_router"))
    if untested := sorted(r for r in routers if not e.controlled(r)):
        why.append(because("ensemble_not_run", routers=untested))
    return Decision(Verdict.EXCESS, tuple(why), (because("hold_out"), because("read_improved")), tuple(sorted(beyond)))


def _uncontrolled(why: Sequence[Reason], routers: Collection[int], doubt: Reason, advice: Reason) -> Decision:
    return Decision(Verdict.UNCONTROLLED, (*why, doubt), (advice,), tuple(sorted(routers)))


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


def _not_beyond_ensembling(e: Evidence, t: SweepThresholds, routers: frozenset[int], level: float) -> Decision:
    """Noisy beats clean (and direct) but not as many routers that delete nothing: explained by these where noisy can be
    above them by no more than the smallest effect that matters; else the data may be too few."""
    control, gain = e.plain.ensemble, e.ensemble_gain
    assert control is not None  # noqa: S101 - the caller compared with it
    mean, at = control.mean, tuple(sorted(routers))
    why = [
        _beats_controls(e, routers, CONTROLS[:2]),
        because("not_above_ensemble", mean=mean.estimate, low=mean.low, high=mean.high),
    ]
    if also := (gain.beats(level) & gain.above_zero & routers) if gain else frozenset():
        why.append(because("ensemble_gains", routers=sorted(also)))
    readings = (e.unaided,) if e.unaided else (e.plain, e.favourable)
    bounds = [reading.ensemble for reading in readings if reading is not None]
    limit = max(c.highest(routers) if c else 1.0 for c in bounds)
    if limit <= t.effect_of_interest:
        why.append(because("ensemble_bounds", limit=limit, effect=t.effect_of_interest))
        return Decision(Verdict.EXCESS_EXPLAINED, tuple(why), (because("is_repetition"),), at)
    why.append(because("may_beat_ensemble", limit=limit))
    return Decision(Verdict.UNDERPOWERED, tuple(why), (because("ask_more_of_ensemble"),), at)


def _against_clean(e: Evidence, t: SweepThresholds, apart: float, overall: float) -> Decision:
    """What is said where noisy does not beat every control: no excess, or underpowered where it beats the clean
    baseline alone and could beat the original question."""
    tested = e.clean.beats(apart)
    over_clean = tested & e.clean.above_zero
    at = tuple(sorted(over_clean or tested))
    if over_clean and e.plain.direct is not None:
        why = because("not_above_direct", routers=at)
        limit = e.plain.direct.highest(over_clean)
        if limit <= t.effect_of_interest:
            return Decision(Verdict.NO_EXCESS, (why,), (), at)
        still = because("may_beat_direct", limit=limit)
        return Decision(Verdict.UNDERPOWERED, (why, still), (because("ask_more_of_direct"),), at)
    why = because("interval_holds_zero", routers=at) if tested else because("beats_no_control", p=overall)
    return Decision(Verdict.NO_EXCESS, (why,), (), at)


def _fallen(e: Evidence, t: SweepThresholds, own: Corrected, seen: Decision) -> Decision | None:
    """Brittle where damage costs much on average over r; else None."""
    mean = e.clean.mean
    fall_p = 1.0 if own.fall is None else own.fall
    if not (fall_p <= t.alpha / 2 and mean.high < 0 and mean.estimate <= -t.brittle_drop_min):  # NaN neither
        return None
    drop = because("falls", drop=-mean.estimate, low=-mean.high, high=-mean.low, p=fall_p)
    return Decision(Verdict.BRITTLE, (drop, *seen.reasons), (because("not_in_other_words"),))


def _bounded(e: Evidence, gates: Sequence[Gate], t: SweepThresholds, seen: Decision) -> Decision:
    """No excess where the data bound the gain by the smallest effect that matters; else underpowered."""
    limit = e.largest_compatible
    imputed = e.favourable is not None and limit > e.clean.largest_compatible
    aided = e.unaided is not None
    why = (*seen.reasons, because("bound", limit=limit, effect=t.effect_of_interest, imputed=imputed, aided=aided))
    if limit <= t.effect_of_interest:  # NaN clears nobody
        return replace(seen, reasons=(*why, because("blind")))
    return Decision(Verdict.UNDERPOWERED, why, advice_of([g for g in gates if g.name == "enough_data"]))


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
    if verdict not in FINDINGS | {Verdict.EXCESS_EXPLAINED}:
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
    c, about = e.clean, decision.reasons[0 if decision.verdict == Verdict.NO_EXCESS else -1]
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
        loss=-c.mean.estimate,
        limit=e.largest_compatible,
        score=e.score,
    )


def held_out(contrasts: Sequence[Contrast]) -> tuple[Reason, ...]:
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
