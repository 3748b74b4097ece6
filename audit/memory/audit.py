"""Build the requests of a memory audit: questions to answer, and texts whose likelihood is
measured.

An item lacks a requested order in three cases: its options have a natural order, too few other
orders are possible, or the item has no neighbour. The row of the item then states the reason, and
nothing is sent or scored.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from audit.config.audits import Audit, Roles, Work
from audit.core.prompting import direct_prompt
from audit.core.records import Generation, Item, Part, Presentation, Setting
from audit.memory.config import design_of
from audit.memory.design import Arm
from audit.memory.items import (
    OPTIONS,
    item_pieces,
    option_orders,
    orders_of,
    shard_pieces,
    shards_of,
)
from audit.shards.questions import QuestionFile
from audit.shards.schema import row_schema

NOT_ASKED = "the item has no such order, so nothing was sent"


@dataclass(frozen=True)
class Orders:
    """Hold the options from which a worker computes the orders of items and options (`Work.state`).

    Attributes
    ----------
    run_dir : str
        Path of questions.arrow, or of the run directory that contains this file. The shards are
        computed from this file.
    seed, shard_items, orders, option_orders : int
        Options of the run.
    """

    run_dir: str
    seed: int
    shard_items: int
    orders: int
    option_orders: int


def present(work: Work, item: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """Return the requests of one item under one arm, one request for each level of a part.

    Parameters
    ----------
    work : Work
        The run context; `work.state` is `Orders`.
    item : Item
        Item of a benchmark, with its stem and options.
    part : Part
        The arm and its levels.

    Returns
    -------
    list of Presentation
        One presentation for each level. If the item lacks the requested order, the presentation has
        an error.
    """
    return [_present(work, item, part.arm, level) for level in part.levels]


def _present(work: Work, item: Item, arm: str, level: int) -> Presentation:
    """Return the request of one item under one arm, in the order with the number `level`."""
    state = work.state
    if arm == Arm.SCORE:
        prompt = direct_prompt(work.protocol, item, work.reading)
        return Presentation(
            prompt, item.options, item.gold, {"asked": True, "shard": None, "pieces": ()}
        )
    if arm == Arm.PUBLISHED:
        return _given(item, item_pieces(item))
    if arm == Arm.OPTIONS:
        orders = item_orders(item, state)
        if level > len(orders):
            return _not_asked(item)
        pieces = item_pieces(item, orders[level - 1])
        return _given(item, ("".join(pieces[:OPTIONS]), "".join(pieces[OPTIONS:])))
    position = _positions(state).get((item.benchmark, item.id))
    if position is None:
        return _not_asked(item)
    number, shard, place = position
    orders = shard_orders(shard, state)
    if level >= len(orders):
        return _not_asked(item, number)
    order = orders[level]
    return _given(item, shard_pieces(shard, order, order.index(place)), number)


def item_orders(item: Item, state: Orders) -> list[tuple[int, ...]]:
    """Return orders of the wrong options of an item that differ from the published order.

    These orders are the same for every model.

    Parameters
    ----------
    item : Item
        Item of a benchmark, with its stem and options.
    state : Orders
        Number of orders and seed.

    Returns
    -------
    list of tuple
        Positions of the options in each order.
    """
    return option_orders(item, state.option_orders, _rng(state, "options", item))


def shard_orders(shard: Sequence[Item], state: Orders) -> list[tuple[int, ...]]:
    """Return the orders of a shard, which are the same for every model.

    Parameters
    ----------
    shard : sequence of Item
        Neighbouring items.
    state : Orders
        Number of orders and seed.

    Returns
    -------
    list of tuple
        Positions of the items in each order, the published order first.
    """
    return orders_of(len(shard), state.orders, _rng(state, "order", shard[0]))


def _rng(state: Orders, purpose: str, item: Item) -> np.random.Generator:
    """Return a random generator that depends only on the seed, the purpose and the item."""
    return np.random.default_rng(
        [state.seed, zlib.crc32(f"{purpose}\0{item.benchmark}\0{item.id}".encode())]
    )


@lru_cache(maxsize=2)
def _positions(state: Orders) -> dict[tuple[str, str], tuple[int, tuple[Item, ...], int]]:
    """Map (benchmark, id) of each item to three values: the number of its shard, this shard, and
    the position of the item in the shard.
    """
    positions = {}
    for number, shard in enumerate(shards_of(list(QuestionFile(state.run_dir)), state.shard_items)):
        for place, question in enumerate(shard):
            positions[question.benchmark, question.id] = (number, shard, place)
    return positions


def _given(item: Item, pieces: tuple[str, ...], shard: int | None = None) -> Presentation:
    """Return a request for the likelihood of a text. The pieces of the text are measured
    separately.
    """
    columns = {"asked": True, "shard": shard, "pieces": pieces}
    return Presentation("".join(pieces), item.options, item.gold, columns, pieces=pieces)


def _not_asked(item: Item, shard: int | None = None) -> Presentation:
    """Return a presentation that is not sent, because the item lacks the requested order."""
    return Presentation(
        "", item.options, item.gold, {"asked": False, "shard": shard, "pieces": ()}, NOT_ASKED
    )


SCHEMA = row_schema(
    "memory",
    1,
    audit_columns=(
        ("asked", pa.bool_(), "false: the item has no such order, so nothing was sent or scored"),
        (
            "shard",
            pa.int32(),
            "order arm: the number of the item's shard of neighbours; null in other arms",
        ),
        (
            "pieces",
            pa.list_(pa.string()),
            "the given text as it was cut; option_logprobs has one entry a piece",
        ),
        (
            "token_logprobs",
            pa.list_(pa.float32()),
            "published arm: logprob (nats) of every token of the item",
        ),
        ("token_ranks", pa.list_(pa.int32()), "its rank in the vocabulary, 1 the likeliest"),
        (
            "token_z",
            pa.list_(pa.float32()),
            "logprob less its expectation, over its spread (Min-K%++)",
        ),
        ("token_pieces", pa.list_(pa.int16()), "the piece in which the token ends"),
    ),
    level="ordering",
    level_doc="which order: 0 as published, k the k-th other one",
)


def reply_columns(setting: Setting, reply: Generation) -> dict[str, object]:
    """Return the columns of a row that are computed from the model's reply.

    Parameters
    ----------
    setting : Setting
        The arm and its level. Arms other than `published` need no likelihood of single tokens, only
        the totals of the pieces (option_logprobs).
    reply : Generation
        The reply.

    Returns
    -------
    dict
        The columns with likelihoods of single tokens; empty sequences for arms other than
        `published`.
    """
    tokens = reply.tokens if setting.arm == Arm.PUBLISHED else None
    columns = {}
    for name in ("logprobs", "ranks", "z", "pieces"):
        columns[f"token_{name}"] = getattr(tokens, name) if tokens else ()
    return columns


MEMORY = Audit(
    name="memory",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.PUBLISHED, 0), arms=tuple(Arm)),
    design=design_of,
    present=present,
    reply_columns=reply_columns,
)
