"""A Ray that does not start (ray.init is replaced) and nodes that do not answer are said in one
sentence."""

import os
import socket

import pytest
import ray

from audit.config.base import ClusterConfig
from audit.core.errors import ConfigError
from audit.runtime.model_run import silent_nodes
from audit.runtime.start import in_time, say_needed_action, start_ray


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (
            Exception("The current node timed out during startup. This could happen because"),
            "did not start in time",
        ),
        (
            RuntimeError("Timed out after 30 seconds while waiting for node to startup."),
            "did not start in time",
        ),
        (
            RuntimeError("Timed out waiting for node info for node_id=0a1b."),
            "did not start in time",
        ),
        (RuntimeError("Failed to connect to GCS within 60 seconds"), "did not start in time"),
        (
            ConnectionError("Timed out while waiting for GCS to become available."),
            "did not start in time",
        ),
        (ConnectionError("RPC timed out"), "could not be reached or started"),
        (
            ConnectionError("no cluster at that address"),
            r"could not be reached or started .*: ConnectionError: no cl",
        ),
    ],
)
def test_why_ray_is_not_there_is_said(
    monkeypatch: pytest.MonkeyPatch, raised: Exception, message: str
) -> None:
    tried: list[object] = []

    def init(**options: object) -> None:
        tried.append(options)
        raise raised

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(
        os, "environ", os.environ.copy()
    )  # of its own: what is set for Ray would stay in it
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match=message):
        start_ray(ClusterConfig())
    assert len(tried) == (3 if "in time" in message else 1)


def test_a_start_that_was_too_late_is_tried_again_with_a_sentence(
    capsys: pytest.CaptureFixture[str],
) -> None:
    late = [
        TimeoutError("Timed out while waiting for GCS"),
        Exception("The current node timed out during startup."),
    ]
    tried: list[str] = []

    def start() -> None:
        tried.append("start")
        if late:
            raise late.pop()

    in_time(start, lambda: tried.append("clear"))
    assert tried == ["start", "clear", "start", "clear", "start"]
    assert capsys.readouterr().err.count("again") == 2


def test_of_ray_only_what_needs_an_action_is_said_and_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_needed_action(
        "Task EngineActor.run failed. There are 1 retries remaining, so the task will be retried."
    )
    say_needed_action(
        "A worker died or was killed while executing a task by an unexpected system error."
    )
    assert capsys.readouterr().err == ""
    for _ in range(2):
        say_needed_action("1 worker(s) were killed due to the node running low on memory. Refer to")
    assert capsys.readouterr().err.count("cluster.models_at_once=1") == 1


def test_a_node_that_takes_no_connection_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as raylet, socket.socket() as reserved:
        reserved.bind(("127.0.0.2", 0))  # a port where nobody listens
        here, gone = (
            {"NodeManagerAddress": address, "NodeManagerPort": port}
            for address, port in (raylet.getsockname(), reserved.getsockname())
        )
        assert silent_nodes([here, gone, here]) == ["127.0.0.2"]
        assert silent_nodes([here]) == []
