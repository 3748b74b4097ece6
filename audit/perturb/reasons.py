"""Why a verdict: what was measured, in sentences."""

from __future__ import annotations

from audit.perturb.grounds import Bracket, Grounds, Tests
from audit.perturb.result import Decision, PerturbVerdict
from audit.verdict.result import percent, points, pvalue

_SCALES = {"points": "in points", "share": "as a share of the accuracy above chance", "logit": "in log-odds"}

LOWER_BOUND = (
    "A drop under rewording is a lower bound of the inflation: on planted models of ConStat it recovered .16 to .57."
)


def unheld(tests: Tests, left: PerturbVerdict | None, gamma: float) -> Decision:
    """A finding as parsed that is gone with unparsed answers held against it. left: what of it is still there."""
    mend = "Read the unreadable replies and mend what makes them so, or read answers by likelihood."
    if left is None:
        gone = "gone" if tests.broken_p is None else "gone, or no larger than broken variants could make,"
        reason = (
            f"The drop is {gone} if the unparsed answers speak against it (odds of being right {gamma:g} times those "
            "predicted, under the variants, and a fraction as low under the originals): it may come from which answers "
            "could be parsed."
        )
        return Decision(PerturbVerdict.WITHHELD, (reason,), (mend,), "the drop hangs on unparsed answers")
    reasons = (
        "The drop is beyond the references only as long as the unparsed answers are left out. Held against that (odds "
        f"of being right {gamma:g} times those predicted under this model's variants, and a fraction as low under its "
        "originals; of what it is compared with the other way round) they take it away: it may come from which answers "
        "could be parsed.",
        "The drop itself is still there then.",
    )
    advice = (mend, "The same of the reference models: their shares of readable answers are in the gate's numbers.")
    doubt = "that the drop is beyond the references' hangs on unparsed answers"
    return Decision(PerturbVerdict.WITHHELD, reasons, advice, doubt)


def fallen(evidence: Grounds, found_p: float | None) -> str:
    d, p = evidence.drop, evidence.tests.exchange.pvalue
    text = (
        f"Accuracy falls by {points(d.drop.estimate)} from the original wordings to the variants (95 % interval "
        f"{100 * d.drop.low:.1f} to {100 * d.drop.high:.1f}; permutation test p={p:.2g}"
    )
    if found_p is None:
        return text + ")."
    return text + f"; with the test against broken variants and the panel's correction, {found_p:.2g})."


def above_broken(tests: Tests) -> tuple[str, ...]:
    if tests.margin is None or tests.broken_p is None:
        return ("No person read a sample of the variants: broken ones could have made any part of it.",)
    return (f"That is more than the {points(tests.margin)} broken variants could make (p={tests.broken_p:.2g}).",)


def beyond(tests: Tests) -> tuple[str, ...]:
    reasons = []
    for b in tests.beyond:
        plain = f"; by these references' spread alone p={b.plain.pvalue:.2g}" if tests.prior else ""
        reasons.append(
            f"Counted {_SCALES[b.scale]}, the drop exceeds that of {b.references} reference "
            f"{'model' if b.references == 1 else 'models'} by {points(b.difference)} (90 % interval "
            f"{100 * b.low:.1f} to {100 * b.high:.1f}, one-sided p={b.pvalue:.2g}{plain})."
        )
    if tests.prior:
        reasons.append(
            f"These p take clean models to differ by {points(tests.prior.scale)} or so in what rewording costs them "
            f"(half-normal prior; {tests.prior.source}), as far as the references do not show otherwise."
        )
    if (bracket := tests.bracket) and not bracket.holds:
        reasons.append(_apart(bracket))
    if tests.family:
        reasons.append(
            f"The references are all of one family ({tests.family}), which it is not: how much they differ tells "
            "little of how much it may differ from them."
        )
    if (where := tests.profile) is not None:
        reasons.append(
            f"Memory would show where the model is wrong otherwise: on items with {percent(where.expected)} wrong "
            f"answers of the references. The drop beyond them lies on items with {percent(where.lies)} (estimated; "
            f"{pvalue(where.pvalue)} for easier items than memory's)."
        )
    if tests.curve:
        c = tests.curve
        reasons.append(
            f"On the curve through {c.references} reference models, {c.expected:.1%} would be expected where "
            f"{c.accuracy:.1%} was scored (p={c.pvalue:.2g}"
            + (")." if tests.curve_counts else "; not asked: the references are too alike to fix a curve).")
        )
    return tuple(reasons)


def against_fresh(tests: Tests, alpha: float) -> str:
    """What the held-out items say of a drop that is not called beyond reference, in a few words; empty where they are
    not what decides: not asked, or the references (or the want of a human sample) already speak against it."""
    control = tests.control
    if control is None or not control.asked:
        return ""
    if tests.beyond and (tests.broken_p is None or tests.reference_p > alpha):
        return ""
    more = "more than the reference models lose, but " if tests.beyond else ""
    if control.pvalue > alpha:
        return (
            f"that is {more}not clearly more than rewording held-out items costs it, so it may be touchy about wording "
            "as such"
        )
    if tests.beyond:  # it is the panel's correction that speaks against it
        return ""
    return (
        "that is more than rewording held-out items costs it, so it may remember the wording, or these variants may be "
        "harder than the held-out items' (or more of them broken)"
    )


def against_references(tests: Tests, alpha: float) -> str:
    """What speaks against a drop beyond references that are all better, all worse or all alike; empty where that is not
    what decides."""
    bracket = tests.bracket
    if bracket is None or tests.reference_p > alpha or tests.broken_p is None:
        return ""
    if bracket.holds:
        family = f"that is more than the reference models lose, but these are all of one family ({tests.family})"
        unlike = "that is more than the reference models lose, but on items that it knows, as if touchy about wording"
        return family if tests.family else unlike if tests.unlike_memory else ""
    kind = "better" if bracket.lowest > bracket.own else "worse"
    return (
        f"that is more than the reference models lose, but these are all {kind}, and what harder variants cost hangs "
        "on how able a model is"
    )


def _apart(bracket: Bracket) -> str:
    return (
        f"The references do not bracket this model: on the reworded items it has {bracket.own:.1%} right and they have "
        f"{bracket.lowest:.1%} to {bracket.highest:.1%} (within {points(bracket.margin)} is near enough). What harder "
        "variants cost may hang on how able a model is."
    )


def fresh(tests: Tests) -> tuple[str, ...]:
    """What was measured on held-out items, whatever the verdict; why they were not asked where they were not."""
    control = tests.control
    if control is None:
        return ()
    if not control.asked:
        return (f"The held-out items of {control.benchmark} are not asked: {control.why}.",)
    reasons = [
        f"On {control.n:,} held-out items of {control.benchmark}, rewording costs it {points(control.drop or 0.0)}.",
        *(
            f"Counted {_SCALES[b.scale]}, the drop exceeds what these say it should be by {points(b.difference)} (90 % "
            f"interval {100 * b.low:.1f} to {100 * b.high:.1f}, one-sided p={b.pvalue:.2g})."
            for b in control.beyond
        ),
    ]
    if (d := control.references) is not None:
        k = control.reference_models
        which = (
            "the benchmark's are harder for any model"
            if d.low > 0
            else "the held-out items' are harder for any model, which hides memory"
            if d.high < 0
            else "neither are shown to be harder"
        )
        reasons.append(
            f"{k} reference {'model loses' if k == 1 else 'models lose'} {points(abs(d.difference))} "
            f"{'more' if d.difference >= 0 else 'less'} on the benchmark's variants than on the held-out items' (95 % "
            f"interval of the difference {100 * d.low:.1f} to {100 * d.high:.1f}): {which}."
        )
    return tuple(reasons)


def not_beyond(tests: Tests, against: str) -> tuple[str, ...]:
    """against: of `against_fresh`."""
    if not tests.beyond:
        none = "No reference model can be compared with" if tests.left_out else "No reference models were run"
        return (f"{none}: harder variants make the same drop as memory of the wording.", *left_out(tests))
    reasons = list(beyond(tests))
    if tests.broken_p is None:
        reasons.append("Without a human sample of the variants, a drop is not called beyond reference.")
    elif not against:
        reasons.append("It is not clearly more than the references lose: harder variants are an explanation.")
    return (*reasons, *left_out(tests))


def left_out(tests: Tests) -> tuple[str, ...]:
    """References that were run and are not compared with, by name."""
    if not tests.left_out:
        return ()
    return ("Reference models left out: " + "; ".join(f"{one.model} ({one.why})" for one in tests.left_out) + ".",)


def what_would_tell(tests: Tests) -> tuple[str, ...]:
    out = []
    if tests.broken_p is None:
        out.append("Have a person read 150 variants or more (audit variants review).")
    if not tests.beyond:
        out.append("Run reference models on the same items and variants ('references=[...]'), five or more.")
    else:
        if tests.bracket and tests.bracket.wanted:
            out.append(f"Add a reference model that gets {tests.bracket.wanted}.")
        if tests.family:
            out.append("Add a reference model of another family.")
        if tests.beyond[0].references < 5:
            out.append("Run more reference models: five or more.")
    if tests.control is None:
        out.append(
            "Reword held-out questions of the same kind too (control_benchmark=...): what that costs is no memory."
        )
    return (*out, "Ask held-out questions of the same kind: memory shows as a gap to them.")
