"""Make the texts whose likelihood is read: published items, shards of items, options in another
order. Pure.

An item is rendered in one layout: its stem and its lettered options. A training set may hold it in
another (as a line of JSON, with its answer, in a harness's own layout). Memory of another layout is
detected less well.

A benchmark's author can draw a random order of items and options, and record it (`audit publish`).
The order tests assume that every order could have been the published one. For an order drawn at
random this holds, whatever the items say. The tests are then exact without reference models (Oren
et al. 2023, section 2).
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

from audit.core.errors import ConfigError
from audit.core.guarded_files import parse_json, read_bytes
from audit.core.prompting import letters_of
from audit.core.records import Item
from audit.memory.record import TEXT_SCORES

SEPARATOR = "\n\n"  # between the items of a shard
# Pieces of an item; from OPTIONS on letters and options alternate.
FIRST_HALF, SECOND_HALF, OPTIONS = (
    0,
    1,
    2,
)
_ALL_ORDERS_UP_TO = 7  # up to this number every order is listed; beyond it orders are drawn
_REFERS = re.compile(
    r"\b(all|none|both|neither|any|either) of (the )?(above|these|them)\b|\bboth\b.*\band\b|\bneither\b|"
    r"^\W*[A-Ea-e]\W*(,|and|or|&)\W*[A-Ea-e]\W*$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"^\W*(-?\d+(?:[.,]\d+)?)")


def item_pieces(item: Item, order: Sequence[int] | None = None) -> tuple[str, ...]:
    r"""Cut an item into pieces.

    Parameters
    ----------
    item : Item
        The item.
    order : sequence of int, optional
        Positions of the options as shown; the published order if None.

    Returns
    -------
    tuple of str
        First half of the stem, second half (empty for a stem of one word), then "\nA." and "
        <option>" for each option.
    """
    cut = _middle(item.text)
    pieces = [item.text[:cut], item.text[cut:]]
    if item.options:
        order = published_order(item) if order is None else order
        for letter, k in zip(letters_of(len(order)), order, strict=True):
            pieces += [f"\n{letter}.", f" {item.options[k]}"]
    return tuple(pieces)


def item_text(item: Item) -> str:
    r"""Return the stem and the lettered options, one on each line, without the answer.

    >>> item_text(Item("q", "b", "What barks?", ("cat", "dog"), 1, "q"))
    'What barks?\nA. cat\nB. dog'
    """
    return "".join(item_pieces(item))


def published_order(item: Item) -> tuple[int, ...]:
    """Return the positions in `item.options` of the options as they were published."""
    return tuple(sorted(range(len(item.options)), key=item.shown.__getitem__))


def likelihoods_a_byte(
    pieces: Sequence[str], told: Sequence[float | None], options: Sequence[str], gold: int
) -> dict[str, float]:
    """Return log-likelihoods in nats a byte, by name of `TEXT_SCORES`.

    Parameters
    ----------
    pieces : sequence of str
        `item_pieces`.
    told : sequence of float or None
        Log-likelihood of each piece.
    options : sequence of str
        The options.
    gold : int
        Index of the right option.

    Returns
    -------
    dict
        The whole item, the stem's second half, and the wrong options. A text without any known
        piece is left out.
    """
    right = f" {options[gold]}" if options else None
    wrong = []
    for k in range(OPTIONS + 1, len(pieces), 2):
        if pieces[k] != right:
            wrong.append(k)
    scores = {}
    for name, chosen in zip(TEXT_SCORES, (range(len(pieces)), [SECOND_HALF], wrong), strict=True):
        total, size = 0.0, 0
        for k in chosen:
            value = told[k]
            if value is not None:
                total, size = total + value, size + len(pieces[k].encode())
        if size:
            scores[name] = total / size
    return scores


def natural_order(options: Sequence[str]) -> bool:
    """Return whether the options stand in an order that needs no memory.

    Parameters
    ----------
    options : sequence of str
        The options in their order.

    Returns
    -------
    bool
        True if they refer to each other ("all of the above"), or are sorted, as numbers or
        alphabetically, up or down.

    Examples
    --------
    >>> natural_order(["3", "5", "12"]), natural_order(["dog", "ant", "cat"])
    (True, False)
    """
    if any(_REFERS.search(option) for option in options):
        return True
    numbers = [_NUMBER.match(option) for option in options]
    if all(numbers):
        values = []
        for m in numbers:
            if m:
                values.append(float(m.group(1).replace(",", ".")))
        if _sorted(values):
            return True
    return _sorted([option.casefold() for option in options])


def option_orders(item: Item, k: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Return other orders of the wrong options; the right one keeps its place, so the key stays
    valid.

    Parameters
    ----------
    item : Item
        The item.
    k : int
        Number of orders, at most.
    rng : Generator
        Source of randomness.

    Returns
    -------
    list of tuple
        Empty if the published order is natural. Natural orders are never returned, so that the
        published order is exchangeable with the returned ones.
    """
    published = published_order(item)
    if len(published) < 3 or natural_order([item.options[i] for i in published]):
        return []
    places = []
    for p, i in enumerate(published):
        if i != item.gold:
            places.append(p)
    wrong = [published[p] for p in places]

    def placed(moved: Sequence[int]) -> tuple[int, ...]:
        order = list(published)
        for place, i in zip(places, moved, strict=True):
            order[place] = i
        return tuple(order)

    candidates: list[tuple[int, ...]] = []
    if len(wrong) <= _ALL_ORDERS_UP_TO:
        candidates = [placed(moved) for moved in permutations(wrong)]
    else:
        for _ in range(4 * k):
            candidates.append(placed([wrong[i] for i in rng.permutation(len(wrong))]))
    others = []
    for order in dict.fromkeys(candidates):
        if order != published and not natural_order([item.options[i] for i in order]):
            others.append(order)
    return [others[i] for i in sorted(rng.permutation(len(others))[:k])]


def section(item: Item) -> str:
    """Return the section of an item: its group, and its id up to the last slash
    (mmlu/astronomy/12).

    A shard does not cross sections, as their order carries meaning.
    """
    prefix = item.id.rpartition("/")[0]
    return prefix if item.group == item.id else f"{prefix}\0{item.group}"


def shards_of(questions: Sequence[Item], size: int) -> list[tuple[Item, ...]]:
    """Group neighbouring items of one benchmark and section into shards.

    Parameters
    ----------
    questions : sequence of Item
        In their published order.
    size : int
        Largest number of items in a shard.

    Returns
    -------
    list of tuple of Item
        Shards of nearly equal size; an item without a neighbour is left out.
    """
    runs: list[list[Item]] = []
    for question in questions:
        last = runs[-1][-1] if runs else None
        if last is None or (last.benchmark, section(last)) != (
            question.benchmark,
            section(question),
        ):
            runs.append([])
        runs[-1].append(question)
    shards: list[tuple[Item, ...]] = []
    for run in runs:
        for part in np.array_split(np.arange(len(run)), math.ceil(len(run) / size)):
            if part.size > 1:
                shards.append(tuple(run[i] for i in part))
    return shards


def orders_of(m: int, k: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Return the published order and up to k different others.

    Parameters
    ----------
    m : int
        Number of items.
    k : int
        Number of other orders, at most.
    rng : Generator
        Source of randomness.

    Returns
    -------
    list of tuple
        The identity first.
    """
    identity = tuple(range(m))
    if m <= _ALL_ORDERS_UP_TO:
        others = []
        for order in permutations(identity):
            if order != identity:
                others.append(order)
        return [identity, *(others[i] for i in sorted(rng.permutation(len(others))[:k]))]
    drawn = [tuple(rng.permutation(m).tolist()) for _ in range(2 * k)]
    others = []
    for order in dict.fromkeys(drawn):
        if order != identity:
            others.append(order)
    return [identity, *others[:k]]


def shard_pieces(shard: Sequence[Item], order: Sequence[int], place: int) -> tuple[str, str]:
    """Return the items before the one at `place` of an order, and that item.

    The likelihood of the item given those before it is its term of the shard's likelihood. The
    terms of all places add up to it.

    Parameters
    ----------
    shard : sequence of Item
        The shard.
    order : sequence of int
        Positions in the shard.
    place : int
        Position in the order.

    Returns
    -------
    tuple of str
        Context and item.
    """
    before = "".join(item_text(shard[i]) + SEPARATOR for i in order[:place])
    return before, item_text(shard[order[place]])


def _middle(stem: str) -> int:
    """Return the index where the second half of the words begins (with its blank); the end for one
    word.
    """
    gaps = [m.start() for m in re.finditer(r"(?<=\S)\s+(?=\S)", stem)]
    return gaps[len(gaps) // 2] if gaps else len(stem)


def _sorted(values: Sequence[float] | Sequence[str]) -> bool:
    pairs = list(pairwise(values))
    return all(a <= b for a, b in pairs) or all(a >= b for a, b in pairs)  # type: ignore[operator]


def draw_order(questions: Sequence[Item], seed: int) -> tuple[list[Item], list[int]]:
    """Draw a random order of items and options for publication.

    Parameters
    ----------
    questions : sequence of Item
        The items.
    seed : int
        Seed of the order.

    Returns
    -------
    tuple of (list of Item, list of int)
        The items as they are to be published, and the position of each in `questions`. Sections
        (subjects, passages) stay together; options in a natural order (numbers, "all of the above")
        keep it.
    """
    rng = np.random.default_rng(seed)
    sections: dict[str, list[int]] = {}
    for place, question in enumerate(questions):
        sections.setdefault(section(question), []).append(place)
    parts = list(sections.values())
    places: list[int] = []
    for i in rng.permutation(len(parts)):
        places += rng.permutation(parts[i]).tolist()
    return [_drawn(questions[k], rng) for k in places], places


def _drawn(item: Item, rng: np.random.Generator) -> Item:
    if len(item.options) < 2 or natural_order(item.options):
        return replace(item, order=())
    order = [int(k) for k in rng.permutation(len(item.options))]
    return replace(
        item, options=tuple(item.options[k] for k in order), gold=order.index(item.gold), order=()
    )


def order_sha256(questions: Iterable[Item]) -> str:
    """Return the sha256 of the items in their order, their options in theirs, and the starts of
    sections.
    """
    digest, last = hashlib.sha256(), None
    for question in questions:
        current = section(question)
        digest.update(json.dumps([current != last, item_text(question)]).encode())
        last = current
    return digest.hexdigest()


def check_record(path: str, questions: Iterable[Item]) -> str:
    """Check the record of a published order against the items.

    Parameters
    ----------
    path : str
        The record that `audit publish` wrote.
    questions : iterable of Item
        The items in their order.

    Returns
    -------
    str
        The sha256 of the record itself.

    Raises
    ------
    ConfigError
        If the file is not a record, or is a record of other items or of another order.
    """
    try:
        raw = read_bytes(Path(path), follow=True)
        record: Any = parse_json(raw)
        wanted = record["published_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"published_order={path} cannot be read ({error!r:.100}). Expected a record of `audit publish`."
        ) from error
    actual = order_sha256(questions)
    if actual != wanted:
        raise ConfigError(
            f"published_order={path} is of other items, or of these in another order ({wanted!r:.14}..., here "
            f"{actual[:12]}...). Expected the file that `audit publish` wrote, read with the columns that it printed."
        )
    return hashlib.sha256(raw).hexdigest()
