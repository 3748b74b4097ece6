"""What the benchmarks share: running a sweep in a process of its own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any


def on_gpu() -> bool:
    """Whether the benchmarks run on a GPU here: where the install took the engine's GPU build."""
    return shutil.which("nvidia-smi") is not None


def run_driver(overrides: list[str], timeout_s: float = 3000) -> dict[str, Any]:
    """One sweep by `bench.driver`; raises with its output when it fails."""
    command = [sys.executable, "-m", "bench.driver", *overrides]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    if done.returncode != 0:
        output = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}\n{output}")
    return json_line(done.stdout)


def json_line(out: str) -> dict[str, Any]:
    """The last line of JSON in what a process printed: engines say a word or two when they shut
    down."""
    result: dict[str, Any] = json.loads(
        next(line for line in reversed(out.splitlines()) if line.startswith("{"))
    )
    return result


def write_exam(path: Path, questions: int) -> Path:
    """A benchmark of so many distinct questions."""
    with path.open("w", encoding="utf-8") as file:
        for i in range(questions):
            row = {
                "question": f"In row {i} of the table, what stands between {i * 7 % 101} and {i * 13 % 997}?",
                "choices": [f"the number {i % 89 + k}" for k in range(4)],
                "answer": i % 4,
            }
            file.write(json.dumps(row) + "\n")
    return path
