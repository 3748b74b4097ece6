"""Scan the shards of a run, drop rows to run them again, and read columns for the statistics."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from audit.core.errors import ShardError
from audit.core.records import Design, Reading, Setting
from audit.shards.cells import N_OPTIONS, cell_columns, pair_batches, pick
from audit.shards.files import QUARANTINE, SHARDS, TMP_SUFFIX, disk_error, file_sha256, whole_file
from audit.shards.keys import Digests, KeySet, digests_of_table
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.schema import RowSchema
from audit.shards.shard_file import (
    SUFFIXES,
    CorruptShardError,
    ShardInfo,
    check_keys,
    iter_batches,
    read_shard,
    shard_paths,
)
from audit.shards.working_copy import publish, withdraw
from audit.shards.write import keep_rows

if TYPE_CHECKING:
    import pyarrow.dataset as ds
from audit.statistics.paired import CellOutcomes

RunDirs = Path | str | Sequence[Path | str]


@dataclass(frozen=True)
class RunScan:
    """Report the contents of a run directory.

    Attributes
    ----------
    shards : tuple of ShardInfo
        Valid shards.
    done, error_keys : KeySet
        Keys of all rows, and keys of the rows without an answer because of a failure.
    corrupt : dict of str to str
        {name: reason} of each file that this scan moved to quarantine.
    duplicates : int
        Number of rows whose key occurs in an earlier row (`verify_run` removes these rows).
    digests : (rows, 2) array or None
        Digest of each row, in the order of `shards`; None if there are no duplicates.
    """

    shards: tuple[ShardInfo, ...]
    done: KeySet
    error_keys: KeySet
    corrupt: dict[str, str]
    duplicates: int
    digests: Digests | None = field(repr=False)

    @property
    def rows(self) -> int:
        """Return the number of rows."""
        return sum(info.rows for info in self.shards)


def scan_run(run_dir: Path | str, schema: RowSchema, *, written: bool = False) -> RunScan:
    """Open and validate every shard of a run.

    Only the driver that holds the lock on the directory may call this function.

    Parameters
    ----------
    run_dir : Path or str
        Run directory.
    schema : RowSchema
        Schema of the audit's rows.
    written : bool
        True if shards are being written during the scan; temporary files are then kept.

    Returns
    -------
    RunScan
        Contents of the directory.

    Raises
    ------
    ShardError
        If a file cannot be read or moved.

    Notes
    -----
    A file that is not a valid shard (truncated, empty, or with another schema) is moved to
    RUN_DIR/quarantine. Its rows are then run again. Temporary files of a killed writer are removed.
    The scan needs 17 bytes of memory per row, and 48 bytes while rows are sorted.
    """
    run_dir = Path(run_dir)
    folder = run_dir / SHARDS
    for path in () if written else [p for p in folder.glob(f".*{TMP_SUFFIX}") if p.is_file()]:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise disk_error(path, error) from error
    paths = shard_paths(folder)
    shards: list[ShardInfo] = []
    digests, errors = [np.zeros((0, 2), dtype=np.uint64)], [np.zeros(0, dtype=bool)]
    corrupt: dict[str, str] = {}
    with ThreadPoolExecutor(max_workers=min(8, os.cpu_count() or 1)) as pool:
        for path, result in zip(
            paths, pool.map(lambda path: _inspect(path, schema), paths), strict=True
        ):
            if isinstance(result, CorruptShardError):
                _quarantine(run_dir, path)
                corrupt[path.name] = str(result)
                continue
            shards.append(result[0])
            digests.append(result[1])
            errors.append(result[2])
    every = np.concatenate(digests)
    digests.clear()
    done, failed = KeySet.of(every), KeySet.of(every[np.concatenate(errors)])
    twice = len(every) - len(done)
    return RunScan(tuple(shards), done, failed, corrupt, twice, every if twice else None)


def _inspect(
    path: Path, schema: RowSchema
) -> tuple[ShardInfo, Digests, NDArray[np.bool_]] | CorruptShardError:
    digests, errors = [], []
    try:
        if path.suffix not in SUFFIXES:
            return CorruptShardError(
                f"{path} is not a shard. Expected a name that ends in {' or '.join(SUFFIXES)}."
            )
        # Every column is read, because damaged shards are found and replaced only here.
        for batch in iter_batches(path, schema):
            check_keys(path, schema, batch)
            digests.append(digests_of_table(batch, schema))
            errors.append(schema.failed(batch))
        info = ShardInfo(path, sum(map(len, digests)), file_sha256(path))
    except CorruptShardError as error:
        return error
    return info, np.concatenate(digests), np.concatenate(errors)


def _quarantine(run_dir: Path, path: Path) -> None:
    target = run_dir / QUARANTINE / f"{path.name}.{uuid.uuid4().hex[:8]}"
    try:
        target.parent.mkdir(exist_ok=True)
        path.replace(target)
    except OSError as error:
        raise disk_error(target, error) from error
    publish(target)
    withdraw(path)


def drop_rows(
    run_dir: Path | str, schema: RowSchema, which: KeySet, design: Design, *, attempt: str
) -> int:
    """Rewrite shards without the given rows, so that these rows are run again.

    Parameters
    ----------
    run_dir : Path or str
        Run directory.
    schema : RowSchema
        Schema of the audit's rows.
    which : KeySet
        Keys of the rows to drop. If a row of a part of the design is dropped, all rows of this part
        are dropped, because they are run together.
    design : Design
        Design of the run, which defines the parts.
    attempt : str
        Attempt id of the driver.

    Returns
    -------
    int
        Number of dropped rows. Damaged shards are not changed; `scan_run` handles them.
    """
    run_dir = Path(run_dir)
    part_of: dict[Setting, int] = {}
    for number, part in enumerate(design.parts):
        part_of |= dict.fromkeys(part.settings, number)
    wanted = [np.zeros((0, 2), dtype=np.uint64)]
    for _, table in _readable(run_dir, schema):
        chosen = which.contains(digests_of_table(table, schema))
        wanted.append(_part_digests(table, schema, part_of)[chosen])
    parts = KeySet.of(np.concatenate(wanted))
    dropped = 0
    for path, table in _readable(run_dir, schema) if len(parts) else ():
        drop = parts.contains(_part_digests(table, schema, part_of))
        if drop.any():
            keep_rows(run_dir, path, schema, ~drop, attempt)
            dropped += int(drop.sum())
    return dropped


def _readable(run_dir: Path, schema: RowSchema) -> Iterator[tuple[Path, pa.Table]]:
    for path in shard_paths(run_dir / SHARDS):
        try:
            table = read_shard(path, schema, schema.key)
        except CorruptShardError:
            continue
        yield path, table


def _part_digests(table: pa.Table, schema: RowSchema, part_of: dict[Setting, int]) -> Digests:
    """Return an array (rows, 2) with the digest of each row's question and part.

    A row that belongs to no part of the design gets a digest that no other row has.
    """
    digests = digests_of_table(table, schema, columns=3)
    columns = (table.column(name).to_pylist() for name in schema.key[3:])
    parts = np.array(
        [part_of.get(Setting(*setting), -1) for setting in zip(*columns, strict=True)],
        dtype=np.int64,
    )
    single = digests_of_table(table, schema)
    mixed = (
        digests + (parts.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(1))[:, None]
    )
    return np.where((parts < 0)[:, None], single, mixed)


# --- reading for the statistics and the report: the functions below change no file ---------------


def shard_files(run_dirs: RunDirs) -> list[Path]:
    """Return the shards of some runs, sorted by name.

    Parameters
    ----------
    run_dirs : Path, str or a sequence of them
        Run directories.

    Returns
    -------
    list of Path
        Paths of the shards.

    Raises
    ------
    ShardError
        If a run has no shards, or if a shard of a finished run is not the file that the manifest
        lists.
    """
    files = []
    for run_dir in map(Path, [run_dirs] if isinstance(run_dirs, (str, Path)) else run_dirs):
        paths = shard_paths(run_dir / SHARDS)
        if not paths and (run_dir / MANIFEST).is_file():
            raise ShardError(
                f"{run_dir} has no answers yet. Type the run's command again to continue."
            )
        if not paths:
            raise ShardError(
                f"{run_dir / SHARDS} has no shards. Expected the directory of a run, such as "
                "outputs/my_run after run_dir=outputs/my_run."
            )
        _check_listed(run_dir, paths)
        files += paths
    return files


def _check_listed(run_dir: Path, files: Sequence[Path]) -> None:
    if (
        not (run_dir / MANIFEST).is_file()
        or (manifest := Manifest.load(run_dir)).status != "finished"
    ):
        return
    listed = {Path(shard["file"]).name: shard["sha256"] for shard in manifest.shards}
    for path in files:
        facts = path.stat()
        if listed and _sha256_once(path, facts.st_size, facts.st_mtime_ns) != listed.get(path.name):
            raise ShardError(
                f"{path} is not a file that the manifest lists: it was changed or added after the "
                "run. Restore it, or delete it and type the run's command again."
            )


@lru_cache(maxsize=65536)
def _sha256_once(path: Path, size: int, mtime_ns: int) -> str:
    """Return the hash of a shard; it is cached, because a report reads each shard several times."""
    return file_sha256(path)


def iter_columns(
    run_dirs: RunDirs, schema: RowSchema, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield record batches with some columns, from the shards in the order of their names.

    Parameters
    ----------
    run_dirs : Path, str or a sequence of them
        Run directories.
    schema : RowSchema
        Schema of the audit's rows.
    columns : sequence of str
        Names of columns of the schema; `n_options` is allowed too.

    Yields
    ------
    pyarrow.RecordBatch
        A batch of at most 1,024 rows.

    Raises
    ------
    ShardError
        If the runs have no shards, or if a shard is damaged.
    """
    stored = list(dict.fromkeys("options" if name == N_OPTIONS else name for name in columns))
    for path in shard_files(run_dirs):
        for batch in iter_batches(path, schema, stored):
            yield pick(batch, columns)


def iter_rows(
    run_dirs: RunDirs,
    schema: RowSchema,
    columns: Sequence[str],
    key: Sequence[str] = (),
    only: Iterable[tuple[str, ...]] | None = None,
) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of each batch of `iter_columns`.

    Parameters
    ----------
    run_dirs, schema, columns : object
        Arguments of `iter_columns`.
    key : sequence of str
        Names of the columns by which rows are selected.
    only : iterable of tuple of str or None
        Values of the `key` columns in the rows to yield; None yields all rows.

    Yields
    ------
    list of dict
        Selected rows of one batch, each as {column: value}.
    """
    chosen = None if only is None else pa.array(map("\0".join, only), pa.string())
    for batch in iter_columns(run_dirs, schema, columns):
        if chosen is not None:
            names = pc.binary_join_element_wise(*(batch.column(name) for name in key), "\0")
            batch = batch.filter(pc.is_in(names, value_set=chosen))
        yield batch.to_pylist()


def write_table(path: Path, table: pa.Table, rows_at_once: int | None = None) -> Path:
    """Write an Arrow file beside the shards, completely or not at all.

    Parameters
    ----------
    path : Path
        Path of the file.
    table : pyarrow.Table
        Rows of the file.
    rows_at_once : int or None
        Largest number of rows in a record batch; None sets no limit.

    Returns
    -------
    Path
        Path of the file.

    Raises
    ------
    ShardError
        If the file cannot be written.
    """
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with whole_file(path) as file, pa.ipc.new_file(file, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows_at_once)
    return path


def load_cells(
    run_dirs: RunDirs, schema: RowSchema, model: str | None = None
) -> list[CellOutcomes]:
    """Return the outcomes of one or more runs, with each question's answers paired across settings.

    Parameters
    ----------
    run_dirs : Path, str or a sequence of them
        Run directories.
    schema : RowSchema
        Schema of the audit's rows.
    model : str or None
        Name of the only model to read; None reads all models.

    Returns
    -------
    list of CellOutcomes
        Outcomes of each model on each benchmark, sorted. Rows that were read only for the
        likelihood of their text have no answer and are left out.

    Raises
    ------
    ShardError
        If a run has no shards.
    DataError
        If two runs contain the same key.
    """
    batches = iter_columns(run_dirs, schema, cell_columns(schema))
    batches = (
        batch.filter(pc.not_equal(batch.column("reading"), str(Reading.TEXT))) for batch in batches
    )
    if model is not None:
        batches = (batch.filter(pc.equal(batch.column("model"), model)) for batch in batches)
    return pair_batches(batches, schema)


def open_dataset(run_dir: Path | str, schema: RowSchema) -> ds.Dataset:
    """Open the shards of one run, Arrow or Parquet, as a pyarrow dataset.

    Parameters
    ----------
    run_dir : Path or str
        Run directory.
    schema : RowSchema
        Schema of the audit's rows.

    Returns
    -------
    pyarrow.dataset.Dataset
        The rows.
    """
    # The import takes half a second if pandas is installed, so it is made only here.
    import pyarrow.dataset as ds

    files = shard_files(run_dir)
    return ds.dataset(
        list(map(str, files)), format=files[0].suffix.removeprefix("."), schema=schema.columns
    )
