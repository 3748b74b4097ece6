"""A process that is killed takes along the children that were named, and no other."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")

PARENT = """
import subprocess, sys, time
from audit.engines.processes import end_children_with_me
sleep = [sys.executable, "-S", "-c", "import time; time.sleep(120)"]
before = subprocess.Popen(sleep)
end_children_with_me(grace_s=0.2)
after = subprocess.Popen(sleep)
print(before.pid, after.pid, flush=True)
time.sleep(120)
"""


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_children_end_with_a_process_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    watched, other = map(int, parent.stdout.readline().split())
    time.sleep(1)  # longer than the grace: while the parent lives, so do its children
    assert _lives(watched) and _lives(other)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 30
    while _lives(watched) and time.monotonic() < deadline:
        time.sleep(0.1)
    try:
        assert not _lives(watched) and _lives(other)
    finally:
        os.kill(other, 9)
