"""`python -m bench.fleet_live`: the fleet of `bench.fleet` as processes on a Ray of this machine, in real time.

Each replica is the scripted engine in an actor of its own that answers `SLOTS` requests at once, each after a latency
drawn from a hash of the request; two take three times as long, three exit without a word. Everything else is the
program's: stages, routing, retries, shards, the end of the run. Utilisation is the ideal time over that of the
generation phase, by the manifest: from the last engine's load, before which none answers, to the last shard.
"""

import argparse
import asyncio
import json
import math
import os
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

from audit.engines import scripted
from audit.engines.port import request_sha256
from audit.records import Generation, GenerationRequest
from bench.common import run_driver, write_exam
from bench.fleet import CALLS, DYING, JITTER, LATENCY_S, REPLICAS, SLOTS, SLOW, SLOWER, TARGET, ideal_s

_FLEET = "BENCH_FLEET"  # what the replicas are told, as JSON, by the environment


class Replica(scripted.ScriptedEngine):
    """A scripted engine that takes its time, notes the work that it did, and may die."""

    async def start(self) -> None:
        await super().start()
        told = json.loads(os.environ[_FLEET])
        number = self.engine_id.rpartition("/")[2]
        self._slower = SLOWER if int(number) in told["slow"] else 1.0
        self._dies_s = told["dies_s"].get(number)
        self._slots = asyncio.Semaphore(SLOTS)
        self._folder = Path(told["folder"])
        self._log = (self._folder / f"{number}.work").open("a")

    async def run(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        while len(list(self._folder.glob("*.work"))) < REPLICAS:
            await asyncio.sleep(0.5)
        if self._dies_s is not None:  # from the first call, which each gets when the run begins
            asyncio.get_running_loop().call_later(self._dies_s, os._exit, 1)
            self._dies_s = None
        return list(await asyncio.gather(*map(self._answered, requests)))

    async def _answered(self, request: GenerationRequest) -> Generation:
        key = f"{request.label}|{request.seed}|{request_sha256(request)}"
        work_s = LATENCY_S * math.exp(JITTER * NormalDist().inv_cdf(max(1e-12, scripted._unit(key))))
        async with self._slots:
            await asyncio.sleep(work_s * self._slower)
        self._log.write(f"{work_s:.6f} {request.affinity}\n")
        self._log.flush()
        (reply,) = await super().run([request])
        return reply


def install() -> None:
    """In each of Ray's worker processes, before anything else."""
    scripted.ScriptedEngine = Replica


def measure(questions: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    unlike = [str(i) for i in rng.sample(range(REPLICAS), SLOW + DYING)]
    calls = questions * sum(map(sum, CALLS))
    usual_s = calls * LATENCY_S * math.exp(JITTER**2 / 2) / (REPLICAS * SLOTS)
    dies_s = {number: rng.uniform(0.1, 0.9) * usual_s for number in unlike[SLOW:]}
    with tempfile.TemporaryDirectory() as folder:
        told = {"folder": folder, "slow": [int(number) for number in unlike[:SLOW]], "dies_s": dies_s}
        os.environ[_FLEET] = json.dumps(told)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        exam = write_exam(Path(folder) / "exam.jsonl", questions)
        found = run_driver([
            "model=scripted", "benchmark=mcq_file", f"benchmark.path={exam}", "n=all", "r=1..9", "draws=nested",
            "clean_replicates=3",
            "store.rows_per_shard=84",  # 32 tasks a chunk, as of an engine that computes
            f"run_dir={folder}/run", f"model.scripted.replicas={REPLICAS}", "model.scripted.max_restarts=0",
            "cluster.num_cpus=4", "+cluster.runtime_env.worker_process_setup_hook=bench.fleet_live.install",
        ])  # fmt: skip
        assert found["calls"] == calls, found
        work: list[float] = []
        by: dict[str, dict[str, int]] = {}
        for path in Path(folder).glob("*.work"):
            for line in path.read_text().splitlines():
                seconds, question = line.split(" ", 1)
                work.append(float(seconds))
                own = by.setdefault(question, {})
                own[path.stem] = own.get(path.stem, 0) + 1
    slower = [SLOWER if str(i) in unlike[:SLOW] else 1.0 for i in range(REPLICAS)]
    ideal = ideal_s(sum(work) * calls / len(work), slower, list(dies_s.values()))
    return {
        "questions": questions, "calls": calls, "answered": len(work), "rows": found["rows"],
        "load_s": found["load_s"], "seconds": found["generate_s"], "ideal_s": round(ideal, 1),
        "utilisation": round(ideal / found["generate_s"], 3), "target": TARGET,
        "with_their_replica": round(sum(max(own.values()) for own in by.values()) / len(work), 3),
        "driver_mb": round(found["peak_mb"]),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.fleet_live", description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(json.dumps(measure(options.questions, options.seed), indent=1))
