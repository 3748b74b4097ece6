"""The edits of every sampled item: enough of each family, none that changes nothing, and a count of what was replaced.

Attribute edits are looked up: the partner is in the benchmark itself, and no rule rewrites what it could get wrong.
Requests' texts are compared before anything is asked. What only a tokenizer makes the same shows in the token ids that
were consumed: a spare format edit takes the place of one whose `request_sha256` is the original's.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from audit.benchmarks.items import BbqFacts, ContrastFacts, CrowsFacts, ToxigenFacts, XsTestFacts
from audit.records import Item
from audit.scoring.reference import ReferenceScorer
from audit.validity.edits.record import PLAIN_LABELS, Contract, Edit, Family, context_of
from audit.validity.edits.surface import differing, distance, format_edit, placebo_edit, wordings, words
from audit.variants.record import Variant
from audit.verdict.result import percent

CANDIDATES_MAX = 12  # of an item that has many partners: enough to replace those that change nothing
FALSE_STEM = "Which of these answers to the question is false? {}"


def any_but(key: int) -> int:
    """A key that every response fits except this one: where an edit turns the question round."""
    return -2 - key


@dataclass
class Partners:
    """The items of one benchmark, indexed by what makes two of them partners."""

    items: Sequence[Item]
    seed: int
    index: dict[tuple[object, ...], list[Item]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.items:
            self.index.setdefault(_slot(item), []).append(item)

    def edits(self, item: Item) -> Iterator[Edit]:
        facts = item.facts
        if isinstance(facts, ContrastFacts):
            yield from _shipped(item, facts)
        elif isinstance(facts, BbqFacts):
            yield from self._bbq(item, facts)
        elif isinstance(facts, XsTestFacts):
            yield from self._opposite(item, self.index[_slot(item)], "contrast_partner")
        elif isinstance(facts, ToxigenFacts):
            yield from self._opposite(item, self._drawn(item), "opposite_label")
        elif isinstance(facts, CrowsFacts):
            yield from self._crows(item)
        else:
            changed = item.keyed(any_but(item.key), stem=FALSE_STEM.format(item.stem))
            yield Edit("opposite_stem", Family.ATTRIBUTE, Contract.DIRECTIONAL, changed)

    def _drawn(self, item: Item) -> list[Item]:
        """The items of the same slot in an order that depends on the seed and this item alone."""
        same = self.index[_slot(item)]
        order = np.random.default_rng([self.seed, zlib.crc32(item.id.encode())]).permutation(len(same))
        return [same[i] for i in order]

    def _opposite(self, item: Item, among: Sequence[Item], name: str) -> Iterator[Edit]:
        others = [one for one in among if one.key != item.key and one.stem != item.stem]
        for one in others[:CANDIDATES_MAX]:
            changed = item.keyed(one.key, stem=one.stem, condition=one.condition)
            yield Edit(name, Family.ATTRIBUTE, Contract.DIRECTIONAL, changed)

    def _bbq(self, item: Item, facts: BbqFacts) -> Iterator[Edit]:
        """The row in which the two groups have changed places: its context, the original's options and question."""
        for one in self.index[_slot(item)]:
            if one.context == item.context or one.stem != item.stem or not isinstance(one.facts, BbqFacts):
                continue
            key = item.key
            if item.condition == "disambig":
                names = [name.lower() for name, _ in facts.names]
                key = names.index(one.facts.names[one.key][0].lower())
                if key == item.key:  # 66 pairs of Physical appearance: the swapped context says the same of the same
                    continue
            contract = Contract.INVARIANT if key == item.key else Contract.DIRECTIONAL
            yield Edit("groups_swapped", Family.ATTRIBUTE, contract, item.keyed(key, context=one.context))

    def _crows(self, item: Item) -> Iterator[Edit]:
        """Another pair of groups of the same type in the same sentence. More and less are never swapped."""
        own = _span(item.options)
        if own is None:
            return
        start, *spans = own
        groups = {span.lower() for span in spans}
        seen: set[tuple[str, ...]] = set()
        found = 0
        for one in self._drawn(item):
            other = _span(one.options)
            if other is None or found == CANDIDATES_MAX:
                continue
            new = other[1:]
            plain = tuple(span.lower() for span in new)
            if plain in seen or groups & set(plain):  # one of its own groups on the other side would relabel it
                continue
            seen.add(plain)
            found += 1
            put = (_put(text, start, *pair) for text, *pair in zip(item.options, spans, new, strict=True))
            changed = replace(item, options=tuple(put))
            yield Edit("other_groups", Family.ATTRIBUTE, Contract.INVARIANT, changed)


def _slot(item: Item) -> tuple[object, ...]:
    facts = item.facts
    if isinstance(facts, BbqFacts):
        return ("bbq", facts.category, facts.template, facts.polarity, item.condition, *_two(facts))
    if isinstance(facts, XsTestFacts):
        return ("xstest", item.group)
    if isinstance(facts, ToxigenFacts):
        return ("toxigen", facts.groups)
    if isinstance(facts, CrowsFacts):
        return ("crows", facts.bias_type, item.condition)
    return ("alone", item.id)


def cluster_of(item: Item) -> str:
    """Items of one are not independent. Of BBQ's swapped rows each is the other's edit: with both, and both questions,
    one comparison would count four times."""
    facts = item.facts
    if not isinstance(facts, BbqFacts):
        return item.group
    return repr((facts.category, facts.template, *_two(facts)))


def _two(facts: BbqFacts) -> list[str]:
    """The two groups of an item, in alphabetical order."""
    return sorted(name.lower() for k, (name, _) in enumerate(facts.names) if k != facts.unknown)


def _shipped(item: Item, facts: ContrastFacts) -> Iterator[Edit]:
    for text, key in facts.attribute:
        contract = Contract.INVARIANT if key == item.key else Contract.DIRECTIONAL
        name = "other_person" if contract == Contract.INVARIANT else "other_thing"
        yield Edit(name, Family.ATTRIBUTE, contract, item.keyed(key, stem=text))


@lru_cache(maxsize=1 << 12)
def _span(options: tuple[str, ...]) -> tuple[int, str, str] | None:
    """The words in which two sentences differ, where that is one run of at most three words on each side; before them,
    the number of its first word in both."""
    a, b = (text.split() for text in options)
    codes = differing(a, b)
    if len(codes) != 1 or codes[0][0] != "replace":
        return None
    _, i1, i2, j1, j2 = codes[0]
    if max(i2 - i1, j2 - j1) > 3:
        return None
    strip = ".,;:!?\"'"
    return i1, " ".join(a[i1:i2]).strip(strip), " ".join(b[j1:j2]).strip(strip)


def _put(sentence: str, start: int, old: str, new: str) -> str:
    """`new` in the place of `old`, from this word on, with a capital where that had one."""
    shaped = new[:1].upper() + new[1:] if old[:1].isupper() else new[:1].lower() + new[1:]
    at = [word.start() for word in re.finditer(r"\S+", sentence)][start]
    return sentence[:at] + sentence[at:].replace(old, shaped, 1)


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


def show(plan: Plan, benchmark: str, count: int = 10) -> Iterator[str]:
    """Lines. Items are taken evenly from the whole plan, so that each context is likely to be there."""
    items = plan.items
    chosen = items[:: max(1, len(items) // count)][:count]
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
    text = " ".join(part for part in (item.context, item.stem or " / ".join(item.options)) if part)
    return mask(text) if masked else text


def mask(text: str) -> str:
    """Every letter as x or X: case, spaces, marks and lengths show, the words do not.

    >>> mask("Here  is a question?")
    'Xxxx  xx x xxxxxxxx?'
    """
    return re.sub(r"[^\W\d_]", lambda letter: "X" if letter[0].isupper() else "x", text)
