"""`edits=show`: items with all their edits, to be read before anything runs. Benchmarks that hold slurs are masked."""

import re
from collections.abc import Iterator, Sequence

from audit.benchmarks.items import Item
from audit.validity.edits.plan import ItemPlan, Plan
from audit.validity.edits.record import Edit, Family
from audit.verdict.result import percent

MASKED = ("bbq", "crows_pairs", "toxigen", "xstest")  # hold slurs, stereotypes or unsafe requests
SHOWN = 10


def show(plan: Plan, benchmark: str, count: int = SHOWN) -> Iterator[str]:
    """Lines. Items are taken evenly from the whole plan, so that each context is likely to be there."""
    items = plan.items
    step = max(1, len(items) // max(count, 1))
    chosen = items[::step][:count]
    yield f"{benchmark}: {len(items)} items, {len(chosen)} of them shown" + (
        "; letters are masked, as the texts may hold slurs" if benchmark in MASKED else ""
    )
    for one in chosen:
        yield ""
        yield from _item(one, masked=benchmark in MASKED)
    yield ""
    for family in Family:
        for context, share in sorted(plan.applicable(family).items()):
            yield f"{family}{f' ({context})' if context else ''}: {percent(share)} of the edits wanted are there"
    for name, count_ in plan.replaced.items():
        yield f"{name}: {count_} would have changed nothing and were replaced or left out"


def _item(one: ItemPlan, *, masked: bool) -> Iterator[str]:
    item = one.item
    yield f"{item.id}" + (f" ({item.condition})" if item.condition else "")
    yield f"  original: {text_of(item, masked=masked)} [key {item.key}]"
    for family in Family:
        edits: Sequence[Edit] = one.edits[family]
        if not edits:
            yield f"  {family}: none"
        for level, edit in enumerate(edits, start=1):
            style = "" if edit.name != "label_style" else f" {edit.label_style}"
            moved = "" if edit.item.shown == item.shown else f" order {list(edit.item.shown)}"
            text = text_of(edit.item, masked=masked)
            yield f"  {family} {level} {edit.name}{style}{moved}, {edit.contract}: {text} [key {edit.item.key}]"


def text_of(item: Item, *, masked: bool) -> str:
    """The words of an item in one line."""
    text = " ".join(part for part in (item.context, item.text or " / ".join(item.options)) if part)
    return mask(text) if masked else text


def mask(text: str) -> str:
    """Every letter as x or X: case, spaces, marks and lengths show, the words do not.

    >>> mask("Here  is a question?")
    'Xxxx  xx x xxxxxxxx?'
    """
    return re.sub(r"[^\W\d_]", lambda letter: "X" if letter[0].isupper() else "x", text)
