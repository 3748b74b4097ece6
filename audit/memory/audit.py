"""The memory audit as the pipeline runs it. Under each arm an item is asked for its answer, or for nothing but the
likelihood of a given text.

Where an item has no such order (a natural order of options, fewer orders than asked for, no neighbour) its row says so,
and is neither sent nor scored.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from audit.audits import Audit, Roles, Work
from audit.memory.config import design_of
from audit.memory.design import Arm
from audit.memory.items import OPTIONS, item_pieces, option_orders, orders_of, shard_pieces, shards_of
from audit.prompting import direct_prompt
from audit.records import Generation, Item, Part, Presentation, Setting
from audit.shards.questions import QuestionFile
from audit.shards.schema import row_schema

NOT_ASKED = "the item has no such order: nothing was asked"


@dataclass(frozen=True)
class Orders:
    """What `Work.own` holds. run_dir: where questions.arrow lies (or that file itself), from which the shards are cut;
    the rest: of the configuration."""

    run_dir: str
    seed: int
    shard_items: int
    orders: int
    option_orders: int


def present(work: Work, item: Item, part: Part, _: Sequence[Generation]) -> list[Presentation]:
    """The item under one arm at each level of a part. work.own: `Orders`."""
    return [_present(work, item, part.arm, level) for level in part.levels]


def _present(work: Work, item: Item, arm: str, level: int) -> Presentation:
    own = work.own
    if arm == Arm.SCORE:
        prompt = direct_prompt(work.protocol, item, work.reading)
        return Presentation(prompt, item.options, item.gold, {"asked": True, "shard": None, "pieces": ()})
    if arm == Arm.PUBLISHED:
        return _given(item, item_pieces(item))
    if arm == Arm.OPTIONS:
        orders = item_orders(item, own)
        if level > len(orders):
            return _not_asked(item)
        pieces = item_pieces(item, orders[level - 1])
        return _given(item, ("".join(pieces[:OPTIONS]), "".join(pieces[OPTIONS:])))
    found = _places(own).get((item.benchmark, item.id))
    if found is None:
        return _not_asked(item)
    number, shard, place = found
    orders = shard_orders(shard, own)
    if level >= len(orders):
        return _not_asked(item, number)
    order = orders[level]
    return _given(item, shard_pieces(shard, order, order.index(place)), number)


def item_orders(item: Item, own: Orders) -> list[tuple[int, ...]]:
    """The other orders of an item's wrong options that are asked; the same for every model."""
    return option_orders(item, own.option_orders, _rng(own, "options", item))


def shard_orders(shard: Sequence[Item], own: Orders) -> list[tuple[int, ...]]:
    """The orders of a shard that are asked, the published one first; the same for every model."""
    return orders_of(len(shard), own.orders, _rng(own, "order", shard[0]))


def _rng(own: Orders, what: str, item: Item) -> np.random.Generator:
    return np.random.default_rng([own.seed, zlib.crc32(f"{what}\0{item.benchmark}\0{item.id}".encode())])


@lru_cache(maxsize=2)
def _places(own: Orders) -> dict[tuple[str, str], tuple[int, tuple[Item, ...], int]]:
    """By benchmark and id: the shard's number, the shard, the item's place in it as published."""
    shards = shards_of(list(QuestionFile(own.run_dir)), own.shard_items)
    return {(q.benchmark, q.id): (k, shard, i) for k, shard in enumerate(shards) for i, q in enumerate(shard)}


def _given(item: Item, pieces: tuple[str, ...], shard: int | None = None) -> Presentation:
    own = {"asked": True, "shard": shard, "pieces": pieces}
    return Presentation("".join(pieces), item.options, item.gold, own, pieces=pieces)


def _not_asked(item: Item, shard: int | None = None) -> Presentation:
    return Presentation("", item.options, item.gold, {"asked": False, "shard": shard, "pieces": ()}, NOT_ASKED)


SCHEMA = row_schema(
    "memory",
    1,
    own=(
        ("asked", pa.bool_(), "false: the item has no such order, so nothing was sent or scored"),
        ("shard", pa.int32(), "order arm: which shard of neighbours the item belongs to; null elsewhere"),
        ("pieces", pa.list_(pa.string()), "the given text as it was cut; option_logprobs has one entry a piece"),
        ("token_logprobs", pa.list_(pa.float32()), "published arm: logprob (nats) of every token of the item"),
        ("token_ranks", pa.list_(pa.int32()), "its rank in the vocabulary, 1 the likeliest"),
        ("token_z", pa.list_(pa.float32()), "logprob less its expectation, over its spread (Min-K%++)"),
        ("token_pieces", pa.list_(pa.int16()), "the piece in which the token ends"),
    ),
    level="ordering",
    level_doc="which order: 0 as published, k the k-th other one",
)


def told(setting: Setting, reply: Generation) -> dict[str, object]:
    """The columns that the reply fills. Of other arms than `published` the pieces' totals (option_logprobs) suffice."""
    tokens = reply.tokens if setting.arm == Arm.PUBLISHED else None
    return {f"token_{name}": getattr(tokens, name) if tokens else () for name in ("logprobs", "ranks", "z", "pieces")}


MEMORY = Audit(
    name="memory",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.PUBLISHED, 0), arms=tuple(Arm)),
    design=design_of,
    present=present,
    told=told,
)
