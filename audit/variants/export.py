"""A library in the formats that others read: jsonl or parquet."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from audit.errors import ConfigError
from audit.shards.files import write_file
from audit.variants.arrow import to_table
from audit.variants.record import Library

SUFFIXES = (".jsonl", ".parquet")


def export_library(library: Library, path: Path, *, every: bool = False) -> int:
    """Write the accepted variants (every: all candidates) with their findings; returns how many.

    Parquet keeps the header in its metadata; each jsonl row names the library. ConfigError for another suffix.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"Cannot export to {path}: expected a name ending in {' or '.join(SUFFIXES)}.")
    table = to_table(library)
    if not every:
        table = table.filter(table["accepted"])
    if path.suffix == ".parquet":
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        write_file(path, memoryview(sink.getvalue()))
    else:
        rows = ({"library": library.sha256, **row} for row in table.to_pylist())
        write_file(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    return int(table.num_rows)
