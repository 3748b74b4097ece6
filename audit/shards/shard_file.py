"""Open, validate and hash shards; a shard is an Arrow IPC or a Parquet file, by its suffix."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from audit.core.errors import ShardError
from audit.core.guarded_files import open_file
from audit.shards.schema import RowSchema

FORMATS = {"arrow": ".arrow", "parquet": ".parquet"}
SUFFIXES = tuple(FORMATS.values())


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """Describe a valid shard on disk.

    Attributes
    ----------
    path : Path
        Path of the shard.
    rows : int
        Number of rows.
    sha256 : str
        Hash of the file's bytes.
    """

    path: Path
    rows: int
    sha256: str

    def record(self) -> dict[str, str | int]:
        """Return the shard's entry in the manifest."""
        return {"file": self.path.name, "rows": self.rows, "sha256": self.sha256}


class CorruptShardError(ShardError):
    """Signal that a file is no valid shard: it is truncated, or has another schema or format."""


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except CorruptShardError:
        raise
    except (pa.ArrowException, OSError, ValueError, EOFError) as error:
        # For a truncated file, Arrow raises an OSError without errno. An error with errno comes
        # from the operating system.
        if isinstance(error, OSError) and error.errno is not None:
            raise ShardError(
                f"Cannot read {path}: {error.strerror}. Check its permissions and the disk."
            ) from error
        raise CorruptShardError(_corrupt(path, f"it cannot be read ({error})")) from error


def _corrupt(path: Path, why: str) -> str:
    todo = "Type the run's command again: it moves the file aside and runs its rows again."
    return f"{path} is not a valid shard: {why}. {todo}"


def iter_batches(
    path: Path, schema: RowSchema, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a shard; one batch is in memory at a time.

    Parameters
    ----------
    path : Path
        Path of the shard.
    schema : RowSchema
        Schema of the audit's rows.
    columns : sequence of str or None
        Names of the columns to read, in this order; None reads all columns.

    Yields
    ------
    pyarrow.RecordBatch
        The next batch.

    Raises
    ------
    CorruptShardError
        If the file is damaged, or belongs to another audit or version.
    ShardError
        If the operating system refuses the read.
    """
    names = schema.columns.names if columns is None else list(columns)
    rows = 0
    with _reading(path):
        # The file is opened here and not by Arrow, which would hide the system's error and would
        # wait if the file is a pipe.
        with open_file(path) as raw:
            if not raw.read(1):
                raise CorruptShardError(_corrupt(path, "it is empty"))
        for batch in (_parquet if path.suffix == FORMATS["parquet"] else _ipc)(path, schema, names):
            rows += batch.num_rows
            yield batch.select(names)
    # A shard without rows is damaged: no empty shard is written, but a zeroed byte in the footer
    # hides all batches.
    if not rows:
        raise CorruptShardError(_corrupt(path, "it has no row"))


def _check_schema(path: Path, schema: RowSchema, stored: pa.Schema) -> None:
    if (why := schema.found_in(stored)) is not None:
        raise CorruptShardError(f"{path} is not a shard of this run: {why}.")


def column_sums(batch: pa.RecordBatch) -> dict[str, str]:
    """Return the CRC-32 of each column of a record batch, as Arrow serialises the column.

    Parquet files have checksums of their own. In an Arrow file, these sums are stored in the
    metadata of its batches.
    """
    checksums = {}
    for name in batch.schema.names:
        checksums[name] = f"{zlib.crc32(batch.select([name]).serialize()):08x}"
    return checksums


def _ipc(path: Path, schema: RowSchema, names: list[str]) -> Iterator[pa.RecordBatch]:
    options = pa.ipc.IpcReadOptions(
        included_fields=sorted(schema.columns.get_field_index(name) for name in names)
    )
    with pa.OSFile(str(path)) as source:
        _check_schema(path, schema, pa.ipc.open_file(source).schema)
        reader = pa.ipc.open_file(source, options=options)
        for i in range(reader.num_record_batches):
            batch, metadata = reader.get_batch_with_custom_metadata(i)
            # Without this check, damaged offsets would crash the process.
            batch.validate(full=True)
            sums = column_sums(batch).items()
            stored = metadata or {}
            damaged = []
            for name, checksum in sums:
                if stored.get(name.encode()) != checksum.encode():
                    damaged.append(name)
            if damaged:
                raise CorruptShardError(
                    _corrupt(
                        path, f"the bytes of its columns {damaged} are not those that were written"
                    )
                )
            yield batch


def _parquet(path: Path, schema: RowSchema, names: list[str]) -> Iterator[pa.RecordBatch]:
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        _check_schema(path, schema, file.schema_arrow)
        rows = 0
        for batch in file.iter_batches(batch_size=1024, columns=names):
            batch.validate(full=True)
            rows += batch.num_rows
            yield batch
    # The pages of a Parquet file have checksums, but the headers of the pages have none, so the
    # rows are counted.
    if rows != (stated := file.metadata.num_rows):
        raise CorruptShardError(_corrupt(path, f"only {rows} of its {stated} rows can be read"))


def read_shard(path: Path, schema: RowSchema, columns: Sequence[str] | None = None) -> pa.Table:
    """Return a whole shard as a table.

    Parameters
    ----------
    path : Path
        Path of the shard.
    schema : RowSchema
        The audit's schema.
    columns : sequence of str or None
        Names of the columns to read; None reads all columns.

    Returns
    -------
    pyarrow.Table
        The rows.

    Raises
    ------
    CorruptShardError
        If the file is damaged, or belongs to another audit or version.
    """
    whole = schema.columns
    wanted = whole if columns is None else pa.schema([whole.field(name) for name in columns])
    return pa.Table.from_batches(iter_batches(path, schema, columns), schema=wanted)


def check_keys(path: Path, schema: RowSchema, batch: pa.RecordBatch) -> None:
    """Raise CorruptShardError if a row has no value in one of its key columns.

    Parameters
    ----------
    path : Path
        Path of the shard, for the error message.
    schema : RowSchema
        Schema of the audit's rows.
    batch : pyarrow.RecordBatch
        Rows of the shard.

    Raises
    ------
    CorruptShardError
        If a key column contains a null.
    """
    for name in schema.key:
        if batch.column(name).null_count:
            raise CorruptShardError(
                _corrupt(path, f"its key column {name!r} has rows without a value")
            )


def shard_paths(folder: Path) -> list[Path]:
    """Return the files in a folder that a dataset reader would read, sorted by name.

    Files whose names begin with . or _ are skipped.
    """
    if not folder.is_dir():
        return []
    return sorted(p for p in folder.iterdir() if p.is_file() and not p.name.startswith((".", "_")))
