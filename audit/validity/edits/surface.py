"""Format edits and the placebo: the words stay, or neutral ones are added; the construct is untouched."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from difflib import SequenceMatcher

from audit.benchmarks.items import Item
from audit.errors import unknown_name
from audit.validity.edits.record import PLAIN_LABELS, Contract, Edit, Family

_NEUTRAL = ("Now", "then", "well", "so", "and", "so", "to", "it")  # of a placebo: cycled through, then a comma
PLACEBO_WORDS_MAX = 8
PREAMBLE = "Please read the following and reply."


def each_text(item: Item, change: Callable[[str], str]) -> Item:
    """The item with every text that carries its content changed: question and context, or both sentences of a pair."""
    if not item.text:
        return replace(item, options=tuple(change(text) for text in item.options))
    return replace(item, text=change(item.text), context=change(item.context) if item.context else "")


def _upper(item: Item) -> Item:
    return each_text(item, str.upper)


def _title(item: Item) -> Item:
    return each_text(item, lambda text: re.sub(r"\S+", lambda word: word[0][:1].upper() + word[0][1:], text))


def _double_space(item: Item) -> Item:
    return each_text(item, lambda text: re.sub(r" +", "  ", text))


def _quotes(item: Item) -> Item:
    return each_text(item, lambda text: f'"{text}"')


def _preamble(item: Item) -> Item:
    if item.context:
        return replace(item, context=f"{PREAMBLE} {item.context}")
    return each_text(item, lambda text: f"{PREAMBLE} {text}")


def _option_order(item: Item) -> Item:
    """The options turned by one place: every option moves, so that none keeps its letter."""
    options, shown = item.options, item.shown
    return replace(item, options=(*options[1:], options[0]), order=(*shown[1:], shown[0]))


def _itself(item: Item) -> Item:
    return item


# name -> (change, label style of the options). "label_style" and "option_order" are nothing where none is shown.
FORMATS: dict[str, tuple[Callable[[Item], Item], str]] = {
    "upper_case": (_upper, PLAIN_LABELS),
    "title_case": (_title, PLAIN_LABELS),
    "double_space": (_double_space, PLAIN_LABELS),
    "quotes": (_quotes, PLAIN_LABELS),
    "preamble": (_preamble, PLAIN_LABELS),
    "option_order": (_option_order, PLAIN_LABELS),
    "label_style": (_itself, "dot"),
}


def format_edit(name: str, item: Item) -> Edit:
    """One format edit by name; ConfigError for an unknown one."""
    if name not in FORMATS:
        raise unknown_name("format edit", name, FORMATS)
    change, style = FORMATS[name]
    return Edit(name, Family.FORMAT, Contract.INVARIANT, change(item), style)


def placebo_edit(item: Item, words: int) -> Edit:
    """`words` neutral words in front (1 to 8), as many as the attribute edit changes: the same distance in words."""
    count = min(max(words, 1), PLACEBO_WORDS_MAX)
    lead = " ".join(_NEUTRAL[:count]) + ", "
    if item.context:
        return _placebo(count, replace(item, context=lead + item.context))
    return _placebo(count, each_text(item, lambda text: lead + text))


def _placebo(count: int, changed: Item) -> Edit:
    return Edit(f"placebo_{count}", Family.PLACEBO, Contract.INVARIANT, changed)


def changed_words(first: Item, second: Item) -> int:
    """How many words differ: the longer side of every replaced, inserted or deleted run."""

    def words(item: Item) -> list[str]:
        return f"{item.context} {item.text or ' '.join(item.options)}".split()

    a, b = words(first), words(second)
    codes = SequenceMatcher(None, a, b, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for tag, i1, i2, j1, j2 in codes if tag != "equal")
