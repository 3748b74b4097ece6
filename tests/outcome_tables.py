"""The sweep's rows as objects, and back: what tests compare; the program itself writes and reads columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path

import pyarrow as pa

from audit.records import Reading
from audit.shards.convert import rows_to_table
from audit.shards.read import iter_columns
from audit.sweep.columns import SCHEMA, Outcome
from audit.sweep.design import Arm, Draws

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
