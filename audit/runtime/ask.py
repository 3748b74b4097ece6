"""A command on a node that has a GPU to spare."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import ray


def run_command(words: Sequence[str], log: Path) -> int:
    """Run a command on a node of the cluster, with one GPU where there are any; its exit code. What it says: `log`.

    Ray must run; files are on a disk that every node sees.
    """
    gpus = 1 if ray.cluster_resources().get("GPU", 0) else 0
    task = ray.remote(_run).options(num_cpus=0, num_gpus=gpus, max_retries=0)
    code: int = ray.get(task.remote(list(words), str(log), str(Path.cwd())))
    return code


def _run(words: list[str], log: str, folder: str) -> int:
    env = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}  # Ray's: one thread
    env.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # on a busy machine, threads that spin take the core they wait for
    with Path(log).open("w", encoding="utf-8") as file:
        return subprocess.run(words, stdout=file, stderr=file, env=env, cwd=folder, check=False).returncode
