"""`python -m bench.side_by_side`: models of one job at once against one after the other, in one run of this.

Scripted engines that answer every call after the median latency of `bench.fleet`, so that what is measured is the
waiting that overlaps, less what Ray and the stages of several models cost beside each other.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from bench.common import run_driver
from bench.fleet import LATENCY_S


def measure(models: int, questions: int, cpus: int) -> dict[str, Any]:
    """Seconds of the whole job, Ray's start included, and how often one after the other takes as long."""
    with tempfile.TemporaryDirectory() as folder:
        names = [f"m{i}" for i in range(models)]
        (Path(folder) / "model").mkdir()
        for name in names:
            text = f"# @package model.{name}\nname: {name}\nengine: scripted\nscripted: {{latency_s: {LATENCY_S}}}\n"
            text += f"worker: {{max_tokens: {8 + len(name) + int(name[1:])}}}\n"  # or they would be one model
            (Path(folder) / "model" / f"{name}.yaml").write_text(text)
        base = [f"hydra.searchpath=[file://{folder}]", f"model=[{','.join(names)}]", f"n={questions}", "r=1..3"]
        base += [
            "benchmark=elementary",
            "cluster.chunks_in_flight=8",
        ]  # most of the time is waiting, as beside a real engine

        def seconds(at_once: str) -> float:
            more = [f"cluster.num_cpus={cpus}", f"cluster.models_at_once={at_once}", f"run_dir={folder}/{at_once}"]
            found: float = run_driver([*base, *more])["total_s"]
            return round(found, 1)

        apart, beside = seconds("1"), seconds("null")
    return {
        "models": models, "questions": questions, "cpus": cpus, "latency_s": LATENCY_S,
        "one_after_the_other_s": apart, "side_by_side_s": beside, "times": round(apart / beside, 2),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.side_by_side", description=__doc__)
    parser.add_argument("--models", type=int, default=3)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--cpus", type=int, default=4, help="that Ray is told of; at most so many models run at once")
    options = parser.parse_args()
    print(json.dumps(measure(options.models, options.questions, options.cpus), indent=1))
