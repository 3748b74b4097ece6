"""End an engine's processes when their parent process ends, and find the cause of a failed load in
their logs.

vLLM's EngineCore does not notice that its parent was killed, and then keeps its GPU's memory. Ray
ends the EngineCore if the raylet is still alive. If parent and raylet are killed together (with a
job's process group, or for lack of memory), the EngineCore keeps running. Therefore a watcher
process ends the EngineCore on Linux.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from audit.shards.redact import redact

# This script runs in the watcher process. Its first argument is the time in which the children may
# end by themselves. The other arguments are the pidfds of the parent and of its children. A pidfd
# always refers to the same process, while a process number may be reused.
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
    """Start a watcher process, which ends the current children of this process.

    The watcher kills each child that still runs `grace_s` seconds after this process ended.
    """
    children: list[int] = []
    for file in Path("/proc/self/task").glob("*/children"):
        children += map(int, file.read_text().split())
    watched = []
    for pid in (os.getpid(), *children):
        # The child may have ended already, or the system may not support pidfds.
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
        The lines, without duplicates and without secrets. Lines that only refer to another error
        are left out.
    """
    messages: dict[str, None] = {}  # A dict removes duplicates and keeps the order of the lines.
    for path in logs:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        for line in lines:
            # This removes vLLM's prefix with the time and the source line.
            text = line.rpartition("] ")[2].strip()
            if _CAUSE.search(text) and not _POINTER.search(text):
                messages[text] = None
    return [str(redact(text))[:500] for text in list(messages)[-_LINES_SHOWN:]]


def explain() -> str:
    """Return a text with the errors in the logs, for the message about an engine that did not load.

    The text is "" if there is no log.
    """
    # Ray writes a worker's stdout and stderr to files. Child processes inherit stdout and stderr,
    # so these files contain the logs of the children too.
    outputs = {Path(f"/proc/self/fd/{fd}").resolve() for fd in (1, 2)}
    logs = sorted(path for path in outputs if path.is_file())
    if not logs:
        return ""
    lines = "".join(f"\n  {line}" for line in causes(logs))
    return f"{lines}\nIts whole log, on the engine's node: {', '.join(map(str, logs))}"
