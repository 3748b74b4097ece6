"""`python -m bench.orchestration`: the pipeline alone (scripted engine, zero latency).

Generations per second of the generation phase at 10,000 questions, and how much more memory the driver needs for
100,000 questions than for 10,000.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from bench.common import run_driver, write_exam

TARGET_PER_S, TARGET_GROWTH_MB = 8000.0, 50.0
SMALL, LARGE = 10_000, 100_000


def measure(small: int = SMALL, large: int | None = LARGE) -> dict[str, Any]:
    """Throughput at `small` questions; driver memory at `small` and `large`."""
    with tempfile.TemporaryDirectory() as folder:
        base = ["model=scripted", "benchmark=mcq_file", "n=all", "draws=nested"]

        def run(n: int, *more: str) -> dict[str, Any]:
            exam = write_exam(Path(folder) / f"exam{n}.jsonl", n)
            return run_driver([*base, f"benchmark.path={exam}", f"run_dir={folder}/run{n}{len(more)}", *more])

        speed = run(small, "r=1..9")  # the paper's router counts
        result: dict[str, Any] = {
            "questions": small,
            "generations": speed["calls"],
            "generations_per_s": speed["calls"] / speed["generate_s"],
            "target_per_s": TARGET_PER_S,
        }
        if large is not None:
            short = "arms=[forward_full]"
            few, many = run(small, "r=1", short), run(large, "r=1", short)
            result |= {
                f"driver_mb_at_{small}": few["peak_mb"],
                f"driver_mb_at_{large}": many["peak_mb"],
                "driver_growth_mb": many["peak_mb"] - few["peak_mb"],
                "target_growth_mb": TARGET_GROWTH_MB,
                f"generations_per_s_at_{large}": many["calls"] / many["generate_s"],
            }
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=int, default=SMALL)
    parser.add_argument("--large", type=int, default=LARGE)
    options = parser.parse_args()
    print(json.dumps(measure(options.small, options.large or None), indent=1))
