"""`python -m bench.prefix_order`: what asking a sweep's requests in the order of their beginnings would save.

A small sweep is run; raw vLLM is then given what it sent, messages and worker prompts, in three orders: as sent, sorted
by tokens (prompts that share a beginning are neighbours), and shuffled. Tokens found in the prefix cache are exact;
seconds are the best of three turns in mixed order.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.common import on_gpu, run_driver
from bench.engine import SMALL, router_requests, sent

TURNS = 3


def orders(run_dir: Path) -> dict[str, Any]:
    """Cached tokens and seconds of each order, by role."""
    from outcome_tables import iter_outcomes

    from audit.config import load_model_config
    from audit.engines.vllm_engine import engine_args, engine_environment
    from audit.engines.weights import local_path, resolve_weights
    from audit.records import GenerationRequest

    rows = list(iter_outcomes(run_dir))
    model = load_model_config(rows[0].model)
    weights = resolve_weights(model)
    os.environ |= engine_environment(model, on_gpu(), n_cpus=os.cpu_count() or 1)
    from vllm import LLM, SamplingParams

    llm = LLM(**engine_args(model, local_path(model, weights), weights.hub_revision, on_gpu()))
    workers = [GenerationRequest(row.prompt, "", "", 0) for row in rows]
    found: dict[str, Any] = {}
    for role, requests in (("router", router_requests(run_dir)), ("worker", workers)):
        asked = sent(llm, model, requests)
        as_sent = [(prompt["prompt_token_ids"], how["seed"]) for prompt, how in asked]
        shuffled = random.Random(0).sample(as_sent, len(as_sent))
        ways = {"as sent": as_sent, "sorted": sorted(as_sent), "shuffled": shuffled}
        found[role] = {"requests": len(as_sent), "prompt_tokens": sum(len(ids) for ids, _ in as_sent)}
        for turn in range(TURNS):
            for way in random.Random(turn).sample(sorted(ways), len(ways)):
                llm.reset_prefix_cache()
                sampling = [SamplingParams(max_tokens=8, temperature=1.0, seed=seed) for _, seed in ways[way]]
                started = time.monotonic()
                told = llm.generate([{"prompt_token_ids": ids} for ids, _ in ways[way]], sampling, use_tqdm=False)
                took, cached = time.monotonic() - started, sum(one.num_cached_tokens or 0 for one in told)
                best = found[role].setdefault(way, {"cached_tokens": cached, "seconds": took})
                best["seconds"] = min(best["seconds"], took)
                best["cached_tokens"] = min(best["cached_tokens"], cached)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=16)
    parser.add_argument("--routers", default="1..3")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run is not None:
        print(json.dumps(orders(asked.run), indent=1))
        return
    with tempfile.TemporaryDirectory() as folder:
        run_dir = f"{folder}/run"
        run_driver([f"n={asked.n}", f"r={asked.routers}", f"run_dir={run_dir}", *SMALL, "canary=false"])
        subprocess.run([sys.executable, "-m", "bench.prefix_order", "--run", run_dir], check=True)


if __name__ == "__main__":
    main()
