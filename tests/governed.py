"""A small finished sweep with its report, an override of it, and keys of four people: for what
tests governance."""

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from audit_here import undrawn
from commands_here import gate, review
from outcome_tables import Outcome, finished_run
from synthetic import synthetic_outcomes

from audit.governance.keys import create_key, load_signer
from audit.governance.serve import Reviewing
from audit.shards.complete import table_hashes
from audit.shards.questions import QUESTIONS
from audit.sweep.report import REPORT

Capsys = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch
NOW = datetime(2026, 11, 20, 12, 0, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)
TOKEN = "t" * 43


def gated(run_dir: Path, keys: Path, *words: str, now: datetime = LATER) -> int:
    """As the gate checks decisions; that it computes the verdict again is in
    `test_gate_recomputes.py`."""
    return gate([str(run_dir), "--trust-report", "--keys", str(keys / "trusted"), *words], now)


def first(run: Path) -> Path:
    return run / "decisions" / "0001.dsse.json"


def rewrite(path: Path, change: Callable[[Any], Any]) -> None:
    """A JSON file with something changed, spelt as an envelope is."""
    plain = json.loads(path.read_text())
    change(plain)
    path.write_text(json.dumps(plain, sort_keys=True, indent=1) + "\n")


def make_run(
    folder: Path,
    model: str,
    seed: int,
    n: int = 12,
    change: Callable[[int, Outcome], Outcome] = lambda _, row: row,
) -> Path:
    """A finished run of n questions without a report. change: of (the question's number, a row),
    the row as stored."""
    rows = synthetic_outcomes(
        n, (1,), rng=np.random.default_rng(seed), model=model, with_direct=False
    )
    numbers = {name: k for k, name in enumerate(sorted({row.question_id for row in rows}))}
    rows = [change(numbers[row.question_id], row) for row in rows]
    ((model, benchmark),) = {(row.model, row.benchmark) for row in rows}
    return finished_run(
        folder,
        rows,
        fingerprint="f00",
        config={"protocols": {model: {"worker": "Answer: {question}"}}},
        models={model: {"revision": "abc123"}},
        benchmark={benchmark: {"n": n}},
        prompt_hashes={model: "0" * 64},
    )


def build_without_figures(run: Path) -> None:
    with undrawn():
        REPORT.build([run], run / "report")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 12 questions, underpowered: no decision. To be read only."""
    folder = make_run(tmp_path_factory.mktemp("governed") / "run", "m", 3)
    build_without_figures(folder)
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
    """Private keys of alice, bob, carol (who ran the audit) and mallory; `trusted/` has all but
    mallory's."""
    folder = tmp_path_factory.mktemp("keys")
    (folder / "trusted").mkdir()
    for name in ("alice", "bob", "carol", "mallory"):
        _, public = create_key(name, folder)
        if name != "mallory":
            shutil.copy(public, folder / "trusted")
    return folder


def add_questions(run: Path, listed: bool) -> None:
    """Questions beside the shards, which the manifest lists or not."""
    with pa.ipc.new_file(str(run / QUESTIONS), pa.schema([("id", pa.string())])) as file:
        file.write_table(pa.table({"id": ["q1"]}))
    if listed:
        rewrite(run / "manifest.json", lambda plain: plain.update(tables=table_hashes(run)))


def flip(path: Path, at: int | None = None) -> None:
    """One bit of the byte at a place of a file, in its middle unless said."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 1
    path.write_bytes(data)


def shard_of(run: Path) -> Path:
    """The one shard of a run."""
    (shard,) = (run / "shards").glob("*.arrow")
    return shard


def decided(
    run: Path, keys: Path, who: str, *more: str, kind: str = "override", now: datetime = NOW
) -> int:
    """As `audit review`, by the key of a person: an override to the end of 2026, or what more words
    say."""
    until = [] if kind == "reject" else ["--expires", "2026-12-31"]
    words = [kind, str(run), "--reason", "r", *until, "--key", str(keys / f"{who}.key")]
    return review([*words, "--keys", str(keys / "trusted"), *more], now)


@pytest.fixture(scope="session")
def overridden(built: Path, keys: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with an override by alice, which passes. To be copied."""
    run = Path(shutil.copytree(built, tmp_path_factory.mktemp("overridden") / "run"))
    assert decided(run, keys, "alice") == 0
    assert gated(run, keys) == 0
    return run


def reviewing(folder: Path, keys: Path, at: str, who: str = "alice", **other: Any) -> Reviewing:
    """What a reviewer serves on `at`, with the token TOKEN."""
    return Reviewing(
        **{
            "folder": folder,
            "signer": load_signer(keys / f"{who}.key"),
            "keys": keys / "trusted",
            "approvals": 1,
            "check": None,
            "registry": None,
            "token": TOKEN,
            "hosts": frozenset({at}),
            "home": "home",
            "now": lambda: NOW,
            **other,
        }
    )
