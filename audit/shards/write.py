"""Write each shard to a temporary file, and rename the file while its attempt is the current one.

The fence (`attempt`) prevents a rename by an earlier attempt. A task that is run again overwrites
the file that it wrote before.
"""

import hashlib
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from audit.core.errors import ShardError
from audit.shards.attempt import as_attempt, check_attempt, check_stored_attempt
from audit.shards.files import SHARDS, disk_error, sync_folder, write_file
from audit.shards.keys import Digests, digests_of_table
from audit.shards.object_store import is_url, open_store
from audit.shards.schema import RowSchema
from audit.shards.shard_file import FORMATS, ShardInfo, column_sums, read_shard
from audit.shards.working_copy import withdraw

BATCH_ROWS = 1024  # number of rows in a record batch; a reader holds one batch in memory
_MODEL_CHARS = 80


def shard_name(models: set[str], digests: Digests, format: str = "arrow") -> str:
    """Return the file name of a shard, `<model>-<16 hex>.arrow`, which is computed from its keys.

    Parameters
    ----------
    models : set of str
        Names of the models of the rows.
    digests : (n, 2) array
        Digests of the keys, in any order. Equal keys always give the same name, so a chunk that is
        run again replaces its own shard.
    format : str
        "arrow" or "parquet".

    Returns
    -------
    str
        The file name.
    """
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    digest = hashlib.sha256(np.ascontiguousarray(digests[order]).tobytes()).hexdigest()[:16]
    (model,) = models if len(models) == 1 else ("models",)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", model).lstrip("._-")[:_MODEL_CHARS] or "model"
    return f"{safe}-{digest}{FORMATS[format]}"


def write_shard(
    run_dir: Path | str, table: pa.Table, schema: RowSchema, *, attempt: str, format: str = "arrow"
) -> ShardInfo:
    """Write a table as RUN_DIR/shards/<shard_name>, completely or not at all.

    Parameters
    ----------
    run_dir : Path or str
        A folder, or a URL of object storage. On object storage the file name also contains the
        attempt id, for the reason that `object_store` states.
    table : pyarrow.Table
        Rows of `schema`.
    schema : RowSchema
        Schema of the audit's rows.
    attempt : str
        Attempt id of the writer.
    format : str
        "arrow" or "parquet".

    Returns
    -------
    ShardInfo
        The shard, which is on disk when the function returns.

    Raises
    ------
    ShardError
        If the table does not match the schema, has no rows or contains a key twice, or if the file
        cannot be written. No partial file is then left, and an existing file is unchanged.
    SupersededError
        If the attempt is not the current one.
    """
    if not table.num_rows or not table.schema.equals(schema.columns, check_metadata=True):
        raise ShardError(
            f"A shard of audit {schema.audit} needs exactly the columns of the schema and at least "
            "one row. Example: rows_to_table(rows, schema) makes such a table."
        )
    for name in schema.key:
        if nulls := table.column(name).null_count:
            raise ShardError(
                f"Key column {name!r} is null in {nulls} rows. Expected a key in every row."
            )
    digests = digests_of_table(table, schema)
    _, first, counts = np.unique(digests, axis=0, return_index=True, return_counts=True)
    if len(twice := first[counts > 1]):
        row = {name: table.column(name)[int(twice.min())].as_py() for name in schema.key}
        raise ShardError(
            f"{len(twice)} keys occur more than once in one shard, such as {row}. Expected every "
            "key once."
        )
    name = shard_name(set(table.column("model").unique().to_pylist()), digests, format)
    path = Path(SHARDS) / name
    if not is_url(run_dir):
        return store_table(Path(run_dir), Path(run_dir) / path, table, attempt)
    store, path = open_store(str(run_dir)), path.with_suffix(f".{attempt[:8]}{path.suffix}")
    data = _encode(table, path.suffix)
    check_stored_attempt(store, attempt)
    store.put(path.as_posix(), data)
    return ShardInfo(path, table.num_rows, hashlib.sha256(data).hexdigest())


def store_table(run_dir: Path, path: Path, table: pa.Table, attempt: str) -> ShardInfo:
    """Write a table to a path under the fence; an existing file is replaced.

    Parameters
    ----------
    run_dir : Path
        Run directory.
    path : Path
        Path of the file. Its suffix determines the format.
    table : pyarrow.Table
        Rows of the file.
    attempt : str
        Attempt id of the writer.

    Returns
    -------
    ShardInfo
        The written shard.
    """
    # This early check stops a superseded writer before it compresses the table.
    check_attempt(run_dir, attempt)
    data = _encode(table, path.suffix)
    write_file(path, data, as_attempt(run_dir, attempt))
    return ShardInfo(path, table.num_rows, hashlib.sha256(data).hexdigest())


def keep_rows(
    run_dir: Path, path: Path, schema: RowSchema, keep: NDArray[np.bool_], attempt: str
) -> None:
    """Rewrite a shard so that it holds only the kept rows; delete the file if no row is kept.

    Parameters
    ----------
    run_dir : Path
        Run directory.
    path : Path
        Path of the shard.
    schema : RowSchema
        Schema of the audit's rows.
    keep : (rows,) bool array
        True for the rows that are kept.
    attempt : str
        Attempt id of the writer.
    """
    if keep.any():
        store_table(run_dir, path, read_shard(path, schema).filter(pa.array(keep)), attempt)
        return
    with as_attempt(run_dir, attempt):
        try:
            path.unlink()
            sync_folder(path.parent)
        except OSError as error:
            raise disk_error(path, error) from error
        withdraw(path)


def _encode(table: pa.Table, suffix: str) -> memoryview:
    sink = pa.BufferOutputStream()
    if suffix == FORMATS["parquet"]:
        pq.write_table(
            table,
            sink,
            compression="zstd",
            row_group_size=BATCH_ROWS * 16,
            write_page_checksum=True,
        )
    else:
        # Many writers run in parallel as Ray tasks, so each writer uses one thread.
        options = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd"), use_threads=False)
        with pa.ipc.new_file(sink, table.schema, options=options) as writer:
            for batch in table.to_batches(max_chunksize=BATCH_ROWS):
                writer.write_batch(batch, custom_metadata=column_sums(batch))
    return memoryview(sink.getvalue())
