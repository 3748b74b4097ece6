"""How far an edit is from its original, in words or in a tokenizer's tokens (pure)."""

from collections.abc import Hashable, Sequence
from difflib import SequenceMatcher

from audit.benchmarks.items import Item


def text_of(item: Item) -> str:
    """What carries an item's content: context and question, or both sentences of a pair."""
    return f"{item.context} {item.text or ' '.join(item.options)}".strip()


def distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> tuple[int, int]:
    """(changed, span): the longer side of every replaced, inserted or deleted run; from the first such run to the end
    of the last, what stays between them included.

    >>> distance("the old dog saw a cat".split(), "the young dog saw a hen".split())
    (2, 5)
    """
    codes = [
        c for c in SequenceMatcher(None, first, second, autojunk=False).get_opcodes() if c[0] != "equal"
    ]  # (tag, i1, i2, j1, j2)
    if not codes:
        return 0, 0
    changed = sum(max(i2 - i1, j2 - j1) for _, i1, i2, j1, j2 in codes)
    (_, i1, _, j1, _), (_, _, i2, _, j2) = codes[0], codes[-1]
    return changed, max(i2 - i1, j2 - j1)


def words(item: Item) -> list[str]:
    return text_of(item).split()
