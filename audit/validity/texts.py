"""Define the sentences of the validity audit by code: reasons, advice, headlines and limits."""

from collections.abc import Sequence

from audit.core.number_text import DASH, interval, percent, points, pvalue, signed_points
from audit.judging.result import Texts


def _effect(difference: float, low: float, high: float, directional: bool) -> str:
    """Return the statement on the difference D."""
    more = "more" if difference >= 0 else "less"
    where = " to the new right answer" if directional else ""
    return (
        f"Edits of the content move answers{where} {points(abs(difference))} {more} often than edits of layout or "
        f"wording do ({interval(low, high)})."
    )


def _ask_more(asked: int, needed: int | None) -> str:
    """Return an advice: ask more items or, if more items would not help, read the items."""
    if needed is None:
        return (
            "Read the items whose answers were not as expected. "
            f"At these rates, more than {asked:,} items do not help."
        )
    return (
        f"Ask more items: at these rates, about {max(needed, asked + 1):,} items are enough. "
        f"In this run, {asked:,} items could be compared."
    )


_FOUND = {
    "follows": "answers follow the content of an item more than its layout and wording",
    "reacts": "answers change with the content, although they should not",
    "as_neutral_words": "answers change with the content, but neutral words of the same number may "
    "change them as often",
    "beyond_neutral_words": "the content changes answers no more often than layout or wording, but "
    "may change more than neutral words of the same number",
    "surface_wins": "answers follow layout and wording more than the content of an item",
    "stays": "answers stay as they should when the content changes",
    "follows_too_rarely": "answers change with the content, but are not shown to reach the new "
    "right answer often enough",
    "follows_unless_unparsed": "answers follow the content only if the unparsed answers would have "
    "followed too",
    "neither_direction": "it is not confirmed that answers follow the content, nor that they "
    "follow the form",
}


def _headline(
    who: str, finding: str, difference: float, low: float, high: float, share: float
) -> str:
    """Return the headline of a cell whose checks pass."""
    return (
        f"{who}: {_FOUND[finding]} (difference {signed_points(difference)}, {interval(low, high)}; edits of the "
        f"content answered as expected: {percent(share)})."
    )


def _withheld(who: str, status: str, why: Sequence[str]) -> str:
    """Return the headline of a cell with failed checks."""
    because = f" ({'; '.join(why)})" if why else ""
    return f"{who}: {status.lower()}{because}. Nothing is confirmed."


def _neither(above: float | None, below: float | None) -> str:
    """Return the statement that no direction of the difference is shown."""
    up, down = (DASH if p is None else pvalue(p) for p in (above, below))
    return f"Neither direction is shown after correction: {up} for more, {down} for less."


TEXTS: Texts = {
    # Reasons
    "nothing_to_compare": "No item has answers to edits of both content and form, so nothing can "
    "be compared.",
    "checks_not_made": "Gate G5 or G6 could not be checked. Without both, nothing is confirmed.",
    "attribute_effect": _effect,
    "as_expected": "Edits of the content get the expected answer in {share:percent} of cases (95 % "
    "interval {low:bare} to {high:bare}).",
    "follows": "Answers move to the new right answer more often than layout and wording move them. "
    "This is as it should be.",
    "reacts": "No answer should change here, but edits of the content change more answers than "
    "edits of layout and wording do. If the run has a placebo, it shows the effect of neutral "
    "words.",
    "as_neutral_words": "Not confirmed: the share of moved answers under edits of the content "
    "differs by {difference:signed} from the share under as many neutral words (placebo; 95 % "
    "interval {low:bare} to {high:bare}).",
    "beyond_neutral_words": "Not confirmed: layout or wording moves at least as many answers as the "
    "content. But the share of moved answers under edits of the content differs by "
    "{difference:signed} from the share under as many neutral words (placebo; 95 % interval "
    "{low:bare} to {high:bare}).",
    "surface_wins": "Layout and wording move answers more often than the content does.",
    "stays": "Edits of the content move at most {margin:points} more answers than layout and "
    "wording do, and than neutral words if the run has a placebo. This is as it should be.",
    "follows_too_rarely": "Not confirmed: the lower limit of the share of expected answers is "
    "{low:percent}, and at least {least:percent} is needed.",
    "follows_unless_unparsed": "Not confirmed: if unparsed answers count as unexpected, the lower "
    "limit of the share of expected answers is {low:percent}, and at least {least:percent} is "
    "needed.",
    "neither_direction": _neither,
    # Advice
    "read_moved_items": "Read the items whose answers moved, and look for the group in which they "
    "moved.",
    "mend_unparsed": "Read the unparsed replies and remove the cause, or ask more items.",
    "ask_more": _ask_more,
    "score_may_stand": "Nothing needs to be repaired here. This audit cannot detect memory, so run "
    "the other audits too.",
    "score_is_not_ability": "Do not read this score as ability. Read the items that layout or wording moved.",
    # Headlines
    "headline": _headline,
    "headline_withheld": _withheld,
    # Explanations that no status excludes
    "construct_unknown": "That the benchmark does not measure what its name says. Edits show what "
    "answers react to, not what they mean.",
    "other_edits": "That other edits have other effects, since these are a few of many possible "
    "edits.",
    "only_frames": "That real paraphrases move answers, since the semantic edits only put neutral "
    "sentences around the same words.",
    "no_placebo": "That any change of the same number of words moves as many answers, since the "
    "run has no placebo.",
    "few_items": "That there is a smaller difference, since only {items:,} items in {clusters:,} "
    "independent clusters were compared.",
}
