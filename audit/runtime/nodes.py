"""The nodes of the Ray that this process has joined, with their GPUs."""

from collections.abc import Mapping
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from audit.engines.gpus import gpu_memory_here
from audit.runtime.placement import Node

_TYPE = "accelerator_type:"
_ANSWER_S = 60.0  # for a node to start a process and to ask its driver


def cluster_nodes(*, with_memory: bool = False) -> list[Node]:
    """Return every live node. with_memory: ask each node that has GPUs how much memory they have, which starts a
    process there; a node that does not answer is one whose memory is not known."""
    alive = [node for node in ray.nodes() if node["Alive"]]
    memory = _memory([node for node in alive if node["Resources"].get("GPU")]) if with_memory else {}
    return [_node(node["Resources"], memory.get(node["NodeID"])) for node in alive]


def _node(resources: Mapping[str, float], gpu_bytes: int | None) -> Node:
    types = frozenset(name.removeprefix(_TYPE) for name in resources if name.startswith(_TYPE))
    return Node(resources.get("GPU", 0.0), types, gpu_bytes)


def _memory(nodes: list[Mapping[str, Any]]) -> dict[str, int]:
    """Return by node the memory of its smallest GPU."""
    here, task = ray.get_runtime_context().get_node_id(), ray.remote(gpu_memory_here)
    asked = {}
    for node in nodes:
        if node["NodeID"] != here:
            where = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            asked[task.options(num_cpus=0, scheduling_strategy=where).remote()] = node["NodeID"]
    found = {here: gpu_memory_here()} if any(node["NodeID"] == here for node in nodes) else {}
    answered, _ = ray.wait(list(asked), num_returns=len(asked), timeout=_ANSWER_S) if asked else ([], [])
    for reference in answered:
        try:
            found[asked[reference]] = ray.get(reference)
        except ray.exceptions.RayError:
            continue  # its memory is not known
    return {node: min(each) for node, each in found.items() if each}
