"""Kills on object storage: a driver killed at random moments while its writers live on, then one
that is left alone.

    PYTHONPATH=tests:tests/unit/shards python -m bench.object_storage --kills 20 [--late]

No Ray: three writers a start, each a process that PUTs shards into moto's S3 server. Every start
cuts the missing questions into chunks of another size. --late: writers do not look whether they
were superseded, so that rows are stored twice."""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

import psutil
from outcome_tables import outcomes_to_table
from s3_server import CREDENTIALS, S3Server, s3_server
from shard_rows import row

from audit.core.errors import ShardError
from audit.core.records import Setting
from audit.shards import write
from audit.shards.complete import verify_run
from audit.shards.keys import KeySet, digest_grid
from audit.shards.manifest import open_run_dir
from audit.shards.read import scan_run
from audit.shards.working_copy import fetch_shards, where, working_copy
from audit.sweep.audit import SCHEMA

QUESTIONS = 600
RUN = "bucket/storm/run"


def writer(url: str, attempt: str, chunks: list[list[int]], late: bool) -> None:
    if late:
        write.check_stored_attempt = lambda store, attempt: None
    for chunk in chunks:
        time.sleep(random.random() * 0.6)
        try:
            write.write_shard(
                url, outcomes_to_table([row(k) for k in chunk]), SCHEMA, attempt=attempt
            )
        except ShardError as error:  # superseded
            print(str(error).split(":")[0], flush=True)
            return


def driver(url: str, late: bool) -> None:
    grid = digest_grid(
        "m", "b", [f"q{k}" for k in range(QUESTIONS)], [Setting(row().arm, 1, 0)]
    ).reshape(-1, 2)
    with open_run_dir(working_copy(url), SCHEMA, "f", {}) as run:
        todo = (~scan_run(run.path, SCHEMA).done.contains(grid)).nonzero()[0].tolist()
        size = random.choice([7, 10, 13])
        chunks = [todo[start : start + size] for start in range(0, len(todo), size)]
        started = []
        for k in range(3):
            task = json.dumps([where(run.path), run.attempt, chunks[k::3], late])
            started.append(
                subprocess.Popen([sys.executable, "-m", "bench.object_storage", "--writer", task])
            )
        for process in started:
            process.wait()
        fetch_shards(run.path)
        verification = verify_run(run.path, SCHEMA, KeySet.of(grid), run.attempt)
        verification.require_complete()
        run.update(status="finished", shards=[shard.record() for shard in verification.shards])
        print(f"finished; {verification.rows} rows", flush=True)


def _driver_of(s3: S3Server) -> int:
    if "attempt.json" not in s3.names(RUN):
        return 0
    return json.loads(s3.read(f"{RUN}/attempt.json"))["pid"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--late", action="store_true")
    parser.add_argument("--driver", help=argparse.SUPPRESS)
    parser.add_argument("--writer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.writer:
        return writer(*json.loads(arguments.writer))
    if arguments.driver:
        return driver(arguments.driver, arguments.late)
    os.environ |= CREDENTIALS
    with s3_server() as s3:
        words = [
            sys.executable,
            "-m",
            "bench.object_storage",
            "--driver",
            s3.url(RUN),
            *["--late"] * arguments.late,
        ]
        for _ in range(arguments.kills):
            process = subprocess.Popen(words)
            while process.poll() is None and _driver_of(s3) != process.pid:
                time.sleep(0.1)  # until it has opened the run: what is killed is at work
            time.sleep(3 * random.random())
            process.send_signal(signal.SIGKILL)
            process.wait()
        subprocess.run(words, check=True)
        for left in psutil.process_iter(["cmdline"]):  # writers that lost their driver
            if (
                "--writer" in (left.info["cmdline"] or ())
                and s3.endpoint in left.info["cmdline"][-1]
            ):
                left.wait()
        keys, listed = s3.keys(RUN), len(s3.manifest(RUN)["shards"])
        lost, double = QUESTIONS - len(set(keys)), len(keys) - len(set(keys))
        objects = len(s3.names(f"{RUN}/shards"))
        print(
            f"{arguments.kills} kills: {lost} lost, {double} double; {listed} shards listed, {objects} objects there, ",
            f"{s3.manifest(RUN)['attempts']} starts",
            sep="",
        )
        sys.exit(bool(lost or double))


if __name__ == "__main__":
    main()
