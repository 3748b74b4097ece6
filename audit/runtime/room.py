"""Check that a model fits on the available GPUs before the model is loaded.

The check does not need Ray.
"""

import os
from collections.abc import Sequence
from dataclasses import replace

from audit.config.resolve import ResolvedRun
from audit.core.errors import ConfigError
from audit.engines.config import ModelConfig
from audit.engines.gpus import gpu_memory_here
from audit.engines.memory import ModelFiles, Need, engine_need, gigabytes
from audit.engines.model_files import files_of
from audit.runtime.placement import Node, gpus_in_words, plan_placement, product_in_words

_CPU_WEIGHTS_MOST = (
    4_000_000_000  # bytes: two billion parameters in bfloat16, a few tokens a second on CPUs
)


def check_room(
    model: ModelConfig, files: ModelFiles, nodes: Sequence[Node], *, autoscale: bool = False
) -> None:
    """Check that an engine of a model fits into the memory of the given nodes.

    The function also refuses a model that would run on CPUs unintentionally.

    Parameters
    ----------
    model : ModelConfig
        Settings of the model.
    files : ModelFiles
        Facts about the model's files, such as their size.
    nodes : sequence of Node
        Nodes of the cluster.
    autoscale : bool
        Whether an autoscaler may start nodes.

    Raises
    ------
    ConfigError
        If the engine does not fit. The message names an option with which it fits.
    """
    if model.engine != "vllm":
        if model.scripted.on_gpu:
            plan_placement(model, nodes, autoscale=autoscale)
        return
    need = engine_need(model, files)
    if not any(node.gpus for node in nodes) and not autoscale:
        if not runs_on_cpus(model, files):
            cpus = f" On CPUs, slowly: model.{model.name}.on_cpus=true." if model.gpus <= 1 else ""
            raise ConfigError(
                f"{needs(model, need)}; this cluster has 0 GPUs. {_instead(model, files)}{cpus}"
            )
        return
    sizes = _gpu_bytes(model, nodes)
    known = list(filter(None, sizes))
    try:
        plan_placement(model, nodes, autoscale=autoscale)
    except ConfigError as error:
        raise ConfigError(f"{error} {_instead(model, files, max(known, default=None))}") from None
    if autoscale or need.each_gpu is None or None in sizes:
        return  # a new node, or a node with unknown memory, may hold the engine
    if need.each_gpu > max(known) * model.gpu_memory_utilization * model.gpu_share:
        raise ConfigError(
            f"{needs(model, need)}; the largest GPU of this cluster has {gigabytes(max(known))}. "
            f"{_instead(model, files, max(known))}"
        )


def _gpu_bytes(model: ModelConfig, nodes: Sequence[Node]) -> list[int | None]:
    """Return the GPU memory (bytes) of each node that the model may use.

    The entry of a node is the memory of its smallest GPU, or None if the memory is unknown.
    """
    sizes = []
    for node in nodes:
        if node.gpus and model.accelerator_type in (None, *node.types):
            sizes.append(node.gpu_bytes)
    return sizes


def runs_on_cpus(model: ModelConfig, files: ModelFiles) -> bool:
    """Return whether a model runs on CPUs if no GPU is available.

    Parameters
    ----------
    model : ModelConfig
        Settings of the model.
    files : ModelFiles
        Facts about the model's files, such as their size.

    Returns
    -------
    bool
        The option `on_cpus` of the model, if it is set. Otherwise, True if the model needs at most
        one GPU and is known to be small.
    """
    if model.on_cpus is not None:
        return model.on_cpus
    return model.gpus <= 1 and files.stored is not None and files.stored <= _CPU_WEIGHTS_MOST


def needs(model: ModelConfig, need: Need) -> str:
    """Describe how much memory the engines of a model need.

    Parameters
    ----------
    model : ModelConfig
        Settings of the model.
    need : Need
        The memory that one engine needs.

    Returns
    -------
    str
        A clause without a full stop, to which the caller adds the end of the sentence.
    """
    gpus, product = gpus_in_words(model.gpus * model.replicas), product_in_words(model)
    if need.each_gpu is None:
        return f"Model {model.name} needs {gpus}{product}; its size is not known"
    each = need.each_gpu / model.gpu_memory_utilization / model.gpu_share
    parts = [f"weights {gigabytes(need.weights or 0)}"]
    if need.sequence is not None:
        parts.append(f"KV cache of {need.tokens:,} tokens {gigabytes(need.sequence)}")
    return f"Model {model.name} needs {gpus} of at least {gigabytes(each)}{product}: {', '.join(parts)}"


def _instead(model: ModelConfig, files: ModelFiles, gpu_bytes: int | None = None) -> str:
    """Return advice for a model that does not fit on a GPU with `gpu_bytes` bytes of memory.

    The advice names options that the user can type.
    """
    ways = [
        f"Smaller: model={'smollm2_135m' if gpu_bytes is None or gpu_bytes < 16e9 else 'llama3_2_3b'}."
    ]
    each = engine_need(model, files).each_gpu
    if (
        gpu_bytes is not None
        and each is not None
        and each > gpu_bytes * model.gpu_memory_utilization
    ):
        for gpus in (2, 4, 8, 16):
            larger = replace(
                model, tensor_parallel_size=gpus * model.tensor_parallel_size, gpu_share=1.0
            )
            each = engine_need(larger, files).each_gpu
            if each is not None and each <= gpu_bytes * model.gpu_memory_utilization:
                size = f"model.{model.name}.tensor_parallel_size={larger.tensor_parallel_size}"
                ways.insert(0, f"On more GPUs: {size}.")
                break
    ways.append(f"Endpoint: endpoint=http://HOST:8000/v1 model_id={model.path or 'ID'}.")
    ways.append(f"Plan: audit plan model={model.name}.")
    return " ".join(ways)


def foreseen(resolved: ResolvedRun) -> dict[str, str]:
    """Describe how much memory each engine of a planned run needs, and whether the engine fits.

    Parameters
    ----------
    resolved : ResolvedRun
        The resolved run that is planned.

    Returns
    -------
    dict
        Maps each model with weights to a sentence that states whether it fits on the configured
        cluster, or on this machine.
    """
    config, sentences = resolved.config, dict[str, str]()
    models: dict[str, ModelConfig] = {}
    for name, model in config.model.items():
        answering = resolved.answering[name]
        models |= {model.name: model, answering.name: answering}
    loaded = {name: model for name, model in models.items() if model.engine == "vllm"}
    sized = {name: files_of(model, resolved.weights.get(name)) for name, model in loaded.items()}
    if not sized:
        return sentences
    nodes = _nodes_of(resolved)
    for name, files in sized.items():
        if name in resolved.failed:
            continue
        try:
            check_room(models[name], files, nodes, autoscale=config.cluster.autoscale)
            if any(node.gpus for node in nodes) or config.cluster.autoscale:
                sentences[name] = f"{needs(models[name], engine_need(models[name], files))}."
            else:
                sentences[name] = f"Model {name} is run on CPUs."
        except ConfigError as error:
            sentences[name] = f"WARNING: {error}"
    return sentences


def _nodes_of(resolved: ResolvedRun) -> list[Node]:
    cluster = resolved.config.cluster
    if cluster.address is None and not os.environ.get("RAY_ADDRESS"):
        memory = gpu_memory_here()
        gpus = len(memory) if cluster.num_gpus is None else cluster.num_gpus
        return [Node(float(gpus), gpu_bytes=min(memory, default=None))]
    # Ray is loaded only if the plan is for a cluster.
    from audit.runtime.nodes import cluster_nodes
    from audit.runtime.start import start_ray

    start_ray(cluster)
    return cluster_nodes(with_memory=True)
