"""The texts whose likelihood is read: an item as published, shards of items, options in another order. Pure.

An item is rendered in one way, its stem and its lettered options. It may stand in a training set in another (as a line
of JSON, with its answer, in a harness's own layout); memory that hangs on another layout is seen less well.

A benchmark's author can draw a random order of items and options, and record it (`audit publish`). The order tests need
that every order could have been the published one. Where it was drawn at random it could, whatever the items say: the
tests are then exact without reference models (Oren et al. 2023, section 2).
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np

from audit.errors import ConfigError
from audit.guarded_files import parse_json, read_bytes
from audit.memory.record import TEXT_SCORES
from audit.prompting import letters_of
from audit.records import Item

SEPARATOR = "\n\n"  # between the items of a shard
FIRST_HALF, SECOND_HALF, OPTIONS = 0, 1, 2  # pieces of an item; from OPTIONS on a letter and an option by turns
_ALL_ORDERS_UP_TO = 7  # of so many things every order is listed; of more, orders are drawn
_REFERS = re.compile(
    r"\b(all|none|both|neither|any|either) of (the )?(above|these|them)\b|\bboth\b.*\band\b|\bneither\b|"
    r"^\W*[A-Ea-e]\W*(,|and|or|&)\W*[A-Ea-e]\W*$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"^\W*(-?\d+(?:[.,]\d+)?)")


def item_pieces(item: Item, order: Sequence[int] | None = None) -> tuple[str, ...]:
    """The item cut up: first half of the stem, second half, then "\\nA." and " <option>" for each option.

    order: positions of the options as shown, None for as published. A stem of one word has an empty second half.
    """
    cut = _middle(item.text)
    pieces = [item.text[:cut], item.text[cut:]]
    if item.options:
        order = published_order(item) if order is None else order
        for letter, k in zip(letters_of(len(order)), order, strict=True):
            pieces += [f"\n{letter}.", f" {item.options[k]}"]
    return tuple(pieces)


def item_text(item: Item) -> str:
    """The stem and the lettered options, one a line; no answer.

    >>> item_text(Item("q", "b", "What barks?", ("cat", "dog"), 1, "q"))
    'What barks?\\nA. cat\\nB. dog'
    """
    return "".join(item_pieces(item))


def published_order(item: Item) -> tuple[int, ...]:
    """Positions in `item.options` of the options as they were published."""
    return tuple(sorted(range(len(item.options)), key=item.shown.__getitem__))


def likelihoods_a_byte(
    pieces: Sequence[str], told: Sequence[float | None], options: Sequence[str], gold: int
) -> dict[str, float]:
    """By name of `TEXT_SCORES`: log-likelihood (nats a byte) of an item, its stem's second half, its wrong options.

    told: of each of `item_pieces`; a text of which nothing is told is left out.
    """
    right = f" {options[gold]}" if options else None
    wrong = [k for k in range(OPTIONS + 1, len(pieces), 2) if pieces[k] != right]
    found = {}
    for name, chosen in zip(TEXT_SCORES, (range(len(pieces)), [SECOND_HALF], wrong), strict=True):
        there = [(value, len(pieces[k].encode())) for k in chosen if (value := told[k]) is not None]
        if there:
            found[name] = sum(value for value, _ in there) / sum(size for _, size in there)
    return found


def natural_order(options: Sequence[str]) -> bool:
    """Whether the options stand in an order that needs no memory: they refer to each other ("all of the above"), or
    they are sorted, as numbers or alphabetically, up or down."""
    if any(_REFERS.search(option) for option in options):
        return True
    numbers = [_NUMBER.match(option) for option in options]
    if all(numbers):
        values = [float(m.group(1).replace(",", ".")) for m in numbers if m]
        if _sorted(values):
            return True
    return _sorted([option.casefold() for option in options])


def option_orders(item: Item, k: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Up to k other orders of the wrong options; the right one keeps its place, so the key goes with it.

    Empty where the published order is a natural one. Natural orders are no candidates either, so that the published
    one is exchangeable with those that are listed.
    """
    published = published_order(item)
    if len(published) < 3 or natural_order([item.options[i] for i in published]):
        return []
    places = [p for p, i in enumerate(published) if i != item.gold]
    wrong = [published[p] for p in places]

    def placed(moved: Sequence[int]) -> tuple[int, ...]:
        order = list(published)
        for place, i in zip(places, moved, strict=True):
            order[place] = i
        return tuple(order)

    if len(wrong) <= _ALL_ORDERS_UP_TO:
        found = [placed(moved) for moved in permutations(wrong)]
    else:
        found = [placed([wrong[i] for i in rng.permutation(len(wrong))]) for _ in range(4 * k)]
    found = [one for one in dict.fromkeys(found) if one != published]
    found = [one for one in found if not natural_order([item.options[i] for i in one])]
    return [found[i] for i in sorted(rng.permutation(len(found))[:k])]


def section(item: Item) -> str:
    """What a shard does not cross, as the order of sections carries meaning: the group, and the id up to its last
    slash (mmlu/astronomy/12)."""
    own = item.id.rpartition("/")[0]
    return own if item.group == item.id else f"{own}\0{item.group}"


def shards_of(questions: Sequence[Item], size: int) -> list[tuple[Item, ...]]:
    """Neighbours of one benchmark and section, at most `size` together and of nearly equal number; none alone."""
    runs: list[list[Item]] = []
    for question in questions:
        last = runs[-1][-1] if runs else None
        if last is None or (last.benchmark, section(last)) != (question.benchmark, section(question)):
            runs.append([])
        runs[-1].append(question)
    shards: list[tuple[Item, ...]] = []
    for run in runs:
        n = math.ceil(len(run) / size)
        shards += [tuple(run[i] for i in part) for part in np.array_split(np.arange(len(run)), n) if part.size > 1]
    return shards


def orders_of(m: int, k: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """The published order of m things and up to k different others: [identity, ...]."""
    identity = tuple(range(m))
    if m <= _ALL_ORDERS_UP_TO:
        others = [one for one in permutations(identity) if one != identity]
        return [identity, *(others[i] for i in sorted(rng.permutation(len(others))[:k]))]
    others = [tuple(rng.permutation(m).tolist()) for _ in range(2 * k)]
    return [identity, *[one for one in dict.fromkeys(others) if one != identity][:k]]


def shard_pieces(shard: Sequence[Item], order: Sequence[int], place: int) -> tuple[str, str]:
    """The items before the one at `place` of an order, and that item: its likelihood given them is its term of the
    shard's likelihood, and the terms of all places add up to it."""
    before = "".join(item_text(shard[i]) + SEPARATOR for i in order[:place])
    return before, item_text(shard[order[place]])


def _middle(stem: str) -> int:
    """Where the second half of the words begins (with its blank); the end for one word."""
    gaps = [m.start() for m in re.finditer(r"(?<=\S)\s+(?=\S)", stem)]
    return gaps[len(gaps) // 2] if gaps else len(stem)


def _sorted(values: Sequence[float] | Sequence[str]) -> bool:
    pairs = list(pairwise(values))
    return all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)  # type: ignore[operator]


def draw_order(questions: Sequence[Item], seed: int) -> tuple[list[Item], list[int]]:
    """(the items as they are to be published, the place of each in `questions`). Sections (subjects, passages) stay
    together; options that have an order of their own (numbers, "all of the above") keep it."""
    rng = np.random.default_rng(seed)
    sections: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        sections.setdefault(section(question), []).append(place)
    parts = list(sections.values())
    places = [int(k) for i in rng.permutation(len(parts)) for k in rng.permutation(parts[i])]
    return [_drawn(questions[k], rng) for k in places], places


def _drawn(item: Item, rng: np.random.Generator) -> Item:
    if len(item.options) < 2 or natural_order(item.options):
        return replace(item, order=())
    order = [int(k) for k in rng.permutation(len(item.options))]
    return replace(item, options=tuple(item.options[k] for k in order), gold=order.index(item.gold), order=())


def order_sha256(questions: Iterable[Item]) -> str:
    """sha256 of the items in their order, their options in theirs, and where a section begins."""
    digest, last = hashlib.sha256(), None
    for question in questions:
        own = section(question)
        digest.update(json.dumps([own != last, item_text(question)]).encode())
        last = own
    return digest.hexdigest()


def check_record(path: str, questions: Iterable[Item]) -> str:
    """The record's own sha256. ConfigError where it is none, or is of other items or of another order."""
    try:
        raw = read_bytes(Path(path), follow=True)
        record: Any = parse_json(raw)
        wanted = record["published_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"published_order={path} is no record of `audit publish` ({error!r:.100}).") from error
    if (found := order_sha256(questions)) != wanted:
        raise ConfigError(
            f"published_order={path} is of other items, or of these in another order ({wanted!r:.14}..., here "
            f"{found[:12]}...). Expected the file that `audit publish` wrote, read with the columns that it printed."
        )
    return hashlib.sha256(raw).hexdigest()
