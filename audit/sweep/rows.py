"""The sweep's shards in two passes: outcomes, then every text with the rows of the drill-down."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path

import pyarrow as pa

from audit.shards.complete import Outcomes, read_outcomes
from audit.shards.read import iter_columns
from audit.shards.schema import plain_values, shared_values
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Aggregator, Arm
from audit.sweep.drill import COLUMNS, DrillRows
from audit.sweep.messages import MeasuredTexts, TextRow, measure_texts
from audit.sweep.replay import aggregator_of
from audit.sweep.self_test import MAX_TEXT_QUESTIONS

_TEXTS = (
    "model", "benchmark", "question_id", "arm", "routers", "replicate", "question", "options", "router_messages",
    "prompt", "request_sha256", "gold", "options_shown", "correct",
)  # fmt: skip
_ARMS = {arm.value: arm for arm in Arm}
_ALL_DIFFERENT = ("prompt", "request_sha256")  # nothing to share


@dataclass(frozen=True)
class Read:
    """What the first pass over a run gave: outcomes with answers."""

    run_dir: Path
    outcomes: Outcomes


def read_run(run_dir: Path) -> Read:
    """The first pass over the shards of a run. ShardError and DataError as `read_outcomes` raises them."""
    return Read(run_dir, read_outcomes(run_dir, SCHEMA, answers=True))


def read_texts(reads: Sequence[Read], questions: Collection[tuple[str, str]] | None) -> tuple[MeasuredTexts, DrillRows]:
    """The second pass: measures of all texts, and the rows of the drill-down.

    questions: (benchmark, question id) of those in the drill-down; None for all.
    """
    cells = [c for read in reads for c in read.outcomes.cells]
    probed = {(c.model, c.benchmark): frozenset(c.question_ids[:MAX_TEXT_QUESTIONS]) for c in cells}
    settings = {(c.model, c.benchmark): len(c.settings) for c in cells}
    kept = DrillRows()

    def rows() -> Iterator[TextRow]:
        columns = tuple(dict.fromkeys((*COLUMNS, *_TEXTS)))
        for read in reads:
            aggregator = aggregator_of(read.run_dir)
            for batch in iter_columns([read.run_dir], SCHEMA, columns, batch_size=1 << 12):
                found = _rows(batch, aggregator)
                if questions is None:
                    kept.add(batch)
                elif (wanted := [(r.benchmark, r.question_id) in questions for r in found]) and any(wanted):
                    kept.add(batch.filter(pa.array(wanted)))
                yield from found

    return measure_texts(rows(), settings, probed), kept


def _rows(batch: pa.RecordBatch, aggregator: Aggregator) -> list[TextRow]:
    shared: dict[str, str] = {}  # of this batch alone: neighbouring rows are of the same questions
    column = {
        name: plain_values(batch.column(name)) if name in _ALL_DIFFERENT else shared_values(batch.column(name), shared)
        for name in _TEXTS
    }
    column["arm"] = [_ARMS.get(arm, arm) for arm in column["arm"]]
    return list(map(TextRow, *(column[name] for name in _TEXTS), repeat(aggregator)))
