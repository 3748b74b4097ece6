"""Run a model's code against a problem's tests, each in a sandbox of its own (bubblewrap, Linux).
No other code runs it.

The code answers calls over a pipe. The tests call it from another sandbox and alone hold the pipe
of the verdict, so there is no success to print, no assert to patch, and no expected value to read
where the code runs. In a sandbox: no network, home, /proc or variables, a read-only system, no
io_uring, bpf or keys (seccomp.py), 16 MB of temporary files, no privileges, limits on time, memory,
files and processes. The code is process 1 of its namespace: a SIGKILL comes from outside.
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

WALL_S = 300.0  # limit of the whole test, long as a machine may be busy
IDLE_S = 10  # seconds that code may sleep while the tests wait; checked each second
ENDING_S = 10.0  # seconds in which code must end after its pipe is closed
LIMITS = {
    "RLIMIT_CPU": 5,  # seconds
    "RLIMIT_AS": 512 * 2**20,
    "RLIMIT_FSIZE": 4 * 2**20,
    "RLIMIT_NPROC": 8,
    "RLIMIT_NOFILE": 32,
    "RLIMIT_CORE": 0,
}
_CPU_USED_S = (
    4.0  # CPU time from which a killed process counts as over the limit: the kernel counts in ticks
)
_TMP_BYTES = str(16 * 2**20)
_NOBODY = 65534  # another user, as root ignores the limit on processes
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
# If the machine's memory runs out, the kernel kills a sandbox first.
_FIRST_TO_GO = ("/bin/sh", "-c", 'echo 1000 2>/dev/null >/proc/self/oom_score_adj; exec "$@"', "sh")
_INSTALL = (
    "A code benchmark runs what a model wrote, in sandboxes alone: bubblewrap (bwrap) 0.8 or newer, on Linux with user "
    "namespaces. Install it on every machine of the run, such as by: apt-get install bubblewrap."
)


class Outcome(NamedTuple):
    """Report a run of the tests.

    Attributes
    ----------
    passed : bool or None
        None if the sandbox failed, which shows nothing of the code.
    why : str
        "passed", or what happened.
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
        Name of the function.
    wall_s : float
        Limit on time.
    python : str
        Interpreter of the sandbox; "" finds one.

    Returns
    -------
    Outcome
        Result.

    Raises
    ------
    ConfigError
        If there is no sandbox.

    Notes
    -----
    Wrong is what the code did: an exception, a failed assertion, an end before the tests', 5
    seconds of CPU, a wait for nothing. A sandbox that did not start or was killed is not an answer;
    nor is time in which code waited for a CPU.
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
    """Return the interpreter of the sandboxes.

    Returns
    -------
    str
        Ours, or the system's if the sandbox cannot reach ours (root's home).

    Raises
    ------
    ConfigError
        If no sandbox works; the message states what to install.
    """
    if shutil.which("bwrap") is None:
        raise ConfigError(f"There is no bwrap here. {_INSTALL}")
    program, tests = "def f(x):\n    return x", "def check(f):\n    assert f((1, 'a')) == (1, 'a')"
    why = ""
    for python in (
        str(Path(sys.base_prefix, "bin", f"python3.{sys.version_info.minor}")),
        "/usr/bin/python3",
    ):
        passed, why = run_tests(program, tests, "f", python=python)
        if passed:
            return python
    raise ConfigError(f"A sandbox of bwrap does not work here: {why}. {_INSTALL}")


@dataclass
class _Half:
    """Hold one of the two sandboxes. `info` is a file in which bwrap names the process inside."""

    process: subprocess.Popen[bytes]
    info: IO[bytes]
    cpu_s: float = 0.0

    @property
    def inside(self) -> int | None:
        """Return the process that is 1 in the sandbox, while it lives: its number may be another's
        later."""
        self.info.seek(0)
        pid: int = json.loads(self.info.read() or b"{}").get("child-pid", 0)
        return pid if _stat(f"/proc/{pid}/stat")[1:2] == [str(self.process.pid)] else None

    def waits(self) -> bool:
        """Return whether all its threads sleep: no thread waits for a CPU, reads a disk or was
        stopped."""
        states = [_stat(str(path))[:1] for path in Path(f"/proc/{self.inside}/task").glob("*/stat")]
        return bool(states) and all(state == ["S"] for state in states)

    def ended(self, within_s: float) -> bool:
        """Return whether it ends by itself; the CPU time that it used is then in `cpu_s`."""
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
        """Kill all processes in it: with process 1 the others die."""
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
    """Return state, parent and so on of a process or thread; empty if it is gone."""
    with suppress(OSError):
        return Path(path).read_text(errors="replace").rpartition(")")[2].split()
    return []


def _start(python: str, given: tuple[str, str, str], pipes: tuple[int, int, int]) -> _Half:
    """Start a sandbox.

    `given` is the role, the entry point and the text of the half; `pipes` its stdin, stdout and
    stderr.
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
    """Return the arguments of bwrap: the system and the interpreter to read, without packages, and
    a small folder to write."""
    prefix, usr = python.parent.parent, Path("/usr")
    words = []
    for path in (usr, *(Path(name) for name in ("/bin", "/lib", "/lib64")), prefix):
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path == usr or (path.exists() and not path.is_relative_to(usr)):
            words += ["--ro-bind", str(path), str(path)]
    for root in {prefix, usr, usr / "local"}:
        # Solutions of a benchmark may be installed in it.
        for path in root.glob("lib/python3*/*-packages"):
            words += ["--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
    return [*words, "--size", _TMP_BYTES, "--tmpfs", "/tmp", "--chdir", "/tmp"]  # noqa: S108  (the sandbox's own)


def _read(output: IO[bytes], wall_s: float, halves: list[_Half]) -> tuple[str | None, bool]:
    """Return what the tests write until they end, None if they do not; and whether both halves
    slept all the while."""
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
    """Return the outcome. `notes` holds what bwrap wrote about the code's sandbox."""
    if output is None:
        code.end()
        if code.cpu_s >= _CPU_USED_S:
            return Outcome(False, "cpu_limit")
        return Outcome(False, "waits") if idle else Outcome(None, "no CPU for it in time")
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
