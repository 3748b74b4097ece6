"""The whole product once: the embedded model, real vLLM, real Ray, kill -9 of the engine in the middle, a report at the
end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.dataset as ds
import pytest

ROOT = Path(__file__).resolve().parents[2]
N, SETTINGS = 8, 1 + 2 + 2  # direct; forward_full and noisy_rewrite at r=1..2
SHARDS = 8  # 24 router sets, three a shard


def start(run_dir: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "audit.sweep", f"run_dir={run_dir}", f"n={N}", "r=1..2", "draws=nested",
               "ensemble_control=true", "store.rows_per_shard=5", "cluster.chunks_in_flight=2"]  # fmt: skip
    env = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"}
    return subprocess.Popen(command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def wait_for_shards(sweep: subprocess.Popen[str], run_dir: Path, count: int) -> None:
    deadline = time.monotonic() + 300
    while sweep.poll() is None and time.monotonic() < deadline and len(shards_of(run_dir)) < count:
        time.sleep(0.1)
    if sweep.poll():
        pytest.fail(f"The sweep ended with {sweep.returncode} before it had {count} shards:\n{sweep.communicate()[0]}")


def shards_of(run_dir: Path) -> dict[str, int]:
    return {p.name: p.stat().st_mtime_ns for p in (run_dir / "shards").glob("*.arrow")}


def engine_cores(sweep: subprocess.Popen[str]) -> list[psutil.Process]:
    """vLLM's inner engine processes of this sweep's own Ray."""
    return [p for p in psutil.Process(sweep.pid).children(recursive=True) if "EngineCore" in " ".join(p.cmdline())]


def test_a_real_sweep_survives_the_death_of_its_engine_and_ends_with_a_report(tmp_path, embedded_model_dir):
    run_dir = tmp_path / "run"
    sweep = start(run_dir)
    wait_for_shards(sweep, run_dir, 2)
    (core,) = engine_cores(sweep)
    core.kill()  # its actor lives on, and holds a dead engine
    kept = shards_of(run_dir)
    wait_for_shards(sweep, run_dir, len(kept) + 2)  # the two chunks in flight died with it: a new engine wrote these
    (new_core,) = engine_cores(sweep)
    assert new_core.pid != core.pid
    out, _ = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, out
    assert 2 <= len(kept) < len(shards_of(run_dir)) == SHARDS
    assert kept.items() <= shards_of(run_dir).items()  # finished work is not repeated

    again, _ = start(run_dir).communicate(timeout=100)
    assert re.search("40 of 40 rows are already there", again)

    rows = ds.dataset(run_dir / "shards", format="ipc").to_table().to_pylist()
    keys = {(r["question_id"], r["arm"], r["routers"], r["replicate"]) for r in rows}
    assert len(rows) == len(keys) == N * SETTINGS
    for row in rows:
        assert row["error"] is None and row["parsed"]
        assert len(row["option_logprobs"]) == len(row["options"]) == 4
        assert all(value < 0 for value in row["option_logprobs"])
        assert {row["engine_id"], *row["router_engine_ids"]} == {"smollm2_135m/0"}  # one copy of the model
        assert len(row["router_messages"]) == row["routers"]
        if row["arm"] != "direct":
            assert any(row["router_messages"])
    assert sum(row["cached_tokens"] for row in rows) > 0  # the prefix cache is hit
    answers = [row["answer"] for row in rows]
    assert len(set(answers)) > 1

    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["status"] == "finished"
    assert manifest["models"]["smollm2_135m"]["revision"].startswith("sha256:")
    verdict = json.loads((run_dir / "report" / "verdict.json").read_text())
    assert [cell["model"] for cell in verdict["cells"]] == ["smollm2_135m"]
    assert "smollm2_135m" in (run_dir / "report" / "report.html").read_text()
