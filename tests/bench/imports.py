"""Reading a million samples of lm-eval logs as a run: seconds, and memory.

    PYTHONPATH=tests python -m bench.imports [--samples 1000000] [--models 100]

The logs are made: models x items with a question, four options and likelihoods, 760 bytes a sample,
a file a model (not timed). Timed is what `audit import` does up to the finished shards, in a
process of its own."""

import argparse
import hashlib
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def write_logs(folder: Path, samples: int, models: int) -> list[Path]:
    """One samples_*.jsonl a model."""
    items = samples // models
    paths = []
    for m in range(models):
        rng = random.Random(m)
        path = folder / f"samples_exam_2026-01-01T00-00-{m:06d}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for i in range(items):
                words = " ".join(f"word{(i * 7919 + k * 104729) % 9973}" for k in range(40))
                options = [f"the option {k} of {i}" for k in range(4)]
                scores = [[rng.uniform(-40, -1), False] for _ in range(4)]
                best = max(range(4), key=lambda k: scores[k][0])
                sample = {
                    "doc_id": i,
                    "doc": {"question": words, "choices": options, "answer": i % 4},
                    "target": i % 4,
                    "filtered_resps": scores,
                    "acc": float(best == i % 4),
                    "doc_hash": hashlib.sha256(f"{i}".encode()).hexdigest(),
                }
                file.write(json.dumps(sample) + "\n")
        paths.append(path)
    return paths


READ = """
import sys
from pathlib import Path
from audit.imports.detect import read_log
from audit.imports.join import Joined
from audit.imports.record import Wanted
from audit.imports.write import RunFacts, write_run
run, *logs = map(Path, sys.argv[1:])
joined = Joined()
for k, log in enumerate(logs):
    joined.add(log.name, read_log(log, Wanted(model=f"m{k}")).outcomes)
write_run(run, joined, RunFacts(["m0"], "exam", None, [], {}))
"""


def measure(samples: int, models: int) -> dict[str, float]:
    """Wall and CPU seconds of the reading process, and its peak of resident memory."""
    with tempfile.TemporaryDirectory() as folder:
        logs = write_logs(Path(folder), samples, models)
        start = time.monotonic()
        subprocess.run([sys.executable, "-c", READ, f"{folder}/run", *map(str, logs)], check=True)
        wall = time.monotonic() - start
        size = sum(path.stat().st_size for path in logs)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    figures = {"samples": samples, "models": models, "input_mb": size / 1e6, "wall_s": wall}
    return {**figures, "cpu_s": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1e3}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.imports", description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--models", type=int, default=100)
    arguments = parser.parse_args()
    print(json.dumps(measure(arguments.samples, arguments.models), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
