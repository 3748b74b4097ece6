"""The plain sentences: a headline, and what the instrument cannot exclude. They never say more than it sees.

It sees that a model is better at the published wording than at others. A fact that was learnt with its answer survives
rewording, so "no drop" is no clean bill; and wordings that are harder for this model look like memory of the original.
"""

from __future__ import annotations

from audit.perturb.grounds import Evidence, Tests
from audit.perturb.record import PerturbCell
from audit.perturb.result import Decision, PerturbVerdict
from audit.perturb.vocabulary import GATES
from audit.verdict.result import points


def headline(
    model: str, benchmark: str, decision: Decision, evidence: Evidence | None, failing: tuple[str, ...]
) -> str:
    """One sentence. failing: names of the gates that withhold the verdict."""
    if evidence is None or decision.verdict == PerturbVerdict.WITHHELD:
        because = ", and ".join(GATES[name].because if name in GATES else name for name in failing)
        if not because:
            because = "the comparison could not be made" if evidence is None else decision.doubt
        return f"No verdict on {model} and {benchmark}: {because}."
    drop, tests = evidence.drop, evidence.tests
    score, lost = f"{drop.original:.0%}", points(drop.drop.estimate)
    if decision.verdict == PerturbVerdict.DROP_BEYOND_REFERENCE:
        least = min(tests.beyond, key=lambda b: b.difference)
        r = least.references
        return (
            f"{model} loses {lost} on {benchmark} when its questions are reworded, {points(least.difference)} more "
            f"than {r} reference {'model does' if r == 1 else 'models do'}: part of its score of {score} hangs on the "
            "published wording, as it would if that were remembered. What memory adds to the score may be more: a drop "
            "is its lower bound."
        )
    if decision.verdict == PerturbVerdict.BRITTLE_CAUSE_UNKNOWN:
        none = "can be compared with" if tests.left_out else "was run"
        why = decision.doubt or (
            f"no reference model {none}, so it may remember the wording, or the variants may be harder"
            if not tests.beyond
            else "no person checked the variants, so broken ones may be the cause"
            if tests.broken_p is None
            else "that is not clearly more than the reference models lose, so the variants may simply be harder"
        )
        return f"{model} loses {lost} on {benchmark} when its questions are reworded; {why}."
    if decision.verdict == PerturbVerdict.UNDERPOWERED:
        seen = f"a drop of up to {points(drop.largest)}" if drop.largest < 1 else "any drop"
        extra = f" ({decision.doubt})" if decision.doubt else ""
        return (
            f"Too little data to judge {model} on {benchmark}: {seen} could be real or not{extra}, so nothing "
            f"follows for its score of {score}."
        )
    if decision.doubt:
        return (
            f"No drop is counted for {model} on {benchmark} at its score of {score}: {decision.doubt}. It could be "
            f"{points(drop.largest)} at most (95 % limit). An answer that was learnt as such would survive rewording."
        )
    return (
        f"No sign that {model} hangs on the wording of {benchmark} at its score of {score}: rewording costs at most "
        f"{points(drop.largest)} (95 % limit). A memorised answer survives rewording: audit memory looks for it."
    )


def cannot_exclude(cell: PerturbCell, evidence: Evidence | None) -> tuple[str, ...]:
    """What stays open whatever the verdict, and what stays open because a control was not run."""
    out = ["that answers were learnt as facts, which rewording does not disturb"]
    if evidence is None:
        return tuple(out)
    tests = evidence.tests
    if not tests.beyond:
        out.append("that the variants are harder than the original wordings, for any model")
    elif tests.beyond[0].references == 1:
        out.append("that models differ in how much rewording costs them: with one reference this cannot be seen")
    else:
        r, tau = tests.beyond[0].references, max(b.tau for b in tests.beyond)
        asked = tests.control is not None and tests.control.asked
        where = " than on held-out items" if asked else ""
        out.append(
            f"that rewording suits this model less{where} for reasons of its own: the {r} reference models differ by "
            f"{points(tau)} beyond sampling, an uncertain figure from so few"
            if r < 10
            else f"that rewording suits this model less than any of {r} references, whose drops differ by {points(tau)}"
        )
        out.append("that the reference models remember the same wordings, which would hide memory of this one")
    out += _of_fresh_items(cell, tests)
    if cell.broken is None:
        out.append("that some variants lost their answer: no person read a sample")
    if evidence.noise.replicates < 2:
        out.append("that answers to one and the same prompt vary from run to run (original_replicates=2 shows it)")
    if not evidence.items.can_flag:
        out.append(
            f"which items are affected: with these variants no item's p can be below {evidence.items.smallest_p:.2g}"
        )
    return tuple(out)


def _of_fresh_items(cell: PerturbCell, tests: Tests) -> tuple[str, ...]:
    """What a control leaves open: it rests on rewordings of two sets being equally hard, which it cannot show."""
    if cell.control is None or tests.control is None:
        return ()
    if not tests.control.asked:
        return ("that rewording as such costs this model as much: the held-out items could not be asked",)
    unlike = cell.control.unlike
    made = f" (their libraries differ in {', '.join(unlike)})" if unlike else ""
    return (
        f"that the held-out items' variants are easier than the benchmark's, which looks like memory beside them{made}",
        "that they are harder, or more of them broken, which hides memory",
    )
