"""An engine's processes end with the process that started them.

vLLM's EngineCore does not notice that its parent was killed, and keeps its GPU's memory until somebody finds it. Ray
ends it where its raylet lives on. Where both are killed at once (a job's whole process group, the kernel out of memory)
nobody does. Linux alone: elsewhere nothing watches.
"""

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

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
