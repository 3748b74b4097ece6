"""Word what the construct-validity audit states of a cell, by code: reasons, advice, headlines,
limits."""

from collections.abc import Sequence

from audit.core.number_text import DASH, interval, percent, points, pvalue, signed_points
from audit.judging.result import Texts


def _effect(difference: float, low: float, high: float, directional: bool) -> str:
    more = "more" if difference >= 0 else "less"
    where = " to the new right one" if directional else ""
    return (
        f"Edits of the content move answers{where} {points(abs(difference))} {more} often than edits of layout or "
        f"wording do ({interval(low, high)})."
    )


def _ask_more(asked: int, needed: int | None) -> str:
    if needed is None:
        return f"Read the items that answered otherwise than expected. At these rates no number above {asked:,} helps."
    return f"Ask more items: about {max(needed, asked + 1):,} would do at these rates; {asked:,} could be compared."


_FOUND = {
    "follows": "answers follow the content of an item more than its layout and wording",
    "reacts": "answers change with the content, where they should not",
    "as_neutral_words": "answers change with the content, and as many neutral words may change them as often",
    "surface_wins": "answers follow layout and wording more than the content of an item",
    "stays": "answers stay as they should when the content changes",
    "follows_too_rarely": "answers move with the content, and are not shown to reach the new right one often enough",
    "follows_unless_unparsed": "answers follow the content only if the unparsed ones would have followed too",
    "neither_direction": "not confirmed, neither that answers follow the content nor that they follow the form",
}


def _headline(
    who: str, finding: str, difference: float, low: float, high: float, share: float
) -> str:
    return (
        f"{who}: {_FOUND[finding]} (difference {signed_points(difference)}, {interval(low, high)}; edits of the "
        f"content answered as expected: {percent(share)})."
    )


def _withheld(who: str, status: str, why: Sequence[str]) -> str:
    because = f" ({'; '.join(why)})" if why else ""
    return f"{who}: {status.lower()}{because}. Nothing is confirmed."


def _neither(above: float | None, below: float | None) -> str:
    up, down = (DASH if p is None else pvalue(p) for p in (above, below))
    return f"Neither direction is shown after correction: {up} for more, {down} for less."


TEXTS: Texts = {
    # >>Reasons
    "nothing_to_compare": "No item has an answer to edits of content and of form: nothing can be compared.",
    "checks_not_made": "G5 or G6 could not be made here. Without them nothing is confirmed.",
    "attribute_effect": _effect,
    "as_expected": "Edits of the content get the expected answer in {share:percent} (95 % interval {low:bare} to "
    "{high:bare}).",
    "follows": "Answers move to the new right one more often than layout and wording move them, as they should.",
    "reacts": "Nothing should move here: answers react to these edits more than to layout and wording. A placebo, "
    "where there is one, says what neutral words do.",
    "as_neutral_words": "Not confirmed: beyond what as many neutral words move (placebo), edits of the content move "
    "{difference:signed} of the answers (95 % interval {low:bare} to {high:bare}).",
    "surface_wins": "Layout and wording move answers more often than the content does.",
    "stays": "Edits of the content move answers by no more than {margin:points} beyond what layout and wording do, as "
    "it should be.",
    "follows_too_rarely": "Not confirmed: the lower limit of expected answers is {low:percent}, and {least:percent} is "
    "needed.",
    "follows_unless_unparsed": "Not confirmed: the lower limit is {low:percent} if unparsed answers count as not "
    "followed, and {least:percent} is needed.",
    "neither_direction": _neither,
    # >>Advice
    "read_moved_items": "Read the items whose answers moved, and which group they moved for.",
    "mend_unparsed": "Read the unparsed replies and mend what makes them so, or ask more items.",
    "ask_more": _ask_more,
    "score_may_stand": "Nothing needs mending here. Of memory this says nothing: ask the other audits.",
    "score_is_not_ability": "Do not read this score as ability. Read the items that layout or wording moved.",
    # >>Headlines
    "headline": _headline,
    "headline_withheld": _withheld,
    # >>What no status rules out
    "construct_unknown": "That the benchmark measures what it names: edits show what answers react to, not what they "
    "mean.",
    "other_edits": "Anything about other edits: these are a few of many, and each kind is as good as its edits.",
    "only_frames": "Reaction to real paraphrases: the semantic edits are neutral frames around the same words.",
    "no_placebo": "That any change of so many words moves answers as much: there is no placebo to compare with.",
    "few_items": "Smaller differences: {items:,} items, {clusters:,} independent ones.",
}
