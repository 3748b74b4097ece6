"""Outcome <-> Arrow, in the order and types of `schema.SCHEMA`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa

from audit.errors import ShardError
from audit.records import Arm, Draws, Outcome, Reading
from audit.shards.keys import clean_text
from audit.shards.schema import SCHEMA

_FROM_ARROW: dict[str, Callable[[Any], Any]] = {"arm": Arm, "draws": Draws, "reading": Reading} | {
    field.name: tuple for field in SCHEMA if pa.types.is_list(field.type)
}

if [field.name for field in fields(Outcome)] != SCHEMA.names:  # both name the columns; they must not drift apart
    raise ImportError("records.Outcome and shards.schema.SCHEMA differ: give both the same columns in the same order.")


def outcomes_to_table(outcomes: Sequence[Outcome]) -> pa.Table:
    """Rows of SCHEMA, in order. Text that is not valid Unicode (lone surrogates) is stored with U+FFFD in its place.

    Raises ShardError, naming the column, when a value does not fit its column.
    """
    arrays = [column_array([getattr(o, field.name) for o in outcomes], field) for field in SCHEMA]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def column_array(values: list[Any], field: pa.Field) -> pa.Array:
    """An Arrow array of `values`; ShardError when one does not fit the field's type."""
    try:
        try:
            return pa.array(values, field.type)
        except UnicodeEncodeError:
            return pa.array([_clean(value) for value in values], field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        bad = next((value for value in values if not _fits(value, field)), values)
        raise ShardError(
            f"Column {field.name!r} of a shard holds {field.type} and was given {bad!r:.200} ({error}). "
            f"audit.shards.schema documents what each column holds."
        ) from error


def _fits(value: Any, field: pa.Field) -> bool:
    try:
        pa.array([_clean(value)], field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        return False
    return True


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Iterable):
        return [_clean(part) for part in value]
    return value


def table_to_outcomes(table: pa.Table | pa.RecordBatch) -> list[Outcome]:
    """The rows of a table of SCHEMA, in order."""
    columns = []
    for name in SCHEMA.names:
        values = table.column(name).to_pylist()
        make = _FROM_ARROW.get(name)
        columns.append([make(value) for value in values] if make else values)
    return [Outcome(*row) for row in zip(*columns, strict=True)]
