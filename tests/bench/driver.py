"""`python -m bench.driver <the sweep's overrides>`: one sweep, and what this driver process used,
as a line of JSON."""

import json
import resource
import sys
import time

from audit.config.command_line import configured
from audit.runtime.progress import Display
from audit.runtime.run import run_audit
from audit.shards.manifest import Manifest
from audit.sweep.config import design_of
from audit.sweep.design import Arm, n_messages
from audit.sweep.replay import resolve_sweep


def measure(overrides: list[str]) -> dict[str, float]:
    """Run the sweep (no report) and return calls, seconds of the generation phase, and the peak
    memory in MB."""
    config = configured("sweep", overrides)
    started = time.monotonic()
    with Display(quiet=True) as display:
        result = run_audit(resolve_sweep(config), {}, display)
    if result.failed:
        raise RuntimeError(f"The run failed: {result.failed}")
    manifest = Manifest.load(result.run_dir)
    design = design_of(config)
    calls = len(design.settings) + sum(
        n_messages(part) for part in design.parts if part.arm != Arm.DIRECT
    )
    questions = sum(facts["n"] for facts in manifest.benchmark.values())
    return {
        "rows": float(result.rows),
        "calls": float(calls * questions * len(config.model)),
        "load_s": sum(t["load_s"] for t in manifest.timings.values()),
        "generate_s": sum(t["generate_s"] for t in manifest.timings.values()),
        "total_s": time.monotonic() - started,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1:])))
