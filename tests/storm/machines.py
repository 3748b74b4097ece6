"""Several machines on one: a Ray whose nodes have a network each, which can be pulled.

The head is in the network of this process, every worker node in a namespace of its own, and a
bridge joins them. Needs root or user namespaces (`own_network`); nothing of it is seen outside, so
its ports are Ray's usual ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from busy_ray import tell_agent_port

ROOT = Path(__file__).resolve().parents[2]
_RAY = str(Path(sys.executable).with_name("ray"))
_HEAD = "10.77.0.1"
_AGENT = 52365
_START_S = 120.0
_NOBODY = "02:00:00:00:00:99"  # an address that no machine has


def own_network() -> list[str] | None:
    """The words that give a command a network of its own; None where this machine allows none.
    Processes are its own too, so that all of them end with it, however it ends."""
    flags = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for words in (["unshare", *flags], ["unshare", "--map-root-user", *flags]):
        bridge = [*words, "ip", "link", "add", "name", "trial", "type", "bridge"]
        with suppress(FileNotFoundError):
            if subprocess.run(bridge, capture_output=True, check=False).returncode == 0:
                return words
    return None


class Machine:
    """A worker node, all of whose processes are in one network namespace."""

    def __init__(self, number: int, start: Sequence[str], env: dict[str, str], log: Path) -> None:
        self.address, self._link = f"10.77.0.{number}", f"worker{number}"
        self._holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        _until(
            lambda: _network(self._holder.pid) != _network(os.getpid()), 10, "no network namespace"
        )
        self._inside = inside = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net"]
        for words in (
            [
                "ip",
                "link",
                "add",
                self._link,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                str(self._holder.pid),
            ],
            ["ip", "link", "set", self._link, "master", "machines", "up"],
            [*inside, "ip", "address", "add", f"{self.address}/24", "dev", "eth0"],
            [*inside, "ip", "link", "set", "eth0", "up"],
            [*inside, "ip", "link", "set", "lo", "up"],
        ):
            subprocess.run(words, check=True)
        with log.open("w") as file:
            self.node = subprocess.Popen(
                [*inside, *start, f"--node-ip-address={self.address}"],
                env=env,
                stdout=file,
                stderr=file,
            )
        tell_agent_port(_AGENT, self.node.pid)

    def processes(self) -> list[int]:
        """All that run on it, by the network that they see."""
        network = _network(self._holder.pid)
        return [
            pid for pid in psutil.pids() if pid != self._holder.pid and _network(pid) == network
        ]

    def runs(self, title: str) -> int:
        """How many of Ray's processes there have this in their title, such as MapBatches."""
        count = 0
        for pid in self.processes():
            with suppress(psutil.NoSuchProcess):
                count += title in " ".join(psutil.Process(pid).cmdline())
        return count

    def unplug(self) -> None:
        """No packet comes or goes, and nobody is told: what it runs goes on."""
        subprocess.run(["ip", "link", "set", self._link, "nomaster"], check=True)

    def plug_in(self) -> None:
        subprocess.run(["ip", "link", "set", self._link, "master", "machines"], check=True)

    def lose(self, other: Machine) -> None:
        """What this one sends to the other one arrives nowhere; all others hear both."""
        self._neighbour("replace", other, "lladdr", _NOBODY, "nud", "permanent")

    def find(self, other: Machine) -> None:
        self._neighbour("delete", other)

    def _neighbour(self, do: str, other: Machine, *words: str) -> None:
        subprocess.run(
            [*self._inside, "ip", "neighbour", do, other.address, "dev", "eth0", *words], check=True
        )

    def kill(self) -> None:
        """kill -9 of everything at once, as when the power goes."""
        for pid in [*self.processes(), self._holder.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._holder.wait()


class Machines:
    """A head without CPUs, and workers. `head_options`: more words for `ray start --head`."""

    def __init__(
        self, folder: Path, workers: int, head_options: Sequence[str] = (), cpus: int = 2
    ) -> None:
        self._folder, self._next = folder, 2
        self.workers: list[Machine] = []
        self.env = {
            **os.environ,
            "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_process_group_cleanup_enabled": "1",
            "PATH": f"{Path(_RAY).parent}:{os.environ['PATH']}",
        }
        for name in ("RAY_ADDRESS", "PYTHONDONTWRITEBYTECODE"):
            self.env.pop(name, None)
        self.dashboard, self.address = f"http://{_HEAD}:8265", f"{_HEAD}:6379"
        for words in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "link", "add", "machines", "type", "bridge"],
            ["ip", "address", "add", f"{_HEAD}/24", "dev", "machines"],
            ["ip", "link", "set", "machines", "up"],
        ):
            subprocess.run(words, check=True)
        self._cpus, self._head_options = cpus, head_options
        self.start_head()
        for _ in range(workers):
            self.add()
        _until(lambda: self._joined(workers), _START_S, "the workers did not join")

    def _joined(self, workers: int) -> bool:
        for machine in list(self.workers):
            if (
                machine.node.poll() is not None
            ):  # Ray gives up a node that takes half a minute to start
                self.kill_worker(machine)
                self.add()
        return self.alive() == workers + 1

    def start_head(self) -> None:
        """The first one, or another in the place of one that was killed."""
        start = [
            _RAY,
            "start",
            "--head",
            "--block",
            "--num-cpus=0",
            f"--node-ip-address={_HEAD}",
            "--port=6379",
            "--dashboard-host=0.0.0.0",
            "--object-store-memory=200000000",
            f"--temp-dir={self._folder}/head",
            *self._head_options,
        ]
        deadline = time.monotonic() + _START_S
        while True:
            with (self._folder / "head.log").open("a") as log:
                self._head = subprocess.Popen(start, env=self.env, stdout=log, stderr=log)
            tell_agent_port(_AGENT, self._head.pid)
            while self._head.poll() is None:
                if self.jobs("list").returncode == 0:
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(f"The head did not start: {self._folder}/head.log")

    def kill_head(self) -> None:
        """Its Ray and what that started, the drivers among it."""
        everyone = [
            *psutil.Process(self._head.pid).children(recursive=True),
            psutil.Process(self._head.pid),
        ]
        for process in everyone:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._head.wait()

    def add(self) -> Machine:
        start = [
            _RAY,
            "start",
            "--block",
            f"--address={self.address}",
            f"--num-cpus={self._cpus}",
            "--object-store-memory=100000000",
            f"--temp-dir={self._folder}/{self._next}",
        ]
        machine = Machine(self._next, start, self.env, self._folder / f"worker{self._next}.log")
        self._next += 1
        self.workers.append(machine)
        return machine

    def kill_worker(self, machine: Machine) -> None:
        machine.kill()
        self.workers.remove(machine)

    def jobs(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [_RAY, "job", *words, "--address", self.dashboard],
            env=self.env,
            capture_output=True,
            text=True,
            check=False,
        )

    def nodes(self) -> list[dict[str, Any]]:
        """Those that Ray has known; [] where its dashboard does not answer."""
        try:
            with urllib.request.urlopen(f"{self.dashboard}/api/v0/nodes", timeout=10) as reply:
                nodes: list[dict[str, Any]] = json.load(reply)["data"]["result"]["result"]
        except OSError:
            return []
        return nodes

    def alive(self) -> int:
        return sum(node["state"] == "ALIVE" for node in self.nodes())

    def submit(self, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """`jobs/submit.py`, which ends with the driver's own exit code."""
        command = [
            sys.executable,
            "jobs/submit.py",
            "--address",
            self.dashboard,
            "--",
            "python",
            "-m",
            *words,
        ]
        with log.open("ab") as file:
            return subprocess.Popen(command, cwd=ROOT, env=self.env, stdout=file, stderr=file)

    def drive(self, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
        """The command on the head, and no job: the nodes have the program, and nothing is unpacked
        there."""
        env = {**self.env, "RAY_ADDRESS": self.address}
        with log.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-m", *words], cwd=ROOT, env=env, stdout=file, stderr=file
            )

    def close(self) -> None:
        for machine in self.workers:
            machine.kill()
        self.kill_head()


def _network(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino
    except OSError:
        return 0


def _until(true: Any, seconds: float, otherwise: str) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            raise TimeoutError(otherwise)
        time.sleep(0.5)
