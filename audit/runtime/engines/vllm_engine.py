"""vLLM's AsyncLLM behind the engine port. The only module that imports vllm, and only once an engine starts.

Options are scored by reading the logprob of exactly the tokens asked for (`logprob_token_ids`), which works at any
rank (top-k truncation is failure F3c of li2026) and uses the prefix cache, unlike `prompt_logprobs`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from itertools import count
from typing import Any

from audit.config import ModelConfig
from audit.errors import EngineError, EngineLoadError
from audit.records import FinishReason, Generation, GenerationRequest

_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}


class VllmEngine:
    """One AsyncLLM on the GPUs this process may use, or on its CPUs."""

    def __init__(self, config: ModelConfig, path: str, revision: str | None, engine_id: str, on_gpu: bool) -> None:
        self.engine_id = engine_id
        self._config = config
        self._path = path
        self._revision = revision
        self._on_gpu = on_gpu
        self._llm: Any = None
        self._tokenizer: Any = None
        self._ids = count()
        self._requests = 0

    async def start(self) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        try:
            args = AsyncEngineArgs(**engine_args(self._config, self._path, self._revision, self._on_gpu))
            self._llm = AsyncLLM.from_engine_args(args)
            self._tokenizer = self._llm.get_tokenizer()
            # Reading is cheap, a missing template is not: it would fail on every question.
            self._chat_ids("ready?")
        except Exception as error:
            raise EngineLoadError(f"Model {self._config.name} ({self._path}) did not load: {error}") from error

    async def run(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        return list(await asyncio.gather(*(self._one(request) for request in requests)))

    def stats(self) -> dict[str, float]:
        return {"requests": float(self._requests)}

    async def close(self) -> None:
        if self._llm is not None:
            self._llm.shutdown()

    async def _one(self, request: GenerationRequest) -> Generation:
        self._requests += 1
        try:
            ids = self._chat_ids(request.prompt)
            options = request.continuations or request.letters
            if options:
                return await self._score(ids, options)
            return await self._generate(ids, request)
        except _PromptTooLong as error:
            return Generation(finish_reason=FinishReason.ERROR, engine_id=self.engine_id, error=str(error))

    async def _generate(self, ids: list[int], request: GenerationRequest) -> Generation:
        self._check_room(len(ids), request.max_tokens)
        output = await self._call(
            ids,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed if request.temperature > 0 else None,
        )
        completion = output.outputs[0]
        if completion.finish_reason not in _FINISH:
            raise EngineError(f"{self.engine_id} ended a request with {completion.finish_reason!r}.")
        return Generation(
            text=completion.text,
            finish_reason=_FINISH[completion.finish_reason],
            prompt_tokens=len(ids),
            cached_tokens=output.num_cached_tokens or 0,
            completion_tokens=len(completion.token_ids),
            engine_id=self.engine_id,
        )

    async def _score(self, ids: list[int], options: Sequence[str]) -> Generation:
        """Total logprob of each option as the reply, along the trie of the options' tokens.

        The root is asked first: it fills the prefix cache, and the inner nodes then compute a few tokens each.
        """
        tokens = [tuple(self._tokenizer.encode(option, add_special_tokens=False)) for option in options]
        self._check_room(len(ids) + max(map(len, tokens)), 1)
        if not all(tokens):
            raise EngineError(f"An option has no tokens: {options!r}.")
        children: dict[tuple[int, ...], set[int]] = {}
        for option in tokens:
            for i, token in enumerate(option):
                children.setdefault(option[:i], set()).add(token)
        nodes = sorted(children, key=len)
        root = await self._next_logprobs(ids, (), children[()])
        inner = await asyncio.gather(*(self._next_logprobs(ids, node, children[node]) for node in nodes[1:]))
        table = dict(zip(nodes, [root, *inner], strict=True))
        return Generation(
            finish_reason=FinishReason.SCORED,
            prompt_tokens=sum(n for _, n, _ in table.values()),
            cached_tokens=sum(c for _, _, c in table.values()),
            engine_id=self.engine_id,
            option_logprobs=tuple(
                sum(table[option[:i]][0][token] for i, token in enumerate(option)) for option in tokens
            ),
            option_tokens=tuple(map(len, tokens)),
        )

    async def _next_logprobs(
        self, ids: list[int], prefix: tuple[int, ...], wanted: set[int]
    ) -> tuple[dict[int, float], int, int]:
        prompt = ids + list(prefix)
        output = await self._call(
            prompt, max_tokens=1, temperature=0.0, logprobs=len(wanted), logprob_token_ids=sorted(wanted)
        )
        found = output.outputs[0].logprobs[0]
        return {token: found[token].logprob for token in wanted}, len(prompt), output.num_cached_tokens or 0

    async def _call(self, ids: list[int], **sampling: Any) -> Any:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.exceptions import EngineDeadError

        params = SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **sampling)
        request_id = f"{self.engine_id}-{next(self._ids)}"
        try:
            outputs = [o async for o in self._llm.generate({"prompt_token_ids": ids}, params, request_id)]
        except EngineDeadError as error:
            raise EngineError(f"The vLLM engine {self.engine_id} died: {error}") from error
        if not outputs:
            raise EngineError(f"The vLLM engine {self.engine_id} returned nothing.")
        return outputs[-1]

    def _chat_ids(self, prompt: str) -> list[int]:
        ids = self._tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
            **self._config.chat_template_kwargs,
        )
        return list(ids)

    def _check_room(self, prompt_tokens: int, max_tokens: int) -> None:
        limit = self._llm.model_config.max_model_len
        if prompt_tokens + max_tokens > limit:
            raise _PromptTooLong(
                f"prompt too long: {prompt_tokens} tokens and {max_tokens} to generate, but {self._config.name} holds "
                f"{limit} (max_model_len)"
            )


class _PromptTooLong(Exception):
    pass


def engine_args(config: ModelConfig, path: str, revision: str | None, on_gpu: bool) -> dict[str, Any]:
    """The arguments of AsyncEngineArgs (and LLM); `engine_args` of the model config has the last word."""
    args: dict[str, Any] = {
        "model": path,
        "dtype": config.dtype,
        "max_num_seqs": config.max_num_seqs,
        "enable_prefix_caching": True,
        "trust_remote_code": config.trust_remote_code,
        "disable_log_stats": True,
        "seed": 0,
    }
    if config.max_model_len is not None:
        args["max_model_len"] = config.max_model_len
    if revision is not None:
        args |= {"revision": revision, "tokenizer_revision": revision}
    if on_gpu:
        args["gpu_memory_utilization"] = config.gpu_memory_utilization
        args["tensor_parallel_size"] = config.tensor_parallel_size
        if config.tensor_parallel_size > 1:
            args["distributed_executor_backend"] = config.executor
    else:
        # A seeded request whose prompt is prefilled in chunks crashes vLLM's CPU build.
        args["enable_chunked_prefill"] = False
        args["max_num_batched_tokens"] = max(8192, config.max_model_len or 0)
    return args | config.engine_args


def engine_environment(config: ModelConfig, on_gpu: bool, n_cpus: int) -> dict[str, str]:
    """Environment variables that vLLM reads when it is imported."""
    env = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "WARNING")}
    if not on_gpu:
        env |= {
            "VLLM_CPU_KVCACHE_SPACE": str(config.cpu_kv_cache_gib),
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "OMP_NUM_THREADS": str(n_cpus),  # Ray sets it to the actor's CPUs, which is one thread
        }
    return env
