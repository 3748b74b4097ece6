"""The vLLM adapter without vLLM: what it does with a refused request and a dead engine, and the
arguments it gives."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from jinja2 import TemplateError

from audit.core.errors import EngineDiedError, EngineError, EngineLoadError
from audit.core.records import FinishReason, Generation, GenerationRequest
from audit.engines.config import ModelConfig
from audit.engines.vllm_engine import (
    VllmEngine,
    check_batch_invariant,
    engine_args,
    engine_environment,
    is_cpu_build,
)


def _vllm_exceptions() -> ModuleType:
    """vLLM's own exception classes; the file is loaded alone, because importing the package takes
    seconds."""
    package = importlib.util.find_spec("vllm")
    if package is None or package.origin is None:
        pytest.skip("vllm is not installed", allow_module_level=True)
    spec = importlib.util.spec_from_file_location(
        "vllm_exceptions", Path(package.origin).parent / "exceptions.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REAL = _vllm_exceptions()


class EngineGenerateError(REAL.VLLMServerError):  # type: ignore[name-defined, misc]  # as in vllm.v1.engine.exceptions
    pass


class EngineDeadError(REAL.VLLMServerError):  # type: ignore[name-defined, misc]
    pass


class FakeLLM:
    """A token a character, in lower case; the logprob of each hangs on the character and on how
    many tokens stand before it. Replies with the number of prompt tokens. Raises `error` for
    prompts that hold a 0, as AsyncLLM.generate raises it (a ValueError is wrapped); `errored`
    afterwards where the engine died. Its prefix cache holds blocks of `block` tokens. Of cached
    positions it tells nonsense, or nothing (`short`): as vLLM's two model runners do."""

    def __init__(
        self,
        error: Exception | None = None,
        dies: bool = False,
        block: int = 1000,
        short: bool = False,
    ) -> None:
        self.model_config = SimpleNamespace(max_model_len=100)
        self.errored = False
        self.asked: list[list[int]] = []
        self.priorities: set[int] = set()
        self._error, self._dies, self._block, self._short = error, dies, block, short
        self._cache: set[tuple[int, ...]] = set()

    def get_tokenizer(self) -> FakeLLM:
        return self

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> list[int]:
        if len(messages) > 1 and "0" in messages[0]["content"]:
            raise TemplateError("System role not supported")
        return [token for message in messages for token in self.encode(message["content"])]

    def encode(self, text: str, **_: Any) -> list[int]:
        return [ord(character.lower()) for character in text]

    @staticmethod
    def logprob(token: int, before: int) -> SimpleNamespace:
        return SimpleNamespace(logprob=-(token + before) / 100)

    async def generate(
        self,
        prompt: dict[str, list[int]],
        params: dict[str, Any],
        request_id: str,
        priority: int = 0,
    ) -> Any:
        await asyncio.sleep(0)
        ids = prompt["prompt_token_ids"]
        self.asked.append(ids)
        self.priorities.add(priority)
        if self._error is not None and ord("0") in ids:
            self.errored = self._dies
            if isinstance(self._error, REAL.VLLMError):
                raise self._error
            raise EngineGenerateError from self._error
        skips = params.get("skip_reading_prefix_cache", "prompt_logprobs" in params)
        blocks = [tuple(ids[:end]) for end in range(self._block, len(ids), self._block)]
        cached = max((len(b) for b in blocks if b in self._cache), default=0) if not skips else 0
        self._cache.update(blocks)
        given = [{t: self.logprob(t, i)} for i, t in enumerate(ids)]
        for i in range(cached + 1):  # a token is told from the position before it
            given[i] = {-7: SimpleNamespace(logprob=float("nan"))}
        wanted = [{t: self.logprob(t, len(ids)) for t in params.get("logprob_token_ids", [])}]
        yield SimpleNamespace(
            outputs=[
                SimpleNamespace(
                    text=str(len(ids)), finish_reason="stop", token_ids=[1], logprobs=wanted
                )
            ],
            num_cached_tokens=cached,
            prompt_logprobs=given[cached if self._short else 0 :]
            if "prompt_logprobs" in params
            else None,
        )


def spelled(prompt: str, option: str) -> float:
    return sum(-(ord(character) + len(prompt) + i) / 100 for i, character in enumerate(option))


def ask(llm: FakeLLM, *requests: GenerationRequest) -> list[Generation]:
    engine = VllmEngine(ModelConfig(name="m"), "path", None, "m/0", on_gpu=False)
    engine.serve(llm, dict)
    return asyncio.run(engine.run(requests))


def request(prompt: str, *continuations: str) -> GenerationRequest:
    return GenerationRequest(
        prompt=prompt,
        affinity="q",
        label="direct/0",
        seed=1,
        max_tokens=8,
        continuations=continuations,
    )


@pytest.mark.parametrize(
    "error",
    [
        REAL.VLLMValidationError("Token id 7 is out of vocabulary", parameter="prompt", value=7),
        ValueError("Token id 7 is out of vocabulary"),
    ],
)
def test_a_refused_request_is_an_error_and_the_others_are_answered(error):
    before, refused, after = ask(FakeLLM(error), request("11"), request("10"), request("111"))
    assert (before.text, after.text) == ("2", "3")
    assert before.error is None and after.error is None
    assert refused.finish_reason == FinishReason.ERROR
    assert refused.error is not None and "Token id 7" in refused.error


def test_a_system_prompt_goes_before_the_question_and_a_template_without_one_is_an_error_row():
    reply, refused = ask(
        FakeLLM(), replace(request("11"), system="111"), replace(request("11"), system="0")
    )
    assert (reply.text, reply.error) == ("5", None)
    assert refused.text == "" and "System role not supported" in str(refused.error)


@pytest.mark.parametrize(
    ("error", "option", "quoted"),
    [
        (REAL.VLLMValidationError("out of vocabulary"), "00", ": out of vocabulary"),
        (None, "", "('a', '')"),
    ],
)
def test_an_option_that_is_refused_or_without_tokens_fails_its_question_alone(
    error, option, quoted
):
    refused, scored = ask(FakeLLM(error), request("1", "a", option), request("1", "a", "bb"))
    assert quoted in refused.error and scored.error is None
    assert scored.option_logprobs == pytest.approx((spelled("1", "a"), spelled("1", "bb")))


OPTIONS = ("a", "ab", "abcdef", "abcxyzzy", "q", "abc", "ab", "qrs")


@pytest.mark.parametrize("short", [False, True])
@pytest.mark.parametrize("block", [2, 3, 4, 1000])
def test_an_options_logprob_is_that_of_all_its_tokens_whatever_is_cached(block, short):
    llm = FakeLLM(block=block, short=short)
    for reply in ask(llm, *[request("1" * n, *OPTIONS) for n in (9, 9, 10, 11)]) + ask(
        llm, request("1" * 9, *OPTIONS)
    ):
        n = (reply.prompt_tokens - sum(len(o) - 1 for o in ("abcdef", "abcxyzzy", "qrs"))) // 4
        assert reply.option_logprobs == pytest.approx(
            [spelled("1" * n, option) for option in OPTIONS]
        )
        assert reply.option_tokens == tuple(map(len, OPTIONS))


def test_an_option_costs_one_request_and_its_beginnings_none():
    llm = FakeLLM()
    ask(llm, request("11", *OPTIONS))
    assert sorted(map(len, llm.asked)) == [
        2,
        2 + 2,
        2 + 5,
        2 + 7,
    ]  # the prompt, qrs, abcdef, abcxyzzy
    letters = FakeLLM()
    ask(letters, replace(request("11"), letters=("A", "B", "C", "D")))
    assert len(letters.asked) == 1


def test_every_request_of_a_call_has_its_priority():
    llm = FakeLLM()
    engine = VllmEngine(ModelConfig(name="m"), "path", None, "m/0", on_gpu=False)
    engine.serve(llm, dict)
    asyncio.run(
        engine.run(
            [request("11"), request("12", *OPTIONS), replace(request("13"), letters=("A", "B"))], 7
        )
    )
    assert llm.priorities == {7} and len(llm.asked) == 1 + 4 + 1
    assert (
        engine_args(ModelConfig(name="m"), "p", None, True, cpu_build=False)["scheduling_policy"]
        == "priority"
    )


def test_prompt_logprobs_of_other_tokens_are_an_error_not_a_score():
    class Other(FakeLLM):
        async def generate(
            self,
            prompt: dict[str, list[int]],
            params: dict[str, Any],
            request_id: str,
            priority: int = 0,
        ) -> Any:
            async for output in super().generate(prompt, params, request_id, priority):
                output.prompt_logprobs = [{9: SimpleNamespace(logprob=-1.0)}]
                yield output

    with pytest.raises(EngineError, match="prompt logprobs of other tokens than an option's"):
        ask(Other(), request("11", "abcd"))


def test_a_request_that_has_no_room_is_an_error_row():
    (reply,) = ask(FakeLLM(), request("1" * 93))
    assert all(part in reply.error for part in ("93", "8", "100", "max_model_len"))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            EngineDeadError("EngineCore encountered an issue"),
            "EngineDeadError: EngineCore encountered an issue",
        ),
        (RuntimeError("out of memory"), "RuntimeError: out of memory"),
        (AssertionError("internal"), "AssertionError: internal"),
        (REAL.QueueOverflowError(), "QueueOverflowError: The engine is currently busy"),
    ],
)
def test_what_is_not_the_requests_fault_raises(error, words):
    with pytest.raises(EngineError, match=f"m/0 failed: {words}"):
        ask(FakeLLM(error), request("11"), request("10"))


@pytest.mark.parametrize(
    "error", [ValueError("lost"), REAL.VLLMValidationError("lost"), EngineDeadError("lost")]
)
def test_a_dead_engine_raises_whatever_the_error(error):
    # The output loop's own error, a ValueError say, reaches every request that waits.
    with pytest.raises(EngineDiedError, match="m/0 died: lost"):
        ask(FakeLLM(error, dies=True), request("10"))


def test_a_parameter_that_vllm_refuses_is_an_error_row():
    def refuse(**_: Any) -> None:
        raise REAL.VLLMValidationError("top_p must be in (0, 1]", parameter="top_p", value=2)

    engine = VllmEngine(ModelConfig(name="m"), "path", None, "m/0", on_gpu=False)
    engine.serve(FakeLLM(), refuse)
    (reply,) = asyncio.run(engine.run([request("11")]))
    assert (
        reply.error
        == "vLLM refused the request: top_p must be in (0, 1] (parameter=top_p, value=2)"
    )


def test_a_refusal_does_not_store_the_whole_prompt():
    (reply,) = ask(FakeLLM(REAL.VLLMValidationError("bad", value=[1] * 5000)), request("10"))
    assert reply.error is not None and len(reply.error) == 500


# --- arguments
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_gpu", [True, False])
def test_chunked_prefill_is_off_for_the_cpu_build_wherever_it_runs_and_for_no_other(on_gpu):
    args = engine_args(
        ModelConfig(name="m", max_model_len=16384), "p", None, on_gpu, cpu_build=True
    )
    assert (args["enable_chunked_prefill"], args["max_num_batched_tokens"]) == (False, 16384)
    args = engine_args(ModelConfig(name="m"), "p", None, on_gpu, cpu_build=False)
    assert not {"enable_chunked_prefill", "max_num_batched_tokens"} & set(args)


@pytest.mark.parametrize(
    ("on_gpu", "cpu_build", "invariant", "more"),
    [
        (True, False, False, {}),
        (True, False, True, {"VLLM_BATCH_INVARIANT"}),
        (
            True,
            True,
            False,
            {"VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU", "OMP_NUM_THREADS"},
        ),
        (
            False,
            False,
            False,
            {"VLLM_CPU_KVCACHE_SPACE", "VLLM_CPU_NUM_OF_RESERVED_CPU", "OMP_NUM_THREADS"},
        ),
    ],
)
def test_what_vllm_reads_before_it_is_imported(on_gpu, cpu_build, invariant, more):
    model = ModelConfig(name="m", batch_invariant=invariant)
    environment = engine_environment(model, on_gpu, n_cpus=2, cpu_build=cpu_build)
    assert set(environment) == {"VLLM_NO_USAGE_STATS", "VLLM_LOGGING_LEVEL", *more}


@pytest.mark.parametrize(
    ("cuda", "capability", "fits"),
    [(True, 90, True), (True, 80, True), (True, 75, False), (False, 0, False)],
)
def test_the_batch_invariant_mode_is_refused_where_the_hardware_lacks_it(cuda, capability, fits):
    platform = SimpleNamespace(
        is_cuda=lambda: cuda,
        has_device_capability=lambda needed: capability >= needed,
        device_name="this one",
    )
    if fits:
        check_batch_invariant("m", platform)
        return
    with pytest.raises(EngineLoadError, match=r"m: batch_invariant=true needs .* on this one here"):
        check_batch_invariant("m", platform)


@pytest.mark.parametrize(
    ("installed", "cpu"),
    [
        ({"vllm": "0.32.0"}, False),
        ({"vllm": "0.32.0+cu130"}, False),
        ({"vllm": "0.32.0+cpu"}, True),
        ({"vllm-cpu": "0.32.0"}, True),
        (
            {"vllm": "0.32.0", "vllm-cpu": "0.32.0"},
            False,
        ),  # ray[llm] brings a CUDA build over the CPU one
        ({}, False),
    ],
)
def test_the_build_is_read_from_the_installed_package(installed, cpu):
    def version(package: str) -> str:
        if package not in installed:
            raise metadata.PackageNotFoundError(package)
        return installed[package]

    assert is_cpu_build(version) is cpu


def test_the_hash_of_a_request_is_over_the_tokens_that_were_consumed():
    # A list is its length (8 bytes) and its ids (4 bytes each).
    generated, scored, same, other = ask(
        FakeLLM(),
        request("12"),
        request("x", "a", "00"),
        request("X", "A", "00"),
        request("x", "a", "0"),
    )
    packed = (
        (2).to_bytes(8, "little") + ord("1").to_bytes(4, "little") + ord("2").to_bytes(4, "little")
    )
    assert generated.request_sha256 == f"tokens:{hashlib.sha256(packed).hexdigest()}"
    assert scored.request_sha256 == same.request_sha256  # other texts, the same tokens
    assert other.request_sha256 != scored.request_sha256
    (failed,) = ask(FakeLLM(), request("1" * 93))
    assert failed.request_sha256 == ""


class LoraLLM(FakeLLM):
    """Takes the adapters of a list, and answers with the adapter's number."""

    def __init__(self, loadable: tuple[str, ...]) -> None:
        super().__init__()
        self.loadable = loadable
        self.added: list[str] = []

    async def add_lora(self, lora_request: dict[str, Any]) -> bool:
        await asyncio.sleep(0)
        if lora_request["lora_path"] not in self.loadable:
            raise ValueError(
                "Call to add_lora method failed: rank 64 is greater than max_lora_rank 16"
            )
        self.added.append(lora_request["lora_path"])
        return True

    async def generate(
        self, prompt: Any, params: Any, request_id: str, priority: int = 0, lora_request: Any = None
    ) -> Any:
        async for output in super().generate(prompt, params, request_id, priority):
            output.outputs[0].text = str(lora_request["lora_int_id"] if lora_request else 0)
            yield output


def test_adapters_answer_beside_the_model_and_each_is_loaded_once():
    llm = LoraLLM(("/a", "/b"))
    requests = [replace(request("1"), adapter=adapter) for adapter in ("/a", "", "/b", "/a")]
    assert [reply.text for reply in ask(llm, *requests)] == ["1", "0", "2", "1"]
    assert llm.added == ["/a", "/b"]
    scored = ask(llm, replace(request("1", "a", "bb"), adapter="/a"))[0]
    assert scored.option_logprobs == pytest.approx((spelled("1", "a"), spelled("1", "bb")))


def test_an_adapter_that_vllm_refuses_stops_the_engine_with_the_reason():
    with pytest.raises(
        EngineLoadError, match=r"refuses the adapter /c on m: .* greater than max_lora_rank 16"
    ):
        ask(LoraLLM(("/a",)), replace(request("1"), adapter="/c"))
