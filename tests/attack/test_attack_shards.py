"""A bit of a shard that changed gives no other answer: the reader refuses it, and so does everything that judges."""

from pathlib import Path

import pyarrow as pa
import pytest

import audit
from audit.errors import AuditError, ShardError
from audit.shards.attempt import start_attempt
from audit.shards.shard_file import read_shard
from audit.shards.write import write_shard
from audit.sweep.audit import SCHEMA

FLIPS = 80


def places(size: int) -> list[tuple[int, int]]:
    """(byte, bit) over the whole file, its first and last bytes among them."""
    spread = {round(k * (size - 1) / (FLIPS - 1)) for k in range(FLIPS)}
    return [(at, at % 8) for at in sorted(spread)]


def flipped(data: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)


@pytest.fixture(scope="module", params=["arrow", "parquet"])
def shard(
    request: pytest.FixtureRequest, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, pa.Table]:
    (source,) = (built / "shards").glob("*.arrow")
    table = read_shard(source, SCHEMA)
    folder = tmp_path_factory.mktemp("shard")
    (folder / "shards").mkdir()
    return write_shard(folder, table, SCHEMA, attempt=start_attempt(folder), format=request.param).path, table


def test_a_reader_gives_what_was_written_or_nothing(shard: tuple[Path, pa.Table]) -> None:
    path, table = shard
    good, other = path.read_bytes(), []
    for at, bit in places(len(good)):
        path.write_bytes(flipped(good, at, bit))
        try:
            other += [] if read_shard(path, SCHEMA).equals(table) else [(at, bit)]
        except ShardError:
            continue
        finally:
            path.write_bytes(good)
    assert other == []


def test_nothing_that_reads_a_finished_run_takes_a_changed_shard(run_dir: Path) -> None:
    (path,) = (run_dir / "shards").glob("*.arrow")
    good, taken = path.read_bytes(), []
    for at, bit in places(len(good)):
        path.write_bytes(flipped(good, at, bit))
        for name in ("answers", "settings", "results"):
            try:
                getattr(audit.load(run_dir), name)()
                taken.append((name, at, bit))
            except AuditError:
                pass
    path.write_bytes(good)
    assert taken == [] and len(audit.load(run_dir).answers()) > 0
