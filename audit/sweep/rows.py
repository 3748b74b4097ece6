"""The sweep's shards in two passes: outcomes with the clean texts, then every text with the rows of the drill-down."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from audit.shards.cells import pick
from audit.shards.outcomes import Outcomes, read_outcomes
from audit.shards.read import iter_columns
from audit.sweep.columns import SCHEMA
from audit.sweep.design import Arm
from audit.sweep.drill import COLUMNS
from audit.sweep.self_test import MAX_TEXT_QUESTIONS
from audit.sweep.texts import Clean, TextRow, Texts, clean_texts, measure_texts

_TEXTS = (
    "model", "benchmark", "question_id", "arm", "routers", "replicate", "question", "options", "router_messages",
    "prompt", "request_sha256", "gold", "options_shown",
)  # fmt: skip
_ARMS = {arm.value: arm for arm in Arm}


@dataclass(frozen=True)
class Read:
    """What the first pass over a run gave: outcomes with answers, and the clean texts."""

    run_dir: Path
    outcomes: Outcomes
    clean: Clean


def read_run(run_dir: Path) -> Read:
    """The first pass over the shards of a run. ShardError and DataError as `read_outcomes` raises them."""
    clean: Clean = {}

    def each(batch: pa.RecordBatch) -> None:
        first = pc.and_(pc.equal(batch.column("arm"), Arm.FORWARD_FULL.value), pc.equal(batch.column("routers"), 1))
        first = pc.and_(first, pc.equal(batch.column("replicate"), 0))
        clean.update(clean_texts(_rows(batch.filter(first))))

    return Read(run_dir, read_outcomes(run_dir, SCHEMA, answers=True, also=_TEXTS, each=each), clean)


def read_texts(reads: Sequence[Read], questions: Collection[tuple[str, str]] | None) -> tuple[Texts, pa.Table]:
    """The second pass: measures of all texts, and the rows of the drill-down.

    questions: (benchmark, question id) of those in the drill-down; None for all.
    """
    cells = [c for read in reads for c in read.outcomes.cells]
    probed = {(c.model, c.benchmark): frozenset(c.question_ids[:MAX_TEXT_QUESTIONS]) for c in cells}
    clean = {key: texts for read in reads for key, texts in read.clean.items()}
    run_dirs = [read.run_dir for read in reads]
    kept: list[pa.RecordBatch] = []
    keys = None if questions is None else pa.array(sorted("\0".join(q) for q in questions), pa.string())

    def rows() -> Iterator[TextRow]:
        for batch in iter_columns(run_dirs, SCHEMA, tuple(dict.fromkeys((*COLUMNS, *_TEXTS))), batch_size=1 << 12):
            drill = pick(batch, COLUMNS)
            if keys is not None:
                names = pc.binary_join_element_wise(batch.column("benchmark"), batch.column("question_id"), "\0")
                drill = drill.filter(pc.is_in(names, value_set=keys))
            kept.append(drill)
            yield from _rows(batch)

    return measure_texts(rows(), clean, probed), pa.Table.from_batches(kept)


def _rows(batch: pa.RecordBatch) -> Iterator[TextRow]:
    values: list[Sequence[Any]] = [batch.column(name).to_pylist() for name in _TEXTS]
    for m, b, q, arm, r, k, text, options, messages, prompt, sha, gold, shown in zip(*values, strict=True):
        yield TextRow(m, b, q, _ARMS[arm], r, k, text, tuple(options), tuple(messages), prompt, sha, gold, shown)
