"""What GPUs a pool of engines asks for, and what it says while it waits (no Ray: its answers are replaced)."""

from types import SimpleNamespace

import pytest
import ray

from audit.errors import EngineLoadError
from audit.runtime import actors
from audit.runtime.actors import EnginePool


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A cluster without CPUs or GPUs, whose placement group waits."""
    found = SimpleNamespace(state="PENDING", resources=dict[str, float](), loaded=False)
    monkeypatch.setattr(actors, "placement_group_table", lambda group: {"state": found.state})
    monkeypatch.setattr(ray, "cluster_resources", lambda: found.resources)
    monkeypatch.setattr(ray, "available_resources", lambda: found.resources)
    monkeypatch.setattr(ray, "wait", lambda refs, **_: (refs, []) if found.loaded else ([], refs))
    monkeypatch.setattr(ray, "get", lambda refs: refs)
    return found


def pool(actor: bool = False) -> EnginePool:
    engine = SimpleNamespace(start=SimpleNamespace(remote=lambda: "ref"))
    return EnginePool("m", [engine] if actor else [], [SimpleNamespace(bundle_specs=[{"GPU": 1.0}])])


def test_gpus_that_others_of_the_job_hold_are_waited_for_without_end(cluster: SimpleNamespace) -> None:
    running = [True]
    loading = pool().load(0.0, print, lambda: bool(running))
    for _ in range(3):
        next(loading)
    running.clear()  # from now on nobody gives any back
    with pytest.raises(EngineLoadError, match="got no GPUs within load_timeout_s=0: waiting for 1 GPUs; the cluster"):
        next(loading)


@pytest.mark.parametrize(("resources", "said"), [({}, True), ({"CPU": 0.0}, True), ({"CPU": 8.0}, False)])
def test_an_engine_that_no_node_has_a_cpu_for_is_not_just_loading(
    cluster: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, resources: dict[str, float], said: bool
) -> None:
    monkeypatch.setattr(actors, "_CPU_WAIT_NOTED_S", 0.0)
    cluster.state, cluster.resources = "CREATED", resources
    told: list[str] = []
    waiting = pool(actor=True)
    loading = waiting.load(60.0, told.append, lambda: False)
    next(loading)
    assert any("no node offers a CPU" in one for one in told) is said
    cluster.loaded = True
    assert list(loading) == [] and waiting.ready
