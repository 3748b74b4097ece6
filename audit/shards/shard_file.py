"""One shard: opened, validated, hashed. Arrow IPC or Parquet, by its suffix."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from audit.errors import ShardError
from audit.guarded_files import open_file
from audit.shards.schema import RowSchema

FORMATS = {"arrow": ".arrow", "parquet": ".parquet"}
SUFFIXES = tuple(FORMATS.values())


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """A valid shard on disk. `sha256` is of the file's bytes."""

    path: Path
    rows: int
    sha256: str

    def record(self) -> dict[str, str | int]:
        """What the manifest says about it."""
        return {"file": self.path.name, "rows": self.rows, "sha256": self.sha256}


class CorruptShardError(ShardError):
    """A file that cannot be read as a shard: truncated, of another schema, or no shard at all."""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except CorruptShardError:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        # Arrow raises an OSError without errno for a file that ends too early; with errno it is the system speaking.
        if isinstance(error, OSError) and error.errno is not None:
            raise ShardError(f"Cannot read {path}: {error.strerror}. Check its permissions and the disk.") from error
        raise CorruptShardError(_corrupt(path, f"it cannot be read ({error})")) from error


def _corrupt(path: Path, why: str) -> str:
    todo = "Type the run's command again: it moves the file aside and redoes its rows."
    return f"{path} is not a valid shard: {why}. {todo}"


def iter_batches(path: Path, schema: RowSchema, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """Record batches of a shard, `columns` only (all when None), in that order, one in memory at a time. Raises
    CorruptShardError for a damaged file or one of another audit or version, ShardError when the system refuses."""
    names = schema.columns.names if columns is None else list(columns)
    rows = 0
    with _reading(path):
        with open_file(path) as raw:  # Arrow opens it by name: it gives no error of the system, and waits for a pipe
            if not raw.read(1):
                raise CorruptShardError(_corrupt(path, "it is empty"))
        for batch in (_parquet if path.suffix == FORMATS["parquet"] else _ipc)(path, schema, names):
            rows += batch.num_rows
            yield batch.select(names)
    if not rows:  # none is written so: one zeroed byte of a footer hides every batch
        raise CorruptShardError(_corrupt(path, "it has no row"))


def _check_schema(path: Path, schema: RowSchema, found: pa.Schema) -> None:
    if (why := schema.found_in(found)) is not None:
        raise CorruptShardError(f"{path} is not a shard of this run: {why}.")


def column_sums(batch: pa.RecordBatch) -> dict[str, str]:
    """CRC-32 of each column of a record batch as Arrow serialises it: what Parquet has by itself, and an Arrow file in
    its batches' metadata."""
    return {name: f"{zlib.crc32(batch.select([name]).serialize()):08x}" for name in batch.schema.names}


def _ipc(path: Path, schema: RowSchema, names: list[str]) -> Iterator[pa.RecordBatch]:
    options = pa.ipc.IpcReadOptions(included_fields=sorted(schema.columns.get_field_index(name) for name in names))
    with pa.OSFile(str(path)) as source:
        _check_schema(path, schema, pa.ipc.open_file(source).schema)
        reader = pa.ipc.open_file(source, options=options)
        for i in range(reader.num_record_batches):
            batch, kept = reader.get_batch_with_custom_metadata(i)
            batch.validate(full=True)  # damaged offsets would otherwise crash the process that follows them
            sums = column_sums(batch).items()
            if damaged := [name for name, own in sums if (kept or {}).get(name.encode()) != own.encode()]:
                raise CorruptShardError(_corrupt(path, f"bytes of its columns {damaged} are not what was written"))
            yield batch


def _parquet(path: Path, schema: RowSchema, names: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        _check_schema(path, schema, file.schema_arrow)
        rows = 0
        for batch in file.iter_batches(batch_size=1024, columns=names):
            batch.validate(full=True)
            rows += batch.num_rows
            yield batch
    if rows != (said := file.metadata.num_rows):  # pages have checksums, their headers have none
        raise CorruptShardError(_corrupt(path, f"{rows} of its {said} rows can be read"))


def read_shard(path: Path, schema: RowSchema, columns: Sequence[str] | None = None) -> pa.Table:
    """A whole shard as a table (see `iter_batches`)."""
    whole = schema.columns
    wanted = whole if columns is None else pa.schema([whole.field(name) for name in columns])
    return pa.Table.from_batches(iter_batches(path, schema, columns), schema=wanted)


def check_keys(path: Path, schema: RowSchema, batch: pa.RecordBatch) -> None:
    for name in schema.key:
        if batch.column(name).null_count:
            raise CorruptShardError(_corrupt(path, f"its key column {name!r} has rows without a value"))


def shard_paths(folder: Path) -> list[Path]:
    """The files a dataset reader would read in `folder`, sorted by name (names that start with . or _ are skipped)."""
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith((".", "_")))
