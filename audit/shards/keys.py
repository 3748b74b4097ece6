"""Compute key digests: 16 bytes for each (model, benchmark, question_id, arm, level, replicate).

The digest of a key is the sum of a BLAKE2b digest of each of its six columns (two lanes of 64 bits,
wrapping), so that a grid of questions x settings is one broadcast addition. Two different keys
share a digest with probability 2**-128.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from audit.core.errors import ShardError
from audit.core.records import Setting
from audit.shards.schema import RowSchema


@dataclass(frozen=True)
class RequestCounts:
    """Count varied requests that were compared with the others of the same item.

    Attributes
    ----------
    compared : int
        Requests compared.
    same_as_original : int
        Requests equal to that of the original.
    repeated : int
        Requests equal to that of another variation.
    items : tuple of str
        Ids of the items with either.
    """

    compared: int = 0
    same_as_original: int = 0
    repeated: int = 0
    items: tuple[str, ...] = ()


def digest(*texts: str) -> int:
    """Return 64 bits that stand for texts of which only equality is tested.

    Two different texts share a digest by chance once in 10**19.
    """
    return int.from_bytes(blake2b("\0".join(texts).encode(), digest_size=8).digest(), "little")


def count_requests(
    original: Mapping[str, Set[str]], varied: Mapping[str, Sequence[tuple[int, str]]]
) -> RequestCounts:
    """Count variations that sent the request of their original, or of an earlier variation.

    Parameters
    ----------
    original : mapping of str to set of str
        Hashes of each item's originals.
    varied : mapping of str to sequence of (int, str)
        (level, hash) of each item's variations.

    Returns
    -------
    RequestCounts
        Counts over the items that have both.
    """
    compared = same = repeated = 0
    items = set()
    for id_ in varied.keys() & original.keys():
        hashes = [sha for _, sha in varied[id_]]
        others = []
        for sha in hashes:
            if sha not in original[id_]:
                others.append(sha)
        duplicates = len(others) - len(set(others))
        compared += len(hashes)
        same += len(hashes) - len(others)
        repeated += duplicates
        if duplicates or len(others) < len(hashes):
            items.add(id_)
    return RequestCounts(compared, same, repeated, tuple(sorted(items)))


Digests = NDArray[np.uint64]  # (..., 2)
_BLOCK = 1 << 20  # number of keys that are compared at once


def clean_text(text: str) -> str:
    """Return a text as valid Unicode: surrogate pairs joined, lone surrogates replaced by
    U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


# Neighbouring shards share their questions; a large cache would hold them all.
@lru_cache(maxsize=1 << 12)
def _lanes(column: int, value: str) -> tuple[int, int]:
    raw = blake2b(
        clean_text(value).encode(), digest_size=16, salt=column.to_bytes(1, "little")
    ).digest()
    return int.from_bytes(raw[:8], "little"), int.from_bytes(raw[8:], "little")


def _column_digests(column: int, values: Sequence[Any]) -> Digests:
    places: dict[str, int] = {}
    codes = [places.setdefault(str(value), len(places)) for value in values]
    lanes = np.array([_lanes(column, value) for value in places], dtype=np.uint64).reshape(
        len(places), 2
    )
    return lanes[codes] if codes else lanes


def digests_of_table(
    table: pa.Table | pa.RecordBatch, schema: RowSchema, columns: int = 6
) -> Digests:
    """Return the digests of the rows of a table.

    Parameters
    ----------
    table : pyarrow.Table or pyarrow.RecordBatch
        Rows with the schema's key columns.
    schema : RowSchema
        Schema of the audit's rows.
    columns : int
        Number of key columns that count, from the first.

    Returns
    -------
    (n, 2) uint64 array
        Digests.
    """
    total = np.zeros((table.num_rows, 2), dtype=np.uint64)
    for k, name in enumerate(schema.key[:columns]):
        column = table.column(name)
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        codes = whole.dictionary_encode()
        total += _column_digests(k, codes.dictionary.to_pylist())[np.asarray(codes.indices)]
    return total


def digest_grid(
    model: str, benchmark: str, question_ids: Sequence[str], settings: Sequence[Setting]
) -> Digests:
    """Return the digests of every question under every setting, which a run of one model must
    contain.

    Parameters
    ----------
    model, benchmark : str
        Names.
    question_ids : sequence of str
        Questions.
    settings : sequence of Setting
        Settings.

    Returns
    -------
    (questions, settings, 2) uint64 array
        Digests.
    """
    fixed = _column_digests(0, [model])[0] + _column_digests(1, [benchmark])[0]
    of_setting = _column_digests(3, [s.arm for s in settings])
    of_setting = of_setting + _column_digests(4, [s.level for s in settings])
    of_setting = of_setting + _column_digests(5, [s.replicate for s in settings])
    return (fixed + _column_digests(2, question_ids))[:, None, :] + of_setting[None, :, :]


@dataclass(frozen=True, eq=False)
class KeySet:
    """Hold a set of key digests: two sorted uint64 arrays, 16 bytes a key.

    Attributes
    ----------
    hi, lo : (n,) uint64 array
        The two halves of each digest, sorted.
    longest_tie : int
        Largest number of keys that share `hi`; 1 but for a 64-bit coincidence.
    """

    hi: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    longest_tie: int = 1  # keys that share `hi`; 1 but for a 64-bit coincidence

    @classmethod
    def of(cls, digests: Digests) -> KeySet:
        """Return the set of digests (..., 2); repeated digests count once."""
        flat = digests.reshape(-1, 2)
        order = np.argsort(flat[:, 0])
        hi, lo = flat[order, 0], flat[order, 1]
        repeated = hi[1:] == hi[:-1]
        if not repeated.any():  # avoids further copies of millions of keys
            return cls(hi, lo)
        order = np.lexsort((lo, hi))
        hi, lo = hi[order], lo[order]
        new = np.ones(len(hi), dtype=bool)
        new[1:] = ~repeated | (lo[1:] != lo[:-1])
        hi, lo = hi[new], lo[new]
        starts = np.flatnonzero(np.concatenate(([True], hi[1:] != hi[:-1])))
        return cls(hi, lo, int(np.diff(np.append(starts, len(hi))).max()))

    def contains(self, digests: Digests) -> NDArray[np.bool_]:
        """Return whether each of the digests (..., 2) is a member, as a mask (...)."""
        hi, lo = digests[..., 0], digests[..., 1]
        member = np.zeros(hi.shape, dtype=bool)
        if not len(self):
            return member
        first = np.searchsorted(self.hi, hi)
        for step in range(self.longest_tie):
            at = np.minimum(first + step, len(self) - 1)
            member |= (self.hi[at] == hi) & (self.lo[at] == lo)
        return member

    def common(self, other: KeySet) -> int:
        """Return how many members both sets have."""
        blocks = (slice(start, start + _BLOCK) for start in range(0, len(other), _BLOCK))
        return sum(
            int(self.contains(np.stack((other.hi[b], other.lo[b]), axis=1)).sum()) for b in blocks
        )

    def __len__(self) -> int:
        return len(self.hi)


def rows_to_table(rows: Sequence[Mapping[str, Any]], schema: RowSchema) -> pa.Table:
    """Return rows as a table of a schema.

    Parameters
    ----------
    rows : sequence of mapping
        {column: value} of each row. Text that is not valid Unicode (lone surrogates) gets U+FFFD in
        its place.
    schema : RowSchema
        Schema of the audit's rows.

    Returns
    -------
    pyarrow.Table
        Rows in order.

    Raises
    ------
    ShardError
        If a column is missing or unknown, or a value does not fit it.
    """
    names = set(schema.columns.names)
    for row in rows:
        if row.keys() != names:
            missing, extra = sorted(names - set(row)), sorted(set(row) - names)
            raise ShardError(
                f"A row of audit {schema.audit} lacks {missing} and has {extra}, which its schema does not know. "
                "Presentation.extras holds exactly the audit's own columns."
            )
    cells = map(itemgetter(*schema.columns.names), rows)
    columns = list(zip(*cells, strict=True)) or [()] * len(names)
    arrays = []
    for field, values in zip(schema.columns, columns, strict=True):
        arrays.append(column_array(list(values), field))
    return pa.Table.from_arrays(arrays, schema=schema.columns)


def column_array(values: list[Any], field: pa.Field) -> pa.Array:
    """Return an Arrow array of values.

    Parameters
    ----------
    values : list
        Values.
    field : pyarrow.Field
        The column's name and type.

    Returns
    -------
    pyarrow.Array
        The column.

    Raises
    ------
    ShardError
        If a value does not fit the field's type.
    """
    try:
        try:
            return pa.array(values, field.type)
        except UnicodeEncodeError:
            return pa.array([_clean(value) for value in values], field.type)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        unfit = []
        for value in values:
            if not _fits(value, field):
                unfit.append(value)
        value = unfit[0] if unfit else values
        raise ShardError(
            f"Column {field.name!r} of a shard holds {field.type} and was given {value!r:.200} ({error}). "
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
