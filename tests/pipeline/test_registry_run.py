"""A real run registers itself where a registry is configured, tells people, and is registered once."""

from collections.abc import Callable
from pathlib import Path

from audit.registry.database import open_registry
from audit.registry.entry import key_of
from audit.registry.store import kept


def test_a_run_registers_itself_once(sweep: Callable, tmp_path: Path) -> None:
    place, run_dir = tmp_path / "registry.db", tmp_path / "run"
    words = ("r=1", "n=12", "report=true", f"registry={place}")
    first = sweep(*words, run_dir=run_dir)
    again = sweep(*words, run_dir=run_dir)
    assert first.code == again.code == 0, first.out + again.out
    key = key_of(run_dir)
    assert f"registry {key[:12]} in {place}" in first.out and f"{key[:12]}, there already" in again.out
    (one,) = kept(open_registry(str(place)))
    assert one.run["key"] == key and one.cell["model"] == "scripted" and one.cell["n"] == 12
