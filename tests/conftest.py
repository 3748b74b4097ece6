"""Shared by every test: real benchmark files beside the checkout, where they exist, and reports
without drawings."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import audit as _audit  # noqa: F401 - before numpy: it says how many threads a product of matrices takes

settings.register_profile("busy", deadline=None)  # a busy machine is not a failure
settings.load_profile("busy")
ROOT = Path(__file__).resolve().parents[1]
TORCH = ("test_embedder.py", "test_entailment.py", "test_plant_train.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of a file to one worker of xdist, which builds their fixtures once; one starts
    a browser, and one imports torch, which takes ten CPU seconds."""
    for item in items:
        group = item.path.relative_to(ROOT).as_posix()
        if item.get_closest_marker("browser"):
            group = "browser"
        elif item.path.name in TORCH:
            group = "torch"
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real published benchmark files; tests that need them are skipped by name where they are
    not."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("real benchmark files (shared/data) are not beside this checkout")
    return path


@pytest.fixture
def no_figures() -> Iterator[None]:
    from audit_here import undrawn

    with undrawn():
        yield
