"""`python -m bench.driver <the sweep's overrides>`: one sweep, and what this driver process used, as a line of JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from hydra import compose, initialize_config_dir

from audit.config import CONF_DIR, design_of, from_hydra, register
from audit.records import Arm
from audit.runtime.progress import Display
from audit.runtime.run import run_sweep
from audit.shards.manifest import Manifest


def measure(overrides: list[str]) -> dict[str, float]:
    """Run the sweep (no report) and return calls, seconds of the generation phase, and the peak memory in MB."""
    register()
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF_DIR)):
        config = from_hydra(compose("sweep", overrides))
    started = time.monotonic()
    with Display(quiet=True) as display:
        result = run_sweep(config, display)
    manifest = Manifest.load(result.run_dir)
    design = design_of(config)
    calls = design.worker_calls + sum(s.n_messages for s in design.sets if s.arm != Arm.DIRECT)
    questions = sum(facts["n"] for facts in manifest.benchmark.values())
    return {
        "rows": float(result.rows),
        "calls": float(calls * questions * len(config.model)),
        "load_s": sum(t["load_s"] for t in manifest.timings.values()),
        "generate_s": sum(t["generate_s"] for t in manifest.timings.values()),
        "total_s": time.monotonic() - started,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "run_dir_exists": float(Path(result.run_dir).is_dir()),
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:])))
