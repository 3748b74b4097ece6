"""Build the texts whose likelihood is measured: items, shards of items, options in another order.

The text of an item consists of its stem and its lettered options. If a training set contained the
item in another layout, such as a line of JSON, memory of the item is detected less well.

The order tests assume that every order was equally likely to be published. This assumption holds if
the author of the benchmark draws the order of items and options at random, and records the order
(`audit publish`). The tests are then exact without reference models (Oren et al. 2023, section 2).
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

SEPARATOR = "\n\n"  # text between the items of a shard
# Indices of the pieces of an item (`item_pieces`). From OPTIONS on, letters and options alternate.
FIRST_HALF, SECOND_HALF, OPTIONS = 0, 1, 2
# All orders of a list of up to this many entries are enumerated. Orders of a longer list are drawn
# at random.
_ALL_ORDERS_UP_TO = 7
_REFERS = re.compile(
    r"\b(all|none|both|neither|any|either) of (the )?(above|these|them)\b|\bboth\b.*\band\b|\bneither\b|"
    r"^\W*[A-Ea-e]\W*(,|and|or|&)\W*[A-Ea-e]\W*$",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"^\W*(-?\d+(?:[.,]\d+)?)")


def item_pieces(item: Item, order: Sequence[int] | None = None) -> tuple[str, ...]:
    r"""Cut the text of an item into pieces.

    Parameters
    ----------
    item : Item
        Item of a benchmark, with its stem and options.
    order : sequence of int, optional
        Positions of the options as shown; the published order if None.

    Returns
    -------
    tuple of str
        The first half of the stem, its second half (empty for a stem of one word), then "\nA." and
        " <option>" for each option.
    """
    cut = _middle(item.text)
    pieces = [item.text[:cut], item.text[cut:]]
    if item.options:
        order = published_order(item) if order is None else order
        for letter, k in zip(letters_of(len(order)), order, strict=True):
            pieces += [f"\n{letter}.", f" {item.options[k]}"]
    return tuple(pieces)


def item_text(item: Item) -> str:
    r"""Return the stem and the lettered options of an item, without the answer.

    Parameters
    ----------
    item : Item
        Item of a benchmark, with its stem and options.

    Returns
    -------
    str
        The stem, then each option on a line.

    Examples
    --------
    >>> item_text(Item("q", "b", "What barks?", ("cat", "dog"), 1, "q"))
    'What barks?\nA. cat\nB. dog'
    """
    return "".join(item_pieces(item))


def published_order(item: Item) -> tuple[int, ...]:
    """Return the options of an item in the order in which they were published.

    Parameters
    ----------
    item : Item
        The item, whose options may be shown in another order.

    Returns
    -------
    tuple of int
        Indices into `item.options`, in the published order.
    """
    return tuple(sorted(range(len(item.options)), key=item.shown.__getitem__))


def likelihoods_a_byte(
    pieces: Sequence[str], logprobs: Sequence[float | None], options: Sequence[str], gold: int
) -> dict[str, float]:
    """Return the log-likelihood of each text of an item in nats a byte.

    Parameters
    ----------
    pieces : sequence of str
        `item_pieces`.
    logprobs : sequence of float or None
        Log-likelihood of each piece in nats; None if it is not known.
    options : sequence of str
        Answer options of the item.
    gold : int
        Index of the right option.

    Returns
    -------
    dict
        Map each name in `TEXT_SCORES` to the log-likelihood of a text: the whole item, the second
        half of its stem, or its wrong options. A text without any known piece is left out.
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
            value = logprobs[k]
            if value is not None:
                total, size = total + value, size + len(pieces[k].encode())
        if size:
            scores[name] = total / size
    return scores


def natural_order(options: Sequence[str]) -> bool:
    """Return whether the options are in an order that a model can expect without memory.

    Parameters
    ----------
    options : sequence of str
        Answer options in the order in which they are shown.

    Returns
    -------
    bool
        True if an option refers to other options ("all of the above"), or if the options are sorted
        as numbers or alphabetically, up or down.

    Examples
    --------
    >>> natural_order(["3", "5", "12"]), natural_order(["dog", "ant", "cat"])
    (True, False)
    """
    if any(map(_REFERS.search, options)):
        return True
    numbers = list(map(_NUMBER.match, options))
    if all(numbers):
        values = []
        for m in numbers:
            if m:
                values.append(float(m.group(1).replace(",", ".")))
        if _sorted(values):
            return True
    return _sorted(list(map(str.casefold, options)))


def option_orders(item: Item, k: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """Return orders of the options of an item that differ from the published order.

    Only wrong options are moved. The right option keeps its place, so that the answer key stays
    valid.

    Parameters
    ----------
    item : Item
        Item of a benchmark, with its stem and options.
    k : int
        Largest number of orders.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    list of tuple
        For each order, the indices of the options. The list is empty if the published order is
        natural. Natural orders are left out, so that each returned order could have been published
        instead.
    """
    published = published_order(item)
    if len(published) < 3 or natural_order([item.options[i] for i in published]):
        return []
    candidates = _wrong_option_orders(published, item.gold, 4 * k, rng)
    others = []
    for order in dict.fromkeys(candidates):
        if order != published and not natural_order([item.options[i] for i in order]):
            others.append(order)
    return _sample(others, k, rng)


def _sample(
    orders: list[tuple[int, ...]], k: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Return k randomly chosen orders, or all orders if there are fewer than k."""
    return [orders[i] for i in sorted(rng.permutation(len(orders))[:k])]


def _wrong_option_orders(
    published: tuple[int, ...], gold: int, draws: int, rng: np.random.Generator
) -> list[tuple[int, ...]]:
    """Return every order of the wrong options. If there are too many orders, return `draws` random
    orders.
    """
    places = []
    for place, option in enumerate(published):
        if option != gold:
            places.append(place)
    wrong = [published[place] for place in places]
    shuffled: list[Sequence[int]] = []
    if len(wrong) <= _ALL_ORDERS_UP_TO:
        shuffled.extend(permutations(wrong))
    else:
        for _ in range(draws):
            shuffled.append([wrong[i] for i in rng.permutation(len(wrong))])
    orders = []
    for options in shuffled:
        order = list(published)
        for place, option in zip(places, options, strict=True):
            order[place] = option
        orders.append(tuple(order))
    return orders


def section(item: Item) -> str:
    """Return the section of an item: its group, and its id up to the last slash.

    Items of one section share a subject or a passage. Each shard lies within one section, because
    the order of the sections themselves has a meaning.

    Parameters
    ----------
    item : Item
        The item, such as one with the id mmlu/astronomy/12.

    Returns
    -------
    str
        Text that identifies the section.
    """
    prefix = item.id.rpartition("/")[0]
    return prefix if item.group == item.id else f"{prefix}\0{item.group}"


def shards_of(questions: Sequence[Item], size: int) -> list[tuple[Item, ...]]:
    """Group neighbouring items of one benchmark and section into shards.

    Parameters
    ----------
    questions : sequence of Item
        The items in their published order.
    size : int
        Largest number of items in a shard.

    Returns
    -------
    list of tuple of Item
        Shards of nearly equal size. An item without a neighbour in its section belongs to no shard.
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
    """Return the published order and up to k other orders.

    Parameters
    ----------
    m : int
        Number of items.
    k : int
        Largest number of other orders.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    list of tuple
        The published order first; no order occurs twice.
    """
    identity = tuple(range(m))
    if m <= _ALL_ORDERS_UP_TO:
        others = []
        for order in permutations(identity):
            if order != identity:
                others.append(order)
        return [identity, *_sample(others, k, rng)]
    drawn = [tuple(rng.permutation(m).tolist()) for _ in range(2 * k)]
    others = []
    for order in dict.fromkeys(drawn):
        if order != identity:
            others.append(order)
    return [identity, *others[:k]]


def shard_pieces(shard: Sequence[Item], order: Sequence[int], place: int) -> tuple[str, str]:
    """Return the text of the items that precede a position in an order, and the text of the item at
    this position.

    Parameters
    ----------
    shard : sequence of Item
        Neighbouring items in their published order.
    order : sequence of int
        Indices of the items of the shard, in this order.
    place : int
        Position in the order.

    Returns
    -------
    tuple of str
        The text of the preceding items, and the text of the item.

    Notes
    -----
    The log-likelihood of a shard is a sum over its items: each term is the log-likelihood of an
    item given the preceding items.
    """
    before = "".join(item_text(shard[i]) + SEPARATOR for i in order[:place])
    return before, item_text(shard[order[place]])


def _middle(stem: str) -> int:
    """Return the index at which the second half of the stem's words begins.

    For a stem of one word, the index is the length of the stem.
    """
    gaps = [m.start() for m in re.finditer(r"(?<=\S)\s+(?=\S)", stem)]
    return gaps[len(gaps) // 2] if gaps else len(stem)


def _sorted(values: Sequence[float] | Sequence[str]) -> bool:
    """Return whether the values ascend or descend."""
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
        The items in the order for publication, and the index of each item in `questions`. Items of
        one section (subject, passage) stay together. Options in a natural order (numbers, "all of
        the above") keep their order.
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
    """Return the item with its options in a random order, unless their order is natural."""
    if len(item.options) < 2 or natural_order(item.options):
        return replace(item, order=())
    order = [int(k) for k in rng.permutation(len(item.options))]
    return replace(
        item, options=tuple(item.options[k] for k in order), gold=order.index(item.gold), order=()
    )


def order_sha256(questions: Iterable[Item]) -> str:
    """Return a sha256 that identifies the order of items and options.

    Parameters
    ----------
    questions : iterable of Item
        The items in their order.

    Returns
    -------
    str
        The digest of the texts, of their order, and of where sections begin.
    """
    digest, last = hashlib.sha256(), None
    for question in questions:
        current = section(question)
        digest.update(json.dumps([current != last, item_text(question)]).encode())
        last = current
    return digest.hexdigest()


def check_record(path: str, questions: Iterable[Item]) -> str:
    """Check that the record of a published order fits the items.

    Parameters
    ----------
    path : str
        File that `audit publish` wrote.
    questions : iterable of Item
        The items in their order.

    Returns
    -------
    str
        The sha256 of the record file.

    Raises
    ------
    ConfigError
        If the file is not a record of a published order, or if it belongs to different items or a
        different order.
    """
    try:
        raw = read_bytes(Path(path), follow=True)
        record: Any = parse_json(raw)
        wanted = record["published_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"published_order={path} cannot be read ({error!r:.100}). Expected a record that `audit publish` wrote."
        ) from error
    actual = order_sha256(questions)
    if actual != wanted:
        raise ConfigError(
            f"published_order={path} belongs to other items or to another order: its sha256 is {wanted!r:.14}..., "
            f"that of the items is {actual[:12]}.... Expected the file that `audit publish` wrote for these items, "
            "and the columns that it printed."
        )
    return hashlib.sha256(raw).hexdigest()
