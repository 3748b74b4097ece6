"""The `openai` engine against a real local vLLM server with the embedded model."""

from __future__ import annotations

import asyncio
import math
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import takewhile
from operator import eq
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING, TypeVar

import pytest
from servers_here import free_port

from audit.core.errors import EndpointAuthError, EngineLoadError
from audit.core.records import FinishReason, Generation, GenerationRequest
from audit.engines.config import ModelConfig
from audit.engines.openai_config import EndpointConfig, RetryConfig
from audit.engines.openai_engine import OpenAIEngine

if TYPE_CHECKING:
    from audit.runtime.actors import EngineActor, EnginePool

pytestmark = [pytest.mark.real, pytest.mark.long]  # a server of its own to load, and seldom touched

KEY = "token-for-this-test-only"
KEY_ENV = "AUDIT_TEST_VLLM_KEY"
MODEL = "smollm2"
T = TypeVar("T")


def serve(actor: EngineActor, folder: str, port: int) -> None:
    """In the process of a loaded engine: vLLM's own OpenAI server before it, so that none is loaded
    twice."""
    from uvicorn import Config, Server
    from vllm.entrypoints.launchers.api_server.app_state import init_app_state
    from vllm.entrypoints.launchers.app import build_app
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    words = [
        "--model",
        folder,
        "--served-model-name",
        MODEL,
        "--api-key",
        KEY,
        "--enable-prompt-tokens-details",
    ]
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(words)

    llm = actor._engine._llm

    async def served() -> None:
        tasks = await llm.get_supported_tasks()
        app = build_app(args, tasks, llm.model_config)
        await init_app_state(llm, app.state, args, tasks)
        await Server(Config(app, host="127.0.0.1", port=port, log_level="warning")).serve()

    actor.serving = asyncio.run_coroutine_threadsafe(served(), llm.output_handler.get_loop())


def failure(actor: EngineActor) -> str:
    """Why the server ended, if it did."""
    return repr(actor.serving.exception()) if actor.serving.done() else "it still starts"


@pytest.fixture(scope="module")
def vllm_server_url(engine_here: EnginePool, embedded_model_dir: Path) -> str:
    """The base url of vLLM's OpenAI server, before the engine that the real tests share."""
    import ray

    port = free_port()
    (actor,) = engine_here.actors
    ray.cloudpickle.register_pickle_by_value(
        sys.modules[__name__]
    )  # an actor does not find the tests
    ray.get(actor.__ray_call__.remote(serve, str(embedded_model_dir), port))
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as reply:
                if reply.status == 200:
                    return f"http://127.0.0.1:{port}/v1"
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    return pytest.fail(
        f"vLLM's server did not start: {ray.get(actor.__ray_call__.remote(failure))}"
    )


@pytest.fixture
def with_engine(
    vllm_server_url: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Callable[[OpenAIEngine], Awaitable[T]]], T]:
    monkeypatch.setenv(KEY_ENV, KEY)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")

    def run(use: Callable[[OpenAIEngine], Awaitable[T]], model: str = MODEL) -> T:
        async def main() -> T:
            endpoint = EndpointConfig(
                url=vllm_server_url, model=model, api_key_env=KEY_ENV, concurrency=8
            )
            engine = OpenAIEngine(
                ModelConfig(endpoints=[endpoint], retry=RetryConfig(max_attempts=2))
            )
            await engine.start()
            try:
                return await use(engine)
            finally:
                await engine.close()

        return asyncio.run(main())

    return run


def ask(prompt: str, **kwargs: object) -> GenerationRequest:
    return GenerationRequest(prompt, affinity=prompt, label="direct/0", seed=11, **kwargs)  # type: ignore[arg-type]


async def _started(engine: OpenAIEngine) -> str:
    return engine.engine_id


def test_generations_keep_their_order_and_repeat_under_their_seed(with_engine) -> None:
    prompts = [f"Write the number {i} and one sentence about it." for i in range(12)]
    requests = [ask(p, max_tokens=24, temperature=0.8, top_p=0.95) for p in prompts]

    async def thrice(engine: OpenAIEngine):
        return [
            await engine.run(each)
            for each in (
                requests,
                requests[::-1],
                [replace(request, seed=12) for request in requests],
            )
        ]

    first, second, other = with_engine(thrice)
    assert [g.error for g in first] == [None] * 12
    assert all(g.text and g.prompt_tokens > 10 and 1 <= g.completion_tokens <= 24 for g in first)
    assert len({g.text for g in first}) > 6
    # vLLM repeats a seed bit by bit only in the same batch: here and there rounding tips a token,
    # and what follows.
    assert alike(first, second[::-1]) > 0.3 > alike(first, other)  # measured: .70 and .005
    assert {g.engine_id for g in first} == {first[0].engine_id} and first[0].engine_id.endswith(
        f"#{MODEL}"
    )


def alike(texts: list[Generation], others: list[Generation]) -> float:
    """How much of each text its counterpart begins with, on average."""
    same = [
        sum(takewhile(bool, map(eq, a.text, b.text))) / len(a.text)
        for a, b in zip(texts, others, strict=True)
    ]
    return mean(same)


def test_a_cut_off_reply_is_truncated(with_engine) -> None:
    [got] = with_engine(lambda e: e.run([ask("Tell a long story about the sea.", max_tokens=4)]))
    assert (got.finish_reason, got.completion_tokens, got.error) == (FinishReason.LENGTH, 4, None)


def test_letters_have_logprobs(with_engine) -> None:
    prompt = "Which is a colour?\nA. red\nB. seven\nC. Tuesday\nD. running\nReply with one letter: A, B, C or D."
    [got] = with_engine(lambda e: e.run([ask(prompt, letters=("A", "B", "C", "D", "Q9"))]))
    assert got.error is None and got.finish_reason is FinishReason.SCORED
    *letters, never = got.option_logprobs
    logprobs = [value for value in letters if value is not None]
    assert logprobs and all(value < 0 for value in logprobs)
    assert sum(math.exp(value) for value in logprobs) <= 1.0 + 1e-6
    assert never is None  # no token of this name: an endpoint tells only the top 20


def test_a_prompt_that_is_too_long_is_an_error_row_and_its_neighbours_are_answered(
    with_engine,
) -> None:
    too_long = ask("word " * 5000)
    before, bad, after = with_engine(
        lambda e: e.run([ask("Hi", max_tokens=4), too_long, ask("Hello", max_tokens=4)])
    )
    assert bad.error is not None and bad.error.startswith("prompt too long: ")
    assert "4096" in bad.error and bad.finish_reason is FinishReason.ERROR
    assert before.error is None and after.error is None


def test_cached_tokens_are_reported(with_engine) -> None:
    shared = "The same beginning of a long prompt, again and again. " * 40

    async def twice(engine: OpenAIEngine):
        await engine.run([ask(shared + "One.", max_tokens=2)])
        return (await engine.run([ask(shared + "Two.", max_tokens=2)]))[0]

    got = with_engine(twice)
    assert 0 < got.cached_tokens <= got.prompt_tokens


def test_a_wrong_key_is_refused_at_start(with_engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_ENV, "sk-wrong-key-of-somebody")
    with pytest.raises(EndpointAuthError, match="401") as caught:
        with_engine(_started)
    assert "sk-wrong" not in str(caught.value)


def test_a_model_that_is_not_served_is_named(with_engine) -> None:
    with pytest.raises(EngineLoadError, match=f"llama.*{MODEL}"):
        with_engine(_started, model="llama")
