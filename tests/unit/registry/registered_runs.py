"""A small finished run, as the registry's tests need it."""

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from outcome_tables import outcomes_to_table
from synthetic import synthetic_outcomes

from audit.records import Setting
from audit.shards.attempt import start_attempt
from audit.shards.manifest import Manifest
from audit.shards.write import write_shard
from audit.sweep.audit import SCHEMA
from audit.sweep.report import verdict_of
from audit.verdict.result import json_text

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def make_run(
    folder: Path, *, seed: int = 3, revision: str = "rev1", clean_accuracy: float = 0.7, n: int = 12, gain: float = 0.0
) -> Path:
    """A finished sweep of one model, r=1, with its report."""
    (folder / "shards").mkdir(parents=True)
    rows = synthetic_outcomes(
        n, (1,), rng=np.random.default_rng(seed), model="m", with_direct=False, clean_accuracy=clean_accuracy, gain=gain
    )
    info = write_shard(folder, outcomes_to_table(rows), SCHEMA, attempt=start_attempt(folder))
    Manifest(
        fingerprint="f" * 64,
        config={"model": {"m": {"worker": {"max_tokens": 8}}}, "seed": 42, "n": n, "registry": None},
        audit="sweep",
        schema_version=SCHEMA.version,
        status="finished",
        started="2026-11-01T08:00:00+00:00",
        ended="2026-11-01T09:00:00+00:00",
        run_by=["carol"],
        models={"m": {"revision": revision, "worker": "m", "reading": "letter"}},
        benchmark={"synthetic": {"n": n, "revision": "sha256:b", "ids_sha256": "1" * 64}},
        settings=[asdict(s) for s in sorted({Setting(o.arm, o.routers, o.replicate) for o in rows})],
        sampled_ids={"synthetic": sorted({o.question_id for o in rows})},
        prompt_hashes={"m": "0" * 64},
        shards=[{"file": info.path.name, "rows": info.rows, "sha256": info.sha256}],
    ).save(folder)
    (folder / "report").mkdir()
    (folder / "report" / "verdict.json").write_text(json_text(verdict_of([folder])))
    return folder
