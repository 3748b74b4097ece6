"""`PYTHONPATH=tests python -m storm.cluster CASE ...`: a cluster of three nodes, a job, and what
can happen to both.

The head has no CPUs, the two workers have a network each (`storm.machines`), the sweep is submitted
as a job. Each case prints one line: what was done, how long nothing was stored, what the job said
meanwhile, and its rows against those of a run that nothing was done to."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from storm.machines import Machine, Machines, own_network
from storm.nights import SWEEP, count, rows_by_key

_ALONE = "STORM_HAS_A_NETWORK"
_JOB = (
    "audit.sweep",
    *(word for word in SWEEP if not word.startswith("progress")),
    "cluster=ray_address",
)
_CASE_S = 200.0
_BEGUN = 8  # shards: the work is under way

_ON_GPU = ("model.scripted.scripted.on_gpu=true", "cluster.autoscale=true")

_TWO_MODELS = (
    "model=[scripted,other]",
    "benchmark=elementary",
    f"hydra.searchpath=[file://{Path(__file__).parent / 'conf'}]",
)

# Ray's own fake provider: its "machines" are processes on the head, which is what a GPU is there
# too.
_AUTOSCALING: dict[str, Any] = {
    "cluster_name": "storm",
    "max_workers": 2,
    "idle_timeout_minutes": 5,
    "upscaling_speed": 1.0,
    "provider": {
        "type": "fake_multinode",
        "gcs_address": "10.77.0.1:6379",
        "use_node_id_as_ip": True,
        "disable_node_updaters": True,
        "disable_launch_config_check": True,
    },
    "auth": {"ssh_user": "nobody"},
    "head_node_type": "ray.head.default",
    "head_node": {},
    "worker_nodes": {},
    "file_mounts": {},
    "cluster_synced_files": [],
    "initialization_commands": [],
    "setup_commands": [],
    "head_setup_commands": [],
    "worker_setup_commands": [],
    "head_start_ray_commands": [],
    "worker_start_ray_commands": [],
    "available_node_types": {
        "ray.head.default": {"resources": {}, "node_config": {}, "max_workers": 0},
        "gpu": {
            "resources": {"CPU": 2, "GPU": 1, "object_store_memory": 100_000_000},
            "node_config": {},
            "min_workers": 0,
            "max_workers": 2,
        },
    },
}


class Job:
    """A sweep that is submitted, and what it stores and says."""

    def __init__(self, machines: Machines, folder: Path, name: str, *words: str) -> None:
        self._machines, self.run_dir, self.log = machines, folder / name, folder / f"{name}.log"
        models = [word for word in (*_JOB, *words) if word.startswith("model=")]
        self._words = [word for word in (*_JOB, *words) if word not in models[:-1]] + [
            f"run_dir={self.run_dir}"
        ]
        self.codes: list[int] = []
        self.still_s = 0.0

    def start(
        self, how: Callable[[Sequence[str], Path], subprocess.Popen[bytes]] | None = None
    ) -> None:
        self._process = (how or self._machines.submit)(self._words, self.log)

    def stored(self) -> int:
        return len(list((self.run_dir / "shards").glob("*.arrow")))

    def begin(self) -> None:
        """Submit it, until its work is under way."""
        self.start()
        deadline = time.monotonic() + _CASE_S
        while self.stored() < _BEGUN:
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(
                    f"It ended before there were {_BEGUN} shards:\n{self.log.read_text()[-3000:]}"
                )
            time.sleep(0.1)

    def wait(self, meanwhile: Callable[[float], None] = lambda seconds: None) -> int:
        """Its exit code. meanwhile: called with the seconds since this began, once a second."""
        begun = moved = time.monotonic()
        stored = self.stored()
        while (code := self._process.poll()) is None and time.monotonic() < begun + _CASE_S:
            time.sleep(1)
            if (now := self.stored()) != stored:
                self.still_s = max(self.still_s, time.monotonic() - moved)
                stored, moved = now, time.monotonic()
            meanwhile(time.monotonic() - begun)
        if code is None:
            self._process.kill()
            code = -1
        self.codes.append(code)
        return code

    def messages(self) -> list[str]:
        """The sentences about what it waits for or why it ended."""
        pattern = re.compile(
            r"nothing was stored|waiting for .* GPU|no longer answers|^error:|failed with exit code"
        )
        return [line.strip() for line in self.log.read_text().splitlines() if pattern.search(line)]

    def driver(self) -> psutil.Process:
        for process in psutil.process_iter():
            try:
                words = process.cmdline()
            except psutil.Error:
                continue
            if words[1:3] == ["-m", "audit.sweep"] and f"run_dir={self.run_dir}" in words:
                return process
        raise RuntimeError("There is no driver.")


def _busiest(machines: Machines) -> Machine:
    return max(machines.workers, key=lambda machine: machine.runs("MapBatches"))


def node_killed(machines: Machines, job: Job) -> None:
    job.begin()
    machines.kill_worker(_busiest(machines))
    job.wait()


def driver_killed(machines: Machines, job: Job) -> None:
    job.begin()
    job.driver().kill()
    job.wait()
    job.start()
    job.wait()


def no_worker_left(machines: Machines, job: Job) -> None:
    """Until one joins, 70 seconds later."""
    job.begin()
    for machine in list(machines.workers):
        machines.kill_worker(machine)

    def meanwhile(seconds: float) -> None:
        if seconds > 70 and not machines.workers:
            machines.add()

    job.wait(meanwhile)


def head_killed(machines: Machines, job: Job) -> None:
    """The whole of its machine. A new cluster is started, and the same job submitted to it."""
    job.begin()
    machines.kill_head()
    job.wait()
    for machine in list(machines.workers):
        machines.kill_worker(machine)
    machines.start_head()
    machines.add()
    machines.add()
    job.start()
    job.wait()


def workers_apart_75_s(machines: Machines, job: Job) -> None:
    """The workers do not hear each other, and the head hears both: Ray gives up neither."""
    job.begin()
    first, other = machines.workers
    first.lose(other)
    other.lose(first)

    def found_again() -> None:
        first.find(other)
        other.find(first)

    _meanwhile(job, 75.0, found_again)


def _silent(machines: Machines, job: Job, for_s: float) -> None:
    """After 25 s a node is back before Ray gives it up, with all that it was doing. After 75 s Ray
    has given it up, and its work goes on elsewhere when it is back, with stages that know nothing
    of it."""
    job.begin()
    machine = _busiest(machines)
    machine.unplug()
    _meanwhile(job, for_s, machine.plug_in)


def _meanwhile(job: Job, for_s: float, mend: Callable[[], None]) -> None:
    """Wait for the job, and mend what was done to it after so many seconds."""
    mended = False

    def meanwhile(seconds: float) -> None:
        nonlocal mended
        if seconds > for_s and not mended:
            mend()
            mended = True

    job.wait(meanwhile)
    if not mended:
        raise RuntimeError(f"The job ended before that was over:\n{job.log.read_text()[-3000:]}")


def autoscaled(machines: Machines, job: Job) -> None:
    """No node but the head: a GPU is asked for, and the autoscaler starts a node that has one."""
    job.start()
    job.wait()


def two_autoscaled(machines: Machines, job: Job) -> None:
    """Two replicas, or models, ask for a GPU each while there is none, and get a node each. Not
    submitted: what the fake provider starts unpacks a job's files into one folder, each node in the
    other's way."""
    job.start(machines.drive)
    job.wait()


_TWO = "model.scripted.replicas=2"
_SLOWER = "model.scripted.scripted.latency_s=0.8"
CASES: dict[str, tuple[Callable[[Machines, Job], None], tuple[str, ...]]] = {
    "node_killed": (node_killed, (_TWO,)),
    "driver_killed": (driver_killed, ()),
    "no_worker_left": (no_worker_left, ()),
    "head_killed": (head_killed, ()),
    "node_silent_25_s": (partial(_silent, for_s=25.0), (_TWO,)),
    "node_silent_75_s": (partial(_silent, for_s=75.0), (_TWO, _SLOWER)),
    "workers_apart_75_s": (workers_apart_75_s, (_TWO, _SLOWER)),
    "autoscaled": (autoscaled, _ON_GPU),
    "two_autoscaled": (two_autoscaled, (*_ON_GPU, _TWO)),
    "models_autoscaled": (two_autoscaled, (*_ON_GPU, *_TWO_MODELS)),
}


@contextmanager
def _cluster(case: str, folder: Path) -> Iterator[Machines]:
    options: list[str] = []
    if case.endswith("autoscaled"):
        (folder / "autoscaling.json").write_text(json.dumps(_AUTOSCALING))
        options = [f"--autoscaling-config={folder}/autoscaling.json"]
        # So seldom that a node takes a while to come, as a real one does.
        os.environ.update(RAY_FAKE_CLUSTER="1", AUTOSCALER_UPDATE_INTERVAL_S="25")
    machines = Machines(folder, 0 if options else 2, options)
    try:
        yield machines
    finally:
        machines.close()


def run(case: str, calm_run: Path | None = None, questions: int = 208) -> dict[str, Any]:
    """What happened to the job. calm_run: one that nothing was done to; else one is run
    afterwards."""
    do, words = CASES[case]
    folder = Path(
        tempfile.mkdtemp(prefix="m-", dir="/tmp")
    )  # Ray's sockets lie here, whose paths must be short
    begun = time.monotonic()
    with _cluster(case, folder) as machines:
        up_s = time.monotonic() - begun
        job = Job(
            machines,
            folder,
            case,
            f"n={questions}",
            "model.scripted.scripted.latency_s=0.5",
            *words,
        )
        try:
            do(machines, job)
            job_s = time.monotonic() - begun - up_s
            calm_run = calm_run or _calm(
                machines, folder, f"n={questions}", *(words if words[:2] == _ON_GPU else ())
            )
        finally:
            nodes = [f"{node['node_ip']} {node['state']}" for node in machines.nodes()]
    rows, expected = rows_by_key(job.run_dir), rows_by_key(calm_run)
    lost, double, wrong = count(rows, expected)
    return {
        "case": case,
        "up_s": round(up_s),
        "exit_codes": job.codes,
        "rows": rows.num_rows,
        "lost": lost,
        "double": double,
        "wrong": wrong,
        "nothing_stored_s": round(job.still_s),
        "job_s": round(job_s),
        "said": job.messages(),
        "nodes": nodes,
        "logs": str(folder),
    }


def _calm(machines: Machines, folder: Path, *words: str) -> Path:
    calm = Job(machines, folder, "calm", *words)
    calm.start()
    if calm.wait() != 0:
        raise RuntimeError(
            f"A run that nothing was done to failed:\n{calm.log.read_text()[-3000:]}"
        )
    return calm.run_dir


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m storm.cluster", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("case", choices=CASES, help="; ".join(CASES))
    parser.add_argument("--questions", type=int, default=208)
    parser.add_argument(
        "--calm", type=Path, default=None, help="a run that nothing was done to; else one follows"
    )
    options = parser.parse_args()
    if _ALONE not in os.environ:
        words = own_network()
        if words is None:
            print(
                "No network namespace can be made here: root or user namespaces are needed, and `ip`."
            )
            return 2
        command = [*words, sys.executable, "-m", "storm.cluster", *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, _ALONE: "yes"}, check=False).returncode
    outcome = run(options.case, options.calm, options.questions)
    print(json.dumps(outcome, indent=1))
    return int(
        bool(
            outcome["lost"]
            or outcome["double"]
            or outcome["wrong"]
            or outcome["exit_codes"][-1] != 0
        )
    )


if __name__ == "__main__":
    sys.exit(main())
