"""The vLLM engine against an independent implementation: transformers' own logits of the same
weights."""

import math

import numpy as np
import pytest

from audit.core.records import FinishReason, GenerationRequest

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
        start = tokenizer.apply_chat_template(
            chat, add_generation_prompt=True, tokenize=True, return_dict=False
        )
        reply = tokenizer.encode(text, add_special_tokens=False)
        with torch.no_grad():
            logits = model(torch.tensor([start + reply])).logits[0].log_softmax(-1)
        return sum(float(logits[len(start) + i - 1, token]) for i, token in enumerate(reply))

    return total


def test_option_logprobs_are_those_of_the_model_at_any_rank(run_requests, reference):
    replies = run_requests(
        [request(p, continuations=o) for p, o in zip(PROMPTS, OPTIONS, strict=True)]
    )
    for prompt, options, reply in zip(PROMPTS, OPTIONS, replies, strict=True):
        assert reply.finish_reason == FinishReason.SCORED
        expected = [reference(prompt, option) for option in options]
        for option, tokens, logprob, wanted in zip(
            options, reply.option_tokens, reply.option_logprobs, expected, strict=True
        ):
            # bfloat16 against float32: a logit is off by up to a few hundredths, and a token by a
            # few tenths
            assert logprob == pytest.approx(wanted, abs=0.25 * tokens + 0.02 * abs(wanted)), option
        best = max(range(len(options)), key=expected.__getitem__)
        margin = sorted(expected)[-1] - sorted(expected)[-2]
        if margin > 1:
            assert max(range(len(options)), key=reply.option_logprobs.__getitem__) == best


def test_letters_are_read_at_any_rank(run_requests, reference):
    (reply,) = run_requests([request(PROMPTS[0], letters=("A", "B", "C", "Z"))])
    for letter, logprob in zip("ABCZ", reply.option_logprobs, strict=True):
        assert math.isfinite(logprob)
        assert logprob == pytest.approx(reference(PROMPTS[0], letter), abs=0.4)


def test_scoring_again_gives_the_same_numbers_from_the_prefix_cache(run_requests):
    prompt = "Here is a text to keep in the cache. " * 12 + PROMPTS[1]
    (first,) = run_requests([request(prompt, continuations=OPTIONS[1])])
    (repeated,) = run_requests([request(prompt, continuations=OPTIONS[1])])
    assert repeated.cached_tokens > first.cached_tokens
    assert repeated.option_logprobs == pytest.approx(first.option_logprobs, abs=0.1)


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
    long, short = run_requests(
        [request("word " * 6000, max_tokens=4), request("Say hello.", max_tokens=4)]
    )
    assert "max_model_len" in long.error and long.finish_reason == FinishReason.ERROR
    assert short.error is None and short.completion_tokens >= 1


TEXTS = (
    (
        "Which animal barks",
        " and is kept to guard houses?",
        "\nA.",
        " cow",
        "\nB.",
        " hen",
        "\nC.",
        " dog",
    ),
    (
        "The Moon goes round",
        " the Earth in about a month; die Größe of it — 3,474 km — is known.",
        "\nA.",
        " ☾ yes",
    ),
    ("Stop", "", "\nA.", " 7"),
)


@pytest.fixture(scope="module")
def reference_tokens(embedded_model_dir):
    """Logprob and rank of every token of a text after its start token, by transformers in
    float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(embedded_model_dir)
    model = AutoModelForCausalLM.from_pretrained(embedded_model_dir, dtype=torch.float32)

    def of(text: str) -> list[tuple[float, int, float]]:
        ids = [tokenizer.bos_token_id, *tokenizer.encode(text, add_special_tokens=False)]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].log_softmax(-1)
        tokens = []
        for row, token in zip(logits[:-1], ids[1:], strict=True):
            mean = (row.exp() * row).sum()
            sd = (row.exp() * (row - mean) ** 2).sum().sqrt()
            tokens.append(
                (
                    float(row[token]),
                    int((row > row[token]).sum()) + 1,
                    float((row[token] - mean) / sd),
                )
            )
        return tokens

    return of


def given(pieces: tuple[str, ...]) -> GenerationRequest:
    return request("".join(pieces), pieces=pieces)


def test_a_given_text_has_the_likelihood_that_the_model_gives_it(run_requests, reference_tokens):
    for pieces, reply in zip(TEXTS, run_requests([given(p) for p in TEXTS]), strict=True):
        expected = reference_tokens("".join(pieces))
        tokens = reply.tokens
        assert len(tokens.logprobs) == len(expected) == sum(reply.option_tokens)
        assert (
            sorted(tokens.pieces) == list(tokens.pieces) and max(tokens.pieces) == len(pieces) - 1
        )
        logprobs, wanted = (
            np.array(tokens.logprobs),
            np.array([logprob for logprob, _, _ in expected]),
        )
        # bfloat16, as above. Seen on a CPU without AVX-512: 1 of 37 tokens off by .59, correlation
        # .9994; why was not measured.
        beyond = np.abs(logprobs - wanted) > 0.3 + 0.03 * np.abs(wanted)
        assert beyond.mean() <= 0.1 and np.allclose(logprobs, wanted, rtol=0.1, atol=0.3), (
            logprobs,
            wanted,
        )
        assert np.corrcoef(logprobs, wanted)[0, 1] > 0.99
        certain = [
            (rank, wanted)
            for rank, (_, wanted, _) in zip(tokens.ranks, expected, strict=True)
            if wanted <= 3
        ]
        assert certain and all(abs(rank - wanted) <= 2 for rank, wanted in certain)
        # Mean and spread are told by the twenty likeliest tokens and a guess at the rest.
        assert np.corrcoef(tokens.z, [z for _, _, z in expected])[0, 1] > 0.9
        for k, total in enumerate(reply.option_logprobs):
            piece_logprobs = [
                x for x, piece in zip(tokens.logprobs, tokens.pieces, strict=True) if piece == k
            ]
            assert total == (pytest.approx(sum(piece_logprobs)) if piece_logprobs else None)
    assert run_requests([given(TEXTS[2])])[0].option_tokens[1] == 0  # an empty piece


def test_a_given_text_is_read_the_same_in_any_company_and_never_from_the_prefix_cache(run_requests):
    """vllm #42019: with prefix caching, prompt logprobs could hang on what was asked before."""
    start = ("A text that fills more than one block of the cache. " * 12, "The dog barks.")
    texts = [start, (start[0], "The cat sleeps."), *TEXTS]
    first = run_requests([given(p) for p in texts])
    reversed_replies = run_requests([given(p) for p in reversed(texts)])[::-1]
    (alone,) = run_requests([given(start)])
    for a, b in [*zip(first, reversed_replies, strict=True), (first[0], alone)]:
        assert (a.request_sha256, a.cached_tokens) == (b.request_sha256, 0)
        assert a.tokens.logprobs == pytest.approx(b.tokens.logprobs, abs=0.25)


def test_what_has_the_smaller_priority_is_answered_first(engine_here):
    """By events and not seconds: 3 batches of 64 are asked, then 4 requests more, which pass by
    those that wait."""
    import ray

    (actor,) = engine_here.actors
    late = [actor.run.remote([request(f"Count from {i}.", max_tokens=4)], 1) for i in range(3 * 64)]
    soon = actor.run.remote([request(f"Name {i} animals.", max_tokens=4) for i in range(4)], 0)
    done: list[ray.ObjectRef] = []
    waiting = [*late, soon]
    while soon in waiting:
        batch, waiting = ray.wait(waiting, num_returns=1)
        done += batch
    assert len(done) <= 2 * 64 + 1  # first come, first served: after all of the 192
    ray.get(waiting)
