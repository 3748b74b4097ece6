"""What a run cost, and how its answers were read, from its shards alone: so it covers every attempt, and work that was
thrown away is not in it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from audit.records import ANSWER_ROLE, Reading
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


def count_answers(rows: pa.Table, schema: RowSchema) -> pa.Table:
    """Per arm and level: rows, errors, unparsed, read, scored, correct, and the sums of the schema's calls and tokens.

    scored: rows that are right or wrong. read: answers that were read in a reply or its letters, so that they could be
    unparsed; questions: of all rows."""
    setting = ["arm", schema.level]
    answered = rows["error"].is_null().to_numpy()
    unread = (rows["reading"].to_numpy() == Reading.OPTION_TEXT) | (rows["answer_form"].to_numpy() == "text")
    flagged = pa.table(
        {
            **{name: rows[name] for name in setting},
            "rows": pa.array(np.ones(rows.num_rows, dtype=np.int64)),
            "errors": pa.array(schema.failed(rows).astype(np.int64)),
            "unparsed": pa.array(~rows["parsed"].to_numpy() & answered).cast(pa.int64()),
            "read": pa.array(answered & ~unread).cast(pa.int64()),
            "scored": rows["correct"].is_valid().cast(pa.int64()),
            "correct": rows["correct"].fill_null(False).cast(pa.int64()),
            **{name: rows[name].cast(pa.int64()) for name in schema.cost_columns},
        }
    )
    names = [name for name in flagged.column_names if name not in setting]
    summed = flagged.group_by(setting).aggregate([(name, "sum") for name in names])
    counts = summed.rename_columns([name.removesuffix("_sum") for name in summed.column_names])
    questions = pc.count_distinct(rows["question_id"]).as_py()
    return counts.append_column("questions", pa.array([questions] * len(counts), pa.int64()))
