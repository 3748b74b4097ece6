"""`make bench ARGS=orchestration`: the pipeline alone (scripted engine, zero latency).

Generations per second of the generation phase at 10,000 questions, and how much more memory the
driver needs for 100,000 questions than for 10,000."""

import tempfile
from pathlib import Path
from typing import Any

from bench.common import run_driver, write_exam

TARGET_PER_S, TARGET_GROWTH_MB = 8000.0, 50.0
SMALL, LARGE = 10_000, 100_000


def measure() -> dict[str, Any]:
    """Throughput at SMALL questions; driver memory at SMALL and LARGE."""
    with tempfile.TemporaryDirectory() as folder:
        base = ["model=scripted", "benchmark=mcq_file", "n=all", "draws=nested"]

        def run(n: int, *more: str) -> dict[str, Any]:
            exam = write_exam(Path(folder) / f"exam{n}.jsonl", n)
            return run_driver(
                [*base, f"benchmark.path={exam}", f"run_dir={folder}/run{n}{len(more)}", *more]
            )

        speed = run(SMALL, "r=1..9")  # the paper's router counts
        few, many = (run(n, "r=1", "arms=[forward_full]") for n in (SMALL, LARGE))
    return {
        "questions": SMALL,
        "generations": speed["calls"],
        "generations_per_s": speed["calls"] / speed["generate_s"],
        "target_per_s": TARGET_PER_S,
        f"driver_mb_at_{SMALL}": few["peak_mb"],
        f"driver_mb_at_{LARGE}": many["peak_mb"],
        "driver_growth_mb": many["peak_mb"] - few["peak_mb"],
        "target_growth_mb": TARGET_GROWTH_MB,
        f"generations_per_s_at_{LARGE}": many["calls"] / many["generate_s"],
    }
