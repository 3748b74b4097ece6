"""What vLLM tells of a given text -> its tokens: places in pieces, ranks, standardised logprobs."""

import asyncio
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from audit.core.errors import EngineError
from audit.core.records import FinishReason, Generation, GenerationRequest, TokenLogprobs
from audit.engines.config import ModelConfig
from audit.engines.port import of_pieces, request_sha256
from audit.engines.vllm_engine import VllmEngine, encode, text_logprobs, z_score


class Words:
    """A tokenizer of words with the blank before them, as byte-pair ones are."""

    is_fast = True

    def __init__(self, bos: int | None = 1, eos: int | None = 2) -> None:
        self.bos_token_id, self.eos_token_id = bos, eos

    def __call__(
        self, text: str, *, add_special_tokens: bool, return_offsets_mapping: bool
    ) -> dict:
        assert not add_special_tokens and return_offsets_mapping
        spans, start = [], 0
        for k, char in enumerate(text):
            if char == " " and k > start:
                spans.append((start, k))
                start = k
        spans.append((start, len(text)))
        return {"input_ids": [10 + a for a, _ in spans], "offset_mapping": spans}


@dataclass
class Flat:
    logprobs: list[float]
    ranks: list[int]
    start_indices: list[int]
    end_indices: list[int]

    def __len__(self) -> int:
        return len(self.start_indices)


@dataclass
class Output:
    prompt_logprobs: Flat
    num_cached_tokens: int | None = 0
    outputs: list = field(default_factory=list)


def test_tokens_belong_to_the_piece_in_which_they_end():
    ids, pieces = encode(Words(), ("a b", "c d", "", " e"))
    # "a", " bc" (ends in the second piece), " d", " e"; nothing ends in the empty piece
    assert ids == [1, 10, 11, 14, 16] and pieces == (0, 1, 1, 3)
    assert encode(Words(bos=None), ("a",))[0][0] == 2
    for tokenizer in (Words(None, None), type("Slow", (Words,), {"is_fast": False})()):
        with pytest.raises(EngineError, match="BOS or EOS"):
            encode(tokenizer, ("a",))


def test_each_token_is_read_with_its_rank_and_what_stood_beside_it():
    # Two tokens; of each first the text's own, then the two likeliest.
    flat = Flat([-3.0, -0.5, -1.5, -0.2, -0.2, -2.0], [7, 1, 2, 1, 1, 2], [0, 0, 3], [0, 3, 6])
    tokens = text_logprobs(Output(flat), (0, 1), 1000)
    assert (tokens.logprobs, tokens.ranks, tokens.pieces) == ((-3.0, -0.2), (7, 1), (0, 1))
    assert tokens.z == (z_score(-3.0, [-0.5, -1.5], 1000), z_score(-0.2, [-0.2, -2.0], 1000))
    with pytest.raises(EngineError, match="prefix cache"):
        text_logprobs(Output(flat, num_cached_tokens=16), (0, 1), 1000)
    with pytest.raises(EngineError, match="2 logprobs for a text of 3"):
        text_logprobs(Output(flat), (0, 0, 1), 1000)


def test_the_standardised_logprob_is_near_that_of_the_whole_vocabulary():
    rng = np.random.default_rng(0)
    exact, guessed = [], []
    for _ in range(60):
        logits = rng.normal(size=5000) * rng.uniform(2, 5)
        logprobs = logits - np.log(np.exp(logits).sum())
        p, chosen = np.exp(logprobs), rng.choice(logprobs)
        mean = p @ logprobs
        exact.append((chosen - mean) / np.sqrt(p @ (logprobs - mean) ** 2))
        guessed.append(z_score(chosen, np.sort(logprobs)[::-1][:20], 5000))
    assert np.corrcoef(exact, guessed)[0, 1] > 0.9
    assert np.isfinite(z_score(0.0, [0.0, -40.0], 100))  # the model is certain


def test_pieces_add_up_and_one_without_a_token_has_no_likelihood():
    tokens = TokenLogprobs((-1.0, -2.0, -4.0), (1, 2, 3), (0.0, 0.0, 0.0), (0, 0, 2))
    fields = of_pieces(tokens, 4)
    assert fields["option_logprobs"] == (-3.0, None, -4.0, None) and fields["option_tokens"] == (
        2,
        0,
        1,
        0,
    )
    assert of_pieces(TokenLogprobs((), (), (), ()), 1)["option_logprobs"] == (None,)


def test_a_given_text_is_another_request_than_a_message_that_says_the_same():
    message = GenerationRequest("a b", "q", "order/0", 1)
    text = replace(message, pieces=("a", " b"))
    assert request_sha256(text) != request_sha256(message)
    assert request_sha256(text) == request_sha256(
        replace(text, pieces=("a b",))
    )  # the cut is not seen by the model


class Reads:
    """An AsyncLLM that tells -1 for every token of a prompt, which holds ten at most."""

    model_config = SimpleNamespace(max_model_len=10)
    errored = False

    def get_tokenizer(self) -> Any:
        return type("Sized", (Words,), {"__len__": lambda self: 1000})()

    async def generate(
        self,
        prompt: dict[str, list[int]],
        params: dict[str, Any],
        request_id: str,
        priority: int = 0,
    ) -> Any:
        await asyncio.sleep(0)
        assert (params["prompt_logprobs"], params["max_tokens"], params["detokenize"]) == (
            20,
            1,
            False,
        )
        n = len(prompt["prompt_token_ids"]) - 1
        flat = Flat(
            [-1.0, -0.5] * n, [2, 1] * n, [0, *range(0, 2 * n, 2)], [0, *range(2, 2 * n + 1, 2)]
        )
        yield Output(flat)


def test_the_vllm_engine_reads_a_text_and_refuses_one_that_is_too_long():
    engine = VllmEngine(ModelConfig(name="m"), "path", None, "m/0", on_gpu=False)
    engine.serve(Reads(), dict)

    def ask(*pieces: str) -> Generation:
        (generation,) = asyncio.run(
            engine.run([GenerationRequest("".join(pieces), "q", "order/0", 1, pieces=pieces)])
        )
        return generation

    reply = ask("a b", " c")
    assert (reply.option_logprobs, reply.option_tokens) == ((-2.0, -1.0), (2, 1))
    assert reply.finish_reason == FinishReason.SCORED and reply.tokens.ranks == (2, 2, 2)
    assert (reply.prompt_tokens, reply.request_sha256[:7]) == (
        4,
        "tokens:",
    )  # three words and the start token
    long = ask(" ".join("abcdefghijk"))
    assert long.tokens is None and "12 tokens" in long.error
