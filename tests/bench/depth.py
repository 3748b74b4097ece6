"""`python -m bench.depth`: how soon a sweep's rows reach the disk, by how many requests vLLM
computes at once.

Sweeps run one after the other on the same questions: seconds from the engine being ready to the
first row, the most work that a stop loses, the total, tokens read from the prefix cache. The work
that a stop at t loses is t less the time that the stored rows would take at the run's mean pace. On
a busy machine the CPU seconds of vLLM's processes compare two sweeps where the clock does not."""

import argparse
import json
import tempfile
import threading
import time
from bisect import bisect_left
from pathlib import Path
from typing import Any

import psutil

from audit.shards.complete import run_cost
from audit.shards.files import SHARDS
from audit.shards.manifest import MANIFEST, Manifest
from audit.shards.shard_file import shard_paths
from audit.sweep.audit import SCHEMA
from bench.common import run_driver

EMBEDDED = "smollm2_135m"


def measured(seqs: int, n: int, more: list[str]) -> dict[str, Any]:
    """Return the figures of one sweep as `make audit` asks it."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = Path(folder) / "run"
        words = [f"n={n}", "r=1..3", "noisy_replicates=1", f"run_dir={run_dir}", *more]
        moments: list[tuple[float, float]] = []
        threading.Thread(target=_watch_engine, args=(run_dir, moments), daemon=True).start()
        used = run_driver([*words, f"model.{EMBEDDED}.max_num_seqs={seqs}"])
        ready, cpu_before = moments[0]
        stored = sorted(path.stat().st_mtime - ready for path in shard_paths(run_dir / SHARDS))
        first = min(bisect_left(moments, (ready + stored[0], 0.0)), len(moments) - 1)
        loses = [t - stored[-1] * done / len(stored) for done, t in enumerate(stored)]
        roles = [
            role
            for arms in run_cost(run_dir, SCHEMA).values()
            for arm in arms.values()
            for role in arm.values()
        ]
        tokens = {
            kind: sum(role[kind] for role in roles)
            for kind in ("prompt_tokens", "cached_tokens", "completion_tokens")
        }
        return {
            "max_num_seqs": seqs,
            "rows": used["rows"],
            "first_row_s": stored[0],
            "stop_loses_s": max(loses),
            "first_row_cpu_s": round(moments[first][1] - cpu_before, 1),
            "engine_cpu_s": round(max(cpu for _, cpu in moments) - cpu_before, 1),
            "generate_s": used["generate_s"],
            **tokens,
            "precision": Manifest.load(run_dir).precision[EMBEDDED],
        }


def _watch_engine(run_dir: Path, moments: list[tuple[float, float]]) -> None:
    """Append the time and the CPU seconds of vLLM's processes, from the moment at which the
    manifest names the precision: the engine is then ready."""
    while not ((run_dir / MANIFEST).exists() and Manifest.load(run_dir).precision):
        time.sleep(0.05)
    engine = [
        child
        for child in psutil.Process().children(recursive=True)
        if child.name().startswith("VLLM")
    ]
    while engine:
        try:
            moments.append((time.time(), sum(sum(process.cpu_times()[:2]) for process in engine)))
        except psutil.NoSuchProcess:
            return
        time.sleep(0.1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seqs", type=int, nargs="+", default=[64, 16])
    parser.add_argument("overrides", nargs="*", help="of the sweep, such as store.rows_per_shard=7")
    options = parser.parse_args()
    for seq in options.seqs:
        print(json.dumps(measured(seq, options.n, options.overrides)), flush=True)
