"""Plan the edits of every sampled item.

Each family gets enough edits, and every edit changes the request.

An edit that changes nothing is replaced by another edit and counted. An attribute edit takes its
text from another item of the same benchmark (a partner), so that no rule has to rewrite an item.

Before the run, the texts of the requests are compared. Two different texts can still have the same
tokens, which only `request_sha256` shows after the run. Then a spare format edit replaces the edit
that changed no token.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np

from audit.benchmarks.items import BbqFacts, ContrastFacts, CrowsFacts, ToxigenFacts, XsTestFacts
from audit.core.number_text import percent
from audit.core.records import Item
from audit.scoring.reference import ReferenceScorer
from audit.validity.edits.record import PLAIN_LABELS, Contract, Edit, Family, context_of
from audit.validity.edits.surface import (
    differing,
    distance,
    format_edit,
    placebo_edit,
    wordings,
    words,
)
from audit.variants.record import Variant

# Largest number of partners that are tried for each item. Some partners change nothing, so more are
# tried than needed.
CANDIDATES_MAX = 12
FALSE_STEM = "Which of these answers to the question is false? {}"


def any_but(key: int) -> int:
    """Return a key under which every response is right except one.

    An edit that reverses the question needs such a key.

    Parameters
    ----------
    key : int
        The excluded response.

    Returns
    -------
    int
        A number below -1, which encodes the excluded response.
    """
    return -2 - key


@dataclass
class Partners:
    """Index the items of one benchmark by the properties that partners share.

    Attributes
    ----------
    items : sequence of Item
        The items.
    seed : int
        Seed for drawing partners.
    index : dict
        Maps each combination of properties to the items with these properties, which are possible
        partners of each other.
    """

    items: Sequence[Item]
    seed: int
    index: dict[tuple[object, ...], list[Item]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for item in self.items:
            self.index.setdefault(_slot(item), []).append(item)

    def edits(self, item: Item) -> Iterator[Edit]:
        """Yield the attribute edits of an item.

        Parameters
        ----------
        item : Item
            The item.

        Yields
        ------
        Edit
            An edit whose text comes from a partner, or that reverses the question.
        """
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
        """Return the possible partners, in a random order that depends only on the seed and the
        item.
        """
        same = self.index[_slot(item)]
        rng = np.random.default_rng([self.seed, zlib.crc32(item.id.encode())])
        return [same[i] for i in rng.permutation(len(same))]

    def _opposite(self, item: Item, among: Sequence[Item], name: str) -> Iterator[Edit]:
        """Yield copies of the item with the text and the key of a partner with another key."""
        count = 0
        for partner in among:
            if partner.key == item.key or partner.stem == item.stem or count == CANDIDATES_MAX:
                continue
            count += 1
            changed = item.keyed(partner.key, stem=partner.stem, condition=partner.condition)
            yield Edit(name, Family.ATTRIBUTE, Contract.DIRECTIONAL, changed)

    def _bbq(self, item: Item, facts: BbqFacts) -> Iterator[Edit]:
        """Yield the edits of a BBQ item in which the two groups change places.

        The context comes from the partner item. The options and the question come from the
        original.
        """
        for partner in self.index[_slot(item)]:
            if (
                partner.context == item.context
                or partner.stem != item.stem
                or not isinstance(partner.facts, BbqFacts)
            ):
                continue
            key = item.key
            if item.condition == "disambig":
                names = [name.lower() for name, _ in facts.names]
                key = names.index(partner.facts.names[partner.key][0].lower())
                # In 66 pairs of Physical appearance the swapped context has the same meaning.
                if key == item.key:
                    continue
            contract = Contract.INVARIANT if key == item.key else Contract.DIRECTIONAL
            yield Edit(
                "groups_swapped",
                Family.ATTRIBUTE,
                contract,
                item.keyed(key, context=partner.context),
            )

    def _crows(self, item: Item) -> Iterator[Edit]:
        """Yield a CrowS-Pairs item with another pair of groups of the same type.

        The more stereotyping sentence is never swapped with the less stereotyping sentence.
        """
        original = _span(item.options)
        if original is None:
            return
        start, *spans = original
        groups = {span.lower() for span in spans}
        seen: set[tuple[str, ...]] = set()
        count = 0
        for partner in self._drawn(item):
            other = _span(partner.options)
            if other is None or count == CANDIDATES_MAX:
                continue
            new = other[1:]
            plain = tuple(span.lower() for span in new)
            # If the new groups include one of the old groups, the label could change.
            if plain in seen or not groups.isdisjoint(plain):
                continue
            seen.add(plain)
            count += 1
            options = []
            for text, *pair in zip(item.options, spans, new, strict=True):
                options.append(_put(text, start, *pair))
            changed = replace(item, options=tuple(options))
            yield Edit("other_groups", Family.ATTRIBUTE, Contract.INVARIANT, changed)


def _slot(item: Item) -> tuple[object, ...]:
    """Return the properties in which an item and its partners must agree."""
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
    """Return the name of an item's cluster. The items of a cluster are not independent.

    Parameters
    ----------
    item : Item
        The item.

    Returns
    -------
    str
        The name of the cluster. In BBQ, two rows with swapped groups are edits of each other, so
        these two rows with both of their questions are one cluster.
    """
    facts = item.facts
    if not isinstance(facts, BbqFacts):
        return item.group
    return repr((facts.category, facts.template, *_two(facts)))


def _two(facts: BbqFacts) -> list[str]:
    """Return the two groups of an item, in alphabetical order."""
    return sorted(name.lower() for k, (name, _) in enumerate(facts.names) if k != facts.unknown)


def _shipped(item: Item, facts: ContrastFacts) -> Iterator[Edit]:
    """Yield the attribute edits that the benchmark itself contains."""
    for text, key in facts.attribute:
        contract = Contract.INVARIANT if key == item.key else Contract.DIRECTIONAL
        name = "other_person" if contract == Contract.INVARIANT else "other_thing"
        yield Edit(name, Family.ATTRIBUTE, contract, item.keyed(key, stem=text))


@lru_cache(maxsize=1 << 12)
def _span(options: tuple[str, ...]) -> tuple[int, str, str] | None:
    """Return where two sentences differ: the position of the first different word, and the
    different words of each sentence.

    Return None unless the sentences differ in one place only, by at most three words.
    """
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
    """Replace `old`, which occurs at or after a given word, by `new` in a sentence.

    The first letter becomes a capital if `old` begins with a capital.
    """
    shaped = new[:1].upper() + new[1:] if old[:1].isupper() else new[:1].lower() + new[1:]
    at = list(re.finditer(r"\S+", sentence))[start].start()
    return sentence[:at] + sentence[at:].replace(old, shaped, 1)


Request = tuple[str, tuple[str, ...], tuple[str, ...]]


@dataclass(frozen=True)
class ItemPlan:
    """Hold one item with its edits.

    Attributes
    ----------
    item : Item
        The item.
    edits : mapping of Family to tuple of Edit
        The edits in the order of their levels, from level 1.
    """

    item: Item
    edits: Mapping[Family, tuple[Edit, ...]]


@dataclass(frozen=True)
class Plan:
    """Hold the edits of all items of a run.

    Attributes
    ----------
    items : tuple of ItemPlan
        The items.
    replaced : mapping of str to int
        Maps the name of an edit to the number of items in which the edit changed nothing. If
        possible, another edit replaces such an edit.
    wanted : mapping of Family to int
        Wanted number of edits of each family.
    benchmark : str
        The benchmark of the scorer.
    """

    items: tuple[ItemPlan, ...]
    replaced: Mapping[str, int]
    wanted: Mapping[Family, int]
    benchmark: str

    def applicable(self, family: Family) -> dict[str, float]:
        """Map each context to the share of the planned edits that could be made.

        Parameters
        ----------
        family : Family
            The family of edits. For attribute edits, the share is that of items with at least one
            edit.

        Returns
        -------
        dict of str to float
            Shares (0-1).
        """
        shares: dict[str, list[float]] = {}
        wanted = 1 if family in (Family.ATTRIBUTE, Family.PLACEBO) else self.wanted[family]
        for planned in self.items:
            counted = min(len(planned.edits[family]), wanted)
            shares.setdefault(context_of(planned.item, self.benchmark), []).append(counted / wanted)
        return {context: sum(counted) / len(counted) for context, counted in shares.items()}


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
    """Plan the edits of sampled items.

    Parameters
    ----------
    sampled : iterable of Item
        The items.
    scorer : ReferenceScorer
        The scorer, which determines the requests.
    partners : Partners
        Items from which attribute edits take their texts.
    formats : sequence of str
        Names of format edits, in order of preference.
    library : mapping or None
        Maps each item id to its accepted variants.
    per_family : int
        Wanted number of edits of each family.
    spares : int
        Number of further format edits.

    Returns
    -------
    Plan
        The plan.
    """
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
        mean_distance = round(sum(changed) / len(changed)) if changed else 1
        format_edits = (format_edit(name, item) for name in formats)
        edits = {
            Family.FORMAT: _take(format_edits, wanted[Family.FORMAT], scorer, seen, replaced),
            Family.SEMANTIC: _take(
                wordings(item, scorer.benchmark, library), per_family, scorer, seen, replaced
            ),
            Family.ATTRIBUTE: attribute,
            Family.PLACEBO: _take([placebo_edit(item, mean_distance)], 1, scorer, seen, replaced),
        }
        plans.append(ItemPlan(item, edits))
    return Plan(tuple(plans), dict(sorted(replaced.items())), wanted, scorer.benchmark)


def request_of(scorer: ReferenceScorer, item: Item, label_style: str) -> Request:
    """Return the request that a scorer makes for an item.

    Two edits with equal requests are the same question to the model.

    Parameters
    ----------
    scorer : ReferenceScorer
        The scorer.
    item : Item
        The item or edited item.
    label_style : str
        Style of lettered options.

    Returns
    -------
    tuple
        Prompt, continuations and letters.
    """
    ask = scorer.ask(item, label_style)
    return ask.prompt, ask.continuations, ask.letters


def _take(
    candidates: Iterable[Edit],
    count: int,
    scorer: ReferenceScorer,
    seen: set[Request],
    replaced: Counter[str],
) -> tuple[Edit, ...]:
    """Return the first `count` candidates whose requests are new. Count the candidates that repeat
    a request.
    """
    chosen: list[Edit] = []
    for edit in candidates:
        if len(chosen) == count:
            break
        request = request_of(scorer, edit.item, edit.label_style)
        if request in seen:
            replaced[edit.name] += 1
        else:
            seen.add(request)
            chosen.append(edit)
    return tuple(chosen)


# These benchmarks contain slurs, stereotypes or unsafe requests.
MASKED = ("bbq", "crows_pairs", "toxigen", "xstest")


def show(plan: Plan, benchmark: str, count: int = 10) -> Iterator[str]:
    """Yield lines that describe a plan of edits and show some of its items.

    Parameters
    ----------
    plan : Plan
        The plan.
    benchmark : str
        Name of the benchmark.
    count : int
        Number of items to show. They are spread evenly over the plan, so that each context is
        likely to appear.

    Yields
    ------
    str
        A line.
    """
    items = plan.items
    chosen = items[:: max(1, len(items) // count)][:count]
    masked = ""
    if benchmark in MASKED:
        masked = "; letters are masked, since the texts may contain slurs"
    yield f"{benchmark}: {len(items)} items, {len(chosen)} shown{masked}"
    for planned in chosen:
        yield ""
        yield from _item(planned, masked=benchmark in MASKED)
    yield ""
    for family in Family:
        for context, share in sorted(plan.applicable(family).items()):
            cell = f"{family} ({context})" if context else f"{family}"
            yield f"{cell}: {percent(share)} of the wanted edits exist"
    for name, count_ in plan.replaced.items():
        yield f"{name}: {count_} edits changed nothing, and were replaced or left out"


def _item(planned: ItemPlan, *, masked: bool) -> Iterator[str]:
    """Yield the lines that show one item with its edits."""
    item = planned.item
    yield f"{item.id}" + (f" ({item.condition})" if item.condition else "")
    yield f"  original: {text_of(item, masked=masked)} [key {item.key}]"
    for family in Family:
        edits: Sequence[Edit] = planned.edits[family]
        if not edits:
            yield f"  {family}: none"
        for level, edit in enumerate(edits, start=1):
            style = "" if edit.name != "label_style" else f" {edit.label_style}"
            moved = "" if edit.item.shown == item.shown else f" order {list(edit.item.shown)}"
            text = f"{text_of(edit.item, masked=masked)} [key {edit.item.key}]"
            yield f"  {family} {level} {edit.name}{style}{moved}, {edit.contract}: {text}"


def text_of(item: Item, *, masked: bool = False) -> str:
    """Return the text of an item in one line.

    Parameters
    ----------
    item : Item
        The item.
    masked : bool
        Whether to hide the words (`mask`).

    Returns
    -------
    str
        Context and question, or the options.
    """
    parts = (item.context, item.stem or " / ".join(item.options))
    text = " ".join(filter(None, parts))
    return mask(text) if masked else text


def mask(text: str) -> str:
    """Replace every letter of a text by x or X, which hides the words.

    Case, spaces, marks and lengths remain.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    str
        The masked text.

    Examples
    --------
    >>> mask("Here  is a question?")
    'Xxxx  xx x xxxxxxxx?'
    """
    return re.sub(r"[^\W\d_]", lambda letter: "X" if letter[0].isupper() else "x", text)
