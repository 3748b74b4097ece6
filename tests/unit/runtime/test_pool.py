"""What GPUs a pool of engines asks for, and what it says while it waits (no Ray: its answers are
replaced)."""

from types import SimpleNamespace

import pytest
import ray

from audit.core.errors import EngineLoadError
from audit.runtime import actors
from audit.runtime.actors import EnginePool


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A cluster without CPUs or GPUs, whose placement group waits."""
    facts = SimpleNamespace(state="PENDING", resources=dict[str, float](), loaded=False)
    monkeypatch.setattr(actors, "placement_group_table", lambda group: {"state": facts.state})
    monkeypatch.setattr(ray, "nodes", list)
    monkeypatch.setattr(ray, "cluster_resources", lambda: facts.resources)
    monkeypatch.setattr(ray, "available_resources", lambda: facts.resources)
    monkeypatch.setattr(ray, "wait", lambda refs, **_: (refs, []) if facts.loaded else ([], refs))
    monkeypatch.setattr(ray, "get", lambda refs: refs)
    return facts


def pool(actor: bool = False) -> EnginePool:
    engine = SimpleNamespace(start=SimpleNamespace(remote=lambda: "ref"))
    return EnginePool(
        "m", [engine] if actor else [], [SimpleNamespace(bundle_specs=[{"GPU": 1.0}])]
    )


def test_gpus_that_others_of_the_job_hold_are_waited_for_without_end(
    cluster: SimpleNamespace,
) -> None:
    running = [True]
    loading = pool().load(0.0, print, lambda: bool(running))
    for _ in range(3):
        next(loading)
    running.clear()  # from now on nobody gives any back
    with pytest.raises(
        EngineLoadError,
        match="got no GPUs within load_timeout_s=0: waiting for 1 GPUs; the cluster",
    ):
        next(loading)


@pytest.mark.parametrize(
    ("resources", "expected"), [({}, True), ({"CPU": 0.0}, True), ({"CPU": 8.0}, False)]
)
def test_an_engine_that_no_node_has_a_cpu_for_is_not_just_loading(
    cluster: SimpleNamespace,
    monkeypatch: pytest.MonkeyPatch,
    resources: dict[str, float],
    expected: bool,
) -> None:
    monkeypatch.setattr(actors, "_CPU_WAIT_NOTED_S", 0.0)
    cluster.state, cluster.resources = "CREATED", resources
    messages: list[str] = []
    waiting = pool(actor=True)
    loading = waiting.load(60.0, messages.append, lambda: False)
    next(loading)
    assert any("no node offers a CPU" in message for message in messages) is expected
    cluster.loaded = True
    assert list(loading) == [] and waiting.ready


class Lost:
    """Two nodes of two GPUs, with an engine each. Ray's answers: an engine of a node that is gone
    is unavailable."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.alive, self.loaded, self.places = (
            {"a": True, "b": True},
            set[str](),
            {"A": "a", "B": "b"},
        )
        self.started: list[str] = []
        monkeypatch.setattr(actors, "_RETRY_S", 0.0)
        monkeypatch.setattr(actors, "_LOOK_S", 0.0)
        monkeypatch.setattr(actors, "placement_group_table", self.table)
        monkeypatch.setattr(ray, "nodes", self.nodes)
        monkeypatch.setattr(ray, "wait", self.wait)
        monkeypatch.setattr(ray, "get", self.get)
        groups = [SimpleNamespace(name=name, bundle_specs=[{"GPU": 2.0}]) for name in "AB"]
        self.pool = EnginePool("m", [self.actor(name) for name in "AB"], groups)
        self.messages: list[str] = []

    def actor(self, name: str) -> SimpleNamespace:
        def start() -> str:
            self.started.append(name)
            return name

        return SimpleNamespace(start=SimpleNamespace(remote=start))

    def table(self, group: SimpleNamespace) -> dict:
        return {"state": "CREATED", "bundles_to_node_id": {0: self.places[group.name]}}

    def nodes(self) -> list[dict]:
        return [
            {
                "NodeID": node,
                "Alive": lives,
                "NodeManagerAddress": f"10.0.0.{node}",
                "Resources": {"GPU": 2.0} if lives else {},
            }
            for node, lives in self.alive.items()
        ]

    def gone(self, name: str) -> bool:
        return not self.alive.get(self.places[name], False)

    def wait(self, calls: list[str], **_: object) -> tuple[list[str], list[str]]:
        ended = [name for name in calls if name in self.loaded or self.gone(name)]
        return ended, [name for name in calls if name not in ended]

    def get(self, name: str) -> str:
        if self.gone(name):
            raise ray.exceptions.ActorUnavailableError("its node is gone", None)
        return "bfloat16"

    def load(self):
        return self.pool.load(60.0, self.messages.append, lambda: False)


def test_a_lost_node_is_said_once_with_its_gpus_and_again_if_the_next_one_goes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = Lost(monkeypatch)
    assert lost.pool.lost_nodes() == []
    lost.alive["b"] = False
    (message,) = lost.pool.lost_nodes()
    assert "10.0.0.b is gone, with 2 GPUs and m/1" in message and "other 1" in message
    assert lost.pool.lost_nodes() == []
    lost.alive["c"], lost.places["B"] = True, "c"  # a node joined, and Ray gives it the group
    assert lost.pool.lost_nodes() == []
    lost.alive["c"] = False
    (message,) = lost.pool.lost_nodes()
    assert "10.0.0.c is gone, with 2 GPUs" in message


def test_a_run_begins_with_the_engine_that_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Lost(monkeypatch)
    loading = lost.load()
    next(loading)
    lost.alive["b"] = False
    for _ in range(3):  # nothing is loaded yet, so it is waited for
        next(loading)
    assert not lost.pool.ready and len(lost.messages) == 1
    lost.loaded.add("A")
    assert len(list(loading)) <= 1 and lost.pool.ready and lost.pool.precision == "bfloat16"


def test_an_engine_whose_process_is_gone_but_not_its_node_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = Lost(monkeypatch)
    loading = lost.load()
    next(loading)
    lost.loaded.add("A")
    crashed = [True]
    gone = lost.gone
    monkeypatch.setattr(lost, "gone", lambda name: (name == "B" and crashed[0]) or gone(name))
    for _ in range(3):
        next(loading)
    assert not lost.pool.ready and lost.messages == [] and lost.started.count("B") > 1
    crashed[0] = False
    lost.loaded.add("B")
    list(loading)
    assert lost.pool.ready


def test_the_only_engine_is_waited_for_on_another_node(monkeypatch: pytest.MonkeyPatch) -> None:
    lost = Lost(monkeypatch)
    lost.pool = EnginePool("m", lost.pool.actors[:1], lost.pool.groups[:1])
    loading = lost.load()
    next(loading)
    lost.alive["a"] = False
    for _ in range(3):
        next(loading)
    assert "No other engine is left" in lost.messages[0] and not lost.pool.ready
    lost.alive["c"], lost.places["A"] = True, "c"
    lost.loaded.add("A")
    list(loading)
    assert lost.pool.ready
