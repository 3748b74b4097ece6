"""A small finished run, as the registry's tests need it."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from outcome_tables import finished_run
from synthetic import synthetic_outcomes

from audit.judging.result import json_text
from audit.sweep.report import REPORT

EditedRun = Callable[..., Path]  # the fixture that makes a copy of a run that says other things
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def make_run(
    folder: Path,
    *,
    seed: int = 3,
    revision: str = "rev1",
    clean_accuracy: float = 0.7,
    n: int = 12,
    gain: float = 0.0,
) -> Path:
    """A finished sweep of one model, r=1, with its report."""
    rows = synthetic_outcomes(
        n,
        (1,),
        rng=np.random.default_rng(seed),
        model="m",
        with_direct=False,
        clean_accuracy=clean_accuracy,
        gain=gain,
    )
    finished_run(
        folder,
        rows,
        config={
            "model": {"m": {"worker": {"max_tokens": 8}}},
            "seed": 42,
            "n": n,
            "registry": None,
        },
        models={"m": {"revision": revision, "worker": "m", "reading": "letter"}},
        benchmark={"synthetic": {"n": n, "revision": "sha256:b", "ids_sha256": "1" * 64}},
        sampled_ids={"synthetic": sorted({o.question_id for o in rows})},
        prompt_hashes={"m": "0" * 64},
    )
    (folder / "report").mkdir()
    (folder / "report" / "verdict.json").write_text(json_text(REPORT.verdict_of([folder])))
    return folder
