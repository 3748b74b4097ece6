"""List the nodes of the Ray cluster that this process has joined, with their GPUs."""

from collections.abc import Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from audit.engines.gpus import gpu_memory_here
from audit.runtime.placement import Node

_TYPE = "accelerator_type:"
_ANSWER_S = 60.0  # time limit for a node to start a process and query its driver


def cluster_nodes(*, with_memory: bool = False) -> list[Node]:
    """Return the live nodes of the cluster.

    Parameters
    ----------
    with_memory : bool
        Whether each node with GPUs is asked for the memory of its GPUs. This starts a process on
        the node.

    Returns
    -------
    list of Node
        The nodes. The memory of a node that does not answer is unknown (None).
    """
    alive = []
    for node in ray.nodes():
        if node["Alive"]:
            alive.append(node)
    memory = (
        _memory([node for node in alive if node["Resources"].get("GPU")]) if with_memory else {}
    )
    return [_node(node["Resources"], memory.get(node["NodeID"])) for node in alive]


def _node(resources: Mapping[str, float], gpu_bytes: int | None) -> Node:
    types = frozenset(name.removeprefix(_TYPE) for name in resources if name.startswith(_TYPE))
    return Node(resources.get("GPU", 0.0), types, gpu_bytes)


def _memory(nodes: list[Mapping[str, Any]]) -> dict[str, int]:
    """Map each node to the memory (bytes) of its smallest GPU."""
    here, task = ray.get_runtime_context().get_node_id(), ray.remote(gpu_memory_here)
    calls = {}
    for node in nodes:
        if node["NodeID"] != here:
            where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            calls[task.options(num_cpus=0, scheduling_strategy=where).remote()] = node["NodeID"]
    memory = {here: gpu_memory_here()} if any(node["NodeID"] == here for node in nodes) else {}
    answered, _ = (
        ray.wait(list(calls), num_returns=len(calls), timeout=_ANSWER_S) if calls else ([], [])
    )
    for reference in answered:
        try:
            memory[calls[reference]] = ray.get(reference)
        except ray.exceptions.RayError:
            continue  # the memory of this node stays unknown
    smallest = {}
    for node, each in memory.items():
        if each:
            smallest[node] = min(each)
    return smallest
