"""A real local Ray cluster (`ray start --head`), shared by the pipeline tests, and runs of the real
command on it."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from audit_here import SMALL, Finished, sweep_here
from busy_ray import tell_agent_port
from paths import RAY
from pipeline_helpers import launch, until, write_model
from s3_server import CREDENTIALS
from storm.endpoint import KEY, KEY_ENV

# Of this process alone, and below those that a system gives out itself: two test runs on one
# machine do not meet.
_PORT, _DASHBOARD, _METRICS, _CLIENTS, _AGENT = (
    20_000 + os.getpid() % 1_200 * 10 + k for k in range(5)
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.pipeline)
            item.add_marker(
                pytest.mark.timeout(1800)
            )  # for what hangs alone: a busy machine takes what it takes


@pytest.fixture(autouse=True)
def _only_shared_runs_have_drawings(no_figures: None) -> None:
    """A module's fixtures are made before this one."""


@dataclass
class Cluster:
    """A running head node. `env` makes commands join it."""

    address: str
    dashboard: str
    metrics: str
    pid: int
    env: dict[str, str] = field(default_factory=dict)


@pytest.fixture(scope="package")
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    jobs = any("test_jobs" in item.nodeid for item in request.session.items)  # long, as a rule
    env = {
        **os.environ,
        **CREDENTIALS,
        KEY_ENV: KEY,
        "RAY_AUTH_MODE": "disabled",
        "RAY_worker_niceness": "0",
        "PATH": f"{RAY.parent}{os.pathsep}{os.environ['PATH']}",
    }
    env.pop("RAY_ADDRESS", None)
    # A folder of its own, as a submitted job joins the cluster that was started last in the folder
    # of its cluster. Not below pytest's: the path of a socket has at most 107 characters.
    folder = tempfile.mkdtemp(prefix="ray-")
    options = [
        f"--port={_PORT}",
        "--node-ip-address=127.0.0.1",
        "--dashboard-host=127.0.0.1",
        f"--dashboard-port={_DASHBOARD}",
        f"--metrics-export-port={_METRICS}",
        f"--ray-client-server-port={_CLIENTS}",
        f"--dashboard-agent-grpc-port={_AGENT}",
        f"--dashboard-agent-listen-port={_AGENT + 1}",
        f"--runtime-env-agent-port={_AGENT + 2}",
        f"--include-dashboard={str(jobs).lower()}",
        "--include-log-monitor=false",
        "--num-cpus=4",
        "--disable-usage-stats",
        "--object-store-memory=500000000",
        f"--temp-dir={folder}",
    ]
    # In a session of its own, and ended as one: `ray stop` would end every Ray of this machine.
    with (tmp_path_factory.mktemp("ray") / "head.log").open("w+") as log:
        command = [RAY, "start", "--head", "--block", *options]
        address, dashboard = f"127.0.0.1:{_PORT}", f"http://127.0.0.1:{_DASHBOARD}"
        try:
            for _ in range(
                3
            ):  # one start that is late on a busy machine would fail every test of this folder
                head = subprocess.Popen(
                    command, env=env, stdout=log, stderr=log, start_new_session=True
                )
                tell_agent_port(_AGENT + 1, head.pid)
                if _answers(dashboard if jobs else None, head):
                    break
                _end(head)
            else:
                pytest.fail(Path(log.name).read_text())
            metrics = f"http://127.0.0.1:{_METRICS}/metrics"
            yield Cluster(address, dashboard, metrics, head.pid, {**env, "RAY_ADDRESS": address})
        finally:
            _end(head)
            shutil.rmtree(folder, ignore_errors=True)  # its last process may still write


def _end(head: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(head.pid, signal.SIGTERM)
        head.wait(5)  # an orderly end takes half a minute, and nothing is left to keep
    except subprocess.TimeoutExpired:
        os.killpg(head.pid, signal.SIGKILL)
        head.wait()
    except ProcessLookupError:
        pass  # it never started, which was said


def _answers(dashboard: str | None, head: subprocess.Popen[bytes]) -> bool:
    """Wait until the head node answers and its dashboard, if any, takes jobs; False where it ended,
    or took 300 s."""
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline and head.poll() is None:
        with contextlib.suppress(OSError):
            if dashboard is None:
                socket.create_connection(("127.0.0.1", _PORT), 5).close()
            else:
                urllib.request.urlopen(f"{dashboard}/api/jobs/", timeout=5).close()
            return True
        time.sleep(0.2)
    return False


@dataclass
class Run:
    """One start of `python -m audit.sweep`."""

    process: subprocess.Popen[str]
    run_dir: Path

    def wait(self, timeout: float = 900) -> tuple[int, str]:
        out, _ = self.process.communicate(timeout=timeout)
        return self.process.returncode, out

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=900)

    def wait_for_shards(self, count: int) -> None:
        """Until so many shards are there, or the run ended."""
        until(lambda: len(list((self.run_dir / "shards").glob("*.arrow"))) >= count, self.process)


@pytest.fixture(scope="package")
def driver(cluster: Cluster) -> Iterator[None]:
    """This process as a driver of the cluster; a sweep finds Ray initialised and uses it."""
    import ray

    from audit.config.base import ClusterConfig
    from audit.runtime.start import start_ray

    with pytest.MonkeyPatch.context() as patch:
        for name in ("RAY_AUTH_MODE", "RAY_ADDRESS"):
            patch.setenv(name, cluster.env[name])
        start_ray(ClusterConfig(address=cluster.address))
        yield
        ray.shutdown()


@pytest.fixture
def sweep(driver: None, tmp_path: Path) -> Callable[..., Finished]:
    """Run a sweep here: sweep("r=1..3", "n=20") -> Finished."""

    def run(
        *overrides: str, run_dir: Path | str | None = None, model: str = "scripted"
    ) -> Finished:
        return sweep_here(*overrides, run_dir=run_dir or tmp_path / "run", model=model)

    return run


@pytest.fixture(scope="package")
def independent_run(driver: None, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished run as the paper's: 20 questions, r=1..3, independent draws. To be read only."""
    done = sweep_here("r=1..3", "n=20", run_dir=tmp_path_factory.mktemp("independent") / "run")
    assert done.code == 0, done.out
    return done


@pytest.fixture(scope="package")
def nested_run(driver: None, tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A finished run as `make audit`'s: 30 questions, nested draws, replicates, ensemble control.
    To be read only."""
    words = (
        "r=1..3",
        "n=30",
        "draws=nested",
        "ensemble_control=true",
        "clean_replicates=2",
        "replicate_restart=true",
    )
    done = sweep_here(*words, run_dir=tmp_path_factory.mktemp("nested") / "run")
    assert done.code == 0, done.out
    return done


@pytest.fixture
def command(cluster: Cluster, tmp_path: Path) -> Callable[..., Run]:
    """Start the real command: command("r=1..3", "n=20") -> Run, in a process of its own that can be
    killed."""

    def start(*overrides: str, run_dir: Path | str | None = None, model: str = "scripted") -> Run:
        target = run_dir or tmp_path / "run"
        words = [
            sys.executable,
            "-m",
            "audit.sweep",
            f"model={model}",
            f"run_dir={target}",
            "report=false",
            *SMALL,
            *overrides,
        ]
        return Run(launch(words, cluster.env), target)

    return start


@pytest.fixture
def own_model(tmp_path: Path) -> Callable[[str, str], str]:
    """Model configurations of one's own, beside the shipped ones: conf/model/<name>.yaml on Hydra's
    search path."""

    def write(name: str, body: str) -> str:
        write_model(tmp_path / "conf", name, body)
        return f"hydra.searchpath=[file://{tmp_path / 'conf'}]"

    return write
