"""One seed a request, derived from what the request is: the same in every process, order and resumed run."""

from __future__ import annotations

import hashlib
import json

SEED_BITS = 31  # engines take a signed 32-bit seed


def request_seed(
    *,
    run_seed: int,
    model: str,
    benchmark: str,
    question_id: str,
    arm: str,
    level: int | None,
    replicate: int,
    role: str,
    index: int = 0,
    kind: str = "",
) -> int:
    """A seed in 0..2**31-1: the first 31 bits of a sha256 over the key.

    level: None for a call that several levels share. role: which call of a row this is (the answer, or one
    before it); index: which of several of that role, from 0. kind: of the design. Replicates differ in every arm. The
    model's revision is not part of the key: the seed is known before a revision is resolved.
    """
    key = [run_seed, model, benchmark, question_id, str(arm), level, replicate, role, index, *([kind] if kind else [])]
    # JSON of a list keeps the fields apart: ("ab", "c") and ("a", "bc") are different keys.
    digest = hashlib.sha256(json.dumps(key, separators=(",", ":")).encode("ascii")).digest()
    return int.from_bytes(digest[:4], "big") >> (32 - SEED_BITS)
