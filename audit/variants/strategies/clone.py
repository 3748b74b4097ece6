"""New items like a benchmark's: prompts out, replies read strictly, gates. Pure; who generates is a function.

A clone is not a rewording: it asks for another fact of the same topic and difficulty, so that a model that has learnt
the benchmark by heart has not learnt it. Whether it is as hard is for the memory audit to see (`fresh_matched`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from string import ascii_uppercase

import numpy as np

from audit.benchmarks.rows import normalised, shuffled, words_alone
from audit.engines.embedder import Embedder
from audit.errors import LibraryError
from audit.prompting.templates import fill
from audit.prompting.thinking import strip_thinking
from audit.records import FinishReason, Generation, Question
from audit.variants.build import Judge
from audit.variants.gates.judge import JUDGE_MAX_TOKENS, JUDGE_TEMPERATURE, read_vote, tally
from audit.variants.record import DISTANCE_DIGITS, Judgement
from audit.variants.requests import Generate, ModelRequest, replies_of, request_seed
from audit.variants.strategies.paraphrase import MAX_TOKENS, TEMPERATURE, TOP_P

PLACEHOLDERS = {"clone": {"count", "question", "options", "key"}, "judge": {"question", "key"}}
_REPLY = re.compile(
    r"\s*<question>(?P<question>.*?)</question>\s*<options>(?P<options>.*?)</options>\s*"
    r"<answer>\s*(?P<answer>[A-Z])\s*</answer>\s*",
    re.DOTALL,
)
_OPTION = re.compile(r"(?P<letter>[A-Z])\. +(?P<text>\S.*)")


class CloneState(StrEnum):
    """Whether a candidate is an item, and if not, the first gate that stopped it; in the order of the gates."""

    FAILED = "failed"  # the model gave no reply, or one that was cut off
    EMPTY = "empty"
    UNREADABLE = "unreadable"  # not the form that was asked for
    WRONG_OPTIONS = "wrong_options"  # another number of options, two alike, or a key that is none of them
    COPY = "copy"  # the words of an item of the benchmark, or of an earlier clone
    NOT_EMBEDDED = "not_embedded"
    TOO_CLOSE = "too_close"  # to any item of the benchmark
    JUDGED_BROKEN = "judged_broken"
    JUDGE_TIE = "judge_tie"
    JUDGE_UNREADABLE = "judge_unreadable"
    JUDGE_FAILED = "judge_failed"
    ACCEPTED = "accepted"


_OF_JUDGE = {
    Judgement.BROKEN: CloneState.JUDGED_BROKEN,
    Judgement.TIE: CloneState.JUDGE_TIE,
    Judgement.UNREADABLE: CloneState.JUDGE_UNREADABLE,
    Judgement.FAILED: CloneState.JUDGE_FAILED,
}


@dataclass(frozen=True, slots=True)
class Clone:
    """A candidate. source: the item that it was written after; number counts from 1 within it. item: as it is asked,
    its options in an order drawn by seed; None where there is none. distance: to the nearest item of the benchmark,
    cosine. error: why there is no item."""

    source: str
    number: int
    state: CloneState
    item: Question | None = None
    distance: float | None = None
    votes: tuple[str, ...] = ()
    error: str | None = None

    @property
    def id(self) -> str:
        return f"{self.source}#clone{self.number}"


@dataclass(frozen=True, slots=True)
class CloneGates:
    """low: the least distance to any item of the benchmark. judge, votes: who votes on the key, and how often."""

    embedder: Embedder
    low: float
    judge: Judge | None = None
    votes: int = 3
    seed: int = 42


def clone_request(template: str, question: Question, number: int) -> ModelRequest:
    """What the writer is sent for the number-th clone of an item."""
    return ModelRequest(
        key=f"{question.id}#clone{number}",
        prompt=fill(
            template,
            {
                "count": str(len(question.options)),
                "question": question.text,
                "options": _lettered(question.options),
                "key": ascii_uppercase[question.gold],
            },
        ),
        max_tokens=MAX_TOKENS,
        temperature=TEMPERATURE,
        top_p=TOP_P,
    )


def read_clone(reply: Generation, question: Question, number: int, seed: int) -> Clone:
    """The item in a reply that has exactly the form asked for; else its state and why. Thinking is taken off."""
    found = Clone(question.id, number, CloneState.FAILED)
    if reply.error is not None or reply.finish_reason == FinishReason.ERROR:
        return replace(found, error=reply.error or "the engine gave no reply")
    if reply.finish_reason == FinishReason.LENGTH:
        return replace(found, error="the reply was cut off at its token limit")
    visible = strip_thinking(reply.text).text
    if not visible.strip():
        return replace(found, state=CloneState.EMPTY)
    form = _REPLY.fullmatch(visible)
    lines = [line.strip() for line in form["options"].strip().splitlines()] if form else []
    options = [match for line in lines if (match := _OPTION.fullmatch(line))]
    stem = form["question"].strip() if form else ""
    in_order = "".join(match["letter"] for match in options) == ascii_uppercase[: len(options)]
    if form is None or not stem or "<" in stem or len(options) != len(lines) or not in_order:
        return replace(found, state=CloneState.UNREADABLE)
    texts, gold = tuple(match["text"] for match in options), ascii_uppercase.index(form["answer"])
    if (
        len(texts) != len(question.options)
        or len({normalised(text).casefold() for text in texts}) < len(texts)
        or gold >= len(texts)
    ):
        return replace(found, state=CloneState.WRONG_OPTIONS)
    item = Question(found.id, question.benchmark, stem, texts, gold, question.group, tuple(range(len(texts))))
    return replace(found, state=CloneState.ACCEPTED, item=shuffled(item, request_seed(seed, "clone", found.id, number)))


def build_clones(
    questions: Sequence[Question],
    generate: Generate,
    templates: Mapping[str, str],
    gates: CloneGates,
    *,
    per_item: int,
    max_attempts: int,
) -> list[Clone]:
    """Every candidate with its state. An item that lacks clones is asked about again, under numbers not used before."""
    originals = gates.embedder.embed([q.text for q in questions])
    near = [e.vector.astype(np.float64) for e in originals if e.vector is not None]
    if not near:
        raise LibraryError(f"No item fits the embedder ({originals[0].error}): no new item can be told from them.")
    known = {words_alone(q.text) for q in questions}
    found: list[Clone] = []
    for _ in range(max_attempts):
        accepted = Counter(c.source for c in found if c.state == CloneState.ACCEPTED)
        used = Counter(c.source for c in found)
        asked = [
            (q, used[q.id] + 1 + k, clone_request(templates["clone"], q, used[q.id] + 1 + k))
            for q in questions
            for k in range(per_item - accepted[q.id])
        ]
        if not asked:
            break
        replies = replies_of(generate, [request for _, _, request in asked])
        made = [read_clone(reply, q, k, gates.seed) for (q, k, _), reply in zip(asked, replies, strict=True)]
        found += _with_votes(_with_distances(_without_copies(made, known), near, gates), gates)
        if all(c.state in (CloneState.FAILED, CloneState.EMPTY) for c in found):
            break  # a model that says nothing is not asked again
    return found


def _without_copies(clones: Sequence[Clone], known: set[str]) -> list[Clone]:
    """known: the words of what is there already; the new ones are added."""
    found = []
    for clone in clones:
        if clone.item is not None and words_alone(clone.item.text) in known:
            clone = replace(clone, state=CloneState.COPY)
        elif clone.item is not None:
            known.add(words_alone(clone.item.text))
        found.append(clone)
    return found


def _with_distances(clones: Sequence[Clone], near: Sequence[np.ndarray], gates: CloneGates) -> list[Clone]:
    there = [c.item.text for c in clones if c.state == CloneState.ACCEPTED and c.item is not None]
    embedded = iter(gates.embedder.embed(there) if there else [])
    matrix = np.stack(near)
    found = []
    for clone in clones:
        if clone.state == CloneState.ACCEPTED:
            one = next(embedded)
            if one.vector is None:
                clone = replace(clone, state=CloneState.NOT_EMBEDDED, error=one.error)
            else:
                nearest = round(float(1 - (matrix @ one.vector.astype(np.float64)).max()), DISTANCE_DIGITS)
                state = clone.state if nearest >= gates.low else CloneState.TOO_CLOSE
                clone = replace(clone, state=state, distance=max(nearest, 0.0))
        found.append(clone)
    return found


def _with_votes(clones: Sequence[Clone], gates: CloneGates) -> list[Clone]:
    """Everything that is left is shown to the judge: no rule sees whether a key is right."""
    if gates.judge is None:
        return list(clones)
    asked = [c for c in clones if c.state == CloneState.ACCEPTED and c.item is not None]
    requests = [_vote(gates.judge.templates["judge"], c, k) for c in asked for k in range(gates.votes)]
    votes = iter([read_vote(reply) for reply in replies_of(gates.judge.generate, requests)])
    found = []
    for clone in clones:
        if clone.state == CloneState.ACCEPTED:
            own = tuple(next(votes) for _ in range(gates.votes))
            clone = replace(clone, votes=own, state=_OF_JUDGE.get(tally(own), clone.state))
        found.append(clone)
    return found


def _vote(template: str, clone: Clone, k: int) -> ModelRequest:
    assert clone.item is not None  # noqa: S101 - only asked of clones that have an item
    key = f"{_lettered(clone.item.options)}\nThe right answer is {ascii_uppercase[clone.item.gold]}."
    prompt = fill(template, {"question": clone.item.text, "key": key})
    return ModelRequest(f"{clone.id}/judge/{k}", prompt, JUDGE_MAX_TOKENS, JUDGE_TEMPERATURE)


def _lettered(options: Sequence[str]) -> str:
    return "\n".join(f"{letter}. {text}" for letter, text in zip(ascii_uppercase, options, strict=False))
