"""Evidence and gates -> one of five verdicts, with its reasons. The order is the policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from audit.perturb import reasons
from audit.perturb.grounds import Grounds, Tests
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
    """The finding that the tests support with unparsed answers held against it, too.

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
    """The first that applies: withheld, too few questions (underpowered), drop beyond reference, brittle (cause
    unknown), no drop detected, underpowered.

    A drop counts where the permutation test speaks for it, its 95 % interval excludes zero, and it is larger than
    broken variants could make. It is beyond reference where the references bracket the tested model and are not all of
    one other family, it is larger than theirs on all three scales, off their curve where there are ten or more, and
    larger than that on held-out items where these were run. Held-out items alone make no such finding: rewordings of
    theirs that are less hard would make it (`audit.perturb.control`). A model is cleared by its data alone: a drop of
    the smallest effect that matters must be refuted (Schuirmann 1987). A design with power clears nobody, and one
    without takes no clearance away.
    """
    blocking = failed(gates)
    if blocking:
        return Decision(
            PerturbVerdict.WITHHELD,
            gate_reasons(blocking, GATES),
            tuple(g.advice for g in blocking if g.advice),
        )
    tests, alpha = evidence.tests, thresholds.alpha
    few = [g for g in gates if g.name == "enough_data" and g.status == Status.FAIL]
    if few:
        told = (few[0].detail, *reasons.fresh(tests))
        return Decision(PerturbVerdict.UNDERPOWERED, told, (few[0].advice,), "there are too few questions")
    found = finding(tests, alpha, found_p, beyond_p)
    if not evidence.drop.drop.low > 0:
        found = None
    elif found != (left := standing(tests, alpha, found_p, beyond_p)):
        return reasons.unheld(tests, left, thresholds.unparsed_gamma)
    fallen = reasons.fallen(evidence, found_p)
    if found == PerturbVerdict.DROP_BEYOND_REFERENCE:
        told = (fallen, *reasons.above_broken(tests), *reasons.beyond(tests), *reasons.left_out(tests))
        return Decision(
            found,
            (*told, *reasons.fresh(tests), reasons.LOWER_BOUND),
            (
                "Treat the score as partly memory of these wordings until shown otherwise: repeat it on fresh "
                "questions.",
                "Read the items at the top of the ranked list, with their variants.",
            ),
        )
    if found is not None:
        against = reasons.against_fresh(tests, alpha) or reasons.against_references(tests, alpha)
        told = (fallen, *reasons.above_broken(tests), *reasons.not_beyond(tests, against), *reasons.fresh(tests))
        return Decision(found, told, reasons.what_would_tell(tests), against)
    return _not_found(evidence, thresholds, found_p)


def _not_found(evidence: Grounds, thresholds: PerturbThresholds, found_p: float | None) -> Decision:
    """No drop counts: is one of the smallest effect that matters refuted?"""
    tests, alpha = evidence.tests, thresholds.alpha
    p = tests.found_p if found_p is None else found_p
    doubt, told = "", [f"No drop counts (p={p:.2g})."]
    if tests.exchange.pvalue <= alpha and tests.broken_p is not None and tests.broken_p > alpha:
        doubt = "the drop is no larger than broken variants could make"
        told = [
            reasons.fallen(evidence, found_p),
            f"That is not clearly more than the {points(tests.margin or 0.0)} broken variants could make.",
        ]
    elif p <= alpha:
        doubt = "the interval of the drop includes none"
        told = [reasons.fallen(evidence, found_p), "The interval includes zero, so the drop does not count."]
    cleared = evidence.equivalence.p_no_larger <= alpha  # false for NaN
    told += [
        f"The largest drop still compatible with the data is {points(evidence.drop.largest)} (95 %, one-sided).",
        f"That it is below {points(evidence.equivalence.delta)} is {'' if cleared else 'not '}shown "
        f"(p={evidence.equivalence.p_no_larger:.2g}).",
    ]
    if cleared:
        told.append("Memory of a fact that was learnt with its answer survives rewording and is not excluded.")
        further = "Ask held-out items too (audit memory): they show memory that survives rewording."
        return Decision(PerturbVerdict.NO_DROP_DETECTED, (*told, *reasons.fresh(tests)), (further,), doubt)
    if np.isfinite(evidence.detectable):
        told.append(f"This design finds a drop of {points(evidence.detectable)} with {thresholds.power:.0%} power.")
    advice = ("Take more items first, then more variants an item; have a person read more variants.",)
    return Decision(PerturbVerdict.UNDERPOWERED, (*told, *reasons.fresh(tests)), advice, doubt)
