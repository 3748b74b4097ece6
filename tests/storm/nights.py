"""One night of a run: the same command again and again while something is killed, until it ends
well; then the count.

The engine is the scripted one, so that an undisturbed run says what every row must be, to the bit.
"""

import math
import multiprocessing
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.dataset as ds
from busy_ray import tell_agent_port

KINDS = ("engine", "stage", "driver", "node", "disk full")
SWEEP = (
    "model=scripted",
    "r=1..3",
    "n=208",
    "draws=nested",
    "ensemble_control=true",
    "clean_replicates=1",
    "noisy_replicates=1",
    "report=false",
    "progress=false",
    "store.rows_per_shard=12",
    "cluster.chunks_in_flight=4",
)
CHUNK_S = 0.5  # of a call to the engine: the run lasts long enough to be disturbed, and leaves the CPUs alone
KEY = ["model", "benchmark", "question_id", "arm", "routers", "replicate"]
_STUCK_S = 240.0  # an attempt that lasts longer than this after its last kill is a finding
_NODE_CPUS = 4

# Imported once, as starting the command anew costs ten seconds a time; all but Ray, whose client no
# fork survives.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    [
        "audit.sweep.__main__",
        "audit.config.resolve",
        "audit.sweep.report",
        "audit.runtime.summary",
        "pandas",
    ]
)


@dataclass
class Night:
    """What was done to one run, and what it then held. `looked_complete`: attempts that said so and
    were not."""

    seed: int
    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    rows: int = 0
    lost: int = 0
    double: int = 0
    wrong: int = 0
    looked_complete: int = 0
    stuck: int = 0
    seconds: float = 0.0

    @property
    def clean(self) -> bool:
        return not (self.lost or self.double or self.wrong or self.looked_complete or self.stuck)


class Nodes:
    """A Ray of its own: a head node, and workers beside it that die and are replaced."""

    def __init__(self, workers: int, port: int, gpus: int = 0) -> None:
        """gpus: of each worker; they are numbers alone."""
        os.environ.pop("RAY_ADDRESS", None)
        os.environ.update(
            RAY_AUTH_MODE="disabled",
            RAY_USAGE_STATS_ENABLED="0",
            RAY_DATA_USAGE_DISABLED="1",
            RAY_worker_niceness="0",
            # A dead node is found out within seconds, so that many can die in a night.
            RAY_health_check_period_ms="1000",
            RAY_health_check_failure_threshold="3",
        )
        from ray.cluster_utils import Cluster

        cpus = (
            0 if workers else _NODE_CPUS
        )  # a head without CPUs, as on a cluster, where there are others
        self._next_port = port
        self._cluster = Cluster()
        light = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        self._add(num_cpus=cpus, gcs_server_port=self._port(), **light)
        self.address = str(self._cluster.address)
        self._worker = {"num_cpus": _NODE_CPUS, "num_gpus": gpus}
        for _ in range(workers):
            self._add(**self._worker)

    def _add(self, **node: Any) -> None:
        ports = self._ports()
        tell_agent_port(ports["dashboard_agent_listen_port"])
        self._cluster.add_node(**node, **ports)

    def _port(self) -> int:
        self._next_port += 1
        return self._next_port

    def _ports(self) -> dict[str, Any]:
        """Of a node's agents, which Ray finds itself where it has the time (`tell_agent_port`)."""
        names = (
            "metrics_agent_port",
            "metrics_export_port",
            "dashboard_agent_listen_port",
            "runtime_env_agent_port",
        )
        return {name: self._port() for name in names}

    def victims(self, title: str) -> list[int]:
        return ray_workers(os.getpid(), title)

    def kill_node(self, rng: random.Random, joins: bool = True) -> None:
        """All of a worker node's processes at once, as when its machine loses power. joins: another
        one does."""
        node = rng.choice(sorted(self._cluster.worker_nodes, key=lambda node: str(node.unique_id)))
        raylets = [info.process.pid for group in node.all_processes.values() for info in group]
        everyone = [
            c
            for pid in raylets
            if psutil.pid_exists(pid)
            for c in psutil.Process(pid).children(True)
        ]
        self._cluster.remove_node(node, allow_graceful=False)
        for process in everyone:
            with _gone_is_fine():
                process.kill()
        if joins:
            self.join()

    def join(self) -> None:
        """Another worker joins."""
        self._add(**self._worker)

    def close(self) -> None:
        self._cluster.shutdown()


def ray_workers(parent: int, title: str) -> list[int]:
    """Ray's worker processes below this one (of no other Ray) whose title has this, such as
    EngineActor."""
    pids = []
    for process in psutil.Process(parent).children(recursive=True):
        with _gone_is_fine():
            if title in " ".join(process.cmdline()):
                pids.append(process.pid)
    return pids


class Disk:
    """The file system of the run directories (a small one of its own): full, and free again."""

    def __init__(self, folder: Path) -> None:
        self._ballast = folder / "ballast"

    def fill(self, rng: random.Random) -> None:
        """To the last byte, or up to some KB that a file or two still find."""
        with self._ballast.open("wb") as file:
            with suppress(OSError):
                while True:
                    os.write(file.fileno(), bytes(4096))
            left = rng.choice([0, 4096, 65536])
            os.ftruncate(file.fileno(), max(0, self._ballast.stat().st_size - left))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    with suppress(psutil.NoSuchProcess, ProcessLookupError):
        yield


def start(address: str, run_dir: Path, words: Sequence[str], log: Path) -> BaseProcess:
    """The command, as a process that can be killed."""
    process = _processes.Process(
        target=_drive, args=(address, [f"run_dir={run_dir}", *words], str(log))
    )
    process.start()
    return process


def _drive(address: str, words: list[str], log: str) -> None:
    from audit.config.command_line import configured
    from audit.core.exits import plainly, run_command
    from audit.sweep.__main__ import sweep

    os.environ["RAY_ADDRESS"] = address
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)
    run_command(lambda: plainly(sweep)(configured("sweep", words)))


def undisturbed(nodes: Nodes, folder: Path, words: Sequence[str]) -> pa.Table:
    """The rows of a run that nothing happens to, by key."""
    log = folder / "undisturbed.log"
    process = start(nodes.address, folder / "undisturbed", words, log)
    process.join(_STUCK_S)
    if process.exitcode != 0:
        raise RuntimeError(
            f"A run that nothing was done to ended with {process.exitcode}:\n{log.read_text()}"
        )
    rows = rows_by_key(folder / "undisturbed")
    assert rows.num_rows == rows.select(KEY).group_by(KEY).aggregate([]).num_rows > 0
    return rows


def rows_by_key(run_dir: Path) -> pa.Table:
    """Every row that any Arrow reader sees there, but for which replica answered."""
    if not any((run_dir / "shards").glob("*.arrow")):
        return pa.table({name: pa.array([], pa.string()) for name in KEY})
    return (
        ds.dataset(run_dir / "shards", format="ipc")
        .to_table()
        .drop_columns(["engine_id", "router_engine_ids"])
        .sort_by([(name, "ascending") for name in KEY])
    )


def night(
    seed: int,
    nodes: Nodes,
    folder: Path,
    disk: Disk | None,
    expected: pa.Table,
    words: Sequence[str],
    plan: Sequence[str],
    last_kill: float = math.inf,
    moments_s: tuple[float, float] = (12.0, 4.0),
) -> Night:
    """Disturb one run until all of `plan` was done, `last_kill` (monotonic) is past or it ended,
    then let it end. moments_s: the first kill of a start comes within so many seconds (from Ray's
    start over the engine's to the work), the next ones within so many of the one before."""
    rng, result, begun = random.Random(seed), Night(seed), time.monotonic()
    run_dir, log = folder / f"night-{seed}", folder / f"night-{seed}.log"
    kinds = list(plan)
    replicas = f"model.scripted.replicas={rng.choice([1, 2])}"
    code: int | None = None
    while code != 0:
        result.starts += 1
        process = start(nodes.address, run_dir, [*words, replicas], log)
        wait = rng.uniform(0, moments_s[0])
        moved = time.monotonic()
        while process.is_alive():
            process.join(0.1)
            wait -= 0.1
            if not process.is_alive() or wait > 0:
                continue
            if (
                kinds
                and time.monotonic() < last_kill
                and _strike(kinds[0], process, nodes, disk, rng)
            ):
                result.kills[kinds.pop(0)] += 1
                wait, moved = rng.uniform(0.1, moments_s[1]), time.monotonic()
            if time.monotonic() - moved > _STUCK_S:
                result.stuck += 1
                process.kill()
                process.join()
        if disk is not None:
            disk.free()
        code = process.exitcode
        finished = code == 0 or '"status": "finished"' in _manifest(run_dir)
        if finished and rows_by_key(run_dir).num_rows < expected.num_rows:
            result.looked_complete += 1
        if result.stuck > 1 or result.starts > 10 + 2 * len(
            plan
        ):  # once, the same command again has to get it done
            break
    rows = rows_by_key(run_dir)
    result.rows, result.seconds = rows.num_rows, round(time.monotonic() - begun, 1)
    result.lost, result.double, result.wrong = count(rows, expected)
    return result


def count(rows: pa.Table, expected: pa.Table) -> tuple[int, int, int]:
    """(keys lost, rows too many, rows that are not what the undisturbed run says), both tables by
    key."""
    if not rows.num_rows:
        return expected.num_rows, 0, 0
    keys = rows.select(KEY).group_by(KEY).aggregate([])
    lost = expected.num_rows - keys.join(expected.select(KEY), KEY, join_type="inner").num_rows
    double = rows.num_rows - keys.num_rows
    if rows.equals(expected):
        return lost, double, 0
    right = {tuple(row[name] for name in KEY): row for row in expected.to_pylist()}
    return (
        lost,
        double,
        sum(right.get(tuple(row[name] for name in KEY)) != row for row in rows.to_pylist()),
    )


def _manifest(run_dir: Path) -> str:
    path = run_dir / "manifest.json"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _strike(
    kind: str, process: BaseProcess, nodes: Nodes, disk: Disk | None, rng: random.Random
) -> bool:
    """Do it; False where there is nothing to kill yet."""
    if kind == "driver":
        process.kill()
    elif kind == "node":
        nodes.kill_node(rng)
    elif kind == "disk full":
        assert disk is not None
        disk.fill(rng)
    else:
        victims = nodes.victims({"engine": "ray::EngineActor", "stage": "MapBatches("}[kind])
        if not victims:
            return False
        with _gone_is_fine():
            os.kill(rng.choice(victims), signal.SIGKILL)
    return True
