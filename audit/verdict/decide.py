"""Evidence and gates -> one of six verdicts, with its reasons. The order is the policy; there is no arithmetic here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from audit.verdict.evidence import Comparison, Evidence
from audit.verdict.gates import failed
from audit.verdict.result import Gate, Status, Verdict, points
from audit.verdict.thresholds import Thresholds


@dataclass(frozen=True)
class Decision:
    """A verdict, why, and what to do about it.

    routers: the router counts at which noisy beats clean, or seems to. doubt: where that is not an excess, the reason
    in a few words for the headline. gate: the gate whose matter withholds it, where all gates passed.
    """

    verdict: Verdict
    reasons: tuple[str, ...]
    what_to_do: tuple[str, ...]
    routers: tuple[int, ...] = ()
    doubt: str = ""
    gate: str = ""


def decide(
    evidence: Evidence, gates: Sequence[Gate], thresholds: Thresholds, p_adjusted: float | None = None
) -> Decision:
    """The first that applies: withheld, excess, excess explained by ensembling, brittle, underpowered, no excess.

    p_adjusted: the cell's family-wise p after correction over the panel; the cell's own where None. The error rate that
    is kept is that of calling a cell an excess; the list of r within it is corrected over the cell's own r.

    `underpowered` stands after the findings, not before them. A small sample that shows a gain beyond its own
    (family-wise corrected) chance variation has shown it: the test's error rate holds at any n, so to call it
    underpowered would hide a finding. What a small sample cannot do is to clear a model, so `underpowered` stands
    before `no excess detected`. `audit.calibrate` measures that `excess` stays within alpha per clean model.

    Noisy beats clean where the test says so and the simultaneous interval lies above zero: a finding whose own interval
    holds zero is none. The interval is two-sided, so this asks a little more than the one-sided test alone.
    """
    blocking = failed(gates)
    if blocking:
        return _withheld(blocking)
    alpha = thresholds.alpha
    family = evidence.clean.family_p
    overall = family if p_adjusted is None else p_adjusted
    # The panel's correction scales this cell's p; the same factor is applied to each of its router counts.
    factor = max(overall / family, 1.0)
    tested = _beats(evidence.clean, alpha / factor)
    over_clean = tested & _above_zero(evidence.clean)
    over_direct = over_clean & _beats(evidence.direct, alpha) if evidence.direct else over_clean
    if over_direct:
        return _excess(evidence, gates, thresholds, over_direct, factor)
    doubt = ""
    reasons = [f"No router count beats the clean baseline after correction (p={overall:.2g})."]
    if tested and not over_clean:
        reasons = [
            f"With r={_join(tested)} the test speaks for a gain over the clean baseline (p={overall:.2g}), but its "
            "simultaneous 95 % interval still holds zero: that is not counted as a finding."
        ]
        doubt = f"the test alone speaks for a gain (p={overall:.2g}), but its interval holds zero"
    if over_clean and evidence.direct:
        reasons = [
            f"Noisy beats the clean router with r={_join(over_clean)} but not the original question: it may only win "
            "back what the clean router loses."
        ]
        doubt = "it gains over the clean router, but no more than that router loses against the original question"
        highest = _highest(evidence.direct, over_clean)
        if highest > thresholds.effect_of_interest:
            return Decision(
                Verdict.UNDERPOWERED,
                (*reasons, f"It could still be above the original question by {points(highest)} (95 %)."),
                ("Ask more questions, or run more replicates of `direct`, to tell the two apart.",),
                tuple(sorted(over_clean)),
                "there are too few questions to tell whether that is more than the clean router loses",
            )
    mean = evidence.clean.mean
    if mean.high < 0 and mean.estimate <= -thresholds.brittle_drop_min:
        interval = f"95 % interval {100 * -mean.high:.1f} to {points(-mean.low)}"
        drop = f"Accuracy falls by {points(-mean.estimate)} on average over r ({interval})."
        return Decision(
            Verdict.BRITTLE,
            (drop, *reasons),
            ("Do not rely on the score for differently worded questions; look at which deletions cost the answer.",),
        )
    if any(g.name == "enough_data" and g.status == Status.FAIL for g in gates):
        seen = points(evidence.mde) if np.isfinite(evidence.mde) else "more than any possible gain"
        return Decision(
            Verdict.UNDERPOWERED,
            (*reasons, f"This design finds a gain of {seen} with {thresholds.power:.0%} power; "
             f"{points(thresholds.effect_of_interest)} would be of interest."),
            tuple(g.advice for g in gates if g.name == "enough_data"),
        )  # fmt: skip
    limit = evidence.largest_compatible
    return Decision(
        Verdict.NO_EXCESS,
        (
            *reasons,
            f"The largest excess still compatible with the data is {points(limit)} (95 %, over all r together).",
            "Memory that helps intact and damaged questions alike makes no excess and is not excluded.",
        ),
        (),
        tuple(sorted(over_clean or tested)),
        doubt,
    )


def _excess(
    evidence: Evidence, gates: Sequence[Gate], thresholds: Thresholds, routers: frozenset[int], factor: float
) -> Decision:
    alpha = thresholds.alpha
    leaks = [g for g in gates if g.name == "answer_leak" and g.status == Status.FAIL]
    # Few leaks pass the gate, and at a high r a few in a hundred messages are many questions: so they are looked at
    # whenever there are any.
    if evidence.without_leak is not None:
        leaks = [g for g in gates if g.name == "answer_leak"]
    if leaks:
        routers &= _found(evidence.without_leak, alpha / factor)
        if not routers:
            return _withheld(leaks, "The excess is gone without the questions whose messages state the answer.")
    if evidence.adverse is not None:
        routers &= _found(evidence.adverse, alpha / factor)
        if not routers:
            return Decision(
                Verdict.WITHHELD,
                (
                    "The excess is gone if the replies that could not be read are held against it (noisy ones counted "
                    "as wrong, clean ones as right): it may come from which replies were readable.",
                ),
                ("Read the unreadable replies and mend what makes them so, or read answers by likelihood.",),
                gate="parseability",
            )
    against = "the clean baseline and the original question" if evidence.direct else "the clean baseline"
    reasons = [f"With r={_join(routers)}, noisy beats {against} after correction for all r and models."]
    if leaks:
        reasons.append("It is still there without the questions whose messages state the answer.")
    if evidence.adverse is not None:
        reasons.append("It is still there if every reply that could not be read is held against it.")
    if evidence.ensemble is None:
        if routers - {1}:
            reasons.append("It was not compared with as many routers that delete nothing.")
        else:
            reasons.append("With one router, the clean baseline is the router that deletes nothing.")
    else:
        beyond = routers & _beats(evidence.ensemble, alpha)
        untested = routers - frozenset(evidence.ensemble.routers)
        if not beyond and not untested:
            return _not_beyond_ensembling(evidence, thresholds, routers, reasons)
        if beyond:
            routers = beyond
            reasons.append(f"It also beats as many routers that delete nothing, with r={_join(beyond)}.")
        else:  # a control that was not run explains nothing away
            routers = untested
            reasons.append(f"With r={_join(untested)}, it was not compared with as many routers that delete nothing.")
    return Decision(
        Verdict.EXCESS,
        tuple(reasons),
        (
            "Treat the score as partly memory of the exam until shown otherwise: repeat it on fresh questions.",
            "Read the questions that went from wrong to correct, and what the worker was shown.",
        ),
        tuple(sorted(routers)),
    )


def _not_beyond_ensembling(
    evidence: Evidence, thresholds: Thresholds, routers: frozenset[int], reasons: Sequence[str]
) -> Decision:
    """Noisy beats clean but not as many routers that delete nothing: explained by these only where there is evidence.

    That noisy does not beat the control may be mere lack of data. It is an explanation where noisy can be above the
    control by no more than the effect of interest at every r that counts.
    """
    control, gain = evidence.ensemble, evidence.ensemble_gain
    assert control is not None  # noqa: S101 - the caller compared with it
    mean = control.mean
    not_beyond = (
        "It does not beat as many routers that delete nothing: on average over r it is "
        f"{100 * mean.estimate:+.1f} points from them (95 % interval {100 * mean.low:+.1f} to {100 * mean.high:+.1f})."
    )
    also = _found(gain, thresholds.alpha) & routers
    if also:
        not_beyond += f" They beat the clean baseline too, with r={_join(also)}."
    highest = _highest(control, routers)
    if highest <= thresholds.effect_of_interest:
        return Decision(
            Verdict.EXCESS_EXPLAINED,
            (
                *reasons,
                not_beyond,
                f"What noisy could be above them is at most {points(highest)} (95 %), no more than the effect of "
                f"interest ({points(thresholds.effect_of_interest)}).",
            ),
            ("Read the gain as an effect of repetition and compute.",),
            tuple(sorted(routers)),
        )
    return Decision(
        Verdict.UNDERPOWERED,
        (
            *reasons,
            not_beyond,
            f"Noisy could be above them by {points(highest)} (95 %): the data cannot tell deletion from repetition.",
        ),
        ("Ask more questions, or run more replicates of the ensemble control, to tell the two apart.",),
        tuple(sorted(routers)),
        "there are too few questions to tell whether the damage or the repetition does it",
    )


def _withheld(gates: Sequence[Gate], reason: str = "") -> Decision:
    reasons = tuple(f"{g.name}: {g.detail}" for g in gates)
    return Decision(
        Verdict.WITHHELD,
        (*((reason,) if reason else ()), *reasons),
        tuple(g.advice for g in gates if g.advice),
        gate="" if not reason else gates[0].name,
    )


def _beats(comparison: Comparison, alpha: float) -> frozenset[int]:
    """Router counts whose step-down adjusted p is at most alpha."""
    return frozenset(r for r, p in zip(comparison.routers, comparison.adjusted, strict=True) if p <= alpha + 1e-12)


def _above_zero(comparison: Comparison) -> frozenset[int]:
    """Router counts whose simultaneous interval lies above zero."""
    return frozenset(r for r, low in zip(comparison.routers, comparison.low, strict=True) if low > 0)


def _found(comparison: Comparison | None, alpha: float) -> frozenset[int]:
    """Router counts with both; none where the comparison could not be made."""
    return _beats(comparison, alpha) & _above_zero(comparison) if comparison else frozenset()


def _highest(comparison: Comparison, routers: frozenset[int]) -> float:
    """The largest upper limit at these router counts; 1 where one of them was not compared."""
    limits = dict(zip(comparison.routers, comparison.high, strict=True))
    found = [float(limits.get(r, 1.0)) for r in routers]
    return max(1.0 if np.isnan(limit) else limit for limit in found)


def _join(routers: frozenset[int]) -> str:
    return ", ".join(str(r) for r in sorted(routers))
