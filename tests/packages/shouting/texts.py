"""All that a person reads of a verdict."""

from audit.judging.result import Texts

TEXTS: Texts = {
    "cost": "Shouting costs {cost:points} (90 % interval {low:bare} to {high:bare}, {p:p}).",
    "cannot_rule_out": "A cost of {high:points} is still compatible with the data; {effect:points} would matter.",
    "ask_more": "Ask more questions.",
    "do_not_shout": "Do not compare this score with one of questions that are typed in capitals.",
    "headline_withheld": "No verdict on {model} and {benchmark}: a check failed.",
    "headline_shouting_matters": "{model} loses {cost:points} on {benchmark} when its questions are shouted.",
    "headline_underpowered": "Too few questions to tell whether shouting matters to {model} on {benchmark}.",
    "headline_shouting_does_nothing": "Shouting costs {model} at most {high:points} on {benchmark}.",
    "other_tones": "that other ways to be rude matter",
}
