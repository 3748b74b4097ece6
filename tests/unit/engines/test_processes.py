"""An engine's processes: which end with the one that started them, and what their log says of a
failure."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from audit.engines.processes import causes

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


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="needs Linux")
def test_children_end_with_a_process_that_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    watched, other = map(int, parent.stdout.readline().split())
    time.sleep(1)  # longer than the grace: while the parent lives, so do its children
    assert _lives(watched) and _lives(other)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 300
    while _lives(watched) and time.monotonic() < deadline:
        time.sleep(0.1)
    try:
        assert not _lives(watched) and _lives(other)
    finally:
        os.kill(other, 9)


LOG = b"""\
(EngineCore pid=7) INFO 11-21 10:00:00 [core.py:91] Initializing an engine, max_error_rate=0
(EngineCore pid=7) ERROR 11-21 10:00:09 [core.py:900] torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB
(EngineCore pid=7) ERROR 11-21 10:00:09 [core.py:901] torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB
RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}
"""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (
            LOG,
            ["torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB"],
        ),  # once, and without the pointer to it
        (
            b"ValueError: bad token hf_abcdefghijklmnopqrstuv in the header",
            ["ValueError: bad token <removed> in the header"],
        ),
        (b"\xff\xfe loading weights\n" * 3, []),
    ],
)
def test_the_cause_is_found_and_no_secret_is_quoted(written, expected, tmp_path):
    log = tmp_path / "worker.out"
    log.write_bytes(written)
    assert causes([log]) == expected


def test_a_process_finds_the_files_it_writes_to(tmp_path):
    out = tmp_path / "worker.out"
    code = (
        "import sys; print('ValueError: no such layer', flush=True);"
        "from audit.engines.processes import explain; sys.stderr.write(explain())"
    )
    with out.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=file, stderr=subprocess.PIPE, text=True, check=True
        )
    assert "ValueError: no such layer" in done.stderr and str(out) in done.stderr
