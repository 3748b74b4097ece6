"""Answer requests from a script, without a model. The replies are deterministic.

This implementation of the engine port is for tests, for demonstrations, and for measuring the
program's speed. The label of a request decides its reply.

- `scripted.replies` names the labels that do not get an answer. Their reply is the question itself,
  a damaged question, or a fixed text. A damaged question lacks every third word and has an
  additional sentence.
- Every other reply is an answer to the question. The part of the label before the slash is the arm
  (condition) of the request. `scripted.accuracy` maps each arm to the probability that an answer is
  right. A hash of the question and the seed replaces a random draw.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from audit.core.errors import EngineLoadError
from audit.core.records import FinishReason, Generation, Item, TokenLogprobs
from audit.core.records import GenerationRequest as Request
from audit.engines.config import ModelConfig
from audit.engines.port import of_pieces, request_sha256

_NOISE = (
    "A train leaves the station at noon.",
    "The weather is mild today.",
    "Somebody in the next room is playing the piano.",
    "The shop on the corner sells umbrellas.",
    "The meeting was moved to Thursday.",
)
_REFUSAL = "I would rather not say."


class ScriptedEngine:
    """Answer requests from `script`, which maps the ids of items to items.

    The field `affinity` of a request is the id of its item.
    """

    def __init__(self, config: ModelConfig, engine_id: str, script: Mapping[str, Item]) -> None:
        self.engine_id = engine_id
        self.precision = "" if config.dtype == "auto" else config.dtype
        self._config = config.scripted
        self._limit = config.max_model_len
        self._script = script
        self._requests = 0

    async def start(self) -> None:
        """Wait for `load_s`. Raises EngineLoadError if `fail_to_load` is set."""
        await asyncio.sleep(self._config.load_s)
        if self._config.fail_to_load:
            raise EngineLoadError(
                "The scripted engine failed to load, because scripted.fail_to_load is true."
            )

    async def run(self, requests: Sequence[Request], priority: int = 0) -> list[Generation]:
        """Return the replies in the order of the requests, after `latency_s`; see `Engine.run`."""
        if self._config.latency_s > 0:
            await asyncio.sleep(self._config.latency_s)
        self._requests += len(requests)
        return [self._reply(request) for request in requests]

    def stats(self) -> dict[str, float]:
        """Return the engine's counters: the number of finished requests."""
        return {"requests": float(self._requests)}

    async def close(self) -> None:
        """Do nothing, since the engine holds no resources."""

    def _reply(self, request: Request) -> Generation:
        tokens = _tokens(request.prompt)
        if self._limit is not None and tokens > self._limit:
            why = f"prompt too long: {tokens} tokens, but max_model_len is {self._limit}"
            return Generation(finish_reason=FinishReason.ERROR, engine_id=self.engine_id, error=why)
        if request.pieces:
            return self._given_text(request)
        reply = self._config.replies.get(request.label)
        if reply is None:
            return self._answer(request)
        return self._generation(
            request, self._echo(request, reply) if reply in ("echo", "noise") else reply
        )

    def _given_text(self, request: Request) -> Generation:
        """Score a text with one token for each word.

        The logprob of a word depends on this word and on the previous word. Therefore the order of
        the words affects the score.
        """
        added = self._config.likelihood.get(request.label, 0.0)
        words: list[str] = []
        pieces: list[int] = []
        for k, piece in enumerate(request.pieces):
            words += piece.split()
            pieces += [k] * len(piece.split())
        units = []
        for before, word in zip(["", *words], words, strict=False):
            units.append(_unit(f"{before}|{word}"))
        logprobs = tuple(min(added - 0.5 - 5 * u, 0.0) for u in units)
        ranks = tuple(1 + int(50 * u) for u in units)
        z = tuple((logprob + 3.0) / 1.5 for logprob in logprobs)
        tokens = TokenLogprobs(logprobs, ranks, z, tuple(pieces))
        return self._scored(
            request, prompt_tokens=len(words), **of_pieces(tokens, len(request.pieces))
        )

    def _echo(self, request: Request, how: str) -> str:
        question, seed = self._script[request.affinity], request.seed
        lines = [question.text]
        for letter, text in zip(ascii_uppercase, question.options, strict=False):
            lines.append(f"{letter}. {text}")
        if how == "noise":
            lines = [_without_every_third_word(line, seed) for line in lines]
            lines.append(_NOISE[seed % len(_NOISE)])
        return "\n".join(lines)

    def _answer(self, request: Request) -> Generation:
        question, seed, item = self._script[request.affinity], request.seed, request.affinity
        arm, _, level = request.label.partition("/")
        gold, n_options = question.gold, len(question.options)
        # The number depends only on the item, so an item is equally hard in every arm. The outcomes
        # of two arms are therefore paired.
        u_item = _unit(item)
        u_draw = _unit(f"{item}|{seed}")
        p = self._config.accuracy.get(arm, 0.5)
        if arm in self._config.gain_per_level:
            p += self._config.gain_per_level[arm] * (int(level) - 1)
        correct = (u_item < p) if u_draw < 0.7 else (_unit(f"{seed}|{item}") < p)
        refused = _unit(f"parse|{item}|{seed}") < self._config.parse_failures
        if question.target is not None:
            reply = f"Let me see.\n#### {question.target + (not correct):,.12g}"
        elif question.code is not None:
            reply = f"```python\n{question.text}{question.code.solution if correct else ''}\n```"
        else:
            chosen = gold if correct else (gold + 1 + seed % max(1, n_options - 1)) % n_options
            reply = chr(ord("A") + chosen)
            if n := len(request.continuations or request.letters):
                logprobs = tuple(-1.0 if i == chosen else -3.0 for i in range(n))
                tokens = _tokens(request.prompt)
                return self._scored(
                    request, prompt_tokens=tokens, option_logprobs=logprobs, option_tokens=(1,) * n
                )
        return self._generation(request, _REFUSAL if refused else reply)

    def _scored(self, request: Request, **fields: Any) -> Generation:
        sha256 = request_sha256(request)
        return Generation(
            finish_reason=FinishReason.SCORED,
            engine_id=self.engine_id,
            request_sha256=sha256,
            **fields,
        )

    def _generation(self, request: Request, text: str) -> Generation:
        return Generation(
            text=text,
            prompt_tokens=_tokens(request.prompt),
            completion_tokens=max(1, _tokens(text)),
            engine_id=self.engine_id,
            request_sha256=request_sha256(request),
        )


def _without_every_third_word(line: str, seed: int) -> str:
    return " ".join(word for i, word in enumerate(line.split()) if i % 3 != seed % 3)


def _tokens(text: str) -> int:
    return len(text) // 4


def _unit(text: str) -> float:
    """Return a pseudo-random number in [0, 1) that depends only on a text."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2.0**64
