"""What a run in which nothing moves waits for, in words."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import ray

_ANSWER_S = 4.0  # for an engine to say that it lives
_REACH_S = 2.0  # for a node to take a connection
_AT_ONCE = 64


def waits_for(actors: Sequence[Any]) -> str:
    """Of the engines (`EngineActor`), the nodes and the CPUs of the cluster: which answer, which do not."""
    try:
        asked = [actor.stats.remote() for actor in actors]
        answered, silent = ray.wait(asked, num_returns=len(asked), timeout=_ANSWER_S)
        dead = sum(_failed(one) for one in answered)
        nodes, free = ray.nodes(), ray.available_resources().get("CPU", 0.0)
        cpus = ray.cluster_resources().get("CPU", 0.0)
    except ray.exceptions.RayError as error:
        return f"Ray does not answer: {type(error).__name__}."
    told = [f"{len(answered) - dead} of {len(asked)} engines answer"]
    if dead:
        told.append(f"{dead} died")
    if silent:
        told.append(f"{len(silent)} load, start again or are on a node that does not answer")
    alive = [node for node in nodes if node["Alive"]]
    words = [", ".join(told), f"{len(alive)} of {len(nodes)} nodes live"]
    if lost := silent_nodes(alive):
        words.append(
            f"of these {', '.join(lost)} does not answer: Ray gives such a node up after about a minute, and what it "
            "was doing is then done elsewhere"
        )
    if cpus:
        words.append(f"{free:g} of {cpus:g} CPUs are free")
    else:
        words.append("no node offers a CPU, which the stages need: they go on once a worker node joins")
    return "; ".join(words) + " (see 'ray status')."


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


def _failed(reference: Any) -> bool:
    try:
        ray.get(reference)
    except ray.exceptions.RayError:
        return True
    return False
