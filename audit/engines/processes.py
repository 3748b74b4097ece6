"""An engine's processes end with the process that started them; why one did not load is read in its processes' log.

vLLM's EngineCore does not notice that its parent was killed, and keeps its GPU's memory until somebody finds it. Ray
ends it where its raylet lives on. Where both are killed at once (a job's whole process group, the kernel out of memory)
nobody does. Linux alone: elsewhere nothing watches."""

import os
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from audit.shards.redact import redact

# Its arguments: how long the children may take to end by themselves; then pidfds, of the parent and of its children. A
# pidfd names one process for good, where a number would be another's by then.
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
    """Start a process that kills the children that this one has now, should they outlive it by `grace_s` seconds."""
    children = [int(pid) for file in Path("/proc/self/task").glob("*/children") for pid in file.read_text().split()]
    watched = []
    for pid in (os.getpid(), *children):
        with suppress(OSError, AttributeError):  # one that ended meanwhile; a system without pidfds
            watched.append(os.pidfd_open(pid))
    if len(watched) < 2:
        return
    words = [sys.executable, "-S", "-c", _WATCH, str(grace_s), *map(str, watched)]
    null = subprocess.DEVNULL
    # In a session of its own: the signals that end a whole group pass it by.
    subprocess.Popen(words, stdin=null, stdout=null, stderr=null, pass_fds=watched, start_new_session=True)
    for fd in watched:
        os.close(fd)


_TAIL_BYTES = 64 * 1024
_LINES_SHOWN = 4
_CAUSE = re.compile(r"\b\w*(?:Error|Exception): \S|out of memory", re.I)
_POINTER = re.compile(r"Engine core initialization failed|See root cause above|WorkerProc initialization failed", re.I)


def causes(logs: Iterable[Path]) -> list[str]:
    """The last few lines of the logs that name an error, each once and without secrets; mere pointers are left out."""
    found: dict[str, None] = {}
    for path in logs:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
        for line in lines:
            text = line.rpartition("] ")[2].strip()  # without vLLM's time and place
            if _CAUSE.search(text) and not _POINTER.search(text):
                found[text] = None
    return [str(redact(text))[:500] for text in list(found)[-_LINES_SHOWN:]]


def explain() -> str:
    """What to add to the message of an engine that did not load; empty where there is no log."""
    # The files that this process's stdout and stderr go to (a Ray worker's logs); child processes inherit them.
    logs = sorted({log for fd in (1, 2) if (log := Path(f"/proc/self/fd/{fd}").resolve()).is_file()})
    if not logs:
        return ""
    said = "".join(f"\n  {line}" for line in causes(logs))
    return f"{said}\nIts whole log, on the engine's node: {', '.join(map(str, logs))}"
