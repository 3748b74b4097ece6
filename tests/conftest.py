"""Shared by every test: real benchmark files beside the checkout, where they exist."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real published benchmark files; tests that need them are skipped by name where they are not."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("real benchmark files (shared/data) are not beside this checkout")
    return path
