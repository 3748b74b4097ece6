"""`PYTHONPATH=tests python -m storm.gpu_nodes CASE`: two workers of two GPUs each, which are
numbers alone, and two engines of two GPUs. One worker is killed, and no GPU is spare. One line of
JSON: exit code, rows, how long nothing was stored after the kill, what was said.

running: killed when the first rows are stored. loading: killed while both engines load. joins: as
running, and another worker joins after some seconds. many: `--kills` at random moments of a longer
run, also while engines load; another worker joins each time, and the same command is started again
until it ends well, as in `python -m storm`."""

import argparse
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from storm.nights import (
    CHUNK_S,
    SWEEP,
    Nodes,
    night,
    ray_workers,
    rows_by_key,
    start,
    undisturbed,
)

QUESTIONS, ROWS = 40, 40 * 7
_LIMIT_S = 400.0
_JOIN_AFTER_S = 20.0
_ON_GPUS = ("model.scripted.scripted.on_gpu=true", "model.scripted.tensor_parallel_size=2")
_ENGINES = (
    *_ON_GPUS,
    "model.scripted.replicas=2",
    "model.scripted.scripted.latency_s=1",
    f"n={QUESTIONS}",
    "progress=true",
)


def nodes_here() -> Nodes:
    return Nodes(2, 20_000 + os.getpid() % 300 * 100, gpus=2)


def many(seed: int, kills: int, seconds: float, folder: Path) -> dict[str, Any]:
    """Kill so many nodes, and none after so many seconds; count what is lost, double, wrong or
    stuck."""
    nodes, begun = nodes_here(), time.monotonic()
    words = [*SWEEP, *_ON_GPUS, f"model.scripted.scripted.latency_s={CHUNK_S}"]
    words.append("model.scripted.scripted.load_s=3")
    try:
        expected = undisturbed(nodes, folder, SWEEP)
        plan, last = ["node"] * kills, begun + seconds
        result = night(seed, nodes, folder, None, expected, words, plan, last, (15.0, 8.0))
    finally:
        nodes.close()
    counts = {name: getattr(result, name) for name in ("starts", "rows", "lost", "double", "wrong")}
    stood = {
        "stuck": result.stuck,
        "looked_complete": result.looked_complete,
        "seconds": result.seconds,
    }
    failed = int(not result.clean)
    return {"case": "many", "kills": result.kills.total(), **counts, **stood, "exit_code": failed}


def lose(case: str, folder: Path) -> dict[str, Any]:
    nodes = nodes_here()
    run_dir, log = folder / "run", folder / "run.log"
    words = [*SWEEP, *_ENGINES, f"model.scripted.scripted.load_s={12 if case == 'loading' else 0}"]
    killed = last = 0.0
    still, stored, joined = 0.0, 0, case != "joins"
    process = start(nodes.address, run_dir, words, log)
    begun = time.monotonic()
    while process.is_alive() and time.monotonic() - begun < _LIMIT_S:
        process.join(0.2)
        now, shards = time.monotonic(), len(list((run_dir / "shards").glob("*.arrow")))
        if not killed and _due(case, shards, log):
            nodes.kill_node(random.Random(0), joins=False)
            killed = last = time.monotonic()
        elif killed and shards > stored:
            still, last = max(still, now - last), now
        stored = shards
        if killed and not joined and now - killed > _JOIN_AFTER_S:
            nodes.join()
            joined = True
    ended = not process.is_alive()
    if not ended:
        process.kill()
    process.join()
    messages = [line for line in log.read_text().splitlines() if "is gone" in line]
    rows = rows_by_key(run_dir).num_rows if killed else 0
    engines = len(ray_workers(os.getpid(), "ray::EngineActor"))
    nodes.close()
    return {
        "case": case,
        "killed": bool(killed),
        "exit_code": process.exitcode if ended else None,
        "rows": rows,
        "lost": ROWS - rows,
        "nothing_stored_s": round(still, 1),
        "said": messages,
        "engines_left": engines,
        "log": str(log),
    }


def _due(case: str, shards: int, log: Path) -> bool:
    """Whether it is time to kill."""
    if case != "loading":
        return shards > 0
    return (
        len(ray_workers(os.getpid(), "ray::EngineActor")) == 2
        and "loading the engine" in log.read_text()
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m storm.gpu_nodes", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("case", choices=("running", "loading", "joins", "many"))
    parser.add_argument("--kills", type=int, default=10, help="of many")
    parser.add_argument("--seconds", type=float, default=600, help="of many: no kill after so long")
    parser.add_argument("--seed", type=int, default=0, help="of many")
    given, folder = parser.parse_args(), Path(tempfile.mkdtemp(prefix="g-", dir="/tmp"))
    outcome = (
        many(given.seed, given.kills, given.seconds, folder)
        if given.case == "many"
        else lose(given.case, folder)
    )
    print(json.dumps(outcome))
    return int(bool(outcome["lost"] or outcome["exit_code"]))


if __name__ == "__main__":
    sys.exit(main())
