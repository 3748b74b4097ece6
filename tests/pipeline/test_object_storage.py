"""A sweep on a real S3 server, its workers and driver killed: every key once, and no credential in
a byte stored."""

import os
import signal

import pytest
from commands_here import gate, report
from pipeline_helpers import until
from s3_server import CREDENTIALS, s3_server
from storm.nights import ray_workers

pytestmark = pytest.mark.long  # three drivers; tests/unit/shards tests the store itself

SWEEP = (
    "r=1..3",
    "n=60",
    "draws=nested",
    "ensemble_control=true",
    "store.rows_per_shard=24",
    "cluster.chunks_in_flight=4",
)
SLOW = "model.scripted.scripted.latency_s=1"  # a call: time to be killed in
ROWS = 60 * 7
SHARDS = "bucket/a/run/shards"


def test_every_key_once_on_object_storage_whoever_is_killed(
    cluster, command, sweep, monkeypatch, capsys
):
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server() as s3:
        url = s3.url("bucket/a/run")
        run = command(*SWEEP, SLOW, run_dir=url)

        def wait_for_shards(count: int) -> None:
            until(lambda: len(s3.names(SHARDS)) >= count, run.process)
            assert run.process.poll() is None, run.process.communicate()

        wait_for_shards(2)
        run.process.send_signal(
            signal.SIGSTOP
        )  # it lives, and asks for no more while the next lines take their time
        second = sweep(*SWEEP, run_dir=url)
        assert second.code == 1 and f"(process {run.process.pid}" in second.out, second.out
        victims = ray_workers(cluster.pid, "answer)")
        assert victims, "no such Ray worker: the test would prove nothing"
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        run.process.send_signal(signal.SIGCONT)
        wait_for_shards(len(s3.names(SHARDS)) + 3)  # of those that Ray started instead
        run.kill()
        assert gate([url]) == 1 and s3.manifest("bucket/a/run")["status"] == "running"

        before = len(s3.names(SHARDS))
        done = sweep(*SWEEP, run_dir=url)
        assert done.code == 0, done.out
        keys = s3.keys("bucket/a/run")
        assert len(keys) == len(set(keys)) == ROWS
        attempts = {shard["file"].split(".")[-2] for shard in s3.manifest("bucket/a/run")["shards"]}
        assert len(attempts) == 2 and before < len(s3.names(SHARDS))
        assert {"manifest s3://bucket/a/run/manifest.json"} <= set(done.out.splitlines())

        assert (
            report([url]) == 0
            and "report   s3://bucket/a/run/report/report.html" in capsys.readouterr().out
        )
        assert gate([url]) in (0, 3, 4, 5)
        stored = b"".join(s3.read(f"bucket/a/run/{name}") for name in s3.names("bucket/a/run"))
        output = done.out + second.out + "".join(capsys.readouterr())
        assert not any(
            value.encode() in stored or value in output for value in CREDENTIALS.values()
        )
