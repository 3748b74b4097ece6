"""The memory audit as the pipeline runs it."""

import pyarrow as pa

from audit.audits import Audit, Roles
from audit.memory.config import design_of
from audit.memory.design import Arm
from audit.memory.present import present
from audit.records import Generation, Setting
from audit.shards.schema import row_schema

SCHEMA = row_schema(
    "memory",
    1,
    own=(
        ("asked", pa.bool_(), "false: the item has no such order (see docs/memory.md), so nothing was sent or scored"),
        ("shard", pa.int32(), "order arm: which shard of neighbours the item belongs to; null elsewhere"),
        ("pieces", pa.list_(pa.string()), "the given text as it was cut; option_logprobs has one entry a piece"),
        ("token_logprobs", pa.list_(pa.float32()), "published arm: logprob (nats) of every token of the item"),
        ("token_ranks", pa.list_(pa.int32()), "its rank in the vocabulary, 1 the likeliest"),
        ("token_z", pa.list_(pa.float32()), "logprob less its expectation, over its spread (Min-K%++)"),
        ("token_pieces", pa.list_(pa.int16()), "the piece in which the token ends"),
    ),
    level="ordering",
    level_doc="which order: 0 as published, k the k-th other one",
)  # fmt: skip


def told(setting: Setting, reply: Generation) -> dict[str, object]:
    """The columns that the reply fills. Of other arms than `published` the pieces' totals (option_logprobs) suffice."""
    tokens = reply.tokens if setting.arm == Arm.PUBLISHED else None
    return {
        "token_logprobs": tokens.logprobs if tokens else (),
        "token_ranks": tokens.ranks if tokens else (),
        "token_z": tokens.z if tokens else (),
        "token_pieces": tokens.pieces if tokens else (),
    }


MEMORY = Audit(
    name="memory",
    schema=SCHEMA,
    roles=Roles(baseline=(Arm.PUBLISHED, 0), treated=Arm.ORDER, arms=tuple(Arm)),
    design=design_of,
    present=present,
    told=told,
)
