"""Define the sentences of the memory audit by code: indicators, reasons, advice, headlines, limits."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from audit.core.number_text import interval, listed, percent, points, pvalue, scaled, signed_points
from audit.judging.result import Reason, Texts, sentence
from audit.memory.evidence import Name
from audit.statistics.chance import Limits


@dataclass(frozen=True)
class IndicatorWord:
    """Hold the texts of an indicator.

    Attributes
    ----------
    title : str
        The name of the indicator on pages.
    sees : str
        The form of memory that the indicator detects.
    level : str
        The test that controls the error rate of the indicator.
    """

    title: str
    sees: str
    level: str


_TWO_SCALES = (
    "the larger p of two differences in differences (t), one in nats and one in units of each "
    "model's spread"
)
INDICATORS: dict[Name, IndicatorWord] = {
    Name.ORDER: IndicatorWord(
        "Order of the items",
        "that several items were read in one text, in the published order",
        "exact permutation test of shards (Oren et al. 2023), and more than twice the references' "
        "effect",
    ),
    Name.OPTIONS: IndicatorWord(
        "Order of the options",
        "that items were read with their options in the published order",
        "exact permutation test of the wrong options of each item, and more than twice the "
        "references' effect",
    ),
    Name.ITEM: IndicatorWord("Text of the item", "that items were read as published", _TWO_SCALES),
    Name.HALF: IndicatorWord(
        "Second half of the question",
        "that questions were read, with or without options",
        _TWO_SCALES,
    ),
    Name.WRONG: IndicatorWord(
        "Wrong options",
        "that the wrong options were read, which nobody needs to know the answer",
        _TWO_SCALES,
    ),
    Name.GAP: IndicatorWord(
        "Score on held-out items",
        "that answers were learnt with their questions, in any words",
        "the larger p of two tests: a difference in differences over items and models, with a "
        "prior of how much models differ, and an exact test among items of equal difficulty",
    ),
}
HOLDS_IF = (
    "the held-out items are as new to the references as to the model, and neither the model nor its "
    "family wrote them"
)
CONDITIONS = (
    f"{HOLDS_IF[0].upper()}{HOLDS_IF[1:]}. If the held-out items suit this model better or "
    "worse than the references, the number is wrong by that amount.",
    "The references have not learnt the benchmark, or all have learnt it to the same extent. If "
    "the references score higher on the benchmark than on the held-out items, the number is an "
    "upper limit. Its interval then also covers the score without subtracting their gap.",
    "The two sets differ by the same number of points for every model, or by the same number of "
    "logits. The interval covers both cases.",
    "Training on items of the benchmark's kind counts as memory, except for the part that carries "
    "over to held-out items.",
    "The share and the list of items also assume that learnt items are as hard as others, except "
    "for differences that the references show.",
)


_NEEDS = {
    "held_out": "held-out items",
    "references": "reference models",
    "able_references": "references above chance",
    "other_families": "references of more than one family, or of this model's family",
    "parsed": "answers that are parsed",
    "same_kind": "held-out items of the benchmark's kind",
    "fresh_drawn": "held-out items that were not chosen by the references' answers",
    "more_answers": "more answers",
    "log_finished": "a log that is finished",
    "chance_known": "the number of options",
    "counts_right": "a score that counts right answers",
    "asked_alike": "both sets asked alike",
}


def _references(count: int) -> str:
    """Return a number of references as text."""
    return f"{count} reference{'s' if count != 1 else ''}"


def _by(judged: Sequence[Name]) -> str:
    """Return the names of the judged indicators as text."""
    return "any of the six tests" if len(judged) == len(Name) else _titles(judged)


def _other_families(references: Sequence[str]) -> str:
    """Return advice to state the families of these references, or to add references."""
    if not references:
        return "Add references of at least two families."
    options = []
    for name, family in zip(references, ("oak", "pine"), strict=False):
        options.append(f"model.{name}.family={family}")
    return f"If that is wrong, state their families: {' '.join(options)}. Or add references of other families."


def _titles(indicators: Sequence[Name]) -> str:
    """Return the titles of indicators as text."""
    return listed(INDICATORS[name].title.lower() for name in indicators)


def _says(
    state: str,
    indicator: Name,
    unit: str,
    estimate: float,
    low: float,
    high: float,
    p: float,
    adjusted: float,
    doubt: Reason | None,
) -> str:
    """Return the statement on one indicator with its effect, interval and p-values."""
    shown = scaled(estimate, low, high)
    least, most = scaled(low, low, high), scaled(high, low, high)
    effect = f"{shown} {unit} (95 % interval {least} to {most})"
    more = f" {sentence(doubt, TEXTS)}" if doubt else ""
    return f"{INDICATORS[indicator].title}: {state}, {effect}; {pvalue(p)}, {pvalue(adjusted)} corrected.{more}"


def _compatible(high: float, gamma: float | None) -> str:
    """Return a text with the largest gap that is compatible with the data, and the odds ratio of
    unparsed answers.
    """
    gap = points(high) if high == high else "any size"
    odds = ""
    if gamma:
        odds = (
            f", if the odds that unparsed answers were right are {gamma:g} times what is expected"
        )
    return f"A gap of {gap} to held-out items is still compatible with the data (one-sided 95 % limit){odds}."


def _score(limits: Limits | None) -> str:
    """Return a score with its interval as text."""
    if limits is None:
        return "not measured"
    return f"{percent(limits.estimate)} ({interval(limits.low, limits.high)})"


def _score_name(partial: str, measure: bool) -> str:
    """Return the name of a score, which says if the score covers only a part of the benchmark or
    uses another measure.
    """
    name = "Partial score" if partial else "Score"
    if measure:
        name = "Mean of a measure that does not count right answers"
    return f"{name} ({partial})" if partial else name


TEXTS: Texts = {
    # Statements about an indicator
    "seen": partial(_says, "seen"),
    "not_seen": partial(_says, "not seen"),
    "stands_out": partial(_says, "stands out"),
    "not_judged": lambda indicator, why: (
        f"{INDICATORS[indicator].title}: not judged. {sentence(why, TEXTS)}"
    ),
    # Reasons why an indicator was not judged
    "no_other_order": "No other order was asked. The test needs every item (n=all) and a model "
    "that returns likelihoods.",
    "few_shards": "The test has {shards} shards, and {least:g} are needed (shards_min).",
    "few_shards_read": "Only {shards} shards have a likelihood from every model, and {least:g} are "
    "needed (shards_min).",
    "words_tell_order": "The words of neighbouring items reveal the published order, and no "
    "reference shows the effect of this.",
    "held_out_order_likelier": "The order of the held-out items is likelier too, although it "
    "cannot have been learnt.",
    "few_orders": "{items} items were asked with other orders of their options, and {least:g} are needed (items_min).",
    "few_orders_read": "Only {items} items have likelihoods of their orders from every model, and {least:g} "
    "are needed (items_min).",
    "one_other_order": "With only one other order, it is unknown how much orders differ. Ask two or more (orders=2, "
    "option_orders=2).",
    "few_with_text": "Fewer than two items of each set have a likelihood of this text.",
    "few_items": "Only {items} items of the benchmark and {held_out} held-out items have a value from every model, and "
    "{least:g} of each set are needed (items_min).",
    "few_answered": "Fewer than two items of each set were answered.",
    "references_guess": "No reference model is above chance, so the difficulty of the items is "
    "unknown.",
    "few_able_references": "{references} references are above chance, and {least:g} are needed (references_min).",
    "needs_both": "This indicator needs held-out items and references, which are other models' "
    "answers to both sets of items.",
    "needs_held_out": "This indicator needs held-out items, since references alone cannot "
    "distinguish memory from a better model.",
    "needs_references": "This indicator needs references, since held-out items may be harder or in "
    "another style.",
    "few_references": "The run has {references} of the {least:g} references that are needed to see "
    "how much models differ. One reference is enough if it is this model before its training "
    "(verdict.references_min=1).",
    "not_as_hard": "The reference models do not answer both sets equally well, and the scales "
    "disagree.",
    "chosen": "The references' answers were used to choose the held-out items, which may suit "
    "other models better or worse.",
    "another_kind": "Words alone distinguish the two sets of items, so the sets differ in more than "
    "memory.",
    # Other possible causes of an effect
    "no_reference": "A sensible order is likelier to any model. References show by how much "
    "('references=[..]').",
    "references_feel_it": "This order is likelier to the references too, and a larger model may "
    "show twice their effect.",
    "any_text_likelier": "Any text is likelier to this model than to every reference, which "
    "includes popular texts and orders.",
    "abler": "This model is more able than every reference, so a popular text or an order may be "
    "likelier to it.",
    "no_bracket": "Without held-out items it is unknown whether any text is likelier to this model than to the "
    "references.",
    "own_scale": "In units of each model's spread over the held-out items, the effect may be "
    "chance.",
    "guessing_rate": "The model is far from its references in ability. If lucky answers were 20 "
    "points more or less frequent on held-out items, a gap of {gap:points} would follow without "
    "memory.",
    "ability_scale": "On a scale of ability, which allows for guesses and for items of different "
    "difficulty, the gap may be chance.",
    "unparsed": "The effect vanishes if unparsed answers count against the effect.",
    "undated": "The dates do not exclude that the held-out items are newer only for this model. "
    "Newer items are harder.",
    "one_family": "All references are of one family ({family}), and this model is of another.",
    # Other reasons
    "nothing_bounded": "These data set no upper limit to any form of memory.",
    "no_room": "At a score without memory of {score:percent} no gap of {effect:points} is possible, so this run "
    "excludes nothing.",
    "found_alone": "The finding of this model alone does not survive the correction over the "
    "panel.",
    "gap_compatible": _compatible,
    "held_out_favoured": "On held-out items this model scores {low:points} or more above what its "
    "references predict. The model may have learnt these items, or they suit it, which can hide "
    "memory.",
    "reference_repeats": "{model} (all its answers equal those of the tested model or of another "
    "reference, so it is the same model)",
    "reference_unread": "{model} ({read:,} of {asked:,} rows of {items} have an answer, arm {arm})",
    # Advice
    "name_references": "Add references: {least:g} or more other models that answer both sets of "
    "items. Example: 'references=[a,b,c]', or for an import their logs and --judge MODEL.",
    "ask_every_item": "Ask every item (n=all), since tests of order need all items.",
    "harder_items": "Choose items on which this model can have a gap, such as a harder benchmark.",
    "other_held_out": "Choose held-out items that are newer than this model, by other authors.",
    "judge_alone": "Judge this model alone, or with more references.",
    "add_held_out": "Add held-out items and references. Example: control_benchmark=<set> "
    "'references=[a,b,c]', or for an import --held-out LOG, logs of other models, and --judge "
    "MODEL.",
    "add_held_out_alone": "Add held-out items. Example: control_benchmark=<set>, or for an import "
    "--held-out LOG.",
    "ask_more": "Ask more items, above all held-out items, and add reference models.",
    "take_as_read": "Treat this benchmark score as contaminated.",
    "quote_held_out": "Quote the score on held-out items together with the score on the benchmark.",
    "see_named_items": "Look at the items that are likely answered from memory (tables/items_from_memory.csv).",
    "see_likely_items": "Look at the items whose text is likeliest against the references (tables/items.csv).",
    "add_references": "Add references and held-out items (control_benchmark=), which show the "
    "usual effect of an order.",
    "larger_references": "Choose references of this model's size or larger, to which any text is "
    "about as likely.",
    "abler_references": "Choose references that are as able as this model.",
    "near_references": "Choose references on both sides of this model's score on held-out items.",
    "state_dates": lambda missing: (
        "State the dates of the held-out items and the release dates of the models, such as "
        "2025-12..2026-03. "
        f"Missing: {', '.join(missing)}."
    ),
    "other_families": lambda family, references, stated: (
        f"All references are of one family ({family}{'' if stated else ', read from their names'}), so there is no "
        f"score without memory. {_other_families(references)}"
    ),
    "mend_unparsed": "Read the unparsed replies and fix their cause, or read answers by likelihood.",
    # Headlines
    "headline_withheld": "No verdict on memory of {benchmark} in {model}: {why:listed}.",
    "headline_text": lambda model, benchmark, indicators, gap: (
        f"{model} shows memory of the text of {benchmark} ({_titles(indicators)}), as if it had read it or a copy."
        + (" Its score is also higher than on held-out items." if gap else "")
    ),
    "headline_gap": "{model} scores {published:percent} on {benchmark} and {held_out:percent} on "
    "held-out items. The gap is {difference:points} larger than that of the references, so part of "
    "its score does not carry over.",
    "headline_unknown": lambda model, benchmark, indicators, doubt: (
        f"{benchmark} stands out for {model} ({_titles(indicators)}), cause unknown. {sentence(doubt, TEXTS)}"
    ),
    "headline_not_identified": "These data cannot show whether {model} remembers {benchmark}.",
    "headline_underpowered": lambda model, benchmark, judged: (
        f"Whether {model} remembers {benchmark} is unknown. Nothing is seen by {_by(judged)}, but it may have been "
        "missed."
    ),
    "headline_nothing": lambda model, benchmark, judged: (
        f"No memory of {benchmark} is seen in {model} by {_by(judged)}. The list below names forms "
        "of memory that these do not see."
    ),
    "without": lambda score, without, references, theirs: (
        f"Score {_score(score)}. Without memory: {_score(without)}, against {_references(references)}, whose own "
        f"gap is {signed_points(theirs.estimate)}. This holds if {HOLDS_IF}."
    ),
    "without_at_most": lambda score, without, references, theirs: (
        f"Score {_score(score)}. Without memory: at most {percent(without.high)}, against {_references(references)}. "
        f"Their own gap is {signed_points(theirs.estimate)} ({interval(theirs.low, theirs.high)}): the held-out items "
        f"are harder, or the references learnt some of the benchmark. This holds if {HOLDS_IF}."
    ),
    "not_identified": lambda score, needs, error, partial="", measure=False: (
        f"{_score_name(partial, measure)} {_score(score)}. Without memory: not identified. "
        f"It needs {listed(_NEEDS[need] for need in needs)}{f' ({error})' if error else ''}."
    ),
    "subtitle": "Memory audit: {items:,} items, {held_out:,} held-out items, {rows:,} rows.",
    # Explanations that no verdict excludes
    "answers_learnt": "That questions and answers were learnt (fine-tuning), which only the score "
    "on held-out items shows.",
    "order_read": "That the benchmark was read in its published order, since the order test was "
    "not judged.",
    "items_read": "That single items were read, since their text was not compared with held-out "
    "items and references.",
    "other_layout": "That the text was read in another layout than question and lettered options.",
    "read_once": "That the benchmark was read once in a large corpus, which has little effect on a "
    "likelihood.",
    "other_words": "That rewordings or translations of the items were learnt.",
    "references_read": "That the reference models have read the benchmark too, which hides memory "
    "in this model.",
    "one_reference": "That models differ in how well two sets of items suit them, which one "
    "reference cannot show.",
    "other_sampling": "That this model answered the two sets in different ways, such as by "
    "temperature, choice from several, or cut-off, which a log does not state.",
    "other_guessing": "That the wrong options of one set are easier to exclude, so that a guess is "
    "right more often there.",
    "held_out_differ": "That the held-out items differ from the benchmark's in a way that the references do not show.",
    "reference_learnt": "That the reference {model} has learnt the benchmark: its gap is "
    "{difference:points} larger than that of the others.",
}
