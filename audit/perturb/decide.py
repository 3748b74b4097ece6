"""Evidence and gates -> one of five verdicts, with its reasons. The order is the policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.perturb.evidence import Grounds, Tests
from audit.perturb.result import Decision, PerturbVerdict
from audit.perturb.thresholds import PerturbThresholds
from audit.perturb.vocabulary import GATES
from audit.verdict.gates import failed
from audit.verdict.result import Gate, Status, points
from audit.verdict.vocabulary import gate_reasons


def finding(
    tests: Tests, alpha: float, found_p: float | None = None, beyond_p: float | None = None
) -> PerturbVerdict | None:
    """The finding that the tests alone support, or None. p-values after correction over the panel where given."""
    found = tests.found_p if found_p is None else found_p
    beyond = tests.beyond_p if beyond_p is None else beyond_p
    if beyond is not None and not np.isnan(beyond) and beyond <= alpha:
        return PerturbVerdict.DROP_BEYOND_REFERENCE
    return PerturbVerdict.BRITTLE_CAUSE_UNKNOWN if found <= alpha else None


def standing(
    tests: Tests, alpha: float, found_p: float | None = None, beyond_p: float | None = None
) -> PerturbVerdict | None:
    """The finding that the tests support with every unread answer held against it, too.

    The panel's correction scales a cell's p as read; the same factor is applied to the adverse reading of it.
    """
    found = finding(tests, alpha, found_p, beyond_p)
    if found is None or (held := tests.adverse) is None:
        return found
    own = held.found_p * _factor(tests.found_p, found_p)
    beyond = None if held.beyond_p is None else held.beyond_p * _factor(tests.beyond_p, beyond_p)
    adverse = finding(tests, alpha, own, np.nan if beyond is None else beyond)
    return found if found == PerturbVerdict.BRITTLE_CAUSE_UNKNOWN and adverse is not None else adverse


def _factor(as_read: float | None, corrected: float | None) -> float:
    return max(corrected / as_read, 1.0) if corrected and as_read else 1.0


def decide(
    evidence: Grounds,
    gates: Sequence[Gate],
    thresholds: PerturbThresholds,
    found_p: float | None = None,
    beyond_p: float | None = None,
) -> Decision:
    """The first that applies: withheld, drop beyond reference, brittle (cause unknown), underpowered, no drop detected.

    A drop counts where the exchange test speaks for it and it is larger than broken variants could make; it is beyond
    reference where it is larger than the reference models' on both scales, off their curve where there are ten or more,
    and larger than that on fresh items, on both scales, where these were run. Fresh items alone make no such finding:
    rewordings of theirs that are less hard would make it (`audit.perturb.control`). Small samples keep these error
    rates, so `underpowered` stands after the findings; what a small sample cannot do is to clear a model, so it stands
    before `no drop detected`. And a model is cleared by its data, not by its design alone: a drop of the effect of
    interest must be refuted (Schuirmann 1987). That no drop was found is no sign of none where the panel's correction,
    or the margin for broken variants, stood in its way.
    """
    blocking = failed(gates)
    if blocking:
        return Decision(
            PerturbVerdict.WITHHELD,
            gate_reasons(blocking, GATES),
            tuple(g.advice for g in blocking if g.advice),
        )
    tests, alpha = evidence.tests, thresholds.alpha
    found = finding(tests, alpha, found_p, beyond_p)
    if found != (left := standing(tests, alpha, found_p, beyond_p)):
        return _unheld(tests, left)
    fallen = _fallen(evidence, found_p)
    if found == PerturbVerdict.DROP_BEYOND_REFERENCE:
        return Decision(
            found,
            (fallen, *_above_broken(tests), *_beyond(tests), *_left_out(tests), *_fresh(tests)),
            (
                "Treat the score as partly memory of these wordings until shown otherwise: repeat it on fresh "
                "questions.",
                "Read the items at the top of the ranked list, with their variants.",
            ),
        )
    if found is not None:
        against = against_fresh(tests, alpha)
        told = (fallen, *_above_broken(tests), *_not_beyond(tests, against), *_fresh(tests))
        return Decision(found, told, _what_would_tell(tests), against)
    doubt = ""
    reasons = [f"No drop counts (p={tests.found_p if found_p is None else found_p:.2g})."]
    if tests.exchange.pvalue <= alpha and tests.broken_p is not None and tests.broken_p > alpha:
        doubt = "the drop is no larger than broken variants could make"
        reasons = [
            fallen,
            f"That is not clearly more than the {points(tests.margin or 0.0)} broken variants could make.",
        ]
    if any(g.name == "enough_data" and g.status == Status.FAIL for g in gates):
        seen = points(evidence.detectable) if np.isfinite(evidence.detectable) else "more than any possible drop"
        reasons.append(
            f"This design finds a drop of {seen} with {thresholds.power:.0%} power; "
            f"{points(thresholds.effect_of_interest)} would be of interest."
        )
        advice = tuple(g.advice for g in gates if g.name == "enough_data")
        return Decision(PerturbVerdict.UNDERPOWERED, (*reasons, *_fresh(tests)), advice, doubt)
    equivalence = evidence.equivalence
    cleared = equivalence.p_no_larger <= alpha  # false for NaN
    reasons += [
        f"The largest drop still compatible with the data is {points(evidence.drop.largest)} (95 %, one-sided).",
        f"That it is below {points(equivalence.delta)} is {'' if cleared else 'not '}shown "
        f"(p={equivalence.p_no_larger:.2g}).",
    ]
    if not cleared:
        advice = ("Take more items first, then more variants an item.",)
        return Decision(PerturbVerdict.UNDERPOWERED, (*reasons, *_fresh(tests)), advice, doubt)
    reasons.append("Memory of a fact that was learnt with its answer survives rewording and is not excluded.")
    return Decision(PerturbVerdict.NO_DROP_DETECTED, (*reasons, *_fresh(tests)), (), doubt)


def _unheld(tests: Tests, left: PerturbVerdict | None) -> Decision:
    """A finding as read that is gone with unread answers held against it. left: what of it is still there."""
    mend = "Read the unreadable replies and mend what makes them so, or read answers by likelihood."
    if left is None:
        gone = "gone" if tests.broken_p is None else "gone, or no larger than broken variants could make,"
        reason = (
            f"The drop is {gone} if the answers that could not be read are held against it (variants counted as right, "
            "originals as wrong): it may come from which answers were readable."
        )
        return Decision(PerturbVerdict.WITHHELD, (reason,), (mend,), "the drop hangs on unread answers")
    reasons = (
        "The drop is beyond the references only as long as the answers that could not be read are left out. Held "
        "against that (of this model variants counted as right, originals as wrong; of what it is compared with the "
        "other way round) they take it away: it may come from which answers were readable.",
        "The drop itself is still there then.",
    )
    advice = (mend, "The same of the reference models: their shares of readable answers are in the gate's numbers.")
    doubt = "that the drop is beyond the references' hangs on unread answers"
    return Decision(PerturbVerdict.WITHHELD, reasons, advice, doubt)


def _fallen(evidence: Grounds, found_p: float | None) -> str:
    d, p = evidence.drop, evidence.tests.exchange.pvalue
    text = (
        f"Accuracy falls by {points(d.drop.estimate)} from the original wordings to the variants (95 % interval "
        f"{100 * d.drop.low:.1f} to {100 * d.drop.high:.1f}; exchange test p={p:.2g}"
    )
    if found_p is None:
        return text + ")."
    return text + f"; with the test against broken variants and the panel's correction, {found_p:.2g})."


def _above_broken(tests: Tests) -> tuple[str, ...]:
    if tests.margin is None or tests.broken_p is None:
        return ("No person read a sample of the variants: broken ones could have made any part of it.",)
    return (f"That is more than the {points(tests.margin)} broken variants could make (p={tests.broken_p:.2g}).",)


def _beyond(tests: Tests) -> tuple[str, ...]:
    reasons = [
        f"Counted {_scale(b.scale)}, the drop exceeds that of {b.references} reference "
        f"{'model' if b.references == 1 else 'models'} by {points(b.difference)} (95 % interval "
        f"{100 * b.low:.1f} to {100 * b.high:.1f}, p={b.pvalue:.2g})."
        for b in tests.beyond
    ]
    if tests.curve:
        c = tests.curve
        reasons.append(
            f"On the curve through {c.references} reference models, {c.expected:.1%} would be expected where "
            f"{c.accuracy:.1%} was scored (p={c.pvalue:.2g}"
            + (")." if tests.curve_counts else "; not asked: the references are too alike to fix a curve).")
        )
    return tuple(reasons)


def against_fresh(tests: Tests, alpha: float) -> str:
    """What the fresh items say of a drop that is not called beyond reference, in a few words; empty where they are not
    what decides: not asked, or the references (or the want of a human sample) already speak against it."""
    control = tests.control
    if control is None or not control.asked:
        return ""
    if tests.beyond and (tests.broken_p is None or tests.reference_p > alpha):
        return ""
    more = "more than the reference models lose, but " if tests.beyond else ""
    if control.pvalue > alpha:
        return (
            f"that is {more}not clearly more than rewording fresh items costs it, so it may be touchy about wording as "
            "such"
        )
    if tests.beyond:  # it is the panel's correction that speaks against it
        return ""
    return (
        "that is more than rewording fresh items costs it, so it may remember the wording, or these variants may be "
        "harder than the fresh items' (or more of them broken)"
    )


def _fresh(tests: Tests) -> tuple[str, ...]:
    """What was measured on fresh items, whatever the verdict; why they were not asked where they were not."""
    control = tests.control
    if control is None:
        return ()
    if not control.asked:
        return (f"The fresh items of {control.benchmark} are not asked: {control.why}.",)
    reasons = [
        f"On {control.n:,} fresh items of {control.benchmark}, rewording costs it {points(control.drop or 0.0)}.",
        *(
            f"Counted {_scale(b.scale)}, the drop exceeds what these say it should be by {points(b.difference)} (95 % "
            f"interval {100 * b.low:.1f} to {100 * b.high:.1f}, p={b.pvalue:.2g})."
            for b in control.beyond
        ),
    ]
    if (d := control.references) is not None:
        k = control.reference_models
        which = (
            "the benchmark's are harder for any model"
            if d.low > 0
            else "the fresh items' are harder for any model, which hides memory"
            if d.high < 0
            else "neither are shown to be harder"
        )
        reasons.append(
            f"{k} reference {'model loses' if k == 1 else 'models lose'} {points(abs(d.difference))} "
            f"{'more' if d.difference >= 0 else 'less'} on the benchmark's variants than on the fresh items' (95 % "
            f"interval of the difference {100 * d.low:.1f} to {100 * d.high:.1f}): {which}."
        )
    return tuple(reasons)


def _not_beyond(tests: Tests, against: str) -> tuple[str, ...]:
    """against: of `against_fresh`."""
    if not tests.beyond:
        none = "No reference model can be compared with" if tests.left_out else "No reference models were run"
        return (f"{none}: harder variants make the same drop as memory of the wording.", *_left_out(tests))
    reasons = list(_beyond(tests))
    if tests.broken_p is None:
        reasons.append("Without a human sample of the variants, a drop is not called beyond reference.")
    elif not against:
        reasons.append("It is not clearly more than the references lose: harder variants are an explanation.")
    return (*reasons, *_left_out(tests))


def _left_out(tests: Tests) -> tuple[str, ...]:
    """References that were run and are not compared with, by name."""
    if not tests.left_out:
        return ()
    return ("Reference models left out: " + "; ".join(f"{one.model} ({one.why})" for one in tests.left_out) + ".",)


def _what_would_tell(tests: Tests) -> tuple[str, ...]:
    out = []
    if tests.broken_p is None:
        out.append("Have a person read 150 variants or more (audit variants review).")
    if not tests.beyond:
        out.append("Run reference models on the same items and variants ('references=[...]'), five or more.")
    elif tests.beyond[0].references < 5:
        out.append("Run more reference models: five or more.")
    if tests.control is None:
        out.append("Reword fresh questions of the same kind too (control_benchmark=...): what that costs is no memory.")
    return (*out, "Ask fresh questions of the same kind: memory shows as a gap to them.")


def _scale(scale: str) -> str:
    return "in points" if scale == "points" else "as a share of their accuracy above chance"
