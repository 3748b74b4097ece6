"""`python -m bench.extra_indicators FOLDER`: would five more indicators see memory that the audits' own do not?

The embedded model is taught half of `elementary` by `audit plant`'s training. Each candidate is read off the taught and
the base model and put through the memory audit's test of two sets, beside two of the audit's own indicators. What was
read is kept in FOLDER: the same command goes on.

    codec                likelihood of an item alone, less with two others of its half before it (CoDeC)
    temperature          share of words that three sampled replies (T=1) have in common with the greedy reply
    collapse             right with the greedy reply, less right with the sampled ones
    completion_text      words of the second half of the question that the model writes after the first, as plain text
    completion_chat      the same when a chat model is asked to go on, as an endpoint is
"""

import argparse
import json
import math
import random
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from audit.command_line import compose_command
from audit.engines.weights import local_path
from audit.memory.items import SECOND_HALF, SEPARATOR, item_pieces, item_text
from audit.plant.config import PlantConfig, from_hydra
from audit.plant.indicators import split_alarms, two_set_p
from audit.plant.resolve import Experiment, resolve_plant
from audit.plant.texts import Form, answer_text, pass_examples
from audit.plant.train import Job, train
from audit.statistics.completion import membership_auc

OWN = ("gap", "completion_item")  # the memory audit's
NEW = ("codec", "temperature", "collapse", "completion_text", "completion_chat")
ALPHA, SPLITS, SEED = 0.05, 500, 42
NEIGHBOURS, SAMPLES, REPLY_TOKENS, REST_TOKENS, BATCH = 2, 3, 12, 20, 32
BASE = "base"


class Model:
    """Weights that answer: likelihoods of texts after others, and replies."""

    def __init__(self, path: str) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.torch = torch
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.bfloat16).eval()
        self.first = self.tokenizer.bos_token_id or self.tokenizer.eos_token_id

    def plain(self, text: str) -> list[int]:
        return [self.first, *self.tokenizer.encode(text, add_special_tokens=False)]

    def chat(self, text: str) -> list[int]:
        turn = [{"role": "user", "content": text}]
        how = {"add_generation_prompt": True, "tokenize": True, "return_dict": False}
        return list(self.tokenizer.apply_chat_template(turn, **how))

    def likelihoods(self, pairs: Sequence[tuple[list[int], str]]) -> list[float]:
        """Log-likelihood (nats) of each text after its beginning."""
        torch, found = self.torch, [math.nan] * len(pairs)
        rows = [(begin, self.tokenizer.encode(text, add_special_tokens=False)) for begin, text in pairs]
        order = sorted(range(len(rows)), key=lambda i: len(rows[i][0]) + len(rows[i][1]))
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            width = max(len(rows[i][0]) + len(rows[i][1]) for i in some)
            ids = torch.tensor([(rows[i][0] + rows[i][1] + [0] * width)[:width] for i in some])
            with torch.no_grad():
                hidden = self.model.model(input_ids=ids).last_hidden_state
                for k, i in enumerate(some):
                    begin, text = rows[i]
                    logits = self.model.lm_head(hidden[k, len(begin) - 1 : len(begin) + len(text) - 1])
                    told = logits.float().log_softmax(-1).gather(1, torch.tensor(text)[:, None])
                    found[i] = float(told.sum())
        return found

    def replies(self, prompts: Sequence[list[int]], tokens: int, seed: int | None) -> list[str]:
        """One reply each; greedy without a seed, else sampled at temperature 1."""
        torch, found = self.torch, [""] * len(prompts)
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
        if seed is not None:
            torch.manual_seed(seed)
        how: dict[str, Any] = {"do_sample": False} if seed is None else {"do_sample": True, "temperature": 1.0}
        if seed is not None:
            how |= {"top_k": 0, "top_p": 1.0}
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            width = max(len(prompts[i]) for i in some)
            ids = torch.tensor([[0] * (width - len(prompts[i])) + prompts[i] for i in some])
            mask = torch.tensor([[0] * (width - len(prompts[i])) + [1] * len(prompts[i]) for i in some])
            with torch.no_grad():
                out = self.model.generate(
                    input_ids=ids, attention_mask=mask, max_new_tokens=tokens, pad_token_id=self.first, **how
                )
            for i, row in zip(some, out, strict=True):
                found[i] = self.tokenizer.decode(row[width:], skip_special_tokens=True)
        return found


def common(one: str, other: str) -> float:
    """Share of the words of two texts that stand in both in the same order, 0 to 1."""
    return SequenceMatcher(None, one.casefold().split(), other.casefold().split(), autojunk=False).ratio()


def score(model: Model, experiment: Experiment) -> dict[str, list[float]]:
    """gap: 1 where the gold option's text is the likeliest a token, as the reply to the question."""
    questions = experiment.halves.questions
    pairs = [(model.chat(q.text), option) for q in questions for option in q.options]
    sizes = [len(model.tokenizer.encode(text, add_special_tokens=False)) for _, text in pairs]
    told = iter([value / n for value, n in zip(model.likelihoods(pairs), sizes, strict=True)])
    return {"gap": [float(np.argmax([next(told) for _ in q.options]) == q.gold) for q in questions]}


def neighbours(experiment: Experiment) -> dict[str, str]:
    """Before each item: others of its half, the same for every model."""
    found = {}
    for half in (experiment.halves.learnt, experiment.halves.others):
        for q in half:
            others = random.Random(f"{SEED} {q.id}").sample([o for o in half if o.text != q.text], NEIGHBOURS)
            found[q.id] = SEPARATOR.join([item_text(o) for o in others]) + SEPARATOR
    return found


def texts(model: Model, experiment: Experiment) -> dict[str, list[float]]:
    """Likelihoods of the items' text; larger is more like memory, here and below."""
    questions, before = experiment.halves.questions, neighbours(experiment)
    shown = [item_text(q) for q in questions]
    alone = model.likelihoods([(model.plain(""), text) for text in shown])
    after = model.likelihoods([(model.plain(before[q.id]), text) for q, text in zip(questions, shown, strict=True)])
    sizes = [len(text.encode()) for text in shown]
    return {
        "completion_item": [a / n for a, n in zip(alone, sizes, strict=True)],
        "codec": [(a - b) / n for a, b, n in zip(alone, after, sizes, strict=True)],
    }


def temperatures(model: Model, experiment: Experiment) -> dict[str, list[float]]:
    questions = experiment.halves.questions
    prompts = [model.chat(q.text) for q in questions]
    greedy = model.replies(prompts, REPLY_TOKENS, None)
    sampled = [model.replies(prompts, REPLY_TOKENS, SEED + k) for k in range(SAMPLES)]
    golds = [answer_text(q).casefold() for q in questions]

    def right(replies: Sequence[str]) -> np.ndarray:
        return np.asarray([float(gold in reply.casefold()) for gold, reply in zip(golds, replies, strict=True)])

    same = [float(np.mean([common(g, one[i]) for one in sampled])) for i, g in enumerate(greedy)]
    return {"temperature": same, "collapse": list(right(greedy) - np.mean([right(one) for one in sampled], axis=0))}


def completions(model: Model, experiment: Experiment) -> dict[str, list[float]]:
    halves = [item_pieces(q)[: SECOND_HALF + 1] for q in experiment.halves.questions]
    asked = "Here is the beginning of a test question. Write only the rest of it, word for word.\n\n"

    def completed(prompts: Sequence[list[int]]) -> list[float]:
        replies = [one.split() for one in model.replies(prompts, REST_TOKENS, None)]
        ends = [second for _, second in halves]
        return [common(end, " ".join(r[: len(end.split())])) for end, r in zip(ends, replies, strict=True)]

    return {
        "completion_text": completed([model.plain(first) for first, _ in halves]),
        "completion_chat": completed([model.chat(asked + first) for first, _ in halves]),
    }


PARTS = {"texts": texts, "temperatures": temperatures, "completions": completions, "score": score}


def taught(experiment: Experiment, base: str, form: Form, rate: float, doses: Sequence[int], folder: Path) -> None:
    """The weights of every dose, trained as `audit plant` does with train.method=full."""
    passes = tuple(
        tuple(pass_examples(form, experiment.halves.learnt, k, seed=SEED, variants=experiment.variants))
        for k in range(max(doses))
    )
    batch = 1 if form == Form.RAW else 8
    train(Job(base, str(folder.resolve()), "full", passes, tuple(doses), rate, batch, SEED))


def table(experiment: Experiment, folder: Path, labels: Sequence[str], show: Callable[[str], object]) -> None:
    n = len(experiment.halves.learnt)
    learnt = np.arange(len(experiment.halves.questions)) < n
    told: dict[str, dict[str, list[float]]] = {}
    for label, part in product((BASE, *labels), PARTS):
        told.setdefault(label, {}).update(json.loads((folder / f"{label}.{part}.json").read_text()))
    show("| plant | indicator | learnt | others | AUC | p | noticed | random splits of the half never shown |")
    show("|---|---|---|---|---|---|---|---|")
    for label in labels:
        for name in (*OWN, *NEW):
            own, ref = (np.asarray(told[key][name], dtype=float) for key in (label, BASE))
            rng = np.random.default_rng(SEED)
            p = two_set_p(name, (own[learnt], own[~learnt]), (ref[learnt], ref[~learnt]), rng, 9999)
            alarms = split_alarms(name, own[~learnt], ref[~learnt], ALPHA, rng, SPLITS)
            value = own - ref
            area = membership_auc(value[learnt], value[~learnt]).auc
            means = f"{value[learnt].mean():+.3f} | {value[~learnt].mean():+.3f}"
            noticed = "yes" if p <= ALPHA else "no"
            show(f"| {label} | {name} | {means} | {area:.2f} | {p:.2g} | {noticed} | {alarms:.1%} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--forms", nargs="+", default=["qa", "raw"], choices=["qa", "raw", "paraphrase"])
    parser.add_argument("--rates", nargs="+", type=float, default=[1e-4, 2e-5], help="learning rates")
    parser.add_argument("--doses", nargs="+", type=int, default=[1], help="passes")
    asked = parser.parse_args()
    words = [f"forms=[{','.join(asked.forms)}]", "train.method=full"]
    experiment = resolve_plant(from_hydra(compose_command("plant", words, PlantConfig)))
    base = local_path(experiment.model, experiment.weights)
    asked.folder.mkdir(parents=True, exist_ok=True)
    plants = {BASE: base}
    for form in asked.forms:
        for rate in asked.rates:
            target = asked.folder / f"weights-{form}-{rate:g}"
            for dose in asked.doses:
                plants[f"{form}, {dose} at {rate:g}"] = str(target / f"passes-{dose}")
            if not all((target / f"passes-{dose}").is_dir() for dose in asked.doses):
                taught(experiment, base, Form(form), rate, asked.doses, target)
    for part, (label, path) in product(PARTS, plants.items()):
        file = asked.folder / f"{label}.{part}.json"
        if not file.is_file():
            file.write_text(json.dumps(PARTS[part](Model(path), experiment)))
    table(experiment, asked.folder, list(plants)[1:], print)


if __name__ == "__main__":
    main()
