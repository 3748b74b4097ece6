"""The rows of runs as the text measures read them: streamed from the shards at every pass, only the columns needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from audit.shards.read import iter_columns, open_dataset
from audit.sweep.columns import SCHEMA
from audit.sweep.design import Arm
from audit.verdict.self_test import Row

_COLUMNS = (
    "model", "benchmark", "question_id", "arm", "routers", "replicate", "question", "options", "router_messages",
    "prompt", "gold", "options_shown",
)  # fmt: skip
_ARMS = {arm.value: arm for arm in Arm}


@dataclass(frozen=True)
class ShardRows:
    """All rows of some runs; every iteration reads the shards anew, one batch in memory at a time."""

    run_dirs: tuple[Path, ...]

    def __iter__(self) -> Iterator[Row]:
        for batch in iter_columns(self.run_dirs, SCHEMA, _COLUMNS):
            yield from _rows(batch)

    def of_cell(self, model: str, benchmark: str, question_ids: Collection[str]) -> Iterator[Row]:
        """The rows of some questions of one cell, without making the others."""
        wanted = (
            (pc.field("model") == model)
            & (pc.field("benchmark") == benchmark)
            & pc.field("question_id").isin(pa.array(sorted(question_ids), pa.string()))
        )
        for run_dir in self.run_dirs:
            for batch in open_dataset(run_dir, SCHEMA).to_batches(columns=list(_COLUMNS), filter=wanted):
                yield from _rows(batch)


def _rows(batch: pa.RecordBatch) -> Iterator[Row]:
    values: list[Sequence[Any]] = [batch.column(name).to_pylist() for name in _COLUMNS]
    for m, b, q, arm, r, k, text, options, messages, prompt, gold, shown in zip(*values, strict=True):
        yield Row(m, b, q, _ARMS[arm], r, k, text, tuple(options), tuple(messages), prompt, gold, shown)
