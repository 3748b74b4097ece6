"""Rows -> Arrow, in the order and types of a `RowSchema`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from audit.errors import ShardError
from audit.shards.keys import clean_text
from audit.shards.schema import RowSchema


def rows_to_table(rows: Sequence[Mapping[str, Any]], schema: RowSchema) -> pa.Table:
    """Rows, {column: value}, in order. Text that is not valid Unicode (lone surrogates) gets U+FFFD in its place.

    Raises ShardError, naming the column, when one is missing or unknown, or a value does not fit it.
    """
    names = schema.columns.names
    for row in rows:
        if len(row) != len(names) or not all(name in row for name in names):
            missing, extra = sorted(set(names) - set(row)), sorted(set(row) - set(names))
            raise ShardError(
                f"A row of audit {schema.audit} lacks {missing} and has {extra}, which its schema does not know. "
                "Presentation.extras holds exactly the audit's own columns."
            )
    arrays = [column_array([row[field.name] for row in rows], field) for field in schema.columns]
    return pa.Table.from_arrays(arrays, schema=schema.columns)


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
            f"The audit's row schema documents what each column holds."
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
