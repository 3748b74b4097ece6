import errno
import hashlib
import os
import resource
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from outcome_tables import digests_of_keys, outcomes_to_table, table_to_outcomes
from shard_rows import names, new_run, row, write

from audit.core.errors import ShardError
from audit.shards.attempt import as_attempt, current_attempt, start_attempt
from audit.shards.files import disk_error
from audit.shards.shard_file import read_shard
from audit.shards.write import shard_name, write_shard
from audit.sweep.audit import SCHEMA


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, str]:
    return new_run(tmp_path / "run")


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_a_shard_is_what_was_written(run: tuple[Path, str], format: str) -> None:
    rows = [row(q, r, response="x" * 10_000) for q in range(3) for r in (1, 2)]
    info = write(*run, *rows, format=format)
    assert info.path.stat().st_size < 50_000  # zstd: 60,000 characters of response alone
    assert info.path.suffix == f".{format}" and names(run[0] / "shards") == [info.path.name]
    assert info.rows == 6
    assert info.sha256 == hashlib.sha256(info.path.read_bytes()).hexdigest()
    assert table_to_outcomes(read_shard(info.path, SCHEMA)) == rows
    kind = {"arrow": "ipc"}.get(format, format)
    dataset = ds.dataset(run[0] / "shards", format=kind)
    assert dataset.schema.names == SCHEMA.columns.names and dataset.count_rows() == 6


@given(st.permutations([row(q, r).key for q in range(3) for r in (1, 2)]))
def test_the_name_depends_on_the_keys_and_not_on_their_order(keys: list) -> None:
    name = shard_name({"m"}, digests_of_keys(keys))
    assert name == shard_name({"m"}, digests_of_keys(sorted(keys)))
    assert name != shard_name({"m"}, digests_of_keys(keys[1:]))
    assert (
        shard_name({"m"}, digests_of_keys(keys), "parquet")
        == name.removesuffix(".arrow") + ".parquet"
    )


def test_the_name_is_safe_for_file_systems() -> None:
    digests = digests_of_keys([row().key])
    name = shard_name({"../Org/mo del:7b\0é" + "x" * 300}, digests)
    assert (
        "/" not in name and name.startswith("Org_mo_del_7b_") and len(name) < 120 and name.isascii()
    )
    assert shard_name({"..."}, digests).startswith("model-")


def test_a_retried_chunk_replaces_its_own_shard(run: tuple[Path, str]) -> None:
    first = write(*run, row(0, response="A"), row(1))
    second = write(*run, row(1), row(0, response="B"))
    assert first.path == second.path and names(run[0] / "shards") == [first.path.name]
    assert read_shard(first.path, SCHEMA).column("response").to_pylist() == [
        "A",
        "B",
    ]  # rows 1 and 0 of the second


def test_a_key_twice_in_one_table_is_refused(run: tuple[Path, str]) -> None:
    with pytest.raises(
        ShardError, match=r"1 keys occur more than once in one shard, such as .*'question_id': 'q1'"
    ):
        write(*run, row(0), row(1), row(1, response="other"))
    assert names(run[0] / "shards") == []


def test_tables_that_are_no_shard_are_refused(run: tuple[Path, str]) -> None:
    table = outcomes_to_table([row()])
    unnamed = table.set_column(0, SCHEMA.columns.field("model"), pa.array([None], pa.string()))
    for bad in (
        table.drop_columns(["seed"]),
        table.append_column("extra", table["seed"]),
        table.slice(0, 0),
        unnamed,
    ):
        with pytest.raises(ShardError):
            write_shard(run[0], bad, SCHEMA, attempt=run[1])
    assert names(run[0] / "shards") == []


# --- fencing
# --------------------------------------------------------------------------------------------------------


def test_no_shard_of_the_old_attempt_appears_after_the_new_one_started(
    run: tuple[Path, str],
) -> None:
    """Threads write as fast as they can while a new driver starts: what it sees first is all it
    ever sees."""
    path, old = run
    refused = []

    def writer(k: int) -> None:
        for i in range(10_000):
            try:
                write(path, old, row(k * 10_000 + i))
            except ShardError as error:
                refused.append(str(error))
                return

    threads = [threading.Thread(target=writer, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    while len(names(path / "shards")) < 10:
        pass
    start_attempt(path)
    shards = [name for name in names(path / "shards") if not name.startswith(".")]
    for thread in threads:
        thread.join()
    assert names(path / "shards") == shards  # and no temporary file either
    assert len(refused) == 3 and all("superseded" in text for text in refused)


def test_a_new_attempt_waits_for_a_rename_that_was_already_allowed(run: tuple[Path, str]) -> None:
    """Between a writer's check and its rename no new driver can start, so no scan can miss that
    rename."""
    path, old = run
    starter = threading.Thread(target=start_attempt, args=(path,))
    with as_attempt(path, old):
        starter.start()
        starter.join(timeout=0.3)
        assert starter.is_alive() and current_attempt(path) == old
    starter.join(timeout=300)
    assert current_attempt(path) != old


def test_nobody_writes_where_no_run_was_opened(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    with pytest.raises(ShardError, match=r"attempt\.json cannot be read .*no shard can be written"):
        write(tmp_path, "a" * 32, row())
    (tmp_path / "attempt.json").write_text("{")
    with pytest.raises(ShardError, match=r"attempt\.json cannot be read"):
        write(tmp_path, "a" * 32, row())


# --- disks that refuse
# ----------------------------------------------------------------------------------------------


def test_a_disk_that_refuses_is_said_with_what_to_try(tmp_path: Path) -> None:
    text = str(disk_error(tmp_path / "x", OSError(errno.ENOSPC, "No space left on device")))
    assert all(part in text for part in ("No space left on device", "bytes free", "run_dir="))
    for number in (errno.EACCES, errno.EPERM, errno.EROFS):
        text = str(disk_error(tmp_path / "x", OSError(number, "no")))
        assert "(no)" in text and "run_dir=" in text


def test_a_file_size_limit_is_reported_and_what_was_there_stays(run: tuple[Path, str]) -> None:
    path = write(*run, row(1, response="kept")).path
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, hard))
    try:
        with pytest.raises(ShardError, match="limit"):
            write(*run, row(1, response=os.urandom(200_000).hex()))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(run[0] / "shards") == [path.name]
    assert read_shard(path, SCHEMA).column("response").to_pylist() == ["kept"]


def test_a_run_directory_that_vanished_is_reported(run: tuple[Path, str]) -> None:
    (run[0] / "shards").rmdir()
    with pytest.raises(ShardError, match=r"its folder is missing.*every node mounts"):
        write(*run, row())
