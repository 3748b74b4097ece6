"""Join a running Ray or start Ray, and control what Ray prints while it starts."""

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

from audit.config.base import ClusterConfig
from audit.core.errors import ConfigError
from audit.core.exits import heed_sigterm


def start_ray(cluster: ClusterConfig) -> None:
    """Join or start Ray as configured. Do nothing if this process has already joined Ray.

    Parameters
    ----------
    cluster : ClusterConfig
        The options `cluster.*`, such as the address of a running cluster.

    Raises
    ------
    ConfigError
        If Ray cannot be reached or started.
    """
    hush_ray()
    if ray.is_initialized():
        return
    try:
        in_time(lambda: _init_ray(cluster), ray.shutdown)
    except ConfigError:
        raise
    except Exception as error:  # Ray raises a bare Exception for a node that does not start in time
        address = cluster.address or os.environ.get("RAY_ADDRESS") or "a Ray of its own"
        if _LATE.search(str(error)):
            raise ConfigError(
                "Ray did not start in time: this machine is busy, or has too little free memory. Type the same command "
                "again; stored rows are kept."
            ) from error
        raise ConfigError(
            f"Ray could not be reached or started ({address}): {type(error).__name__}: {error}\nExpected cluster=local "
            "without RAY_ADDRESS to start Ray here, cluster=ray_address on a node of a running cluster, or "
            "'ray job submit' from outside (jobs/README.md)."
        ) from error


_STARTS = 3  # number of attempts to start Ray on a busy machine
_LATE = re.compile(
    r"timed out.*(startup|node info|waiting for gcs)|connect to gcs within", re.I | re.S
)


def in_time(start: Callable[[], None], clear: Callable[[], None]) -> None:
    """Start Ray, and try again if it does not start in time.

    Before each new attempt, the processes that were already started are ended, and a note is
    printed.

    Parameters
    ----------
    start : callable
        Function that starts Ray.
    clear : callable
        Function that ends the started processes.

    Raises
    ------
    Exception
        The error of the last attempt. An error other than a late start is raised at once.
    """
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


# These variables are set for a Ray that this program starts, unless the environment sets them.
_LOCAL_RAY = {
    # An engine's own child processes (vLLM's EngineCore) end with its actor, also after a kill -9.
    "RAY_process_group_cleanup_enabled": "1",
    # Ray starts its workers at niceness 15, so an engine on CPUs would wait for all other
    # processes.
    "RAY_worker_niceness": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def _init_ray(cluster: ClusterConfig) -> None:
    if "RAY_BACKEND_LOG_LEVEL" not in os.environ:
        # Ray's C++ core prints a warning at level [E] for each stage. Ray Data sets `max_restarts`
        # to -1 and puts the arguments of the stage in the object store. The arguments live only as
        # long as this driver. A stage does not outlive the driver, so the warning is irrelevant.
        # os.putenv affects the C++ core of this process alone, so that the logs of Ray's other
        # processes stay unchanged.
        os.putenv("RAY_BACKEND_LOG_LEVEL", "fatal")
    # With this variable, Ray Data does not report its usage.
    os.environ.setdefault("RAY_DATA_USAGE_DISABLED", "1")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster.runtime_env:
        options["runtime_env"] = dict(cluster.runtime_env)
    if cluster.address is not None:
        options["address"] = cluster.address
    # `ray job submit` sets this variable, and ray.init reads it.
    elif not os.environ.get("RAY_ADDRESS"):
        for name, value in _LOCAL_RAY.items():
            os.environ.setdefault(name, value)
        # Without "local", Ray would join the cluster that was last started on this machine.
        options.update(
            address="local",
            num_cpus=cluster.num_cpus,
            num_gpus=cluster.num_gpus,
            include_dashboard=cluster.dashboard,
            _temp_dir=str(_own_folder() / "ray"),
        )
    with _stderr_held_back():
        ray.init(**options)
    heed_sigterm()  # Otherwise Ray's core would print its stack at SIGTERM.


def _own_folder() -> Path:
    """Return the folder for the sockets and logs of the Ray that this program starts.

    Other users of this machine cannot enter the folder.

    This folder is needed because each of Ray's processes lets everybody read the folders that it
    creates. The file with the token of Ray's servers is protected too. Ray's ports stay open to the
    network, because Ray cannot bind them to loopback, but connections need the token. Raises
    ConfigError if the folder belongs to another user.
    """
    with suppress(OSError):  # the token file may be missing, or belong to another user
        (Path.home() / ".ray" / "auth_token").chmod(0o600)
    folder = Path(get_default_system_temp_dir()) / f"ray-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(0o700)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
        raise ConfigError(
            f"{folder} belongs to another user, who may read Ray's sockets. Name another folder: RAY_TMPDIR=DIR"
        )
    folder.chmod(0o700)
    return folder


def hush_ray() -> None:
    """Stop Ray from printing reports on its processes, such as repeated calls and ended processes.

    The run itself reports the consequences. Only a lack of memory is printed, once, because a
    person must free memory.
    """
    # Without this variable, Ray prints an error when a call fails and nobody waits for its result.
    # Calls for Ray Data's statistics are an example.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    # Ray has no public function that stops other reports. Ray calls the function of this name for
    # each report, so it is replaced.
    worker.print_to_stdstream = lambda data, **_: say_needed_action(
        "\n".join(map(str, data["lines"]))
    )


_reported: set[str] = set()


def say_needed_action(report: str) -> None:
    """Print what a person must do about a report of Ray.

    Nothing is printed for a report that needs no action. A repeated report is printed once.
    """
    if "low on memory" in report and "memory" not in _reported:
        _reported.add("memory")
        print(
            "note: a machine of this run has no memory left, so Ray ended a process on it and restarts it. Free "
            "memory, or run less at once. Example: cluster.models_at_once=1 or cluster.chunks_in_flight=4",
            file=sys.stderr,
            flush=True,
        )


@contextmanager
def _stderr_held_back() -> Iterator[None]:
    """Hold back the output of Ray's C++ core, and show it only if Ray does not start."""
    sys.stderr.flush()
    stderr_copy = os.dup(2)
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 2)
        try:
            yield
        except BaseException as error:
            output.seek(0)
            text = output.read()
            # Ray repeats this error every second until it gives up.
            if b"InvalidAuthToken" in text:
                raise ConfigError(
                    "The token for the cluster is missing or wrong. Expected RAY_AUTH_MODE=token in the environment, "
                    "and that cluster's token in RAY_AUTH_TOKEN or ~/.ray/auth_token (jobs/README.md)."
                ) from error
            os.write(stderr_copy, text)
            raise
        finally:
            sys.stderr.flush()
            os.dup2(stderr_copy, 2)
            os.close(stderr_copy)


def run_command(words: Sequence[str], log: Path) -> int:
    """Run a command on a node of the cluster, with one GPU if the cluster has GPUs.

    Parameters
    ----------
    words : sequence of str
        The command and its arguments. Files that the command uses must be on a disk that every node
        can read.
    log : Path
        The file to which the output of the command is written.

    Returns
    -------
    int
        The exit code.
    """
    gpus = 1 if ray.cluster_resources().get("GPU", 0) else 0
    task = ray.remote(_run).options(num_cpus=0, num_gpus=gpus, max_retries=0)
    return ray.get(task.remote(list(words), str(log), str(Path.cwd())))


def _run(words: list[str], log: str, folder: str) -> int:
    # Ray sets OMP_NUM_THREADS to 1, which would limit the command to one thread.
    env = {}
    for k, v in os.environ.items():
        if k != "OMP_NUM_THREADS":
            env[k] = v
    # With an active wait policy, waiting threads would occupy the core on which other threads must
    # run.
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with Path(log).open("w", encoding="utf-8") as file:
        return subprocess.run(
            words, stdout=file, stderr=file, env=env, cwd=folder, check=False
        ).returncode
