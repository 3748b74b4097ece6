"""What a run cost, from its shards alone: so it covers every attempt, and work that was thrown away is not in it."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from audit.records import ANSWER_ROLE
from audit.shards.read import RunDirs, iter_columns
from audit.shards.schema import RowSchema

Cost = dict[str, dict[str, dict[str, dict[str, int]]]]
_COUNTED = ("calls", "prompt_tokens", "cached_tokens", "completion_tokens")


def run_cost(run_dirs: RunDirs, schema: RowSchema) -> Cost:
    """{model: {arm: {role: {calls, prompt_tokens, cached_tokens, completion_tokens}}}}.

    Every row is one call of the model that answers, and one more where it was asked again; calls before it are counted
    in the audit's own columns, `<role>_calls` and `<role>_*_tokens`. A role without a call in an arm is left out.
    """
    sums: dict[tuple[str, str], Counter[str]] = {}
    for batch in iter_columns(run_dirs, schema, ("model", "arm", "reasked", *schema.cost_columns), batch_size=1 << 16):
        counted = [([], "count_all"), *((name, "sum") for name in ("reasked", *schema.cost_columns))]
        for row in pa.Table.from_batches([batch]).group_by(["model", "arm"]).aggregate(counted).to_pylist():
            calls = row["count_all"] + (row["reasked_sum"] or 0)
            found = {"calls": calls, **{name: row[f"{name}_sum"] or 0 for name in schema.cost_columns}}
            sums.setdefault((row["model"], row["arm"]), Counter()).update(found)
    roles = [
        (name.removesuffix("calls"), name.removesuffix("_calls")) for name in schema.cost_columns if "calls" in name
    ]
    cost: Cost = {}
    for (model, arm), found in sorted(sums.items()):
        for prefix, role in (("", ANSWER_ROLE), *roles):
            if found[f"{prefix}calls"]:
                entry = {name: int(found[f"{prefix}{name}"]) for name in _COUNTED}
                cost.setdefault(model, {}).setdefault(arm, {})[role] = entry
    return cost
