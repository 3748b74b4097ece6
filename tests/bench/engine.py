"""`python -m bench.engine`: how much of raw vLLM's speed the sweep keeps, and what nested draws
save.

Efficiency = wall time of raw vLLM given the very requests that the sweep sent (same engine
arguments, same machine, same run of this benchmark) / wall time of the sweep's generation phase.
Raw vLLM gets all router prompts at once, then all worker requests at once: no Ray, no actor, no
shards."""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.core.records import GenerationRequest
from bench.common import json_line, on_gpu, run_driver

# One run of each arm, as the figures of docs/findings/measured.md have it.
SMALL = ("draws=independent", "ensemble_control=false", "clean_replicates=1", "noisy_replicates=1")
EMBEDDED = "smollm2_135m"
TARGET_EFFICIENCY, TARGET_FEWER_TOKENS = 0.90, 3.0


def efficiency(n: int, routers: str, model: str = EMBEDDED) -> dict[str, Any]:
    """The sweep, then raw vLLM with what it sent."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir = f"{folder}/run"
        words = [
            f"model={model}",
            "benchmark=elementary",
            f"n={n}",
            f"r={routers}",
            f"run_dir={run_dir}",
        ]
        sweep = run_driver([*words, *SMALL])
        command = [sys.executable, "-m", "bench.engine", "--raw", run_dir]
        done = subprocess.run(command, capture_output=True, text=True, timeout=3000, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-4000:])
        raw = json_line(done.stdout)
    return {
        "model": model,
        "questions": n,
        "routers": routers,
        "engine_load_s": sweep["load_s"],
        "sweep_generate_s": sweep["generate_s"],
        "raw_generate_s": raw["generate_s"],
        "raw_routers_s": raw["routers_s"],
        "raw_workers_s": raw["workers_s"],
        "raw_requests": raw["requests"],
        "efficiency": raw["generate_s"] / sweep["generate_s"],
        "target": TARGET_EFFICIENCY,
    }


def draws(n: int, routers: str) -> dict[str, Any]:
    """Tokens of independent and of nested draws on the same questions."""
    from audit.shards.complete import run_cost
    from audit.sweep.audit import SCHEMA

    sums = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("independent", "nested"):
            run_dir = Path(folder) / kind
            run_driver(
                [
                    f"n={n}",
                    f"r={routers}",
                    "arms=[noisy_rewrite]",
                    f"draws={kind}",
                    f"run_dir={run_dir}",
                ]
            )
            (arms,) = run_cost(run_dir, SCHEMA).values()
            router, worker = arms["noisy_rewrite"]["router"], arms["noisy_rewrite"]["worker"]
            sums[kind] = {
                "generated_tokens": router["completion_tokens"],
                "prompt_tokens": router["prompt_tokens"] + worker["prompt_tokens"],
                "prefill_tokens_not_computed": router["cached_tokens"] + worker["cached_tokens"],
                "router_calls": router["calls"],
            }
    fewer = sums["independent"]["generated_tokens"] / sums["nested"]["generated_tokens"]
    return {
        "questions": n,
        "routers": routers,
        **sums,
        "times_fewer_generated": fewer,
        "target": TARGET_FEWER_TOKENS,
    }


def raw(run_dir: Path) -> dict[str, float]:
    """Raw vLLM, given what a finished sweep of one model sent. Prints the seconds from first
    request to last reply."""
    import os

    from outcome_tables import iter_outcomes

    from audit.config.base import load_model_config
    from audit.engines.vllm_engine import engine_args, engine_environment, is_cpu_build
    from audit.engines.weights import local_path, resolve_weights
    from audit.shards.manifest import Manifest

    rows = list(iter_outcomes(run_dir))
    model = load_model_config(rows[0].model)
    model = replace(model, dtype=Manifest.load(run_dir).precision[model.name])
    weights = resolve_weights(model)
    path = local_path(model, weights)
    os.environ |= engine_environment(model, on_gpu(), os.cpu_count() or 1, is_cpu_build())
    from vllm import LLM, SamplingParams

    args = engine_args(model, path, weights.hub_revision, on_gpu(), is_cpu_build())
    llm = LLM(**args)
    routed = sent(llm, model, router_requests(run_dir))
    scored = sent(
        llm,
        model,
        [GenerationRequest(row.prompt, "", "", 0, continuations=row.options) for row in rows],
    )
    moments = [time.monotonic()]
    for requests in (routed, scored):
        llm.generate(
            [prompt for prompt, _ in requests],
            [SamplingParams(**how) for _, how in requests],
            use_tqdm=False,
        )
        moments.append(time.monotonic())
    return {
        "generate_s": moments[2] - moments[0],
        "routers_s": moments[1] - moments[0],
        "workers_s": moments[2] - moments[1],
        "requests": float(len(routed) + len(scored)),
    }


def sent(
    llm: Any, model: Any, requests: Sequence[GenerationRequest]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(prompt, sampling) of every request that the engine port sends for these, in its order."""
    import asyncio
    from collections import defaultdict
    from types import SimpleNamespace

    from audit.engines.vllm_engine import VllmEngine

    calls: list[tuple[dict[str, Any], dict[str, Any]]] = []
    nothing: Any = defaultdict(lambda: SimpleNamespace(logprob=0.0))

    class Recorder:
        """An AsyncLLM that writes down what it is asked."""

        errored = False
        model_config = llm.llm_engine.model_config

        def get_tokenizer(self) -> Any:
            return llm.get_tokenizer()

        async def generate(
            self,
            prompt: dict[str, Any],
            sampling: dict[str, Any],
            request_id: str,
            priority: int = 0,
        ) -> Any:
            calls.append((prompt, sampling))
            prompt_logprobs: Any = defaultdict(lambda: nothing)
            reply = SimpleNamespace(logprobs=[nothing], finish_reason="stop", text="", token_ids=[])
            yield SimpleNamespace(
                outputs=[reply], prompt_logprobs=prompt_logprobs, num_cached_tokens=0
            )

    engine = VllmEngine(model, "", None, "bench", on_gpu())
    engine.serve(Recorder(), dict)
    if failed := [reply.error for reply in asyncio.run(engine.run(requests)) if reply.error]:
        raise RuntimeError(failed[0])
    return calls


def router_requests(run_dir: Path) -> list[GenerationRequest]:
    """Every router call of a run with independent draws, as the stages made them."""
    from outcome_tables import iter_outcomes

    from audit.config.audits import Work
    from audit.config.base import load_model_config
    from audit.core.prompting import load_protocol
    from audit.core.records import Design, Part, Reading
    from audit.engines.config import SamplingConfig
    from audit.shards.manifest import Manifest
    from audit.shards.questions import QuestionFile
    from audit.sweep.audit import SweepState
    from audit.sweep.audit import router_requests as requests_of
    from audit.sweep.config import TEMPLATES

    manifest = Manifest.load(run_dir)
    questions = {q.id: q for q in QuestionFile(run_dir)}
    requests = []
    for row in iter_outcomes(run_dir):
        part = Part(row.arm, (row.routers,), row.replicate)
        protocol = load_protocol(manifest.config["protocols"][row.model], TEMPLATES)
        design = Design((part,), kind="independent")
        none = SamplingConfig(1, 0.0, 1.0)
        preparing = load_model_config(row.model).preparing
        seed = manifest.config["seed"]
        work = Work(
            design, protocol, row.model, Reading(row.reading), preparing, none, seed, SweepState()
        )
        requests += requests_of(work, questions[row.question_id], part)
    return requests


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=EMBEDDED, help="of conf/model, for the efficiency")
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--only-efficiency", action="store_true")
    parser.add_argument("--raw", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.raw is not None:
        print(json.dumps(raw(options.raw)))
    else:
        figures = efficiency(options.n, "1..3", options.model)
        print(
            json.dumps(
                figures
                if options.only_efficiency
                else {"efficiency": figures, "draws": draws(10, "1..9")}
            )
        )
