"""One seed a request, derived from what the request is: the same in every process, order and resumed run."""

from __future__ import annotations

import hashlib
import json

from audit.records import Arm, Draws, Role

SEED_BITS = 31  # engines take a signed 32-bit seed


def request_seed(
    *,
    run_seed: int,
    model: str,
    benchmark: str,
    question_id: str,
    arm: Arm,
    routers: int,
    replicate: int,
    role: Role,
    draws: Draws,
    message_index: int = 0,
) -> int:
    """A seed in 0..2**31-1: the first 31 bits of a sha256 over the key.

    message_index: which router message of the set, from 0; 0 for the worker.
    draws: under nested draws message j of a replicate is the same for every r, so a router's key omits `routers`;
    under independent draws, and for the worker always, r is part of the key. Replicates differ in every arm. The
    model's revision is not part of the key: the seed is known before a revision is resolved.
    """
    shared = draws == Draws.NESTED and role == Role.ROUTER
    key = [
        run_seed,
        model,
        benchmark,
        question_id,
        arm.value,
        None if shared else routers,
        replicate,
        role.value,
        message_index,
        draws.value,
    ]
    # JSON of a list keeps the fields apart: ("ab", "c") and ("a", "bc") are different keys.
    digest = hashlib.sha256(json.dumps(key, separators=(",", ":")).encode("ascii")).digest()
    return int.from_bytes(digest[:4], "big") >> (32 - SEED_BITS)
