"""The sweep's rows as objects, and back, paired and judged; the program itself writes and reads columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa

from audit.records import Reading
from audit.shards.cells import cell_columns, pair_batches, pick
from audit.shards.convert import rows_to_table
from audit.shards.read import iter_columns
from audit.statistics.paired import CellOutcomes
from audit.sweep.analyse import analyse
from audit.sweep.columns import SCHEMA, Outcome
from audit.sweep.design import Arm, Draws
from audit.sweep.self_test import MAX_TEXT_QUESTIONS
from audit.sweep.texts import Texts, clean_texts, measure_texts
from audit.sweep.verdict import RunVerdict

NAMES = [field.name for field in fields(Outcome)]
_MAKE = {"arm": Arm, "draws": Draws, "reading": Reading} | {
    field.name: tuple for field in SCHEMA.columns if pa.types.is_list(field.type)
}


def outcomes_to_table(outcomes: Sequence[Outcome]) -> pa.Table:
    return rows_to_table([{name: getattr(o, name) for name in NAMES} for o in outcomes], SCHEMA)


def table_to_outcomes(table: pa.Table | pa.RecordBatch) -> list[Outcome]:
    columns = [map(_MAKE.get(name, lambda value: value), table.column(name).to_pylist()) for name in NAMES]
    return [Outcome(**dict(zip(NAMES, row, strict=True))) for row in zip(*columns, strict=True)]


def iter_outcomes(run_dirs: Path | str | Sequence[Path | str]) -> Iterator[Outcome]:
    for batch in iter_columns(run_dirs, SCHEMA, SCHEMA.columns.names):
        yield from table_to_outcomes(batch)


def pair(outcomes: Sequence[Outcome], *, answers: bool = False) -> list[CellOutcomes]:
    """The cells of rows in memory."""
    columns = cell_columns(SCHEMA, answers=answers)
    batches = outcomes_to_table(outcomes).to_batches(max_chunksize=1024)
    return pair_batches((pick(batch, columns) for batch in batches), SCHEMA)


def texts_of(outcomes: Sequence[Outcome], cells: Sequence[CellOutcomes] = ()) -> Texts:
    """The measures of rows in memory, with those of the self-test for `cells`."""
    probed = {(c.model, c.benchmark): c.question_ids[:MAX_TEXT_QUESTIONS] for c in cells}
    return measure_texts(outcomes, clean_texts(outcomes), probed)


def analyse_outcomes(outcomes: Sequence[Outcome], **options: Any) -> RunVerdict:
    """`analyse` of rows in memory, texts and answers included."""
    cells = pair(outcomes, answers=True)
    return analyse(cells, texts_of(outcomes, cells), **options)
