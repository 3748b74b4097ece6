"""Evidence and gates -> one of seven verdicts, with its reasons. The order is the policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from audit.statistics.multiplicity import holm
from audit.statistics.unparsed import DECIDE_AT
from audit.sweep.compare import Comparison
from audit.sweep.evidence import Evidence, Reading
from audit.sweep.result import Decision, Verdict
from audit.sweep.thresholds import SweepThresholds
from audit.sweep.vocabulary import GATES
from audit.verdict.gates import failed
from audit.verdict.result import Gate, points
from audit.verdict.vocabulary import gate_reasons

SHIFT_Z = 1.645  # standard deviations of a shift that a lower limit is set against
FINDINGS = frozenset({Verdict.EXCESS, Verdict.UNCONTROLLED, Verdict.BRITTLE})


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
    nan = float("nan")
    excess = holm([e.p_value if e else nan for e in evidence])
    fall = holm([e.clean.fall_p if e else nan for e in evidence])
    cells = max(sum(e is not None for e in evidence), 1)
    return [
        Corrected(None if np.isnan(p) else float(p), None if np.isnan(f) else float(f), cells)
        for p, f in zip(excess, fall, strict=True)
    ]


def decide(
    evidence: Evidence, gates: Sequence[Gate], thresholds: SweepThresholds, corrected: Corrected | None = None
) -> Decision:
    """The first that applies: withheld, excess or gain uncontrolled, explained by ensembling, brittle, underpowered, no
    excess.

    corrected: over the panel (`over_panel`); the cell alone where None. So the chance that any cell of a panel is
    called an excess although noisy does not beat one of its controls is at most alpha. What is said of one control is
    tested at alpha / cells.

    Noisy beats a control where the test says so; against clean the simultaneous interval must lie above zero too.

    `underpowered` stands after the findings, not before them: the tests hold their error rate at any n, so to call a
    gain that was found underpowered would hide it. And a model is cleared by its data, not by its design: no excess
    where the upper limit of the gain is at most the smallest effect that matters (Schuirmann 1987, J Pharmacokinet
    Biopharm 15), underpowered where it is not.
    """
    blocking = failed(gates)
    if blocking:
        return _withheld(blocking)
    decision = _decide(evidence, gates, thresholds, corrected)
    n = int(evidence.clean.n.min())
    if decision.verdict in FINDINGS and n < thresholds.finding_questions_min:
        few = f"It rests on {n} questions; nothing is found with fewer than {thresholds.finding_questions_min}."
        return Decision(
            Verdict.UNDERPOWERED,
            (*decision.reasons, few),
            (f"Ask at least {thresholds.finding_questions_min} questions (audit plan says how many find what).",),
        )
    return decision


def _decide(
    evidence: Evidence, gates: Sequence[Gate], thresholds: SweepThresholds, corrected: Corrected | None
) -> Decision:
    own = corrected or over_panel([evidence])[0]
    alpha, apart = thresholds.alpha, thresholds.alpha / own.cells
    overall = evidence.p_value if own.excess is None else own.excess
    # The panel's correction scales this cell's p; the same factor is applied to each of its router counts.
    factor = max(overall / evidence.p_value, 1.0)
    found = _found(evidence.plain, evidence, alpha / factor)
    if found:
        return _gain(evidence, gates, found, alpha / factor)
    steady = frozenset() if evidence.repeated or evidence.at_any_stop else _if_runs_are_steady(evidence.plain)
    if steady:
        return _not_repeated(evidence, thresholds, steady)
    if over_base := _found(evidence.plain, evidence, apart, ensemble=False):
        return _not_beyond_ensembling(evidence, thresholds, over_base, apart)
    seen = _against_clean(evidence, thresholds, apart, overall)
    if seen.verdict != Verdict.NO_EXCESS:
        return seen
    return _fallen(evidence, thresholds, own, seen) or _bounded(evidence, gates, thresholds, seen)


def _against_clean(evidence: Evidence, thresholds: SweepThresholds, apart: float, overall: float) -> Decision:
    """What is said where noisy does not beat every control: no excess, or underpowered where it beats the clean
    baseline alone and could beat the original question."""
    tested = _beats(evidence.clean, apart)
    over_clean = tested & _above_zero(evidence.clean)
    routers = tuple(sorted(over_clean or tested))
    if over_clean and evidence.plain.direct is not None:
        reason = (
            f"Noisy beats the clean router with r={_join(over_clean)} but not the original question: it may only win "
            "back what the clean router loses."
        )
        highest = _highest(evidence.plain.direct, over_clean)
        if highest > thresholds.effect_of_interest:
            return Decision(
                Verdict.UNDERPOWERED,
                (reason, f"It could still be above the original question by {points(highest)} (95 %)."),
                ("Ask more questions, or run more replicates of `direct`, to tell the two apart.",),
                routers,
                "there are too few questions to tell whether that is more than the clean router loses",
            )
        doubt = "it gains over the clean router, but no more than that router loses against the original question"
        return Decision(Verdict.NO_EXCESS, (reason,), (), routers, doubt)
    if tested:
        reason = (
            f"With r={_join(tested)} the test speaks for a gain over the clean baseline, but its simultaneous 95 % "
            "interval still holds zero: that is not counted as a finding."
        )
        doubt = "the test alone speaks for a gain, but its interval holds zero"
        return Decision(Verdict.NO_EXCESS, (reason,), (), routers, doubt)
    reason = f"At no router count does noisy beat every control after correction (p={overall:.2g})."
    return Decision(Verdict.NO_EXCESS, (reason,), (), routers)


def _fallen(evidence: Evidence, thresholds: SweepThresholds, own: Corrected, seen: Decision) -> Decision | None:
    """Brittle where damage costs much on average over r; else None."""
    mean = evidence.clean.mean
    fall_p = 1.0 if own.fall is None else own.fall
    # Looked at often, an estimate passes any mark by chance sooner or later: the limit holds at any stop.
    fallen = mean.high if evidence.at_any_stop else mean.estimate
    if not (fall_p <= thresholds.alpha / 2 and mean.high < 0 and fallen <= -thresholds.brittle_drop_min):  # NaN neither
        return None
    interval = f"95 % interval {100 * -mean.high:.1f} to {points(-mean.low)}"
    drop = f"Accuracy falls by {points(-mean.estimate)} on average over r ({interval}; p={fall_p:.2g})."
    advice = "Do not rely on the score for differently worded questions; look at which deletions cost the answer."
    return Decision(Verdict.BRITTLE, (drop, *seen.reasons), (advice,))


def _bounded(evidence: Evidence, gates: Sequence[Gate], thresholds: SweepThresholds, seen: Decision) -> Decision:
    """No excess where the data bound the gain by the smallest effect that matters; else underpowered."""
    limit = evidence.largest_compatible
    compatible = f"A gain of {points(limit)} is still compatible with the data (97.5 % upper limit, the largest over r)"
    if evidence.favourable is not None and limit > evidence.clean.largest_compatible:
        compatible += ", with the replies that could not be read or never came held for it"
    if not limit <= thresholds.effect_of_interest:  # NaN clears nobody
        return Decision(
            Verdict.UNDERPOWERED,
            (*seen.reasons, f"{compatible}; {points(thresholds.effect_of_interest)} would be of interest."),
            tuple(g.advice for g in gates if g.name == "enough_data"),
        )
    further = (
        f"{compatible}, no more than the smallest effect that matters ({points(thresholds.effect_of_interest)}).",
        "Memory that helps intact and damaged questions alike makes no gain: this test cannot see it, and clears "
        "nobody of it.",
    )
    return replace(seen, reasons=(*seen.reasons, *further))


def _gain(evidence: Evidence, gates: Sequence[Gate], routers: frozenset[int], level: float) -> Decision:
    """Noisy beats every control that was run at these r, as the replies were read: is it still so under the other
    readings, and were all the controls run?"""
    against = [name for name, c in _controls(evidence.plain).items() if c is not None]
    reasons = [f"With r={_join(routers)}, noisy beats {' and '.join(against)} after correction for all r and models."]
    left = _under_other_readings(evidence, gates, routers, level)
    if isinstance(left, Decision):
        return left
    routers, further = left
    reasons += further
    controlled = frozenset(r for r in routers if evidence.controlled(r))
    if not controlled:
        missing = _not_run(evidence, routers)
        return Decision(
            Verdict.UNCONTROLLED,
            (*reasons, f"It was not compared with {' or '.join(missing)}, either of which may explain it."),
            ("Run the same command with the controls: what is in the shards is kept.",),
            tuple(sorted(routers)),
            "a control that could explain it was not run",
        )
    if evidence.at_any_stop and not (controlled := _beyond_shifts(evidence, controlled)):
        shift = "what a whole run can shift by, which a run that may stop early does not measure"
        return Decision(
            Verdict.UNCONTROLLED,
            (*reasons, f"Its lower limit is not beyond {shift}."),
            ("Ask a fixed number of questions with noisy_replicates=2.",),
            tuple(sorted(routers)),
            "a shift of the whole run could explain it",
        )
    beyond = _beyond_hints(evidence, controlled, level)
    if isinstance(beyond, Decision):
        return replace(beyond, reasons=(*reasons, *beyond.reasons))
    controlled = beyond
    if evidence.hints is not None:
        reasons.append(
            f"{evidence.hints.reference}, given the same messages, gains "
            f"{100 * evidence.hints.reference_gain:+.1f} points on average over r, and the difference is beyond "
            "chance: hints in the messages do not explain it."
        )
    if 1 in controlled:
        reasons.append("With one router, the clean baseline is the router that deletes nothing.")
    if untested := routers - controlled:
        reasons.append(f"With r={_join(untested)} it was not compared with as many routers that delete nothing.")
    return Decision(
        Verdict.EXCESS,
        tuple(reasons),
        (
            "Treat the score as partly memory of the exam until shown otherwise: repeat it on held-out questions.",
            "Read the questions that went from wrong to correct, and what the worker was shown.",
        ),
        tuple(sorted(controlled)),
    )


def _not_run(evidence: Evidence, routers: frozenset[int]) -> list[str]:
    """The controls that a gain at these r lacks."""
    missing = [] if evidence.plain.direct is not None else ["the original question (arms: direct)"]
    if any(r > 1 for r in routers) and evidence.plain.ensemble is None:
        missing.append("as many routers that delete nothing (ensemble_control=true)")
    elif not missing:
        missing.append(f"as many routers that delete nothing with r={_join(routers)} (ensemble_control=true)")
    return missing


def _under_other_readings(
    evidence: Evidence, gates: Sequence[Gate], routers: frozenset[int], level: float
) -> tuple[frozenset[int], list[str]] | Decision:
    """The router counts at which the gain is still there, and what is said of it; withheld where it is at none."""
    reasons = []
    if evidence.without_leak is not None:
        # Few leaks pass the gate, and at a high r a few in a hundred messages are many questions: so they are looked at
        # whenever there are any.
        routers &= _found(evidence.without_leak, evidence, level)
        if not routers:
            leaks = [g for g in gates if g.name == "answer_leak"]
            gone = "The gain is gone without the questions whose messages state the answer."
            withheld = _withheld(leaks)
            return replace(withheld, reasons=(gone, *withheld.reasons), gate="answer_leak")
        reasons.append("It is still there without the questions whose messages state the answer.")
    if evidence.adverse is not None:
        routers &= _found(evidence.adverse, evidence, level)
        if not routers:
            return Decision(
                Verdict.WITHHELD,
                (
                    "The gain is gone if the replies that could not be read or never came are held against it (their "
                    f"odds of being right apart by a factor of {DECIDE_AT:g} between the arms, beyond what the "
                    "question's other answers predict): it may come from which replies there are.",
                ),
                (
                    "Read the unreadable replies and the errors, and mend what makes them so "
                    "(store.retry_errors=true asks failed calls again), or read answers by likelihood.",
                ),
                gate="parseability",
            )
        reasons.append("It is still there if replies that could not be read or never came are held against it.")
    return routers, reasons


def _beyond_shifts(evidence: Evidence, routers: frozenset[int]) -> frozenset[int]:
    """Router counts at which the limits of a run that may stop early are above a plausible shift (95 %)."""
    margin = SHIFT_Z * sum(evidence.shifts.tested(repeated=evidence.repeated)) ** 0.5
    for c in evidence.plain.comparisons():
        routers -= {r for r, low in zip(c.routers, c.low, strict=True) if low <= margin}
    return routers


def _beyond_hints(evidence: Evidence, routers: frozenset[int], level: float) -> frozenset[int] | Decision:
    """The router counts at which a reference gains less from the same messages; a decision where there are none."""
    found = evidence.hints
    if found is None:
        return Decision(
            Verdict.UNCONTROLLED,
            ("No other model answered from the same messages: that these hint at the answer is not excluded.",),
            (
                "Let a model that is about as able answer from the stored messages (model=OTHER "
                "messages_from=RUN_DIR, else the same command), then type the command again with "
                "hint_reference=ITS_RUN_DIR.",
            ),
            tuple(sorted(routers)),
            "its messages may hint at the answers, and no other model was given them",
        )
    beyond = routers & found.beyond(level)
    if beyond:
        return beyond
    gains = f"{found.reference} gains {100 * found.reference_gain:+.1f} points from the same messages"
    if not found.reads_as_well:
        why = f"{found.reference} answers the clean messages worse than this model: it may miss what they hint."
        doubt = "the model that was given the same messages is weaker, and may miss what they hint"
        what = "Take a hint reference that is about as able as this model, or abler."
    else:
        why = f"{gains}: that this model gains more is not beyond chance."
        doubt = "another model gains about as much from the same messages"
        what = "Read what the messages tell, or ask more questions to tell the two gains apart."
    return Decision(Verdict.UNCONTROLLED, (why,), (what,), tuple(sorted(routers)), doubt)


def _if_runs_are_steady(reading: Reading) -> frozenset[int]:
    """Router counts at which noisy beats every control that was run there, if its one run is shifted by no more than
    was measured: the simultaneous intervals lie above zero."""
    assert reading.clean is not None  # noqa: S101 - `measure` raises where it could not be made
    out = _above_zero(reading.clean)
    for c in reading.comparisons():
        out &= _above_zero(c) | (frozenset(reading.clean.routers) - frozenset(c.routers))
    return out


def _not_repeated(evidence: Evidence, thresholds: SweepThresholds, routers: frozenset[int]) -> Decision:
    plausible = points(thresholds.run_sd_plausible)
    return Decision(
        Verdict.UNCONTROLLED,
        (
            f"With r={_join(routers)}, the intervals of noisy over every control that was run lie above zero.",
            "But the noisy arm was run once. A whole run can shift by a standard deviation of "
            f"{plausible} (batches, endpoints, engines), and that could explain the gain.",
        ),
        ("Run the same command with noisy_replicates=2: what is in the shards is kept.",),
        tuple(sorted(routers)),
        "one noisy run cannot tell it from a shift of the whole run",
    )


def _not_beyond_ensembling(
    evidence: Evidence, thresholds: SweepThresholds, routers: frozenset[int], level: float
) -> Decision:
    """Noisy beats clean (and direct) but not as many routers that delete nothing: explained by these only on evidence.

    That noisy does not beat the control may be mere lack of data. It is an explanation where noisy can be above the
    control by no more than the smallest effect that matters at every r that counts, unparsed replies held for a gain
    too.
    """
    control, gain = evidence.plain.ensemble, evidence.ensemble_gain
    assert control is not None  # noqa: S101 - the caller compared with it
    mean = control.mean
    direct = " and the original question" if evidence.plain.direct else ""
    reasons = [
        f"With r={_join(routers)}, noisy beats the clean baseline{direct}.",
        "It does not beat as many routers that delete nothing: on average over r it is "
        f"{100 * mean.estimate:+.1f} points from them (95 % interval {100 * mean.low:+.1f} to {100 * mean.high:+.1f}).",
    ]
    also = (_beats(gain, level) & _above_zero(gain) & routers) if gain else frozenset()
    if also:
        reasons.append(f"They beat the clean baseline too, with r={_join(also)}.")
    held = evidence.favourable.ensemble if evidence.favourable else None
    highest = max(_highest(c, routers) for c in (control, held) if c is not None)
    if highest <= thresholds.effect_of_interest:
        return Decision(
            Verdict.EXCESS_EXPLAINED,
            (
                *reasons,
                f"What noisy could be above them is at most {points(highest)} (97.5 % upper limit), no more than the "
                f"smallest effect that matters ({points(thresholds.effect_of_interest)}).",
            ),
            ("Read the gain as an effect of repetition and compute.",),
            tuple(sorted(routers)),
        )
    return Decision(
        Verdict.UNDERPOWERED,
        (*reasons, f"Noisy could be above them by {points(highest)}: the data cannot tell deletion from repetition."),
        ("Ask more questions, or run more replicates of the ensemble control, to tell the two apart.",),
        tuple(sorted(routers)),
        "there are too few questions to tell whether the damage or the repetition does it",
    )


def _withheld(gates: Sequence[Gate]) -> Decision:
    return Decision(Verdict.WITHHELD, gate_reasons(gates, GATES), tuple(g.advice for g in gates if g.advice))


def _beats(comparison: Comparison, alpha: float) -> frozenset[int]:
    """Router counts whose step-down adjusted p is at most alpha."""
    return frozenset(r for r, p in zip(comparison.routers, comparison.adjusted, strict=True) if p <= alpha + 1e-12)


def _above_zero(comparison: Comparison) -> frozenset[int]:
    """Router counts whose simultaneous interval lies above zero; all where the test is the interval turned round."""
    if comparison.log_e is not None:
        return frozenset(comparison.routers)
    return frozenset(r for r, low in zip(comparison.routers, comparison.low, strict=True) if low > 0)


def _found(reading: Reading, evidence: Evidence, alpha: float, *, ensemble: bool = True) -> frozenset[int]:
    """Router counts at which noisy beats every control, its interval against clean lying above zero too."""
    if reading.clean is None:
        return frozenset()
    routers = evidence.clean.routers
    p = reading.adjusted(routers, ensemble=ensemble)
    return frozenset(r for r, value in zip(routers, p, strict=True) if value <= alpha + 1e-12) & _above_zero(
        reading.clean
    )


def _controls(reading: Reading) -> dict[str, Comparison | None]:
    return {
        "the clean baseline": reading.clean,
        "the original question": reading.direct,
        "as many routers that delete nothing": reading.ensemble,
    }


def _highest(comparison: Comparison, routers: frozenset[int]) -> float:
    """The largest 97.5 % upper limit at these router counts; 1 where one of them was not compared."""
    limits = dict(zip(comparison.routers, comparison.upper.tolist(), strict=True))
    found = [limits.get(r, 1.0) for r in routers]
    return max(1.0 if np.isnan(limit) else limit for limit in found)


def _join(routers: frozenset[int]) -> str:
    return ", ".join(str(r) for r in sorted(routers))
