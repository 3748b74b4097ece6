"""Define the sentences of the perturbation audit: reasons, advice, headlines and limits.

Each sentence has a code. The sentences state only what this audit measures: whether a model is more
accurate with the published wording than with other wordings. The measurement has two limits:

- A model that has learnt an answer as a fact still knows it after rewording. So the absence of a
  drop does not exclude memory.
- Harder rewordings cause a drop that looks like memory.
"""

from collections.abc import Sequence
from math import isnan

from audit.core.number_text import percent, points
from audit.core.number_text import pvalue as p_text
from audit.judging.result import Texts

_SCALES = {
    "points": "in points",
    "share": "as a share of the accuracy above chance",
    "logit": "in log-odds",
}
_BY = "is {difference:signed} (90 % interval {low:bare} to {high:bare}; one-sided {pvalue:p})."
_MORE = "this is more than the reference models lose, but"
_TOUCHY = "so the model may be sensitive to any rewording"
# Maps each code to a reason why a drop is ignored, is not called beyond reference, or is not
# judged.
_DOUBTS = {
    "nothing_to_compare": "nothing can be compared",
    "few_questions": "there are too few questions",
    "unparsed_drop": "the drop depends on unparsed answers",
    "unparsed_beyond": "whether the drop is beyond that of the references depends on unparsed "
    "answers",
    "no_references": "no reference model was run, so the model may remember the wording, or the "
    "variants may be harder",
    "no_usable_references": "no reference model can be used for comparison, so the variants may be "
    "harder",
    "variants_not_read": "no person checked the variants, so broken variants may be the cause",
    "not_clearly_more": "this is not clearly more than the reference models lose, so the variants "
    "may be harder",
    "touchy": f"this is not clearly more than the model loses on reworded held-out items, {_TOUCHY}",
    "beyond_held_out": "this is more than the model loses on reworded held-out items. The cause is "
    "memory of the wording, or variants that are harder or more often broken than those of the "
    "held-out items",
    "not_bracketed": f"{_MORE} the references are all better or all worse, and the loss from harder variants depends "
    "on ability",
    "one_family": f"{_MORE} the references are all of one other family",
    "common_fall": f"{_MORE} an equal loss on easy and hard items could explain it, {_TOUCHY}",
    "broken_could_make": "the drop is no larger than broken variants could cause",
    "includes_zero": "the interval of the drop includes zero",
    "beside_references": "beyond what the reference models lose, a drop that matters is not excluded",
}


def _withheld(model: str, benchmark: str, doubt: str, why: Sequence[str]) -> str:
    """Return the headline of a withheld verdict, with the failed checks."""
    return f"No verdict on {model} and {benchmark}: {', and '.join(why) or _DOUBTS[doubt]}."


def _cause_unknown(model: str, benchmark: str, drop: float, doubt: str, **_: object) -> str:
    """Return the headline for the verdict that a drop has an unknown cause."""
    return f"{model} loses {points(drop)} on {benchmark} when its questions are reworded; {_DOUBTS[doubt]}."


def _beyond(
    model: str, benchmark: str, score: float, drop: float, beyond: float, **_: object
) -> str:
    """Return the headline for a drop that exceeds the drop of the references."""
    return (
        f"{model} loses {points(drop)} on {benchmark} when its questions are reworded, {points(beyond)} more than its "
        f"references. Part of its score of {percent(score)} depends on the published wording, as "
        "if the model remembered it. This is a lower bound of the effect of memory."
    )


def _suggested(
    model: str, benchmark: str, score: float, drop: float, beyond: float, **_: object
) -> str:
    """Return the headline for a drop that suggests memory, but has another possible cause."""
    return (
        f"{model} loses {points(drop)} on {benchmark} when its questions are reworded, {points(beyond)} more than its "
        "references, and on the items on which memory would help. Sensitivity to wording on hard items gives the same "
        f"result. The score is {percent(score)}."
    )


def _fall(
    unknown: float, known: float, references_unknown: float, references_known: float, pvalue: float
) -> str:
    """Return sentences that compare the model's losses on two halves of the items.

    On one half, the references have their lowest accuracy; on the other half, their highest.
    """
    references = f" (the references: {references_unknown:z.1f} and {references_known:z.1f})"
    return (
        f"Rewording reduces the log-odds of this model by {unknown:.1f} on the half of the items that the references "
        f"know least, and by {known:.1f} on the other half{'' if isnan(references_known) else references}. A model "
        "that is sensitive to wording would lose the same on both halves. The test that this model loses more on the "
        f"first half, by more than the references, has {p_text(pvalue)}."
    )


def _too_little(
    model: str, benchmark: str, score: float, largest: float, doubt: str, **_: object
) -> str:
    """Return the headline for a model and benchmark with too little data."""
    seen = f"a drop of up to {points(largest)}" if largest < 1 else "any drop"
    extra = f" ({_DOUBTS[doubt]})" if doubt else ""
    return (
        f"Too little data to judge {model} on {benchmark}: {seen} could be real or not{extra}. Nothing follows for its "
        f"score of {percent(score)}."
    )


def _no_drop(
    model: str, benchmark: str, score: float, largest: float, doubt: str, **_: object
) -> str:
    """Return the headline for a model without a significant drop."""
    headline = f"No drop is detected for {model} on {benchmark} at its score of {percent(score)}"
    extra = f": {_DOUBTS[doubt]}" if doubt else ""
    return (
        f"{headline}{extra}. Rewording costs at most {points(largest)} (95 % limit). Memorised answers survive "
        "rewording, and the memory audit looks for them."
    )


def _unparsed(
    holds: str | None, tipping_point: float, worst_case: bool, **numbers: float | None
) -> str:
    """Return the sentences on how the verdict depends on unparsed answers."""
    text = f"{percent(numbers['share'])} of this model's answers are unparsed."
    if holds is not None:
        verdict = holds.replace("_", " ").capitalize()
        limit = f"if their odds of being right differ by a factor of up to {tipping_point:g} from the prediction"
        text += f" The verdict '{verdict}' holds {'whatever these answers were' if worst_case else limit}."
    worst = numbers["largest_worst"]
    return text if worst is None else f"{text} In the worst case the drop could be {points(worst)}."


TEXTS: Texts = {
    # Reasons that concern the drop
    "nothing_to_compare": "No item has answers to both its original and a variant, so nothing can "
    "be compared.",
    "fallen": "Rewording costs {estimate:points} of accuracy (95 % interval {low:bare} to {high:bare}; permutation "
    "test {pvalue:p}).",
    "corrected": "With the test against broken variants and the panel's correction: {pvalue:p}.",
    "above_broken": "The drop is more than the {margin:points} that broken variants could cause "
    "({pvalue:p}).",
    "broken_could_make": "The drop is not clearly more than the {margin:points} that broken "
    "variants could cause.",
    "variants_not_read": "No person read a sample of the variants, so broken variants could have "
    "caused any part of the drop. The drop is therefore not called beyond reference.",
    "includes_zero": "The interval includes zero, so the drop does not count.",
    "not_counted": "No drop counts ({pvalue:p}).",
    "largest": "The largest drop still compatible with the data is {largest:points} (95 %, "
    "one-sided). This limit allows for a drop in few items that the sample missed, so it can be "
    "outside the interval.",
    "ruled_out": "A drop of {delta:points} is excluded ({pvalue:p}).",
    "not_ruled_out": "A drop of {delta:points} is not excluded ({pvalue:p}).",
    "not_beside_references": "A drop of {delta:points} beyond that of the reference models is not "
    "excluded ({pvalue:p}), and easier rewordings can hide memory.",
    "learnt_answers": "Answers that were learnt with their questions survive rewording, and are "
    "not excluded.",
    "power": "This design finds a drop of {drop:points} with {power:percent} power.",
    "lower_bound": "A drop under rewording is a lower bound of the inflation. In contaminated "
    "models of ConStat, it was .16 to .57 of the inflation.",
    # Reasons that concern the references
    **{
        f"beyond_{scale}": f"Measured {phrase}, the drop minus that of the references {_BY}"
        for scale, phrase in _SCALES.items()
    },
    "prior": "These p-values assume that clean models differ by about {scale:points} in their loss "
    "from rewording (half-normal prior; {source}). Without this prior the largest is {plain:p}.",
    "not_bracketed": "The references ({references}) do not bracket this model. The model gets "
    "{own:percent} of the reworded items right, and the references {lowest:percent} to "
    "{highest:percent}. A miss of up to {margin:points} is accepted.",
    "one_family": "The references are all of one family ({family}), and this model is of another. "
    "How much the references differ from each other therefore says little about this model.",
    "fall": _fall,
    "far": "A clean model is assumed to lose at most {limit:points} more than its references, "
    "which is three standard deviations of clean models. The test that this model loses more has "
    "{pvalue:p}.",
    "curve": "The curve through {references} reference models expects {expected:percent}; the score is "
    "{accuracy:percent} ({pvalue:p}).",
    "curve_vague": "The references are too similar to fit ConStat's curve, so the curve decides "
    "nothing. It expects {expected:percent} for a score of {accuracy:percent} ({pvalue:p}).",
    "no_references": "No reference models were run, and harder variants cause the same drop as "
    "memory of the wording.",
    "no_usable_references": "No reference model can be used for comparison, and harder variants "
    "cause the same drop as memory.",
    "not_clearly_more": "The drop is not clearly more than that of the references, so harder "
    "variants may explain it.",
    "left_out_repeats": "Reference model {model} is left out: all its answers equal those of the "
    "tested model or of another reference, so it is the same model.",
    "left_out_at_chance": "Reference model {model} is left out, since it is not above chance.",
    "left_out_unparsed": "Reference model {model} is left out, since only {share:percent} of its "
    "answers to {arm} are parsed.",
    "left_out_at_chance_unparsed": "Reference model {model} is left out, since it is not above "
    "chance if its unparsed answers are imputed against it.",
    # Reasons that concern the held-out items
    "held_out_no_answers": "The held-out items are not used: no held-out item has answers to both its "
    "original and a variant.",
    "held_out_one_group": "The held-out items are not used: the benchmark's items are one group, "
    "so the standard error is unknown.",
    "held_out_few": "The held-out items are not used: only {n} items in {units} independent groups "
    "can be compared, and {least} groups are needed.",
    "held_out_check_failed": "The held-out items are not used, since these checks failed on the "
    "held-out items: {gates:listed}.",
    "held_out_at_chance": "The held-out items are not used: the model only guesses on the reworded "
    "held-out items.",
    "held_out_vague": "The held-out items are not used: their comparison has a standard error of "
    "{se:points}, more than twice that of the references ({references:points}). Add more held-out "
    "items.",
    "held_out_drop": "On {n:,} held-out items of {benchmark}, rewording costs {drop:points}.",
    **{
        f"held_out_{scale}": f"Measured {phrase}, the drop minus the drop that the held-out items and half a drop more "
        f"predict {_BY}"
        for scale, phrase in _SCALES.items()
    },
    "held_out_references": "The references' drop on the benchmark minus their drop on the held-out items is "
    "{difference:signed} (95 % interval {low:bare} to {high:bare}). If it is above zero, the "
    "benchmark's variants are harder for any model. If it is below zero, the held-out items' "
    "variants are harder.",
    # Reasons that concern unparsed answers
    "unparsed_drop": "If unparsed answers are imputed against the drop (odds ratio {gamma:g}), it "
    "vanishes, or is no larger than broken variants could cause. The drop may only be due to which "
    "answers could be parsed.",
    "unparsed_beyond": "The drop is beyond that of the references only if unparsed answers are left "
    "out. If they are imputed against it (odds ratio {gamma:g}), the drop remains, but is not "
    "beyond the references. The difference may only be due to which answers could be parsed.",
    "unparsed": _unparsed,
    # Advice
    "mend_unparsed": "Read the unparsed replies and remove their cause, or read answers by "
    "likelihood.",
    "mend_references": "Do the same for the reference models. The gate's numbers have their shares "
    "of parsed answers.",
    "no_room": "With a score of {score:percent} on the reworded questions, memory of the wording "
    "cannot add {effect:points}. So such a drop cannot be excluded.",
    "hard_items": "The model loses on the items on which memory would help. A model that is "
    "sensitive to wording on hard items only gives the same result.",
    "repeat_on_held_out": "Treat part of the score as dependent on these wordings until held-out "
    "questions show otherwise.",
    "read_items": "Read the items at the top of the ranked list, with their variants.",
    "ask_memory": "Ask held-out items too (audit memory), which show memory that survives "
    "rewording.",
    "more_questions": "Ask about {needed:,.0f} questions ({asked:,.0f} were asked). Then add "
    "variants for each item, and let a person read more of them.",
    "more_items": "Add items first. Then add variants for each item, and let a person read more of "
    "them.",
    "review_variants": "Let a person read 150 variants or more (audit variants review).",
    "run_references": "Run reference models on the same items and variants ('references=[...]'), five or more.",
    "abler_reference": "Add a reference model that gets at least {accuracy:percent} of the reworded items right.",
    "weaker_reference": "Add a reference model that gets at most {accuracy:percent} of the reworded items right.",
    "other_family": "Add a reference model of another family.",
    "more_references": "Run more reference models: five or more.",
    "reword_held_out": "Reword held-out questions of the same kind (control_benchmark=...). A loss "
    "on held-out questions is not due to memory.",
    # Headlines
    "headline_withheld": _withheld,
    "headline_drop_beyond_reference": _beyond,
    "headline_drop_suggests_memory": _suggested,
    "headline_not_identified": "This test cannot see whether {model} remembers the wording of "
    "{benchmark}: its score of {score:percent} leaves no room for a drop that matters.",
    "headline_drop_cause_unknown": _cause_unknown,
    "headline_underpowered": _too_little,
    "headline_no_drop_detected": _no_drop,
    # Explanations that a verdict does not exclude
    "answers_as_facts": "That answers were learnt as facts, which survive rewording.",
    "harder_variants": "That the variants are harder for all models, which looks like memory, or "
    "easier, which hides it.",
    "one_reference": "That models differ in their loss from rewording, which one reference cannot "
    "show.",
    "suits_less": "That rewording costs this model more, or the references less, for another "
    "reason than memory. The {references} references differ by {tau:points} beyond sampling error. With fewer than ten "
    "references this number is uncertain.",
    "references_remember": "That the reference models remember the same wordings, which would hide "
    "memory in this model.",
    "held_out_not_asked": "That any rewording costs this model as much, since the held-out items "
    "could not be compared.",
    "held_out_easier": "That the variants of the held-out items are easier than the benchmark's, "
    "which looks like memory.",
    "held_out_harder": "That the variants of the held-out items are harder or more often broken, "
    "which hides memory.",
    "held_out_unlike": "That rewording has another effect on held-out items, since the libraries "
    "differ in {unlike:listed}.",
    "broken_variants": "That some variants lost their answer, since no person read a sample.",
    "runs_differ": "That answers to the same prompt vary from run to run (original_replicates=2 shows it).",
    "which_items": "Which items are affected: with these variants, the p-value of an item cannot be "
    "below {smallest_p:.2g}.",
    # Sentences of the page
    "subtitle": "Semantic-perturbation audit: {questions:listed} questions a model, up to {variants} rewordings each, "
    "{answers:,} answers.",
}
