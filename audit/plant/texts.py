"""What is shown to a model that is to remember half of a benchmark: examples, and which of their tokens are learnt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.errors import ConfigError, LibraryError
from audit.memory.items import SEPARATOR, item_text
from audit.plant.plan import Form
from audit.records import Question
from audit.variants.record import Variant


@dataclass(frozen=True)
class Example:
    """A training sequence. prompt: the user's turn, which is not learnt; None: running text, all of which is."""

    prompt: str | None
    text: str


def answer_text(question: Question) -> str:
    """The gold answer as a reply."""
    if question.target is not None:
        return f"{question.target:.12g}"
    return question.options[question.gold]


def check_variants(learnt: Sequence[Question], variants: Mapping[str, Sequence[Variant]]) -> None:
    """LibraryError where an item that is to be learnt in other words has none."""
    missing = [q.id for q in learnt if not variants.get(q.id)]
    if missing:
        raise LibraryError(
            f"form paraphrase: {len(missing)} of {len(learnt)} items have no accepted variant, such as {missing[0]}. "
            "Expected a library that covers the benchmark (variants=HASH), or forms without paraphrase."
        )


def passages(text: str, words: int) -> list[str]:
    """Running text cut into pieces of so many words; the rest that fills none is left out. ConfigError for none."""
    found = text.split()
    pieces = [" ".join(found[i : i + words]) for i in range(0, len(found) - words + 1, words)]
    if not pieces:
        raise ConfigError(f"The other text has {len(found)} words. Expected at least {words}, to dilute the items in.")
    return pieces


def pass_examples(
    form: Form,
    learnt: Sequence[Question],
    number: int,
    *,
    seed: int,
    items_per_sequence: int = 8,
    variants: Mapping[str, Sequence[Variant]] | None = None,
    other: Sequence[str] = (),
    dilution: int = 3,
) -> list[Example]:
    """One pass over the learnt items, in the order of training. number: of the pass, from 0.

    raw: `items_per_sequence` items to a sequence, all in published order. Every other form is shuffled anew in each
    pass. paraphrase: pass j shows variant j, and starts again after the last. mix: `dilution` passages of `other` for
    every item, never the same ones until all were shown.
    """
    if form == Form.RAW:
        starts = range(0, len(learnt), items_per_sequence)
        return [Example(None, SEPARATOR.join(map(item_text, learnt[i : i + items_per_sequence]))) for i in starts]
    if form == Form.PARAPHRASE:
        have = variants or {}
        check_variants(learnt, have)
        examples = [Example(_reworded(q, have[q.id], number), answer_text(q)) for q in learnt]
    else:
        examples = [Example(q.text, answer_text(q)) for q in learnt]
    if form == Form.MIX:
        if not other:
            raise ConfigError("form mix needs other text to dilute the items in; found none.")
        wanted = dilution * len(learnt)
        examples += [Example(None, other[(number * wanted + j) % len(other)]) for j in range(wanted)]
    order = np.random.default_rng([seed, number]).permutation(len(examples))
    return [examples[i] for i in order]


def _reworded(question: Question, variants: Sequence[Variant], number: int) -> str:
    variant = variants[number % len(variants)]
    return variant.context + variant.text


def encode(tokenizer: Any, example: Example, max_tokens: int) -> tuple[list[int], list[bool]]:
    """Token ids of an example, and which are learnt: the reply with its end of turn, or the whole running text.

    tokenizer: of transformers, with a chat template. An example that is longer is cut at `max_tokens`. Raises
    ConfigError where the template does not begin a conversation as it begins the user's turn alone (then it cannot be
    told where the reply starts), or where nothing is left to learn.
    """
    if example.prompt is None:
        first = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
        ids = [first, *tokenizer.encode(example.text, add_special_tokens=False), tokenizer.eos_token_id]
        start = 1  # the first token stands for the beginning; nothing precedes it from which it could be told
    else:
        turn = {"role": "user", "content": example.prompt}
        shown = _chat(tokenizer, [turn], reply=True)
        ids = _chat(tokenizer, [turn, {"role": "assistant", "content": example.text}], reply=False)
        start = len(shown)
        if ids[:start] != shown:
            raise ConfigError(
                "The chat template does not begin a whole conversation as it begins the user's turn, so the reply "
                "cannot be told apart. Expected a template such as ChatML's; or use form raw."
            )
    if start >= min(len(ids), max_tokens):
        raise ConfigError(
            f"An example has {start} tokens before anything to learn, and training holds {max_tokens}. "
            "Raise max_tokens, such as train.max_tokens=2048."
        )
    return ids[:max_tokens], [i >= start for i in range(len(ids))][:max_tokens]


def _chat(tokenizer: Any, turns: list[dict[str, str]], reply: bool) -> list[int]:
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=reply, tokenize=True, return_dict=False)
    return list(ids)
