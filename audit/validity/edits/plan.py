"""The edits of every sampled item: enough of each family, none that changes nothing, and a count of what was replaced.

Here the requests' texts are compared, before anything is asked. What only a tokenizer makes the same (a case under an
uncased one) shows in the token ids that were consumed: a spare format edit is asked of every item, and takes the place
of one whose `request_sha256` is the original's.

`edits=show` prints items with all their edits, to be read before anything runs. Benchmarks that hold slurs are masked.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from audit.benchmarks.items import Item
from audit.scoring.reference import ReferenceScorer
from audit.validity.edits.partners import Partners
from audit.validity.edits.record import PLAIN_LABELS, Edit, Family, context_of
from audit.validity.edits.surface import distance, format_edit, placebo_edit, wordings, words
from audit.variants.record import Variant
from audit.verdict.result import percent

Request = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class ItemPlan:
    """One item and its edits by family, in the order of their levels (the first is level 1)."""

    item: Item
    edits: Mapping[Family, tuple[Edit, ...]]


@dataclass(frozen=True)
class Plan:
    """All items of a run. replaced: edits that would have changed nothing, by name, with a further edit in their place
    where there was one. benchmark: the scorer's."""

    items: tuple[ItemPlan, ...]
    replaced: Mapping[str, int]
    wanted: Mapping[Family, int]
    benchmark: str

    def applicable(self, family: Family) -> dict[str, float]:
        """By context: of the edits wanted, the share that is there (attribute: items with at least one)."""
        shares: dict[str, list[float]] = {}
        wanted = 1 if family in (Family.ATTRIBUTE, Family.PLACEBO) else self.wanted[family]
        for one in self.items:
            found = min(len(one.edits[family]), wanted)
            shares.setdefault(context_of(one.item, self.benchmark), []).append(found / wanted)
        return {context: sum(found) / len(found) for context, found in shares.items()}


def build_plan(
    sampled: Iterable[Item],
    scorer: ReferenceScorer,
    partners: Partners,
    *,
    formats: Sequence[str],
    library: Mapping[str, Sequence[Variant]] | None,
    per_family: int,
    spares: int,
) -> Plan:
    """formats: names in order of preference. per_family: edits wanted of each family; spares: format edits beyond."""
    replaced: Counter[str] = Counter()
    wanted = {
        Family.FORMAT: per_family + spares,
        Family.SEMANTIC: per_family,
        Family.ATTRIBUTE: per_family,
        Family.PLACEBO: 1,
    }
    plans = []
    for item in sampled:
        seen = {request_of(scorer, item, PLAIN_LABELS)}
        attribute = _take(partners.edits(item), wanted[Family.ATTRIBUTE], scorer, seen, replaced)
        changed = [distance(words(item), words(edit.item))[0] for edit in attribute]
        apart = round(sum(changed) / len(changed)) if changed else 1
        edits = {
            Family.FORMAT: _take(
                (format_edit(f, item) for f in formats), wanted[Family.FORMAT], scorer, seen, replaced
            ),
            Family.SEMANTIC: _take(wordings(item, scorer.benchmark, library), per_family, scorer, seen, replaced),
            Family.ATTRIBUTE: attribute,
            Family.PLACEBO: _take([placebo_edit(item, apart)], 1, scorer, seen, replaced),
        }
        plans.append(ItemPlan(item, edits))
    return Plan(tuple(plans), dict(sorted(replaced.items())), wanted, scorer.benchmark)


def request_of(scorer: ReferenceScorer, item: Item, label_style: str) -> Request:
    """What the scorer would have the model read: equal for two edits, they ask the same."""
    ask = scorer.ask(item, label_style)
    return ask.prompt, ask.continuations, ask.letters


def _take(
    candidates: Iterable[Edit], count: int, scorer: ReferenceScorer, seen: set[Request], replaced: Counter[str]
) -> tuple[Edit, ...]:
    """The first `count` candidates that ask something that was not asked yet; the others are counted."""
    taken: list[Edit] = []
    for edit in candidates:
        if len(taken) == count:
            break
        request = request_of(scorer, edit.item, edit.label_style)
        if request in seen:
            replaced[edit.name] += 1
        else:
            seen.add(request)
            taken.append(edit)
    return tuple(taken)


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


def text_of(item: Item, *, masked: bool = False) -> str:
    """The words of an item in one line."""
    text = " ".join(part for part in (item.context, item.text or " / ".join(item.options)) if part)
    return mask(text) if masked else text


def mask(text: str) -> str:
    """Every letter as x or X: case, spaces, marks and lengths show, the words do not.

    >>> mask("Here  is a question?")
    'Xxxx  xx x xxxxxxxx?'
    """
    return re.sub(r"[^\W\d_]", lambda letter: "X" if letter[0].isupper() else "x", text)
