"""A masked language model (BERT and its kin, by transformers) behind the port: which of two sentences does it prefer?

It serves one kind of request: two continuations and no prompt, whose `option_logprobs` are the pseudo-log-likelihoods
of the tokens that the two sentences share (`audit.scoring.pll`)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.engines.config import ModelConfig
from audit.engines.port import request_sha256
from audit.engines.weights import Weights
from audit.errors import EngineLoadError
from audit.records import FinishReason, Generation, GenerationRequest
from audit.scoring.pll import shared_positions

BATCH_SEQUENCES = 32

LogProbs = Callable[[list[list[int]], list[int]], NDArray[np.float64]]
"""Token ids of each sequence and one position in each -> log-softmax over the vocabulary there, (n, vocabulary)."""


class MaskedEngine:
    """Loads the weights on the CPU (or the GPU that the actor was given) in float32."""

    precision = "float32"

    def __init__(self, config: ModelConfig, weights: Weights, engine_id: str) -> None:
        self.engine_id = engine_id
        self._config = config
        self._weights = weights
        self._requests = 0
        self._tokenizer: Any = None
        self._log_probs: LogProbs | None = None
        self._max_tokens = 0

    async def start(self) -> None:
        await asyncio.to_thread(self._load)

    def _load(self) -> None:
        import torch
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        weights = self._weights
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(weights.path, revision=weights.hub_revision)
            loaded = AutoModelForMaskedLM.from_pretrained(
                weights.path, revision=weights.hub_revision, dtype=torch.float32
            )
        except (OSError, ValueError) as error:
            raise EngineLoadError(
                f"Model {self._config.name} ({weights.path}) did not load as a masked language model: {error} Expected "
                "such as google-bert/bert-base-uncased; a causal model needs engine=vllm and crows_causal_full."
            ) from error
        if self._tokenizer.mask_token_id is None:
            raise EngineLoadError(f"The tokenizer of {self._config.name} has no mask token: no masked language model.")
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = loaded.to(device).eval()
        self._max_tokens = min(self._tokenizer.model_max_length, model.config.max_position_embeddings)

        def log_probs(sequences: list[list[int]], positions: list[int]) -> NDArray[np.float64]:
            padded = self._tokenizer.pad({"input_ids": sequences}, padding=True, return_tensors="pt").to(device)
            with torch.inference_mode():
                logits = model(**padded).logits[torch.arange(len(positions)), torch.tensor(positions)]
                return torch.log_softmax(logits.double(), dim=-1).cpu().numpy()

        self._log_probs = log_probs

    async def run(self, requests: Sequence[GenerationRequest], priority: int = 0) -> list[Generation]:
        found = await asyncio.to_thread(lambda: [self._one(request) for request in requests])
        self._requests += len(requests)
        return found

    def stats(self) -> dict[str, float]:
        return {"requests": float(self._requests)}

    async def close(self) -> None:
        self._log_probs = None

    def _one(self, request: GenerationRequest) -> Generation:
        assert self._log_probs is not None  # noqa: S101  # start() was awaited
        if len(request.continuations) != 2 or request.prompt or request.letters:
            return self._refused(
                "a masked language model compares two sentences; it neither generates nor reads a prompt"
            )
        pair = [self._tokenizer.encode(text) for text in request.continuations]
        longest = max(map(len, pair))
        if longest > self._max_tokens:
            return self._refused(f"a sentence has {longest} tokens; {self._config.name} holds {self._max_tokens}")
        totals = pair_scores(pair[0], pair[1], self._tokenizer.mask_token_id, self._log_probs)
        return Generation(
            finish_reason=FinishReason.SCORED,
            prompt_tokens=sum(map(len, pair)),
            engine_id=self.engine_id,
            request_sha256=request_sha256(request, (), pair),
            option_logprobs=totals,
            option_tokens=(len(pair[0]), len(pair[1])),
        )

    def _refused(self, why: str) -> Generation:
        return Generation(finish_reason=FinishReason.ERROR, engine_id=self.engine_id, error=why)


def pair_scores(first: list[int], second: list[int], mask: int, log_probs: LogProbs) -> tuple[float, float]:
    """Pseudo-log-likelihood (nats) of the shared tokens in each of two sequences with their special tokens. Each shared
    token is masked alone, everything else being seen (Nangia et al. 2020, metric.py)."""
    totals = [0.0, 0.0]
    for k, (ids, positions) in enumerate(zip((first, second), shared_positions(first, second), strict=True)):
        for start in range(0, len(positions), BATCH_SEQUENCES):
            batch = positions[start : start + BATCH_SEQUENCES]
            rows = log_probs([[*ids[:i], mask, *ids[i + 1 :]] for i in batch], batch)
            totals[k] += float(sum(row[ids[i]] for row, i in zip(rows, batch, strict=True)))
    return totals[0], totals[1]
