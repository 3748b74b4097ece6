"""Choose the GPUs of engines, and the models that run at the same time.

This module does not use Ray. One thread runs all models of a job. The run of a model is a generator
that yields whenever it waits for engines or Ray Data, which work in other processes and threads.
Because there is only one thread, no locks are needed for Ctrl-C, the manifest, the display and the
shared engines.

When the loop over the runs ends, for any reason, `close()` is called on every generator. This
raises an exception at its `yield`, and the run releases its engines.
"""

import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import chain
from urllib.parse import urlsplit

from audit.core.errors import AuditError, ConfigError, ShardError
from audit.engines.config import ModelConfig

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Node:
    """Describe the GPUs of one node of the cluster.

    - `gpus`: number of GPUs.
    - `types`: Ray's names of the GPU types.
    - `gpu_bytes`: memory of the smallest GPU in bytes; None if unknown.
    """

    gpus: float
    types: frozenset[str] = frozenset()
    gpu_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Describe the placement group of one engine.

    The engine actor uses `actor_gpus` GPUs of bundle 0.
    """

    bundles: tuple[dict[str, float], ...]
    strategy: str
    actor_gpus: float


def plan_placement(
    model: ModelConfig, nodes: Sequence[Node], *, autoscale: bool = False
) -> Placement | None:
    """Choose the placement group of one engine of a model.

    Parameters
    ----------
    model : ModelConfig
        Settings of the model.
    nodes : sequence of Node
        Nodes of the cluster.
    autoscale : bool
        Whether an autoscaler starts nodes for waiting placement groups. GPUs that do not exist yet
        may then be requested.

    Returns
    -------
    Placement or None
        The placement; None if no node has a GPU, so that the model runs on vLLM's CPU build.

    Raises
    ------
    ConfigError
        If the replicas cannot fit on these nodes.

    Notes
    -----
    - Executor `mp`: all GPUs of an engine are on one node and belong to the engine actor. vLLM
      forks a worker for each GPU in this actor.
    - Executor `ray`: each GPU is a bundle of the placement group. Ray puts the bundles on as few
      nodes as possible. vLLM's Ray workers take the bundles node by node, in the order of the
      tensor-parallel ranks.

    No CPU is reserved, since vLLM's workers request no CPU. With reserved CPUs, eight replicas on
    eight CPUs would leave no CPU for the pipeline stages.
    """
    if not any(node.gpus for node in nodes) and not autoscale:
        return None
    if not autoscale and (why := _too_few(model, nodes)):
        raise ConfigError(why)
    kind = {f"accelerator_type:{model.accelerator_type}": 0.001} if model.accelerator_type else {}
    if model.gpus <= 1 or model.executor == "mp":
        return Placement(({"GPU": float(model.gpus), **kind},), "STRICT_PACK", float(model.gpus))
    return Placement(tuple({"GPU": 1.0, **kind} for _ in range(int(model.gpus))), "PACK", 0.0)


def _too_few(model: ModelConfig, nodes: Sequence[Node]) -> str:
    """Return the reason why the replicas of a model do not fit on the GPUs of the nodes.

    The reason is "" if the replicas fit.
    """
    each = []
    for node in nodes:
        if model.accelerator_type in (None, *node.types):
            each.append(node.gpus)
    kind = f" of type {model.accelerator_type}" if model.accelerator_type else ""
    if kind and not sum(each):
        types = sorted(frozenset[str]().union(*(node.types for node in nodes)))
        return (
            f"accelerator_type of model {model.name} is {model.accelerator_type}. Expected a type of this cluster: "
            f"{', '.join(types) or 'its nodes name no type'}. Example: model.{model.name}.accelerator_type=null"
        )
    wanted = f"Model {model.name} needs {gpus_in_words(model.gpus * model.replicas, kind)}{product_in_words(model)}"
    if model.gpus * model.replicas > sum(each):
        more = "If an autoscaler would start more: cluster.autoscale=true."
        return f"{wanted}; this cluster has {sum(each):g}. {more}"
    if model.gpus <= 1:
        fits = sum(int(gpus + _ROUNDING) * int(1 / model.gpu_share + _ROUNDING) for gpus in each)
        if fits >= model.replicas:
            return ""
        return f"{wanted}; its GPUs hold {fits} such replicas. Example: model.{model.name}.replicas={max(1, fits)}"
    return _node_problem(model, each, wanted)


_ROUNDING = 1e-9  # tolerance for the rounding of shares such as 1/3


def _node_problem(model: ModelConfig, each: Sequence[float], wanted: str) -> str:
    """Return why engines with several GPUs do not fit on the nodes; "" if the engines fit.

    The cluster has enough GPUs in total, but they may be on too many nodes. `each` holds the number
    of GPUs of each node. `wanted` is the beginning of the message, with the number of needed GPUs.
    """
    m, tensor, stages = (
        f"model.{model.name}",
        model.tensor_parallel_size,
        model.pipeline_parallel_size,
    )
    gpus, largest = int(model.gpus), int(max(each))
    have = f"the nodes have {', '.join(f'{number:g}' for number in each)}"
    if model.executor == "mp":
        fits = sum(int(number // gpus) for number in each)
        if fits >= model.replicas:
            return ""
        if fits:
            return f"{wanted}, {gpus} of them on one node for each replica; {have}. Example: {m}.replicas={fits}"
        within = max(n for n in range(1, largest + 1) if gpus % n == 0)
        return (
            f"{wanted} on one node (executor=mp); {have}. Expected tensor parallel within a node and stages over "
            f"nodes. Example: {m}.executor=ray {m}.tensor_parallel_size={within} "
            f"{m}.pipeline_parallel_size={gpus // within}"
        )
    # tensor-parallel groups that fit, one for each pipeline stage
    places = sum(int(number // tensor) for number in each)
    if stages > 1 and tensor <= largest and places < stages * model.replicas:
        return (
            f"{wanted}, {tensor} of them within a node for each stage; {have}. Example: {m}.tensor_parallel_size=1 "
            f"{m}.pipeline_parallel_size={gpus}"
        )
    return ""


def gpus_in_words(number: float, kind: str = "") -> str:
    """Format a number of GPUs as text, such as "2 GPUs"."""
    return f"{number:g} GPU{'' if number == 1 else 's'}{kind}"


def product_in_words(model: ModelConfig) -> str:
    """Explain how a model's number of GPUs is computed.

    Parameters
    ----------
    model : ModelConfig
        Settings of the model.

    Returns
    -------
    str
        The factors of the product, in brackets; "" for one engine with one GPU.
    """
    parts = {
        "tensor_parallel_size": model.tensor_parallel_size,
        "pipeline_parallel_size": model.pipeline_parallel_size,
        "gpu_share": model.gpu_share,
        "replicas": model.replicas,
    }
    several = []
    for name, value in parts.items():
        if value != 1:
            several.append(f"{name}={value:g}")
    return f" ({', '.join(several)})" if several else ""


def may_run_beside(
    engines: Iterable[ModelConfig], running: Iterable[ModelConfig], cluster_gpus: float
) -> bool:
    """Return whether engines may start while other engines are running.

    Parameters
    ----------
    engines, running : iterable of ModelConfig
        The models of the new engines, and the models that are running.
    cluster_gpus : float
        Number of GPUs of the cluster; infinite with an autoscaler.

    Returns
    -------
    bool
        False if running at the same time would be slower or impossible. There are three such cases:

        - Together, the engines need more GPUs than the cluster has.
        - Two engines compute on CPUs, where they would share the cores.
        - Two engines call the same server, which is limited by `concurrency` and may have to swap
          models.

        A scripted engine never has to wait.
    """
    new, old = list(engines), list(running)
    wanted = 0.0
    for model in (*new, *old):
        if model.engine == "vllm":
            wanted += model.gpus * model.replicas
    if 0 < cluster_gpus < wanted:
        return False
    new_on_cpus = any(_on_cpus(model, cluster_gpus) for model in new)
    if new_on_cpus and any(_on_cpus(model, cluster_gpus) for model in old):
        return False
    return not _servers(new) & _servers(old)


def _on_cpus(model: ModelConfig, cluster_gpus: float) -> bool:
    return model.engine == "masked_lm" or (model.engine == "vllm" and not cluster_gpus)


def _servers(models: Iterable[ModelConfig]) -> set[tuple[str, int, str]]:
    """Return the servers that the models call, as tuples (host, port, path).

    Different spellings of a URL give the same tuple.
    """
    servers = set()
    served = [model.endpoints for model in models if model.engine == "openai"]
    for endpoint in chain.from_iterable(served):
        url = urlsplit(endpoint.url)
        host = "localhost" if url.hostname in _LOOPBACK else url.hostname or ""
        port = url.port or (443 if url.scheme == "https" else 80)
        servers.add((host, port, url.path.rstrip("/")))
    return servers


STEP_S = 0.05  # interval between two steps of a run
_ASK_AGAIN_S = 30.0  # interval at which waiting models are tried again, since nodes may have joined

# A function that starts a run. Its argument is a function that returns whether other runs are
# active.
Steps = Callable[[Callable[[], bool]], Generator[None]]


class NoRoom(Exception):
    """Signal that the GPUs that a run needs are in use or on different nodes.

    The run has released all its GPUs when this error is raised.
    """


def run_in_turns(
    runs: Mapping[str, Steps],
    may_join: Callable[[str, Collection[str]], bool],
    ended: Callable[[str, AuditError | None], None],
) -> None:
    """Run all models, several at the same time if possible.

    Models that cannot run at the same time run one after the other, in the order of `runs`.

    Parameters
    ----------
    runs : mapping
        Maps each model to the function that starts its run.
    may_join : callable
        Returns whether a model can run together with the running models.
    ended : callable
        Is called when a model has ended, with the model and its error or None. The other models
        continue.

    Raises
    ------
    ShardError
        If the disk or the run directory fails. A ShardError ends all runs. Any error that is not an
        AuditError also ends all runs.
    """
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
                    # The model waits again, at its place in the order of `runs`.
                    waiting = [other for other in runs if other in {name, *waiting}]
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
    return any(other != name for other in running)
