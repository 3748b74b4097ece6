"""Run a model's code and a problem's tests, each in its own sandbox (bubblewrap, Linux).

Only this module runs code that a model wrote. The code answers calls over a pipe. The tests call
the code from another sandbox, and only the tests can write to the pipe of the result. So the code
cannot print a success, replace an assertion or read an expected value.

A sandbox has no network, no home folder, no /proc, no environment variables and no privileges. It
can read the system's files, and write only 16 MB of temporary files. Time, memory, files and
processes are limited, and `seccomp.py` refuses io_uring, bpf and the kernel's keys. The code is
process 1 of its namespace, so that a SIGKILL can only come from outside.
"""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import IO, NamedTuple

from audit.core.errors import ConfigError
from audit.scoring.seccomp import seccomp_filter

# seconds that a whole test may take; the limit is long because a machine may be busy
WALL_S = 300.0
IDLE_S = 10  # seconds for which the code may sleep while the tests wait for its answer
ENDING_S = 10.0  # seconds within which the code must end after its pipe is closed
LIMITS = {
    "RLIMIT_CPU": 5,  # seconds
    "RLIMIT_AS": 512 * 2**20,
    "RLIMIT_FSIZE": 4 * 2**20,
    "RLIMIT_NPROC": 8,
    "RLIMIT_NOFILE": 32,
    "RLIMIT_CORE": 0,
}
# A killed process with this CPU time counts as over RLIMIT_CPU, since the kernel counts in ticks.
_CPU_USED_S = 4.0
_TMP_BYTES = str(16 * 2**20)
# user id in the sandbox if this process is root, since RLIMIT_NPROC does not limit root
_NOBODY = 65534
_KILLED = 128 + signal.SIGKILL
_ISOLATED = (
    *(
        "--unshare-all",
        "--unshare-user",
        "--disable-userns",
        "--as-pid-1",
        "--die-with-parent",
        "--new-session",
    ),
    *(
        "--cap-drop",
        "ALL",
        "--clearenv",
        "--hostname",
        "sandbox",
        "--dev",
        "/dev",
        "--remount-ro",
        "/dev",
    ),
)
# If the memory of the machine runs out, the kernel kills a sandbox before other processes.
_FIRST_TO_GO = ("/bin/sh", "-c", 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec "$@"', "sh")
_INSTALL = (
    "A code benchmark runs the model's code in sandboxes only. Expected bubblewrap (bwrap) 0.8 or newer on every "
    "machine of the run, on Linux with user namespaces. Example: apt-get install bubblewrap."
)


class Outcome(NamedTuple):
    """Report the result of the tests.

    Attributes
    ----------
    passed : bool or None
        True if the code passed, False if it failed. None if the sandbox failed, so that the code
        was not tested.
    why : str
        "passed", or the reason.
    """

    passed: bool | None
    why: str


def run_tests(
    program: str, tests: str, entry_point: str, *, wall_s: float = WALL_S, python: str = ""
) -> Outcome:
    """Test whether a function of a program passes its tests.

    Parameters
    ----------
    program : str
        The model's code, which defines `entry_point`.
    tests : str
        Code that defines `check`.
    entry_point : str
        The name of the function.
    wall_s : float
        The time limit in seconds.
    python : str
        The interpreter of the sandbox; "" uses `sandbox_python`.

    Returns
    -------
    Outcome
        The result.

    Raises
    ------
    ConfigError
        If no sandbox works on this machine.

    Notes
    -----
    The code fails if it raises an exception, fails an assertion, ends before the tests, uses 5
    seconds of CPU, or sleeps while the tests wait.

    The code counts as not tested if a sandbox did not start or was killed, or if the time limit was
    reached because no CPU was free.
    """
    python = python or sandbox_python()
    calls, answers, verdict = os.pipe(), os.pipe(), os.pipe()
    halves: list[_Half] = []
    with tempfile.TemporaryFile() as notes, os.fdopen(verdict[0], "rb", buffering=0) as output:
        try:
            try:
                pipes = (calls[0], answers[1], notes.fileno())
                halves.append(_start(python, ("candidate", entry_point, program), pipes))
                halves.append(
                    _start(
                        python, ("tests", entry_point, tests), (answers[0], calls[1], verdict[1])
                    )
                )
            finally:
                for fd in (*calls, *answers, verdict[1]):
                    os.close(fd)
            text, idle = _read(output, wall_s, halves)
            return _outcome(text, idle, halves[0], notes)
        finally:
            for half in halves:
                half.end()


@lru_cache
def sandbox_python() -> str:
    """Find an interpreter that works in a sandbox.

    Returns
    -------
    str
        The path of this process's interpreter. If the sandbox cannot read that interpreter, which
        is the case in the home folder of root, the path of the system's interpreter.

    Raises
    ------
    ConfigError
        If no sandbox works. The message states what to install.
    """
    if shutil.which("bwrap") is None:
        raise ConfigError(f"The program bwrap is not installed. {_INSTALL}")
    program, tests = "def f(x):\n    return x", "def check(f):\n    assert f((1, 'a')) == (1, 'a')"
    why = ""
    for python in (
        str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")),
        "/usr/bin/python3",
    ):
        passed, why = run_tests(program, tests, "f", python=python)
        if passed:
            return python
    raise ConfigError(f"The sandbox of bwrap does not work: {why}. {_INSTALL}")


@dataclass
class _Half:
    """Hold one of the two sandboxes: that of the model's code, or that of the tests.

    `info` is the file in which bwrap writes the process id of the sandbox's first process.
    """

    process: subprocess.Popen[bytes]
    info: IO[bytes]
    cpu_s: float = 0.0

    @property
    def inside(self) -> int | None:
        """Return the id that the sandbox's process 1 has outside the sandbox.

        Return None if process 1 has ended.

        The kernel may reuse the id for another process, so the parent of the process is checked.
        """
        self.info.seek(0)
        pid: int = json.loads(self.info.read() or b"{}").get("child-pid", 0)
        return pid if _stat(f"/proc/{pid}/stat")[1:2] == [str(self.process.pid)] else None

    def waits(self) -> bool:
        """Return whether all threads of the sandbox's process 1 sleep.

        This is False if a thread waits for a CPU, reads from a disk or was stopped.
        """
        states = [_stat(str(path))[:1] for path in Path(f"/proc/{self.inside}/task").glob("*/stat")]
        return bool(states) and states.count(["S"]) == len(states)

    def ended(self, within_s: float) -> bool:
        """Wait for the sandbox to end by itself, and store its CPU time in `cpu_s`.

        Parameters
        ----------
        within_s : float
            The longest time to wait, in seconds.

        Returns
        -------
        bool
            True if the sandbox ended within this time.
        """
        until = time.monotonic() + within_s
        while self.process.returncode is None:
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = used.ru_utime + used.ru_stime
            elif time.monotonic() > until:
                return False
            else:
                time.sleep(0.005)
        return True

    def end(self) -> None:
        """Kill process 1 of the sandbox, which ends all processes of the sandbox."""
        if self.info.closed:
            return
        if (inside := self.inside) is not None:
            with suppress(ProcessLookupError):
                os.kill(inside, signal.SIGKILL)
        if not self.ended(ENDING_S if inside else 0.0):
            self.process.kill()
            self.ended(ENDING_S)
        self.info.close()


def _stat(path: str) -> list[str]:
    """Return the fields of a stat file in /proc, beginning with the state of the process.

    The list is empty if the process has ended.
    """
    with suppress(OSError):
        return Path(path).read_text(errors="replace").rpartition(")")[2].split()
    return []


def _start(python: str, given: tuple[str, str, str], pipes: tuple[int, int, int]) -> _Half:
    """Start a sandbox.

    `given` holds the role, the entry point and the code. `pipes` holds stdin, stdout and stderr.
    """
    role, entry_point, text = given
    inside = files("audit.scoring").joinpath("inside.py").read_text(encoding="utf-8")
    root = os.geteuid() == 0
    info = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `end`)
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as calls:
        for file, content in ((source, text.encode(errors="replace")), (calls, seccomp_filter())):
            file.write(content)
            file.seek(0)
        filtered = ("--seccomp", str(calls.fileno())) if seccomp_filter() else ()
        data_options = (
            "--info-fd",
            str(info.fileno()),
            "--perms",
            "0444",
            "--ro-bind-data",
            str(source.fileno()),
        )
        process = subprocess.Popen(
            [
                *_FIRST_TO_GO,
                str(shutil.which("bwrap")),
                *_ISOLATED,
                *_mounts(Path(python)),
                *data_options,
                f"/given/{role}",
                "--remount-ro",
                "/",
                *filtered,
                "--",
                python,
                "-ISBc",
                inside,
                role,
                entry_point,
                json.dumps(LIMITS),
            ],
            stdin=pipes[0],
            stdout=pipes[1],
            stderr=pipes[2],
            env={},
            cwd="/",
            pass_fds=(source.fileno(), info.fileno(), calls.fileno()),
            user=_NOBODY if root else None,
            group=_NOBODY if root else None,
            extra_groups=() if root else None,
        )
    return _Half(process, info)


def _mounts(python: Path) -> list[str]:
    """Return bwrap's arguments for the file system.

    The sandbox can read the system and the interpreter, except for installed packages. It can write
    only to a small temporary folder.
    """
    prefix, usr = python.parent.parent, Path("/usr")
    arguments = []
    for path in (usr, Path("/bin"), Path("/lib"), Path("/lib64"), prefix):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path == usr or (path.exists() and not path.is_relative_to(usr)):
            arguments += ["--ro-bind", str(path), str(path)]
    for root in {prefix, usr, usr / "local"}:
        # Installed packages are hidden, since they may contain the solutions of a benchmark.
        for path in root.glob("lib/python3*/*-packages"):
            arguments += ["--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    # This /tmp is inside the sandbox.
    return [*arguments, "--size", _TMP_BYTES, "--tmpfs", "/tmp", "--chdir", "/tmp"]  # noqa: S108


def _read(output: IO[bytes], wall_s: float, halves: list[_Half]) -> tuple[str | None, bool]:
    """Return the output of the tests, and whether both sandboxes slept for IDLE_S seconds.

    The output is None if the tests did not end.
    """
    text, idle, until = b"", 0, time.monotonic() + wall_s
    while idle < IDLE_S and time.monotonic() < until:
        if not select.select([output], [], [], 1.0)[0]:
            idle = idle + 1 if all(half.waits() for half in halves) else 0
        elif more := output.read(4096):
            text += more
        else:
            return text.decode(errors="replace").strip(), False
    return None, idle == IDLE_S


def _outcome(output: str | None, idle: bool, code: _Half, notes: IO[bytes]) -> Outcome:
    """Return the outcome of the tests from their output.

    `notes` is the file with bwrap's messages about the sandbox that runs the model's code.
    """
    if output is None:
        code.end()
        if code.cpu_s >= _CPU_USED_S:
            return Outcome(False, "cpu_limit")
        return Outcome(False, "waits") if idle else Outcome(None, "no CPU was free in time")
    _, marker, why = output.rpartition("verdict ")
    if not marker:
        return Outcome(None, f"the tests' sandbox failed: {output[:200] or 'it was killed'}")
    if why == "not_started":
        return Outcome(
            None,
            f"the code's sandbox failed: {os.pread(notes.fileno(), 200, 0).decode(errors='replace')}",
        )
    if why == "ended" and code.ended(ENDING_S):
        if code.cpu_s >= _CPU_USED_S:
            return Outcome(False, "cpu_limit")
        if code.process.returncode in (_KILLED, -signal.SIGKILL):
            return Outcome(None, "the code's sandbox was killed")
    return Outcome(why == "passed", why)
