"""Hold the sentences of the perturbation audit by code: reasons, advice, headlines and limits.

They state only what the instrument sees: whether a model is better at the published wording than at
others. A fact that was learnt with its answer survives rewording, so no drop does not clear a
model; harder wordings look like memory.
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
_MORE = "that is more than the reference models lose, but"
_TOUCHY = "so it may be sensitive to wording as such"
_DOUBTS = {  # reasons why a drop is not counted, not called beyond reference, or not judged
    "nothing_to_compare": "nothing can be compared",
    "few_questions": "there are too few questions",
    "unparsed_drop": "the drop depends on unparsed answers",
    "unparsed_beyond": "whether the drop is beyond the references' depends on unparsed answers",
    "no_references": "no reference model was run, so it may remember the wording, or the variants may be harder",
    "no_usable_references": "no reference model can be compared with, so the variants may be harder",
    "variants_not_read": "no person checked the variants, so broken ones may be the cause",
    "not_clearly_more": "that is not clearly more than the reference models lose, so the variants may be harder",
    "touchy": f"that is not clearly more than rewording held-out items costs it, {_TOUCHY}",
    "beyond_held_out": "that is more than rewording held-out items costs it: by memory of the wording, "
    "or by variants that are harder than the held-out items' or more often broken",
    "not_bracketed": f"{_MORE} these are all better or all worse, and what harder variants cost depends on ability",
    "one_family": f"{_MORE} these are all of one other family",
    "common_fall": f"{_MORE} the same loss on every item, known or not, could explain it, {_TOUCHY}",
    "broken_could_make": "the drop is no larger than broken variants could make",
    "includes_zero": "the interval of the drop includes zero",
    "beside_references": "beyond what the reference models lose, a drop that matters is not ruled out",
}


def _withheld(model: str, benchmark: str, doubt: str, why: Sequence[str]) -> str:
    return f"No verdict on {model} and {benchmark}: {', and '.join(why) or _DOUBTS[doubt]}."


def _cause_unknown(model: str, benchmark: str, drop: float, doubt: str, **_: object) -> str:
    return f"{model} loses {points(drop)} on {benchmark} when its questions are reworded; {_DOUBTS[doubt]}."


def _beyond(
    model: str, benchmark: str, score: float, drop: float, beyond: float, **_: object
) -> str:
    return (
        f"{model} loses {points(drop)} on {benchmark} when its questions are reworded, {points(beyond)} more than its "
        f"references. Part of its score of {percent(score)} depends on the published wording, as if it remembered it. "
        "This is a lower bound of what memory adds."
    )


def _suggested(
    model: str, benchmark: str, score: float, drop: float, beyond: float, **_: object
) -> str:
    return (
        f"{model} loses {points(drop)} on {benchmark} when its questions are reworded, {points(beyond)} more than its "
        f"references, and where memory of the wording would cost it. Sensitivity on hard items alone makes the same "
        f"data. Its score is {percent(score)}."
    )


def _fall(
    unknown: float, known: float, references_unknown: float, references_known: float, pvalue: float
) -> str:
    theirs = f" (the references: {references_unknown:z.1f} and {references_known:z.1f})"
    return (
        f"Rewording takes {unknown:.1f} from its log-odds on the half of the items that the references know least and "
        f"{known:.1f} on the other{'' if isnan(references_known) else theirs}. A model that is sensitive to wording "
        f"would lose the same on both. That it loses more on the first, and by more than the references, has "
        f"{p_text(pvalue)}."
    )


def _too_little(
    model: str, benchmark: str, score: float, largest: float, doubt: str, **_: object
) -> str:
    seen = f"a drop of up to {points(largest)}" if largest < 1 else "any drop"
    extra = f" ({_DOUBTS[doubt]})" if doubt else ""
    return (
        f"Too little data to judge {model} on {benchmark}: {seen} could be real or not{extra}. Nothing follows for its "
        f"score of {percent(score)}."
    )


def _no_drop(
    model: str, benchmark: str, score: float, largest: float, doubt: str, **_: object
) -> str:
    found = f"No drop is counted for {model} on {benchmark} at its score of {percent(score)}"
    return (
        f"{found}{f': {_DOUBTS[doubt]}' if doubt else ''}. Rewording costs at most {points(largest)} (95 % limit). A "
        "memorised answer survives rewording: the memory audit looks for it."
    )


def _unparsed(
    holds: str | None, tipping_point: float, worst_case: bool, **numbers: float | None
) -> str:
    said = f"{percent(numbers['share'])} of this model's answers could not be parsed."
    if holds is not None:
        up_to = f"up to an odds ratio of {tipping_point:g} against what the items' other answers predict"
        said += f" '{holds.replace('_', ' ').capitalize()}' holds {'whatever they were' if worst_case else up_to}."
    worst = numbers["largest_worst"]
    return said if worst is None else f"{said} In the worst case the drop could be {points(worst)}."


TEXTS: Texts = {
    # Reasons: the drop
    "nothing_to_compare": "No item has an answer to its original and to a variant: nothing can be compared.",
    "fallen": "Rewording costs {estimate:points} of accuracy (95 % interval {low:bare} to {high:bare}; permutation "
    "test {pvalue:p}).",
    "corrected": "With the test against broken variants and the panel's correction: {pvalue:p}.",
    "above_broken": "That is more than the {margin:points} that broken variants could make ({pvalue:p}).",
    "broken_could_make": "That is not clearly more than the {margin:points} that broken variants could make.",
    "variants_not_read": "No person read a sample of the variants: broken ones could have made any part of the drop. "
    "So it is not called beyond reference.",
    "includes_zero": "The interval includes zero, so the drop does not count.",
    "not_counted": "No drop counts ({pvalue:p}).",
    "largest": "The largest drop still compatible with the data is {largest:points} (95 %, one-sided). It allows "
    "for a drop in few items that the sample missed, so it can lie beyond the interval.",
    "ruled_out": "A drop of {delta:points} is ruled out ({pvalue:p}).",
    "not_ruled_out": "A drop of {delta:points} is not ruled out ({pvalue:p}).",
    "not_beside_references": "A drop of {delta:points} beyond that of the reference models is not ({pvalue:p}): easier "
    "rewordings can hide memory.",
    "learnt_answers": "An answer that was learnt with its question survives rewording, and is not excluded.",
    "power": "This design finds a drop of {drop:points} with {power:percent} power.",
    "lower_bound": "A drop under rewording is a lower bound of the inflation: on contaminated models of ConStat it "
    "recovered .16 to .57 of it.",
    # Reasons: the references
    **{
        f"beyond_{scale}": f"Counted {said}, the drop less that of the references {_BY}"
        for scale, said in _SCALES.items()
    },
    "prior": "These p-values take clean models to differ by about {scale:points} in what rewording costs them "
    "(half-normal prior; {source}). By the references alone the largest is {plain:p}.",
    "not_bracketed": "The references ({references}) do not bracket this model: it gets {own:percent} of the reworded "
    "items right, they get {lowest:percent} to {highest:percent}. A miss of {margin:points} is near enough.",
    "one_family": "The references are all of one family ({family}), and this model is not. How they differ says little "
    "about how it may differ from them.",
    "fall": _fall,
    "far": "A clean model, sensitive or not, is taken to lose at most {limit:points} more than its references: three "
    "standard deviations of how clean models differ. That this one loses more than that has {pvalue:p}.",
    "curve": "The curve through {references} reference models expects {expected:percent}; the score is "
    "{accuracy:percent} ({pvalue:p}).",
    "curve_vague": "The references are too alike to fix ConStat's curve, so it is not asked. It expects "
    "{expected:percent} for a score of {accuracy:percent} ({pvalue:p}).",
    "no_references": "No reference models were run: harder variants make the same drop as memory of the wording.",
    "no_usable_references": "No reference model can be compared with: harder variants make the same drop as memory.",
    "not_clearly_more": "It is not clearly more than the references lose: harder variants may explain it.",
    "left_out_repeats": "Reference model {model} is left out: it has all answers of the tested model, or of another "
    "reference, so it is that model under another name.",
    "left_out_at_chance": "Reference model {model} is left out: not above chance.",
    "left_out_unparsed": "Reference model {model} is left out: {share:percent} of its answers to {arm} are parsed.",
    "left_out_at_chance_unparsed": "Reference model {model} is left out: with its unparsed answers imputed against it, "
    "it is not above chance.",
    # Reasons: the held-out items
    "held_out_no_answers": "The held-out items are not asked: none has an answer to its original and to a variant.",
    "held_out_one_group": "The held-out items are not asked: the benchmark's items are one group, so their own error "
    "is not known.",
    "held_out_few": "The held-out items are not asked: {n} of them, in {units} independent groups, can be compared; "
    "{least} groups are needed.",
    "held_out_check_failed": "The held-out items are not asked: these checks failed on them: {gates:listed}.",
    "held_out_at_chance": "The held-out items are not asked: reworded, the model only guesses them.",
    "held_out_vague": "The held-out items are not asked: their comparison has an error of {se:points}, more than twice "
    "that of the references ({references:points}). Take more of them.",
    "held_out_drop": "On {n:,} held-out items of {benchmark}, rewording costs {drop:points}.",
    **{
        f"held_out_{scale}": f"Counted {said}, the drop less what these, and half a drop more, predict {_BY}"
        for scale, said in _SCALES.items()
    },
    "held_out_references": "The references' drop on the benchmark less that on the held-out items is "
    "{difference:signed} (95 % interval {low:bare} to {high:bare}). Above zero the benchmark's are harder for any "
    "model, below it the held-out items'.",
    # Reasons: unparsed answers
    "unparsed_drop": "Imputed against the drop, unparsed answers take it away, or leave no more than broken variants "
    "could make. It may come from which answers could be parsed (odds ratio {gamma:g}).",
    "unparsed_beyond": "The drop is beyond the references only while unparsed answers are left out. Imputed against "
    "it, they take that away and leave the drop: it may come from which answers were parsed (odds ratio {gamma:g}).",
    "unparsed": _unparsed,
    # Advice
    "mend_unparsed": "Read the unparsed replies and mend what makes them so, or read answers by likelihood.",
    "mend_references": "Do the same for the reference models: the gate's numbers have their shares of parsed answers.",
    "no_room": "At a score of {score:percent} on the reworded questions, memory of the wording could not add "
    "{effect:points}, so no such drop is excluded.",
    "hard_items": "The pattern is that of memory. A model that is sensitive to wording on hard items alone makes the "
    "same data.",
    "repeat_on_held_out": "Take part of the score to hang on these wordings until shown otherwise: repeat it on "
    "held-out questions.",
    "read_items": "Read the items at the top of the ranked list, with their variants.",
    "ask_memory": "Ask held-out items too (audit memory): they show memory that survives rewording.",
    "more_questions": "Ask about {needed:,.0f} questions ({asked:,.0f} were asked), then more variants an item; have a "
    "person read more variants.",
    "more_items": "Take more items first, then more variants an item; have a person read more variants.",
    "review_variants": "Have a person read 150 variants or more (audit variants review).",
    "run_references": "Run reference models on the same items and variants ('references=[...]'), five or more.",
    "abler_reference": "Add a reference model that gets at least {accuracy:percent} of the reworded items right.",
    "weaker_reference": "Add a reference model that gets at most {accuracy:percent} of the reworded items right.",
    "other_family": "Add a reference model of another family.",
    "more_references": "Run more reference models: five or more.",
    "reword_held_out": "Reword held-out questions of that kind (control_benchmark=...): what that costs is no memory.",
    # Headlines
    "headline_withheld": _withheld,
    "headline_drop_beyond_reference": _beyond,
    "headline_drop_suggests_memory": _suggested,
    "headline_not_identified": "Whether {model} remembers the wording of {benchmark} cannot be seen: its score of "
    "{score:percent} leaves no room for a drop that matters.",
    "headline_drop_cause_unknown": _cause_unknown,
    "headline_underpowered": _too_little,
    "headline_no_drop_detected": _no_drop,
    # Explanations that no verdict excludes
    "answers_as_facts": "That answers were learnt as facts, which rewording does not disturb.",
    "harder_variants": "That the variants are harder for all, which looks like memory, or easier, which hides it.",
    "one_reference": "That models differ in how much rewording costs them: one reference cannot show it.",
    "suits_less": "That rewording costs this model more for reasons of its own: the {references} references differ by "
    "{tau:points} beyond sampling, a vague figure where they are fewer than ten.",
    "references_remember": "That the reference models remember the same wordings, which would hide memory of this one.",
    "held_out_not_asked": "That rewording as such costs this model as much: the held-out items could not be asked.",
    "held_out_easier": "That the held-out items' variants are easier than the benchmark's, which looks like memory.",
    "held_out_harder": "That the held-out items' variants are harder, or more of them broken, which hides memory.",
    "held_out_unlike": "That rewording costs held-out items another amount: the libraries differ in {unlike:listed}.",
    "broken_variants": "That some variants lost their answer: no person read a sample.",
    "runs_differ": "That answers to the same prompt vary from run to run (original_replicates=2 shows it).",
    "which_items": "Which items are affected: with these variants no item's p can be below {smallest_p:.2g}.",
    # The page
    "subtitle": "Semantic-perturbation audit: {questions:listed} questions a model, up to {variants} rewordings each, "
    "{answers:,} answers.",
}
