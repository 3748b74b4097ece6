"""From the gates' values to a candidate's state: the first gate that stops it, in one order. Pure."""

from __future__ import annotations

from audit.variants.gates.novelty import ORIGINAL
from audit.variants.policy import Policy
from audit.variants.record import Judgement, State, Variant

_BY_JUDGEMENT = {
    Judgement.BROKEN: State.JUDGED_BROKEN,
    Judgement.TIE: State.JUDGE_TIE,
    Judgement.UNREADABLE: State.JUDGE_UNREADABLE,
    Judgement.FAILED: State.JUDGE_FAILED,
}


def decide(variant: Variant, policy: Policy, *, nli: bool, judge: bool) -> State:
    """The state that a candidate's values give it. nli, judge: whether one was configured for the build."""
    if (stopped := before_judge(variant, policy, nli=nli)) is not None:
        return stopped
    if variant.judgement in _BY_JUDGEMENT:
        return _BY_JUDGEMENT[variant.judgement]
    if variant.rules and not judge and policy.unjudged == "hold":
        return State.AWAITING_JUDGE
    if variant.panel == "suspect":
        return State.SUSPECT
    return State.REVIEWED_BROKEN if variant.review == "broken" else State.ACCEPTED


def before_judge(variant: Variant, policy: Policy, *, nli: bool) -> State | None:
    """The gate before the judge that stops a candidate; None when none does: only these are worth a judge's votes."""
    if not variant.text.strip():  # no text: the paraphraser failed, or it returned nothing
        return State.FAILED if variant.error else State.EMPTY
    if variant.same_as is not None:
        return State.NO_OP if variant.same_as == ORIGINAL else State.DUPLICATE
    if variant.distance is None:
        return State.NOT_EMBEDDED
    if variant.distance < policy.low:
        return State.TOO_CLOSE
    if variant.distance > policy.high:
        return State.TOO_FAR
    if nli and (_below(variant.nli_forward, policy.nli_cut) or _below(variant.nli_backward, policy.nli_cut)):
        return State.NOT_ENTAILED
    return None


def _below(share: float | None, cut: float) -> bool:
    return share is None or share < cut
