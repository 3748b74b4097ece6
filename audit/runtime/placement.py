"""Which GPUs an engine gets, which models run side by side, and whose turn it is (no Ray here).

One thread runs all models of a job. A model's run is a generator that yields wherever it waits; what it waits for
(engines, Ray Data) works in processes and threads of its own. So Ctrl-C, the manifest, the display and kept engines
need no locks, and whatever ends the loop ends every run: `close()` raises at its yield, and it gives its engines back.
"""

import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from audit.engines.config import ModelConfig
from audit.errors import AuditError, ConfigError, ShardError

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Placement:
    """One engine's placement group. `actor_gpus` are the GPUs the engine actor itself holds (in bundle 0)."""

    bundles: tuple[dict[str, float], ...]
    strategy: str
    actor_gpus: float


def plan_placement(
    tensor_parallel_size: int, executor: str, cluster_gpus: float, largest_node_gpus: float, *, autoscale: bool = False
) -> Placement | None:
    """The placement of one engine; None where the cluster has no GPU (vLLM's CPU build then serves). autoscale: GPUs
    are asked for whether they are there or not; an autoscaler starts what a placement group waits for. executor `mp`:
    all GPUs on one node, held by the engine actor, whose vLLM forks one worker a GPU. executor `ray`: one bundle a GPU,
    packed but allowed to span nodes; vLLM's own Ray workers take them. No CPU is reserved: vLLM's workers ask Ray for
    none, and eight replicas on eight CPUs would leave none for the stages, which would wait for ever. Raises
    ConfigError when the model cannot fit."""
    if cluster_gpus == 0 and not autoscale:
        return None
    need = tensor_parallel_size
    if need > cluster_gpus and not autoscale:
        raise ConfigError(
            f"tensor_parallel_size={need} needs {need} GPUs; the cluster has {cluster_gpus:g}. Where an autoscaler "
            "would start more: cluster.autoscale=true."
        )
    if need == 1 or executor == "mp":
        if need > largest_node_gpus and not autoscale:
            raise ConfigError(
                f"tensor_parallel_size={need} on one node needs {need} GPUs; the largest node has "
                f"{largest_node_gpus:g}. Use executor=ray to span nodes."
            )
        return Placement(({"GPU": float(need)},), "STRICT_PACK", float(need))
    return Placement(tuple({"GPU": 1.0} for _ in range(need)), "PACK", 0.0)


def may_run_beside(engines: Iterable[ModelConfig], running: Iterable[ModelConfig], cluster_gpus: float) -> bool:
    """Do these engines gain by starting while those run? Together they must ask for no more GPUs than the cluster has
    (infinite: an autoscaler starts them). Of two that compute on the CPUs one waits: they would share the same cores.
    So does one of two that call the same server: its `concurrency` is what that server bears, and it may have to swap
    models. A scripted engine takes nothing."""
    new, old = list(engines), list(running)
    wanted = sum(one.tensor_parallel_size * one.replicas for one in (*new, *old) if one.engine == "vllm")
    if 0 < cluster_gpus < wanted:
        return False
    if any(_on_cpus(one, cluster_gpus) for one in new) and any(_on_cpus(one, cluster_gpus) for one in old):
        return False
    return not _servers(new) & _servers(old)


def _on_cpus(model: ModelConfig, cluster_gpus: float) -> bool:
    return model.engine == "masked_lm" or (model.engine == "vllm" and not cluster_gpus)


def _servers(models: Iterable[ModelConfig]) -> set[tuple[str, int, str]]:
    """What their URLs call, however they are spelt: host, port and path."""
    found = set()
    for url in (urlsplit(one.url) for model in models if model.engine == "openai" for one in model.endpoints):
        host = "localhost" if url.hostname in _LOOPBACK else url.hostname or ""
        port = url.port or (443 if url.scheme == "https" else 80)
        found.add((host, port, url.path.rstrip("/")))
    return found


STEP_S = 0.05  # between two steps of what is waited for
_ASK_AGAIN_S = 30.0  # nodes may have joined

Steps = Callable[[Callable[[], bool]], Generator[None]]  # starts a run; given what tells whether others run


class NoRoom(Exception):
    """Raised by a run that joined others and found that its GPUs are taken or lie apart; it holds nothing."""


def run_in_turns(
    runs: Mapping[str, Steps],
    may_join: Callable[[str, Collection[str]], bool],
    ended: Callable[[str, AuditError | None], None],
) -> None:
    """Run all, in the order of `runs` where they cannot run at once. may_join(name, running): is there room for it
    beside those? ended(name, error): it ran to its end, or raised this; the others go on. ShardError (the disk or the
    run directory) and what is no AuditError end all."""
    waiting, running, refused = list(runs), dict[str, Generator[None]](), set[str]()
    asked_at = -math.inf
    with ExitStack() as opened:
        while waiting or running:
            if time.monotonic() >= asked_at + _ASK_AGAIN_S:
                asked_at = time.monotonic()
                for name in list(waiting):
                    if not running or (name not in refused and may_join(name, running)):
                        waiting.remove(name)
                        running[name] = run = runs[name](partial(_others, name, running))
                        opened.callback(run.close)
            for name, run in list(running.items()):
                error: AuditError | None = None
                try:
                    next(run)
                    continue
                except NoRoom:
                    waiting = [one for one in runs if one in {name, *waiting}]  # in its place
                    refused.add(name)
                except StopIteration:
                    pass
                except ShardError:
                    raise
                except AuditError as failure:
                    error = failure
                del running[name]
                asked_at = -math.inf
                if name not in waiting:
                    refused.clear()
                    ended(name, error)
            time.sleep(STEP_S)


def _others(name: str, running: Collection[str]) -> bool:
    return any(one != name for one in running)
