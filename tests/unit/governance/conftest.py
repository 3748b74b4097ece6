"""A small finished sweep with its report, and keys of three people."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from outcome_tables import outcomes_to_table
from synthetic import synthetic_outcomes

from audit.governance.keys import create_key
from audit.records import Setting
from audit.shards.attempt import start_attempt
from audit.shards.manifest import Manifest
from audit.shards.write import write_shard
from audit.sweep.columns import SCHEMA
from audit.sweep.report import build_report


def make_run(folder: Path, model: str, seed: int) -> Path:
    """A finished run of 12 questions without a report."""
    (folder / "shards").mkdir(parents=True)
    rows = synthetic_outcomes(12, (1,), rng=np.random.default_rng(seed), model=model, with_direct=False)
    info = write_shard(folder, outcomes_to_table(rows), SCHEMA, attempt=start_attempt(folder))
    Manifest(
        fingerprint="f00",
        config={"protocols": {model: {"worker": "Answer: {question}"}}},
        audit="sweep",
        schema_version=SCHEMA.version,
        status="finished",
        started="2026-11-01T08:00:00+00:00",
        ended="2026-11-01T09:00:00+00:00",
        run_by=["carol"],
        models={model: {"revision": "abc123"}},
        benchmark={"synthetic": {"n": 12}},
        settings=[asdict(s) for s in sorted({Setting(o.arm, o.routers, o.replicate) for o in rows})],
        prompt_hashes={model: "0" * 64},
        shards=[{"file": info.path.name, "rows": info.rows, "sha256": info.sha256}],
    ).save(folder)
    return folder


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 12 questions, underpowered: no decision. To be read only."""
    folder = make_run(tmp_path_factory.mktemp("governed") / "run", "m", 3)
    build_report([folder], folder / "report")
    return folder


@pytest.fixture(scope="session")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of another model, judged nowhere yet. To be read only."""
    return make_run(tmp_path_factory.mktemp("governed") / "other", "k", 5)


@pytest.fixture
def run_dir(built: Path, tmp_path: Path) -> Path:
    """A copy of the run to change."""
    return Path(shutil.copytree(built, tmp_path / "run"))


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Private keys of alice, bob, carol (who ran the audit) and mallory; `trusted/` has all but mallory's."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "trusted").mkdir()
    for name in ("alice", "bob", "carol", "mallory"):
        _, public = create_key(name, folder)
        if name != "mallory":
            shutil.copy(public, folder / "trusted")
    return folder


@pytest.fixture
def changed() -> Callable[[Path, int], None]:
    """Flip one bit of the byte at a place of a file."""

    def change(path: Path, at: int) -> None:
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    return change
