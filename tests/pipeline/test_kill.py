"""kill -9 at many moments, then the same command again: every key once, nothing lost, finished work
not repeated."""

import os
import re
import signal
import threading
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from audit_here import sweep_here
from commands_here import gate
from pipeline_helpers import keys_of, rows_of, until
from storm.nights import night, ray_workers, rows_by_key

from audit.sweep.report import REPORT

SWEEP = (
    "r=1..3",
    "n=60",
    "draws=nested",
    "ensemble_control=true",
    "clean_replicates=1",
    "noisy_replicates=1",
    "store.rows_per_shard=24",
    "cluster.chunks_in_flight=4",
    "model.scripted.scripted.latency_s=0.2",
)
SLOWER = "model.scripted.scripted.latency_s=0.7"  # where a kill has to come before the end
ROWS = 60 * 7
# What Ray says of its own work while processes end: nothing of it needs an action.
NOISE = re.compile(
    r"Traceback|KeyError|StatsActor|retries remaining|unavailable|Unhandled|raylet|ray::"
)


def assert_every_key_once(run_dir) -> None:
    keys = keys_of(run_dir)
    assert len(keys) == len(set(keys)) == ROWS


def assert_complete(sweep, run) -> str:
    """The same sweep again ends well, with every key once, and does not touch the shards that were
    there. What it printed."""
    before = {p.name: p.stat().st_mtime_ns for p in (run.run_dir / "shards").glob("*.arrow")}
    done = sweep(*SWEEP, "model.scripted.scripted.latency_s=0", run_dir=run.run_dir)
    assert done.code == 0, done.out
    assert_every_key_once(run.run_dir)
    quarantined = {
        p.stem for p in (run.run_dir / "quarantine").glob("*")
    }  # a word of its own follows the name there
    after = {p.name: p.stat().st_mtime_ns for p in (run.run_dir / "shards").glob("*.arrow")}
    assert all(after[name] == stamp for name, stamp in before.items() if name not in quarantined)
    return done.out


class _Cluster:
    """The tests' cluster as a storm sees it. Its one node is not killed."""

    def __init__(self, cluster) -> None:
        self.address = cluster.address
        self.victims = partial(ray_workers, cluster.pid)


@pytest.fixture(scope="module")
def undisturbed(driver, tmp_path_factory) -> Path:
    """The folder of the run that nothing happens to. To be read only."""
    done = sweep_here(*SWEEP, run_dir=tmp_path_factory.mktemp("undisturbed") / "run")
    assert done.code == 0, done.out
    return done.run_dir


@pytest.mark.long
def test_a_short_storm(cluster, undisturbed, tmp_path):
    """As `make storm`, whose every kind but a lost node and a full disk it has: a stage, both
    replicas, the driver."""
    words = ("model=scripted", *SWEEP, "report=false", "progress=false", SLOWER)
    plan = ("stage", "engine", "driver", "stage", "engine")
    expected = rows_by_key(undisturbed)
    assert expected.num_rows == ROWS
    result = night(
        4, _Cluster(cluster), tmp_path, None, expected, words, plan, moments_s=(1.0, 1.0)
    )
    assert result.kills == Counter(plan), (
        "the run ended first: the test would prove less than it says"
    )
    assert result.rows == ROWS and result.starts > 1 and result.clean, result


def test_the_engine_is_killed_once_and_then_once_too_often(cluster, command, sweep, capsys):
    """What is left of the run is reported as incomplete until it is complete; a truncated shard is
    redone."""
    run = command(*SWEEP, SLOWER)
    run.wait_for_shards(2)
    (first,) = ray_workers(cluster.pid, "ray::EngineActor")
    for pid in (
        first,
        *ray_workers(cluster.pid, "ray::_StatsActor"),
    ):  # a busy machine loses Ray Data's statistics too
        os.kill(pid, signal.SIGKILL)
    written = len(list((run.run_dir / "shards").glob("*.arrow")))
    run.wait_for_shards(written + 5)  # at most four chunks were in flight: a new engine answered
    (second,) = ray_workers(cluster.pid, "ray::EngineActor")
    assert second != first
    os.kill(second, signal.SIGKILL)
    code, out = run.wait()
    assert code == 1
    assert "max_restarts" in out
    assert not NOISE.search(out), out
    rows = len(keys_of(run.run_dir))
    assert 0 < rows < ROWS
    (part,) = REPORT.build([run.run_dir], run.run_dir / "report", n_resamples=200).incomplete
    assert (part.found, part.expected) == (rows, ROWS)
    assert gate([str(run.run_dir)]) == 1
    assert f"INCOMPLETE, {rows} OF {ROWS} ANSWERS" in capsys.readouterr().out
    shard = sorted((run.run_dir / "shards").glob("*.arrow"))[0]
    whole = shard.read_bytes()
    shard.write_bytes(whole[: len(whole) // 2])
    assert "quarantine" in assert_complete(sweep, run)
    assert gate([str(run.run_dir)]) == 1  # the report is of the part
    assert "Build it again" in capsys.readouterr().err
    assert REPORT.build([run.run_dir], run.run_dir / "report", n_resamples=200).incomplete == ()
    assert gate([str(run.run_dir), "--trust-report"]) in (
        0,
        3,
        4,
        5,
    )  # of fewer resamples than a run's own


def test_a_replica_dies_for_good_and_the_other_one_finishes_every_row(cluster, sweep, tmp_path):
    shards = tmp_path / "run" / "shards"
    dead: list[int] = []

    def kill_one() -> None:
        until(lambda: len(list(shards.glob("*.arrow"))) >= 2)
        dead.extend(ray_workers(cluster.pid, "ray::EngineActor")[:1])
        os.kill(dead[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_one)
    killer.start()
    done = sweep(
        *SWEEP,
        "model.scripted.replicas=2",
        "model.scripted.max_restarts=0",
        run_dir=tmp_path / "run",
    )
    killer.join()
    assert done.code == 0 and dead, done.out
    assert "ActorDiedError" in done.out  # it was not started again
    assert_every_key_once(done.run_dir)
    rows = rows_of(done.run_dir)
    assert {row["engine_id"] for row in rows} == {"scripted/0", "scripted/1"}, (
        "one of them answered nothing"
    )
    assert not any(row["error"] for row in rows)
