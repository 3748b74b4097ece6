"""Attribute edits by look-up: the partner is in the benchmark itself, and no rule rewrites what it could get wrong.

Each function gives the candidates of one item, best first; none where the benchmark has no partner for it.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import lru_cache

import numpy as np

from audit.benchmarks.items import BbqFacts, ContrastFacts, CrowsFacts, Item, ToxigenFacts, XsTestFacts
from audit.validity.edits.record import Contract, Edit, Family

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
        """Attribute edits of an item, at most CANDIDATES_MAX."""
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
            text = FALSE_STEM.format(item.text)
            changed = replace(item, text=text, key=any_but(item.key))
            yield Edit("opposite_stem", Family.ATTRIBUTE, Contract.DIRECTIONAL, changed)

    def _drawn(self, item: Item) -> list[Item]:
        """The items of the same slot in an order that depends on the seed and this item alone."""
        same = self.index[_slot(item)]
        order = np.random.default_rng([self.seed, zlib.crc32(item.id.encode())]).permutation(len(same))
        return [same[i] for i in order]

    def _opposite(self, item: Item, among: Sequence[Item], name: str) -> Iterator[Edit]:
        """Another item of the same slot with the other label: its text, and its key."""
        others = [one for one in among if one.key != item.key and one.text != item.text]
        for one in others[:CANDIDATES_MAX]:
            changed = replace(item, text=one.text, key=one.key, condition=one.condition)
            yield Edit(name, Family.ATTRIBUTE, Contract.DIRECTIONAL, changed)

    def _bbq(self, item: Item, facts: BbqFacts) -> Iterator[Edit]:
        """The row in which the two groups have changed places: its context, the original's options and question."""
        for one in self.index[_slot(item)]:
            if one.context == item.context or one.text != item.text or not isinstance(one.facts, BbqFacts):
                continue
            key = item.key
            if item.condition == "disambig":
                names = [name.lower() for name, _ in facts.names]
                key = names.index(one.facts.names[one.key][0].lower())
                if key == item.key:  # 66 pairs of Physical appearance: the swapped context says the same of the same
                    continue
            contract = Contract.INVARIANT if key == item.key else Contract.DIRECTIONAL
            changed = replace(item, context=one.context, key=key)
            yield Edit("groups_swapped", Family.ATTRIBUTE, contract, changed)

    def _crows(self, item: Item) -> Iterator[Edit]:
        """Another pair of groups of the same type in the same sentence. More and less are never swapped."""
        own = _span(item.options)
        if own is None:
            return
        groups = {span.lower() for span in own}
        seen: set[tuple[str, ...]] = set()
        found = 0
        for one in self._drawn(item):
            other = _span(one.options)
            if other is None or found == CANDIDATES_MAX:
                continue
            plain = tuple(span.lower() for span in other)
            if plain in seen or groups & set(plain):  # one of its own groups on the other side would relabel it
                continue
            seen.add(plain)
            found += 1
            more, less = item.options
            changed = replace(item, options=(_put(more, own[0], other[0]), _put(less, own[1], other[1])))
            yield Edit("other_groups", Family.ATTRIBUTE, Contract.INVARIANT, changed)


def _slot(item: Item) -> tuple[object, ...]:
    facts = item.facts
    if isinstance(facts, BbqFacts):
        names = frozenset(name.lower() for i, (name, _) in enumerate(facts.names) if i != facts.unknown)
        return ("bbq", facts.category, facts.template, facts.polarity, item.condition, names)
    if isinstance(facts, XsTestFacts):
        return ("xstest", item.group)
    if isinstance(facts, ToxigenFacts):
        return ("toxigen", facts.groups)
    if isinstance(facts, CrowsFacts):
        return ("crows", facts.bias_type, item.condition)
    return ("alone", item.id)


def _shipped(item: Item, facts: ContrastFacts) -> Iterator[Edit]:
    for text, key in facts.attribute:
        contract = Contract.INVARIANT if key == item.key else Contract.DIRECTIONAL
        name = "other_person" if contract == Contract.INVARIANT else "other_thing"
        yield Edit(name, Family.ATTRIBUTE, contract, replace(item, text=text, key=key))


@lru_cache(maxsize=1 << 12)
def _span(options: tuple[str, ...]) -> tuple[str, str] | None:
    """The words in which two sentences differ, where that is one run of at most three words on each side."""
    a, b = (text.split() for text in options)
    codes = [c for c in SequenceMatcher(None, a, b, autojunk=False).get_opcodes() if c[0] != "equal"]
    if len(codes) != 1 or codes[0][0] != "replace":
        return None
    _, i1, i2, j1, j2 = codes[0]
    if max(i2 - i1, j2 - j1) > 3:
        return None
    strip = ".,;:!?\"'"
    return " ".join(a[i1:i2]).strip(strip), " ".join(b[j1:j2]).strip(strip)


def _put(sentence: str, old: str, new: str) -> str:
    """`new` in the place of `old`, with a capital where that had one."""
    shaped = new[:1].upper() + new[1:] if old[:1].isupper() else new[:1].lower() + new[1:]
    return sentence.replace(old, shaped, 1)
