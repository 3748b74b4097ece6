"""Join a running Ray, or start one here: what is refused, and what it says while it starts."""

import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
from ray._common.utils import get_default_system_temp_dir
from ray._private import worker

from audit.config import ClusterConfig
from audit.errors import ConfigError
from audit.exits import heed_sigterm


def start_ray(cluster: ClusterConfig) -> None:
    """Join or start Ray as the configuration says; nothing where it runs already. Raises ConfigError."""
    hush_ray()
    if ray.is_initialized():
        return
    try:
        in_time(lambda: _init_ray(cluster), ray.shutdown)
    except ConfigError:
        raise
    except Exception as error:  # a node that does not start in time is a bare Exception of Ray's
        address = cluster.address or os.environ.get("RAY_ADDRESS") or "a Ray of its own"
        if _LATE.search(str(error)):
            raise ConfigError(
                "Ray did not start in time: this machine is busy, or has too little free memory. Type the same command "
                "again; what is stored is kept."
            ) from error
        raise ConfigError(
            f"Ray could not be reached or started ({address}): {type(error).__name__}: {error}\nExpected cluster=local "
            "without RAY_ADDRESS to start Ray here, cluster=ray_address on a node of a running cluster, or "
            "'ray job submit' from outside (jobs/README.md)."
        ) from error


_STARTS = 3  # of Ray on a busy machine, before a person has to act
_LATE = re.compile(r"timed out.*(startup|node info|waiting for gcs)|connect to gcs within", re.I | re.S)


def in_time(start: Callable[[], None], clear: Callable[[], None]) -> None:
    """Start Ray; where its processes were late, clear them away and start it again, with a sentence. Raises what the
    last start raised, and at once what is no lateness."""
    for left in reversed(range(_STARTS)):
        try:
            start()
            return
        except Exception as error:
            if not left or not _LATE.search(str(error)):
                raise
        late = "note: Ray did not start in time, because this machine is busy. It is started again."
        print(late, file=sys.stderr, flush=True)
        clear()


# For a Ray of our own, unless the environment says otherwise.
_LOCAL_RAY = {
    # An engine's own child processes (vLLM's EngineCore) end with its actor, also after a kill -9.
    "RAY_process_group_cleanup_enabled": "1",
    # Ray starts its workers at 15: there an engine that computes on the CPUs would wait for whatever else runs.
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def _init_ray(cluster: ClusterConfig) -> None:
    if "RAY_BACKEND_LOG_LEVEL" not in os.environ:
        # Ray's C++ core warns at [E] that each stage's `max_restarts` (Ray Data sets -1) meets arguments in the object
        # store (Ray Data puts them there): they live as long as this driver, which is all that a stage needs. putenv
        # and not os.environ: for this process alone, so that the logs of Ray's own processes stay as they are.
        os.putenv("RAY_BACKEND_LOG_LEVEL", "fatal")
    os.environ.setdefault("RAY_DATA_USAGE_DISABLED", "1")  # it reports to nobody, and saves a process that collects
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster.runtime_env:
        options["runtime_env"] = dict(cluster.runtime_env)
    if cluster.address is not None:
        options["address"] = cluster.address
    elif not os.environ.get("RAY_ADDRESS"):  # inside `ray job submit` it is set, and ray.init takes it
        for name, value in _LOCAL_RAY.items():
            os.environ.setdefault(name, value)
        # "local": without it Ray joins whatever cluster was last started on this machine.
        options.update(
            address="local",
            num_cpus=cluster.num_cpus,
            num_gpus=cluster.num_gpus,
            include_dashboard=cluster.dashboard,
            _temp_dir=str(_own_folder() / "ray"),
        )
    with _stderr_held_back():
        ray.init(**options)
    heed_sigterm()  # Ray's core prints its stack at one


def _own_folder() -> Path:
    """Where our Ray keeps its sockets and logs: in a folder that this machine's other users cannot enter, as each of
    Ray's processes opens its own folders to everybody. The token that its servers ask for is closed too. Its ports stay
    open to the network behind that token; Ray cannot bind them to loopback. ConfigError where the folder is another's.
    """
    with suppress(OSError):  # not ours, or not there
        (Path.home() / ".ray" / "auth_token").chmod(0o600)
    folder = Path(get_default_system_temp_dir()) / f"ray-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(0o700)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise ConfigError(
            f"{folder} is not ours: another user may read Ray's sockets there. Name a folder: RAY_TMPDIR=DIR"
        )
    folder.chmod(0o700)
    return folder


def hush_ray() -> None:
    """From now on Ray prints nothing here of what its processes report: calls that it repeats, processes that ended.
    What that means for a run, the run says. That a machine has no memory left is said once: a person has to act."""
    # Read in this process, at each error of a call that nobody waits for: Ray Data's of its own statistics.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # Ray has no public way for the rest; its listener looks the name up each time.
    worker.print_to_stdstream = lambda data, **_: say_needed_action("\n".join(map(str, data["lines"])))


_said: set[str] = set()


def say_needed_action(report: str) -> None:
    """What a person has to do about what Ray reports, once; nothing where nothing is to be done."""
    if "low on memory" in report and "memory" not in _said:
        _said.add("memory")
        print(
            "note: a machine of this run has no memory left, so Ray ended a process there and starts it again. Free "
            "memory, or ask for less at once, such as cluster.models_at_once=1 or cluster.chunks_in_flight=4.",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def _stderr_held_back() -> Iterator[None]:
    """What this process's C++ core says while it starts (that it was given a log level) is shown where it does not."""
    sys.stderr.flush()
    kept = os.dup(2)
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException as error:
            said.seek(0)
            text = said.read()
            if b"InvalidAuthToken" in text:  # said once a second until Ray gives up
                raise ConfigError(
                    "The Ray to be joined asks for a token, and was given none or another. Expected "
                    "RAY_AUTH_MODE=token in the environment, and that cluster's token in RAY_AUTH_TOKEN or "
                    "~/.ray/auth_token (jobs/README.md)."
                ) from error
            os.write(kept, text)
            raise
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def run_command(words: Sequence[str], log: Path) -> int:
    """Run a command on a node of the cluster, with one GPU where there are any; its exit code. What it says: `log`. Ray
    must run; files are on a disk that every node sees."""
    gpus = 1 if ray.cluster_resources().get("GPU", 0) else 0
    task = ray.remote(_run).options(num_cpus=0, num_gpus=gpus, max_retries=0)
    return ray.get(task.remote(list(words), str(log), str(Path.cwd())))


def _run(words: list[str], log: str, folder: str) -> int:
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}  # Ray's: one thread
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # on a busy machine, threads that spin take the core they wait for
    with Path(log).open("w", encoding="utf-8") as file:
        return subprocess.run(words, stdout=file, stderr=file, env=env, cwd=folder, check=False).returncode
