"""One model's engines for a caller that asks outside a pipeline, and a command on a node that has a GPU to spare."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import ray

from audit.engines.config import ModelConfig
from audit.engines.weights import Weights
from audit.records import Generation, GenerationRequest
from audit.runtime.actors import as_engine_error, start_pool
from audit.runtime.call import EngineCaller
from audit.runtime.turns import STEP_S

_AT_ONCE = 512  # requests to each engine


@contextmanager
def asking(
    model: ModelConfig, weights: Weights | None, note: Callable[[str], None], questions_path: str = ""
) -> Iterator[Callable[[Sequence[GenerationRequest]], list[Generation]]]:
    """Requests -> replies in their order, by all replicas of a model, which is loaded meanwhile. Ray must run.

    Raises EngineError where the model does not load, or does not answer any more.
    """
    pool = start_pool(model, weights, questions_path)
    caller, size = EngineCaller(pool.actors), _AT_ONCE * len(pool.actors)

    def ask(requests: Sequence[GenerationRequest]) -> list[Generation]:
        try:
            return [reply for i in range(0, len(requests), size) for reply in caller(requests[i : i + size])]
        except ray.exceptions.RayTaskError as error:
            raise as_engine_error(error, model.name) from error

    try:
        for _ in pool.load(model.load_timeout_s, note):
            time.sleep(STEP_S)
        yield ask
    finally:
        pool.close()


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
