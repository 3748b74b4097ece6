"""Read the GPUs of this machine and their memory from the NVIDIA driver."""

import shutil
import subprocess

_QUERY = ("--query-gpu=memory.total", "--format=csv,noheader,nounits")
# time limit in seconds, since a driver without persistence mode takes some seconds for each GPU
_ANSWER_S = 20.0


def gpu_memory_here() -> list[int]:
    """Return the memory in bytes of each NVIDIA GPU of this machine; [] without an NVIDIA GPU."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        done = subprocess.run(
            [program, *_QUERY], capture_output=True, text=True, check=False, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    return memory_of(done.stdout) if done.returncode == 0 else []


def memory_of(report: str) -> list[int]:
    r"""Convert each line of nvidia-smi's report from MiB to bytes; [] if the report has another
    format.

    >>> memory_of("143771\n143771\n")
    [150754820096, 150754820096]
    >>> memory_of("[Not Supported]")
    []
    """
    lines = []
    for line in report.splitlines():
        if line.strip():
            lines.append(line.strip())
    if not all(map(str.isdecimal, lines)):
        return []
    return [int(line) << 20 for line in lines]
