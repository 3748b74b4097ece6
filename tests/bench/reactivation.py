"""`python -m bench.reactivation`: is blocked memory set free by noisy messages (song2026, H1's
second leg)?

Half of the embedded questions is planted in the embedded model (question and answer, every weight
trained), then blocked: the same questions are trained with a random option as the reply. The base
model writes the routers' messages, as a planted one answers instead. H1 expects of a blocked model
a clean score back at the base model's, and a noisy one above it. transformers on the CPU, no
engine. Where others share the cores, set OMP_NUM_THREADS=1: two threads that wait for each other
took 35 times as long."""

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.config.audits import Work, answer_request
from audit.config.base import load_group, load_model_config
from audit.core.prompting import load_protocol
from audit.core.records import (
    Generation,
    GenerationRequest,
    Item,
    Part,
    Presentation,
    Reading,
    Setting,
)
from audit.engines.weights import local_path, resolve_weights
from audit.plant.texts import Example, Form, halve, pass_examples
from audit.plant.train import Job, train
from audit.scoring.score import score
from audit.statistics.estimate import mean_of, t_test
from audit.sweep.audit import SWEEP, SweepState
from audit.sweep.config import TEMPLATES
from audit.sweep.design import Arm, Draws, make_design

SEED, BATCH = 42, 32
Ask = Callable[[Sequence[GenerationRequest]], list[Generation]]


def asking(folder: str) -> Ask:
    """What answers requests with the weights in a folder: it writes, or tells the likelihood of
    options."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()

    def chat(prompt: str) -> str:
        message = [{"role": "user", "content": prompt}]
        return str(
            tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
        )

    def tell(request: GenerationRequest) -> Generation:
        given = tokenizer(
            chat(request.prompt), return_tensors="pt", add_special_tokens=False
        ).input_ids
        options = [
            tokenizer(continuation, add_special_tokens=False).input_ids
            for continuation in request.continuations
        ]
        width = max(map(len, options))
        tokens = torch.tensor([ids + [0] * (width - len(ids)) for ids in options])
        read = model(
            given, use_cache=True, logits_to_keep=1
        )  # the prompt once, then every option after it
        logprobs = read.logits[0, -1].float().log_softmax(-1)[tokens[:, :1]]
        if width > 1:
            read.past_key_values.batch_repeat_interleave(len(options))
            logits = (
                model(tokens[:, :-1], past_key_values=read.past_key_values)
                .logits.float()
                .log_softmax(-1)
            )
            logprobs = torch.cat([logprobs, logits.gather(2, tokens[:, 1:, None])[..., 0]], dim=1)
        totals = tuple(
            float(row[: len(ids)].sum()) for row, ids in zip(logprobs, options, strict=True)
        )
        return Generation(option_logprobs=totals, option_tokens=tuple(map(len, options)))

    def write(batch: Sequence[GenerationRequest]) -> list[Generation]:
        first = batch[0]
        torch.manual_seed(first.seed)
        given = tokenizer(
            [chat(r.prompt) for r in batch],
            return_tensors="pt",
            padding=True,
            add_special_tokens=False,
        )
        ids = model.generate(
            **given,
            max_new_tokens=first.max_tokens,
            do_sample=True,
            temperature=first.temperature,
            top_p=first.top_p,
            top_k=0,
            pad_token_id=tokenizer.pad_token_id,
        )
        return [
            Generation(t)
            for t in tokenizer.batch_decode(
                ids[:, given.input_ids.shape[1] :], skip_special_tokens=True
            )
        ]

    @torch.inference_mode()
    def ask(requests: Sequence[GenerationRequest]) -> list[Generation]:
        if requests and requests[0].continuations:
            return [tell(request) for request in requests]
        return [
            reply
            for i in range(0, len(requests), BATCH)
            for reply in write(requests[i : i + BATCH])
        ]

    return ask


class Row(NamedTuple):
    """The reply to question `item` in one setting; None where the audit had nothing to ask."""

    item: int
    setting: Setting
    shown: Presentation
    reply: Generation | None


def prepare(
    ask: Ask, work: Work, questions: Sequence[Item]
) -> dict[tuple[str, Part], Sequence[Any]]:
    """The replies to an audit's calls before the answer (the sweep's routers), by question and
    part."""
    keys = [(q, part) for q in questions for part in work.design.parts]
    requests = [SWEEP.prepare(work, q, part, ()) for q, part in keys]
    replies = iter(ask([r for group in requests for r in group]))
    return {
        (q.id, part): [next(replies) for _ in group]
        for (q, part), group in zip(keys, requests, strict=True)
    }


def answers(
    ask: Ask,
    work: Work,
    questions: Sequence[Item],
    prepared: Mapping[tuple[str, Part], Sequence[Generation]],
) -> list[Row]:
    """Every question in every setting of a design."""
    rows: list[tuple[int, Setting, Presentation]] = []
    for i, question in enumerate(questions):
        for part in work.design.parts:
            shown = SWEEP.present(work, question, part, prepared.get((question.id, part), ()))
            rows += [
                (i, setting, presentation)
                for setting, presentation in zip(part.settings, shown, strict=True)
            ]
    replies = iter(
        ask(
            [
                answer_request(work, questions[i], s, presentation)
                for i, s, presentation in rows
                if not presentation.error
            ]
        )
    )
    return [
        Row(i, s, presentation, None if presentation.error else next(replies))
        for i, s, presentation in rows
    ]


def scores(
    rows: Sequence[Row], questions: Sequence[Item], work: Work, normalisation: str
) -> dict[str, list[float]]:
    """1, 0 or NaN of every question, by "arm/level"."""
    by_setting = {
        f"{row.setting.arm}/{row.setting.level}": [float("nan")] * len(questions) for row in rows
    }
    for row in rows:
        if row.reply is not None:
            question, shown = questions[row.item], row.shown
            scored = score(
                row.reply, shown.options, shown.gold, work.reading, normalisation, question
            )
            right = scored.correct
            by_setting[f"{row.setting.arm}/{row.setting.level}"][row.item] = (
                float("nan") if right is None else float(right)
            )
    return by_setting


def blocking(learnt: Sequence[Item], number: int) -> list[Example]:
    """One pass in which every question gets a random one of its options as the reply."""
    rng = np.random.default_rng([SEED, number])
    shown = [replace(q, gold=int(rng.integers(len(q.options)))) for q in learnt]
    return pass_examples(Form.QA, shown, number, seed=SEED + 1)


def difference(values: np.ndarray) -> list[float]:
    """Mean over questions with its 95 % interval."""
    mean = mean_of(values, np.arange(values.size))
    tested = t_test(mean.value, mean.se, mean.units - 1)
    return [round(x, 3) for x in (mean.value, tested["low"], tested["high"])]


def table(read: dict[str, dict[str, list[float]]]) -> str:
    base = {key: np.array(array) for key, array in read["base"].items()}
    keys, rows = sorted(base), []
    noisy_keys = [key for key in keys if key.startswith(Arm.NOISY_REWRITE)]
    for label, series in read.items():
        arrays = {key: np.array(series[key]) for key in keys}
        noisy, noisy0 = (
            np.mean([run[key] for key in noisy_keys], axis=0) for run in (arrays, base)
        )
        clean, clean0 = arrays["forward_full/1"], base["forward_full/1"]
        shown = [f"{np.nanmean(arrays[key]):.3f}" for key in keys]
        tests = (noisy - clean, clean - clean0, noisy - noisy0, (noisy - clean) - (noisy0 - clean0))
        rows.append(
            [
                label,
                *shown,
                *("{:+.3f} ({:+.3f} to {:+.3f})".format(*difference(test)) for test in tests),
            ]
        )
    head = ["model", *keys, "noisy - clean", "clean - base's", "noisy - base's", "gain - base's"]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="folder of weights and readings; what is there is kept",
    )
    parser.add_argument("--passes", type=int, default=5, help="over the planted questions")
    parser.add_argument("--block", type=int, default=2, help="passes with random replies")
    parser.add_argument("--block-lr", type=float, default=2e-4)
    parser.add_argument("--routers", type=int, default=3)
    arguments = parser.parse_args()
    model = load_model_config("smollm2_135m")
    weights = local_path(model, resolve_weights(model))
    questions = list(
        open_benchmark(BenchmarkConfig(name="elementary", format="elementary")).iter_questions()
    )
    learnt = halve(questions, SEED).learnt
    planted = [pass_examples(Form.QA, learnt, k, seed=SEED) for k in range(arguments.passes)]
    blocked = [blocking(learnt, k) for k in range(arguments.block)]
    common: dict[str, Any] = {"method": "full", "seed": SEED}
    plant = Job(
        weights,
        str(arguments.out / "plant"),
        passes=tuple(map(tuple, planted)),
        doses=(arguments.passes,),
        lr=1e-4,
        **common,
    )
    block = Job(
        str(plant.folder(arguments.passes)),
        str(arguments.out / "block"),
        passes=tuple(map(tuple, blocked)),
        doses=tuple(range(1, arguments.block + 1)),
        lr=arguments.block_lr,
        **common,
    )
    for job in (plant, block):
        if not job.folder(job.doses[-1]).is_dir():
            train(job)
    design = make_design(range(1, arguments.routers + 1), draws=Draws.NESTED)
    protocol = load_protocol(load_group("protocol", str(model.protocol)), TEMPLATES)
    work = Work(
        design,
        protocol,
        model.name,
        Reading.OPTION_TEXT,
        model.preparing,
        model.worker,
        SEED,
        SweepState(),
    )
    last = block.doses[-1]
    folders = {"base": weights, f"blocked-{last}": str(block.folder(last)), "planted": block.path}
    messages = _stored(
        arguments.out / "messages.json", lambda: _written(prepare(asking(weights), work, learnt))
    )
    parts = [(q.id, part) for q in learnt for part in design.parts]
    prepared = {
        key: [Generation(text) for text in texts]
        for key, texts in zip(parts, messages, strict=True)
    }
    read: dict[str, dict[str, list[float]]] = {}

    def reading(folder: str) -> dict[str, list[float]]:
        rows = answers(asking(folder), work, learnt, prepared)
        return scores(rows, learnt, work, model.option_normalisation)

    for label, folder in folders.items():
        read[label] = _stored(arguments.out / f"read-{label}.json", partial(reading, folder))
        print(
            label,
            {key: round(float(np.nanmean(values)), 3) for key, values in read[label].items()},
            flush=True,
        )
    print(table(read))


def _written(prepared: Mapping[Any, Sequence[Generation]]) -> list[list[str]]:
    return [[reply.text for reply in replies] for replies in prepared.values()]


def _stored(path: Path, make: Callable[[], Any]) -> Any:
    if not path.exists():
        path.write_text(json.dumps(make()), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
