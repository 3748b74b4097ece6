"""What a run cost, from its shards alone: so it covers every attempt, and work that was thrown away is not in it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa

from audit.records import Draws, Role
from audit.shards.read import RunDirs, iter_columns

_SETTING = ("model", "arm", "replicate", "routers", "draws")
_TOKENS = ("prompt_tokens", "cached_tokens", "completion_tokens")
_ROUTER_TOKENS = tuple(f"router_{name}" for name in _TOKENS)

Cost = dict[str, dict[str, dict[str, dict[str, int]]]]


def run_cost(run_dirs: RunDirs) -> Cost:
    """{model: {arm: {role: {calls, prompt_tokens, cached_tokens, completion_tokens}}}}.

    A worker call is a row. Router calls are r a row with independent draws; with nested draws, r less the next smaller
    r of the same arm and replicate, since the earlier messages were written for the smaller r.
    """
    sums: dict[tuple[Any, ...], np.ndarray] = defaultdict(lambda: np.zeros(1 + 2 * len(_TOKENS), dtype=np.int64))
    for batch in iter_columns(run_dirs, (*_SETTING, *_TOKENS, *_ROUTER_TOKENS), batch_size=1 << 16):
        counted = [("model", "count"), *((name, "sum") for name in (*_TOKENS, *_ROUTER_TOKENS))]
        grouped = pa.Table.from_batches([batch]).group_by(list(_SETTING)).aggregate(counted)
        for row in grouped.to_pylist():
            values = [row["model_count"], *(row[f"{name}_sum"] or 0 for name in (*_TOKENS, *_ROUTER_TOKENS))]
            sums[tuple(row[name] for name in _SETTING)] += np.array(values, dtype=np.int64)
    cost: Cost = {}
    for setting in sorted(sums):
        model, arm, replicate, routers, draws = setting
        rows, *tokens = map(int, sums[setting])
        smaller = [s[3] for s in sums if s[:3] == (model, arm, replicate) and s[3] < routers]
        calls = rows * (routers - max(smaller, default=0) if draws == Draws.NESTED else routers)
        _add(cost, model, arm, Role.WORKER, rows, tokens[:3])
        if routers:
            _add(cost, model, arm, Role.ROUTER, calls, tokens[3:])
    return cost


def _add(cost: Cost, model: str, arm: str, role: Role, calls: int, tokens: list[int]) -> None:
    entry = cost.setdefault(model, {}).setdefault(arm, {}).setdefault(str(role), dict.fromkeys(("calls", *_TOKENS), 0))
    for name, amount in zip(("calls", *_TOKENS), (calls, *tokens), strict=True):
        entry[name] += amount
