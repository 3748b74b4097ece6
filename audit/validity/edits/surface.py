"""Format edits and the placebo: the words stay, or neutral ones are added; the construct is untouched."""

import re
from collections.abc import Callable
from dataclasses import replace

from audit.benchmarks.items import Item
from audit.validity.edits.record import PLAIN_LABELS, Contract, Edit, Family

# Of a placebo: as many as are wanted, then a comma. They say nothing, ask nothing and deny nothing.
_NEUTRAL = (
    "Now", "then", "well", "so", "and", "so", "to", "it", "as", "it", "comes", "one", "thing", "after", "another", "in",
    "good", "time", "and", "just", "as", "it", "is", "here", "and", "so", "it", "goes", "on", "as", "it", "did",
    "before", "and", "as", "it", "will", "again", "in", "its", "own", "time", "and", "way", "here", "it", "now", "is",
)  # fmt: skip
PLACEBO_WORDS_MAX = len(_NEUTRAL)
PREAMBLE = "Please read the following and reply."


def each_text(item: Item, change: Callable[[str], str]) -> Item:
    """The item with every text that carries its content changed: question and context, or both sentences of a pair."""
    if not item.text:
        return replace(item, options=tuple(change(text) for text in item.options))
    return replace(item, text=change(item.text), context=change(item.context) if item.context else "")


def _title(text: str) -> str:
    return re.sub(r"\S+", lambda word: word[0][:1].upper() + word[0][1:], text)


def _preamble(item: Item) -> Item:
    if item.context:
        return replace(item, context=f"{PREAMBLE} {item.context}")
    return each_text(item, lambda text: f"{PREAMBLE} {text}")


def _option_order(item: Item) -> Item:
    """The options turned by one place: every option moves, so that none keeps its letter."""
    options, shown = item.options, item.shown
    return replace(item, options=(*options[1:], options[0]), order=(*shown[1:], shown[0]))


# name -> (change, label style of the options). "label_style" and "option_order" are nothing where none is shown.
FORMATS: dict[str, tuple[Callable[[Item], Item], str]] = {
    "upper_case": (lambda item: each_text(item, str.upper), PLAIN_LABELS),
    "title_case": (lambda item: each_text(item, _title), PLAIN_LABELS),
    "double_space": (lambda item: each_text(item, lambda text: re.sub(r" +", "  ", text)), PLAIN_LABELS),
    "quotes": (lambda item: each_text(item, lambda text: f'"{text}"'), PLAIN_LABELS),
    "preamble": (_preamble, PLAIN_LABELS),
    "option_order": (_option_order, PLAIN_LABELS),
    "label_style": (lambda item: item, "dot"),
}


def format_edit(name: str, item: Item) -> Edit:
    """One format edit by its name in FORMATS."""
    change, style = FORMATS[name]
    return Edit(name, Family.FORMAT, Contract.INVARIANT, change(item), style)


def placebo_edit(item: Item, words: int) -> Edit:
    """`words` neutral words in front (1 to 48), as many as the attribute edits change: the same distance in words. Of a
    pair each sentence gets half of them."""
    sides = 1 if item.text or item.context else len(item.options)
    count = min(max(round(words / sides), 1), PLACEBO_WORDS_MAX)
    lead = " ".join(_NEUTRAL[:count]) + ", "
    if item.context:
        return _placebo(count, replace(item, context=lead + item.context))
    return _placebo(count, each_text(item, lambda text: lead + text))


def _placebo(count: int, changed: Item) -> Edit:
    return Edit(f"placebo_{count}", Family.PLACEBO, Contract.INVARIANT, changed)
