"""All that a person reads of a verdict."""

from audit.judging.result import Texts

TEXTS: Texts = {
    "cost": "Shouting costs {cost:points} (90 % interval {low:bare} to {high:bare}, {p:p}).",
    "why_underpowered": "A cost of {high:points} is still compatible with the data; {effect:points} would matter.",
    "why_not_identified": "A score of {score:percent} leaves no room for a cost of {effect:points}.",
    "advice_underpowered": "Ask more questions.",
    "advice_not_identified": "Choose questions that the model can answer.",
    "advice_shouting_matters": "Do not compare this score with one of questions that are typed in capitals.",
    "headline_withheld": "No verdict on {model} and {benchmark}: a check failed.",
    "headline_shouting_matters": "{model} loses {cost:points} on {benchmark} when its questions are shouted.",
    "headline_underpowered": "Too few questions to tell whether shouting matters to {model} on {benchmark}.",
    "headline_not_identified": "The score of {model} on {benchmark} cannot show what shouting costs.",
    "headline_shouting_does_nothing": "Shouting costs {model} at most {high:points} on {benchmark}.",
    "other_tones": "that other ways to be rude matter",
}
