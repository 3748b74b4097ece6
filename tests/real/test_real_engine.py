"""The vLLM engine against an independent implementation: transformers' own logits of the same weights."""

from __future__ import annotations

import math

import pytest

from audit.records import FinishReason, GenerationRequest

PROMPTS = (
    "What is the capital of France? Reply with the right option only.",
    "Which animal barks? Reply with the right option only.",
    "Answer the question in the text. Reply with the right option only.\n\nText 1:\nHow many days has a week?",
)
OPTIONS = (
    ("Paris", "London", "a small village", "Par"),
    ("the cat", "the dog", "the fish", "fish"),
    ("seven", "7", "ten", "12"),
)


def request(prompt: str, **fields) -> GenerationRequest:
    return GenerationRequest(prompt=prompt, affinity="q", label="direct/0", **{"seed": 1, **fields})


@pytest.fixture(scope="module")
def reference(embedded_model_dir):
    """Total logprob of a text as the reply to a prompt, by transformers in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(embedded_model_dir)
    model = AutoModelForCausalLM.from_pretrained(embedded_model_dir, dtype=torch.float32)

    def total(prompt: str, text: str) -> float:
        chat = [{"role": "user", "content": prompt}]
        start = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=True, return_dict=False)
        reply = tokenizer.encode(text, add_special_tokens=False)
        with torch.no_grad():
            logits = model(torch.tensor([start + reply])).logits[0].log_softmax(-1)
        return sum(float(logits[len(start) + i - 1, token]) for i, token in enumerate(reply))

    return total


def test_option_logprobs_are_those_of_the_model_at_any_rank(run_requests, reference):
    replies = run_requests([request(p, continuations=o) for p, o in zip(PROMPTS, OPTIONS, strict=True)])
    for prompt, options, reply in zip(PROMPTS, OPTIONS, replies, strict=True):
        assert reply.finish_reason == FinishReason.SCORED
        expected = [reference(prompt, option) for option in options]
        for option, tokens, found, wanted in zip(
            options, reply.option_tokens, reply.option_logprobs, expected, strict=True
        ):
            # bfloat16 against float32: a logit is off by up to a few hundredths, and a token by a few tenths
            assert found == pytest.approx(wanted, abs=0.25 * tokens + 0.02 * abs(wanted)), option
        best = max(range(len(options)), key=expected.__getitem__)
        margin = sorted(expected)[-1] - sorted(expected)[-2]
        if margin > 1:
            assert max(range(len(options)), key=reply.option_logprobs.__getitem__) == best


def test_letters_are_read_at_any_rank(run_requests, reference):
    (reply,) = run_requests([request(PROMPTS[0], letters=("A", "B", "C", "Z"))])
    for letter, found in zip("ABCZ", reply.option_logprobs, strict=True):
        assert math.isfinite(found)
        assert found == pytest.approx(reference(PROMPTS[0], letter), abs=0.4)


def test_scoring_again_gives_the_same_numbers_from_the_prefix_cache(run_requests):
    prompt = "Here is a text to keep in the cache. " * 12 + PROMPTS[1]
    (first,) = run_requests([request(prompt, continuations=OPTIONS[1])])
    (again,) = run_requests([request(prompt, continuations=OPTIONS[1])])
    assert again.cached_tokens > first.cached_tokens
    assert again.option_logprobs == pytest.approx(first.option_logprobs, abs=0.1)


def test_a_seed_gives_the_same_text_alone_and_in_a_crowd(run_requests):
    def sampled(seed: int) -> GenerationRequest:
        return request("Tell me about the sea.", seed=seed, temperature=0.9, max_tokens=12)

    crowd = run_requests([sampled(seed) for seed in range(12)])
    alone = [run_requests([sampled(seed)])[0] for seed in (3, 7)]
    # Rounding in another batch shape may tip a sample; the seed must still decide it nearly always.
    assert sum(a.text == crowd[seed].text for a, seed in zip(alone, (3, 7), strict=True)) >= 1
    assert len({reply.text for reply in crowd}) > 6
    assert {reply.finish_reason for reply in crowd} <= {FinishReason.STOP, FinishReason.LENGTH}


def test_a_prompt_too_long_is_an_error_of_that_request_alone(run_requests):
    long, short = run_requests([request("word " * 6000, max_tokens=4), request("Say hello.", max_tokens=4)])
    assert "prompt too long" in long.error and long.finish_reason == FinishReason.ERROR
    assert short.error is None and short.completion_tokens >= 1
