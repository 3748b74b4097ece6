"""Shared by every test: real benchmark files beside the checkout, where they exist; and what may run side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.hookimpl(tryfirst=True)  # xdist reads the marks in a hook of its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `--dist loadgroup`: what shares a Ray cluster stays in one process, an engine and a browser in another."""
    for item in items:
        room = Path(item.fspath).relative_to(ROOT / "tests").parts[0]
        if room != "unit":
            item.add_marker(pytest.mark.xdist_group("model" if room in ("real", "browser") else "cluster"))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real published benchmark files; tests that need them are skipped by name where they are not."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("real benchmark files (shared/data) are not beside this checkout")
    return path


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without drawings: they take seconds, and few tests are about them."""
    from audit.report import canvas

    monkeypatch.setattr(canvas, "svg_text", lambda figure: '<svg viewBox="0 0 1 1"></svg>')
    monkeypatch.setattr(canvas, "png_bytes", lambda figure: b"")
