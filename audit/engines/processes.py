"""End an engine's processes together with their parent, and find the cause of a failed load in their log.

vLLM's EngineCore does not notice that its parent was killed, and then keeps its GPU's memory. Ray
ends the EngineCore if the raylet is still alive. If parent and raylet are killed at once (a job's
process group, or out of memory), nothing ends it. So on Linux a watcher process ends it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from audit.shards.redact import redact

# The script's arguments are the time in which the children may end by themselves, and the pidfds of
# the parent and its children. A pidfd always names the same process, while a process number may be
# reused.
_WATCH = """
import select, signal, sys, time
parent, *children = map(int, sys.argv[2:])
select.select([parent], [], [])
time.sleep(float(sys.argv[1]))
for child in children:
    try:
        signal.pidfd_send_signal(child, signal.SIGKILL)
    except ProcessLookupError:
        pass
"""
_GRACE_S = 10.0


def end_children_with_me(grace_s: float = _GRACE_S) -> None:
    """Start a process that kills this process's present children if they outlive it by `grace_s`
    seconds."""
    children: list[int] = []
    for file in Path("/proc/self/task").glob("*/children"):
        children += map(int, file.read_text().split())
    watched = []
    for pid in (os.getpid(), *children):
        # The process may have ended, or the system may have no pidfds.
        with suppress(OSError, AttributeError):
            watched.append(os.pidfd_open(pid))
    if len(watched) < 2:
        return
    arguments = [sys.executable, "-S", "-c", _WATCH, str(grace_s), *map(str, watched)]
    null = subprocess.DEVNULL
    # The watcher runs in its own session, so that signals to this process group do not reach it.
    subprocess.Popen(
        arguments, stdin=null, stdout=null, stderr=null, pass_fds=watched, start_new_session=True
    )
    for fd in watched:
        os.close(fd)


_TAIL_BYTES = 64 * 1024
_LINES_SHOWN = 4
_CAUSE = re.compile(r"\b\w*(?:Error|Exception): \S|out of memory", re.I)
_POINTER = re.compile(
    r"Engine core initialization failed|See root cause above|WorkerProc initialization failed", re.I
)


def causes(logs: Iterable[Path]) -> list[str]:
    """Return the last few lines that name an error in some logs.

    Parameters
    ----------
    logs : iterable of Path
        Log files.

    Returns
    -------
    list of str
        The lines, each only once and without secrets. Lines that only refer to another error are
        left out.
    """
    messages: dict[str, None] = {}  # A dict keeps the order of the lines.
    for path in logs:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        for line in lines:
            text = line.rpartition("] ")[2].strip()  # remove vLLM's time and source line
            if _CAUSE.search(text) and not _POINTER.search(text):
                messages[text] = None
    return [str(redact(text))[:500] for text in list(messages)[-_LINES_SHOWN:]]


def explain() -> str:
    """Return the causes in the log, for the message of an engine that did not load; "" without a
    log.
    """
    # Child processes inherit stdout and stderr, which go to files in a Ray worker.
    outputs = {Path(f"/proc/self/fd/{fd}").resolve() for fd in (1, 2)}
    logs = sorted(path for path in outputs if path.is_file())
    if not logs:
        return ""
    lines = "".join(f"\n  {line}" for line in causes(logs))
    return f"{lines}\nIts whole log, on the engine's node: {', '.join(map(str, logs))}"
