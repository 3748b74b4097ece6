"""Evidence and gates -> one status, with its reasons. The order is the policy."""

from __future__ import annotations

from collections.abc import Sequence

from audit.validity.edits.record import Archetype, Family
from audit.validity.evidence import CellEvidence
from audit.validity.gates import named
from audit.validity.result import Decision, ValidityStatus
from audit.validity.thresholds import ValidityThresholds
from audit.validity.vocabulary import GATES
from audit.verdict.gates import failed
from audit.verdict.result import Gate, Status
from audit.verdict.vocabulary import gate_reasons

_INELIGIBLE = ("G1_edits_reach_scorer", "G1_enough_edits")
_SCORER = ("scorer_valid", "F3b_key_position", "F3c_label_values")
_ARCHETYPE = ("G5_archetype",)
_REGRESSION = ("G6_repair_regression",)
_REACTS = (
    "Nothing should move here: answers react to these edits more than to surface edits (a placebo, where there is one, "
    "says how much as many neutral words move)."
)


def decide(
    evidence: CellEvidence | None,
    gates: Sequence[Gate],
    thresholds: ValidityThresholds,
    above_p: float | None,
    below_p: float | None,
) -> Decision:
    """The first that applies. above_p, below_p: of D, one-sided, after Holm over the panel's cells and directions.

    Ineligible edits, then the scorer, then every other gate, then the archetype, then the injected faults: a score that
    a bad scorer made says nothing of the model (finding B of the notes), so the scorer stands before G2.
    """
    blocking = failed(gates)
    for status, names in (
        (ValidityStatus.INELIGIBLE_EDITS, _INELIGIBLE),
        (ValidityStatus.SCORER_UNVALIDATED, _SCORER),
        (ValidityStatus.FAILED, None),
        (ValidityStatus.INELIGIBLE_ARCHETYPE, _ARCHETYPE),
        (ValidityStatus.EXPLORATORY, _REGRESSION),
    ):
        late = (*_ARCHETYPE, *_REGRESSION)
        found = [g for g in blocking if (g.name in names if names else g.name not in late)]
        if found:
            return _withheld(status, found)
    five, six = named(gates, "G5_archetype"), named(gates, "G6_repair_regression")
    if evidence is None or evidence.primary is None or evidence.archetype is None:
        reason = "No item has an answer to an attribute edit and to a surface edit: nothing can be compared."
        return Decision(ValidityStatus.INELIGIBLE_EDITS, (reason,))
    if five is None or six is None or Status.PASS not in (five.status,) or six.status != Status.PASS:
        return Decision(
            ValidityStatus.EXPLORATORY, ("G5 or G6 could not be made here, and without them nothing is confirmed.",)
        )
    return _by_difference(evidence, thresholds, above_p, below_p)


def _withheld(status: ValidityStatus, gates: Sequence[Gate]) -> Decision:
    return Decision(status, gate_reasons(gates, GATES), tuple(g.advice for g in gates if g.advice))


def _by_difference(e: CellEvidence, t: ValidityThresholds, above_p: float | None, below_p: float | None) -> Decision:
    assert e.primary is not None  # noqa: S101 - the caller looked
    invariance = e.archetype == Archetype.INVARIANCE
    d = e.primary
    follow = e.families[Family.ATTRIBUTE].followed
    moved = "moves answers" if invariance else "moves answers to the new key"
    said = (
        f"An attribute edit {moved} {100 * d.difference:+.1f} points more often than the surface edit that moves them "
        f"most (D, 95 % interval {100 * d.low:.1f} to {100 * d.high:.1f}).",
        f"Attribute edits: the contract is followed in {follow.estimate:.1%} (95 % interval {follow.low:.1%} to "
        f"{follow.high:.1%}).",
    )
    if above_p is not None and above_p <= t.alpha:
        if invariance:
            return Decision(
                ValidityStatus.SELECTIVE,
                (*said, _REACTS),
                ("Read the items whose answers moved, and which group they moved for.",),
            )
        held = e.families[Family.ATTRIBUTE].followed_held
        if held.low >= t.follow_min:
            return Decision(ValidityStatus.SELECTIVE, said)
        if follow.low >= t.follow_min:
            why = (
                f"That it is followed more often than {t.follow_min:.0%} of the time is not shown if the answers that "
                f"could not be read are held for not followed (lower limit {held.low:.1%})."
            )
            advice = "Read the unreadable replies and mend what makes them so, or take more items."
            return Decision(ValidityStatus.INDETERMINATE, (*said, why), (advice,))
        why = f"That is more than surface edits do, yet not shown to be more often than {t.follow_min:.0%} of the time."
        return Decision(ValidityStatus.INDETERMINATE, (*said, why), ("Take more items.",))
    if below_p is not None and below_p <= t.alpha:
        why = (
            f"Attribute edits move answers by no more than {100 * t.margin:.0f} points beyond what surface edits do, "
            "which is what an invariance context asks for."
            if invariance
            else "Surface edits move answers more often than the construct does."
        )
        return Decision(ValidityStatus.NON_SELECTIVE, (*said, why))
    why = "Neither direction is shown at 2.5 % each, after correction over the cells."
    return Decision(
        ValidityStatus.INDETERMINATE, (*said, why), ("Take more items; the interval says how far off it is.",)
    )
