"""A Ray that does not start (ray.init is replaced) and nodes that do not answer are said in one sentence."""

import os
import socket

import pytest
import ray

from audit.config import ClusterConfig
from audit.errors import ConfigError
from audit.runtime.model_run import silent_nodes
from audit.runtime.start import STARTS, say_needed_action, start_ray


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (Exception("The current node timed out during startup. This could happen because"), "did not start in time"),
        (RuntimeError("Timed out after 30 seconds while waiting for node to startup."), "did not start in time"),
        (RuntimeError("Timed out waiting for node info for node_id=0a1b."), "did not start in time"),
        (ConnectionError("RPC timed out"), "could not be reached or started"),
        (ConnectionError("no cluster at that address"), r"could not be reached or started .*: ConnectionError: no cl"),
    ],
)
def test_why_ray_is_not_there_is_said(monkeypatch: pytest.MonkeyPatch, raised: Exception, said: str) -> None:
    def init(**options: object) -> None:
        raise raised

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(os, "environ", os.environ.copy())  # of its own: what is set for Ray would stay in it
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match=said):
        start_ray(ClusterConfig())


@pytest.mark.parametrize(("failures", "starts"), [(0, 1), (1, 2), (STARTS - 1, STARTS), (STARTS, STARTS)])
def test_a_ray_that_is_late_is_started_again(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], failures: int, starts: int
) -> None:
    calls = []

    def init(**options: object) -> None:
        calls.append(options)
        if len(calls) <= failures:
            raise RuntimeError("Timed out after 30 seconds while waiting for node to startup.")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if failures == STARTS:
        with pytest.raises(ConfigError, match="did not start in time"):
            start_ray(ClusterConfig())
    else:
        start_ray(ClusterConfig())
    assert len(calls) == starts and capsys.readouterr().err.count("note: ") == starts - 1
    with pytest.raises(ConfigError):  # a Ray that is joined is not ours to start
        calls.clear()
        failures = STARTS
        start_ray(ClusterConfig(address="127.0.0.1:1"))
    assert len(calls) == 1


def test_of_ray_only_what_needs_an_action_is_said_and_once(capsys: pytest.CaptureFixture[str]) -> None:
    say_needed_action("Task EngineActor.run failed. There are 1 retries remaining, so the task will be retried.")
    say_needed_action("A worker died or was killed while executing a task by an unexpected system error.")
    assert capsys.readouterr().err == ""
    for _ in range(2):
        say_needed_action("1 worker(s) were killed due to the node running low on memory. Refer to")
    assert capsys.readouterr().err.count("cluster.models_at_once=1") == 1


def test_a_node_that_takes_no_connection_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as raylet, socket.socket() as taken:
        taken.bind(("127.0.0.2", 0))  # a port where nobody listens
        here, gone = (
            {"NodeManagerAddress": address, "NodeManagerPort": port}
            for address, port in (raylet.getsockname(), taken.getsockname())
        )
        assert silent_nodes([here, gone, here]) == ["127.0.0.2"]
        assert silent_nodes([here]) == []
