import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_tables import digests_of_keys, iter_outcomes
from shard_rows import names, new_run, row, write

from audit.errors import ShardError
from audit.records import Setting
from audit.shards.complete import verify_run
from audit.shards.keys import KeySet, digest_grid
from audit.shards.read import scan_run
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm


def keys(questions: Iterable[int]) -> KeySet:
    return KeySet.of(digests_of_keys([row(q).key for q in questions]))


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, str]:
    return new_run(tmp_path / "run")


def test_a_whole_run_is_complete(run: tuple[Path, str]) -> None:
    write(*run, row(0), row(1))
    write(*run, row(2))
    report = verify_run(run[0], SCHEMA, keys(range(3)), run[1])
    assert report.complete and (report.rows, report.expected, report.duplicates_removed) == (3, 3, 0)
    report.require_complete()
    assert len(report.shards) == 2


def test_missing_and_unexpected_rows_are_counted_and_named(run: tuple[Path, str]) -> None:
    write(*run, row(0), row(1), row(77))
    report = verify_run(run[0], SCHEMA, keys(range(5)), run[1])
    assert (report.rows, report.missing, report.unexpected) == (3, 3, 1)
    with pytest.raises(ShardError, match=r"holds 3 rows where 5 were expected: 3 missing, 1 that no question"):
        report.require_complete()
    grid = digest_grid("m", "b", [f"q{q}" for q in range(5)], [Setting(Arm.NOISY_REWRITE, 1)])
    by_grid = verify_run(run[0], SCHEMA, KeySet.of(grid), run[1])
    assert (by_grid.missing, by_grid.unexpected) == (3, 1)


def test_of_two_rows_with_one_key_the_older_stays(run: tuple[Path, str]) -> None:
    newer = write(*run, row(0, response="new"), row(1))
    older = write(*run, row(0, response="old"), row(2))
    gone = write(*run, row(2, response="newest"))
    for age, info in enumerate((older, newer, gone)):
        os.utime(info.path, (1000 + age, 1000 + age))
    report = verify_run(run[0], SCHEMA, keys(range(3)), run[1])
    assert (report.rows, report.duplicates_removed, report.complete) == (3, 2, True)
    assert {o.question_id: o.response for o in iter_outcomes(run[0])} == {"q0": "old", "q1": "A", "q2": "A"}
    assert names(run[0] / "shards") == sorted([newer.path.name, older.path.name])
    assert {s.path: s.sha256 for s in report.shards} == {s.path: s.sha256 for s in scan_run(run[0], SCHEMA).shards}


@settings(max_examples=15)
@given(chunks=st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=1, max_size=6))
def test_whatever_overlaps_every_key_is_there_once(
    chunks: list[set[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run, attempt = new_run(tmp_path_factory.mktemp("overlap") / "run")
    for chunk in chunks:
        write(run, attempt, *(row(q) for q in sorted(chunk)))
    distinct = {frozenset(c) for c in chunks}  # the same chunk again replaces its own shard
    wanted = set().union(*chunks)
    report = verify_run(run, SCHEMA, keys(wanted), attempt)
    assert report.complete and report.duplicates_removed == sum(map(len, distinct)) - len(wanted)
    assert sorted(o.question_id for o in iter_outcomes(run)) == sorted(f"q{q}" for q in wanted)
    assert verify_run(run, SCHEMA, keys(wanted), attempt).duplicates_removed == 0


def test_a_truncated_shard_counts_as_missing(run: tuple[Path, str]) -> None:
    write(*run, row(0))
    cut = write(*run, row(1), row(2)).path
    cut.write_bytes(cut.read_bytes()[:-1])
    report = verify_run(run[0], SCHEMA, keys(range(3)), run[1])
    assert report.missing == 2 and [c.path for c in report.corrupt] == [cut] and not report.complete


def test_a_superseded_driver_repairs_nothing(run: tuple[Path, str]) -> None:
    write(*run, row(0), row(1))
    write(*run, row(1))
    with pytest.raises(ShardError, match="superseded"):
        verify_run(run[0], SCHEMA, keys(range(2)), "f" * 32)
    scan = scan_run(run[0], SCHEMA)
    assert scan.duplicates == 1 and [info.rows for info in scan.shards] in ([1, 2], [2, 1])
