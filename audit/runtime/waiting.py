"""What a run in which nothing moves waits for, in words."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray

from audit.runtime.actors import EnginePool
from audit.runtime.progress import Engines, still

_REACH_S = 2.0  # for a node to take a connection
_AT_ONCE = 64


def waits_for(pools: Sequence[EnginePool], seconds: float) -> str:
    """What a run that stored nothing for so long does or waits for: its engines, the nodes and CPUs of the cluster."""
    try:
        engines = [pool.progress() for pool in dict.fromkeys(pools)]
        nodes, free = ray.nodes(), ray.available_resources().get("CPU", 0.0)
        cpus = ray.cluster_resources().get("CPU", 0.0)
    except ray.exceptions.RayError as error:
        return f"nothing was stored for {seconds:.0f} s; Ray does not answer: {type(error).__name__}."
    alive = [node for node in nodes if node["Alive"]]
    words = [f"{len(alive)} of {len(nodes)} nodes live"]
    if lost := silent_nodes(alive):
        words.append(
            f"of these {', '.join(lost)} does not answer: Ray gives such a node up after about a minute, and what it "
            "was doing is then done elsewhere"
        )
    if cpus:
        words.append(f"{free:g} of {cpus:g} CPUs are free")
    else:
        words.append("no node offers a CPU, which the stages need: they go on once a worker node joins")
    return still(seconds, Engines.of(engines), "; ".join(words) + " (see 'ray status').")


def silent_nodes(nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The addresses of those of `ray.nodes()` that take no connection from this machine.

    Ray counts a node as alive until its health check has failed several times, more than a minute by default.
    """
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as threads:
        reached = list(threads.map(_reached, nodes))
    return [node["NodeManagerAddress"] for node, there in zip(nodes, reached, strict=True) if not there]


def _reached(node: Mapping[str, Any]) -> bool:
    try:
        socket.create_connection((node["NodeManagerAddress"], node["NodeManagerPort"]), _REACH_S).close()
    except OSError:
        return False
    return True
