"""Compute a digest of 16 bytes for each key of a row.

A key is (model, benchmark, question_id, arm, level, replicate).

The digest of a key is the sum of the BLAKE2b digests of its six columns. Digests are added as two
64-bit integers, modulo 2**64. One broadcast addition of arrays therefore computes the digests of
all questions under all settings. Two different keys have the same digest with probability 2**-128.
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
    """Hold the numbers of variation requests that equal another request of the same item.

    Attributes
    ----------
    compared : int
        Number of requests that were compared.
    same_as_original : int
        Number of requests that are equal to the request of the original.
    repeated : int
        Number of requests that are equal to the request of an earlier variation.
    items : tuple of str
        Ids of the items that have such equal requests.
    """

    compared: int = 0
    same_as_original: int = 0
    repeated: int = 0
    items: tuple[str, ...] = ()


def digest(*texts: str) -> int:
    """Return a 64-bit digest of texts, which serves only to test whether texts are equal.

    Two different texts have the same digest with probability 10**-19.
    """
    return int.from_bytes(blake2b("\0".join(texts).encode(), digest_size=8).digest(), "little")


def count_requests(
    original: Mapping[str, Set[str]], varied: Mapping[str, Sequence[tuple[int, str]]]
) -> RequestCounts:
    """Count variations whose request equals the request of the original or of an earlier variation.

    Parameters
    ----------
    original : mapping of str to set of str
        Hashes of the requests of each item's original.
    varied : mapping of str to sequence of (int, str)
        (level, hash) of each request of each item's variations.

    Returns
    -------
    RequestCounts
        Counts over the items that have both an original and variations.
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
_BLOCK = 1 << 20  # number of keys that are compared together


def clean_text(text: str) -> str:
    """Return a text as valid Unicode: surrogate pairs are joined, lone surrogates become U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


# Neighbouring shards have the same questions, so a small cache suffices. A larger cache would hold
# all questions in memory.
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
        Table with the key columns of the schema.
    schema : RowSchema
        Schema of the audit's rows.
    columns : int
        Number of key columns that enter the digest, counted from the first.

    Returns
    -------
    (n, 2) uint64 array
        Digest of each row.
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
    """Return the digest of every key of one model and benchmark: questions x settings.

    Parameters
    ----------
    model, benchmark : str
        Names of the model and of the benchmark.
    question_ids : sequence of str
        Ids of the questions.
    settings : sequence of Setting
        Settings of the run.

    Returns
    -------
    (questions, settings, 2) uint64 array
        Digest of each key.
    """
    fixed = _column_digests(0, [model])[0] + _column_digests(1, [benchmark])[0]
    of_setting = _column_digests(3, [s.arm for s in settings])
    of_setting = of_setting + _column_digests(4, [s.level for s in settings])
    of_setting = of_setting + _column_digests(5, [s.replicate for s in settings])
    return (fixed + _column_digests(2, question_ids))[:, None, :] + of_setting[None, :, :]


@dataclass(frozen=True, eq=False)
class KeySet:
    """Hold a set of digests of keys in two sorted uint64 arrays, 16 bytes per key.

    Attributes
    ----------
    hi, lo : (n,) uint64 array
        The two halves of each digest, sorted by `hi` and then by `lo`.
    longest_tie : int
        Largest number of keys with the same `hi`; 1 unless the first halves of two digests coincide
        by chance.
    """

    hi: NDArray[np.uint64]
    lo: NDArray[np.uint64]
    longest_tie: int = 1

    @classmethod
    def of(cls, digests: Digests) -> KeySet:
        """Return the set of the digests in an array (..., 2); a repeated digest counts once."""
        flat = digests.reshape(-1, 2)
        order = np.argsort(flat[:, 0])
        hi, lo = flat[order, 0], flat[order, 1]
        repeated = hi[1:] == hi[:-1]
        # Without repeated keys, no further copy of millions of keys is made.
        if not repeated.any():
            return cls(hi, lo)
        order = np.lexsort((lo, hi))
        hi, lo = hi[order], lo[order]
        new = np.ones(len(hi), dtype=bool)
        new[1:] = ~repeated | (lo[1:] != lo[:-1])
        hi, lo = hi[new], lo[new]
        starts = np.flatnonzero(np.concatenate(([True], hi[1:] != hi[:-1])))
        return cls(hi, lo, int(np.diff(np.append(starts, len(hi))).max()))

    def contains(self, digests: Digests) -> NDArray[np.bool_]:
        """Return, for each digest of an array (..., 2), whether the digest is in the set."""
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
        """Return the number of keys that this set and another set share."""
        blocks = (slice(start, start + _BLOCK) for start in range(0, len(other), _BLOCK))
        return sum(
            int(self.contains(np.stack((other.hi[b], other.lo[b]), axis=1)).sum()) for b in blocks
        )

    def __len__(self) -> int:
        return len(self.hi)


def rows_to_table(rows: Sequence[Mapping[str, Any]], schema: RowSchema) -> pa.Table:
    """Convert rows to a table of a schema.

    Parameters
    ----------
    rows : sequence of mapping
        {column: value} of each row. In text that is not valid Unicode, lone surrogates are replaced
        by U+FFFD.
    schema : RowSchema
        Schema of the audit's rows.

    Returns
    -------
    pyarrow.Table
        The rows, in the given order.

    Raises
    ------
    ShardError
        If a column is missing or unknown, or if a value does not fit its column.
    """
    names = set(schema.columns.names)
    for row in rows:
        if row.keys() != names:
            missing, extra = sorted(names - set(row)), sorted(set(row) - names)
            raise ShardError(
                f"A row of audit {schema.audit} lacks the columns {missing}, and has the unknown "
                f"columns {extra}. Expected Presentation.extras with exactly the audit's own "
                "columns."
            )
    cells = map(itemgetter(*schema.columns.names), rows)
    columns = list(zip(*cells, strict=True)) or [()] * len(names)
    arrays = []
    for field, values in zip(schema.columns, columns, strict=True):
        arrays.append(column_array(list(values), field))
    return pa.Table.from_arrays(arrays, schema=schema.columns)


def column_array(values: list[Any], field: pa.Field) -> pa.Array:
    """Convert values to an Arrow array.

    Parameters
    ----------
    values : list
        Values of the column.
    field : pyarrow.Field
        Name and type of the column.

    Returns
    -------
    pyarrow.Array
        The column.

    Raises
    ------
    ShardError
        If a value does not fit the type of the column.
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
            f"The value for column {field.name!r} of a shard is {value!r:.200} ({error}). Expected "
            f"{field.type}; the audit's row schema documents each column."
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
