"""Compare two sentences by a masked language model, such as BERT, with transformers.

The engine serves only requests with two continuations and no prompt. The continuations are the two
sentences. `option_logprobs` of a reply has one value for each sentence: the pseudo-log-likelihood
of the tokens that both sentences contain (`audit.scoring.pll`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import EngineLoadError
from audit.core.records import FinishReason, Generation, GenerationRequest
from audit.engines.config import ModelConfig
from audit.engines.port import request_sha256
from audit.engines.weights import Weights
from audit.scoring.pll import shared_positions

BATCH_SEQUENCES = 32

LogProbs = Callable[[list[list[int]], list[int]], NDArray[np.float64]]
"""Token ids of each sequence and one position in each -> log-softmax over the vocabulary there, (n,
vocabulary)."""


class MaskedEngine:
    """Score pairs of sentences with a masked language model in float32.

    The weights are loaded on the GPU of the Ray actor, or on the CPU if the actor has no GPU.
    """

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
        """Load the model. Raises EngineLoadError if the model is not a masked language model."""
        await asyncio.to_thread(self._load)

    def _load(self) -> None:
        import torch
        from transformers import AutoModelForMaskedLM, AutoTokenizer

        weights = self._weights
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(
                weights.path, revision=weights.hub_revision
            )
            loaded = AutoModelForMaskedLM.from_pretrained(
                weights.path, revision=weights.hub_revision, dtype=torch.float32
            )
        except (OSError, ValueError) as error:
            raise EngineLoadError(
                f"Model {self._config.name} ({weights.path}) did not load as a masked language model: {error} A causal "
                "model needs engine=vllm and crows_causal_full. Example: path=google-bert/bert-base-uncased"
            ) from error
        if self._tokenizer.mask_token_id is None:
            raise EngineLoadError(
                f"The tokenizer of {self._config.name} has no mask token. Expected the tokenizer "
                "of a masked language model."
            )
        device = "cuda" if torch.cuda.is_available() else "cpu"
        model = loaded.to(device).eval()
        self._max_tokens = min(
            self._tokenizer.model_max_length, model.config.max_position_embeddings
        )

        def log_probs(sequences: list[list[int]], positions: list[int]) -> NDArray[np.float64]:
            padded = self._tokenizer.pad(
                {"input_ids": sequences}, padding=True, return_tensors="pt"
            ).to(device)
            with torch.inference_mode():
                logits = model(**padded).logits[
                    torch.arange(len(positions)), torch.tensor(positions)
                ]
                return torch.log_softmax(logits.double(), dim=-1).cpu().numpy()

        self._log_probs = log_probs

    async def run(
        self, requests: Sequence[GenerationRequest], priority: int = 0
    ) -> list[Generation]:
        """Return the replies in the order of the requests; see `Engine.run`."""
        replies = await asyncio.to_thread(lambda: [self._score(request) for request in requests])
        self._requests += len(requests)
        return replies

    def stats(self) -> dict[str, float]:
        """Return the engine's counters: the number of finished requests."""
        return {"requests": float(self._requests)}

    async def close(self) -> None:
        """Release the model."""
        self._log_probs = None

    def _score(self, request: GenerationRequest) -> Generation:
        assert self._log_probs is not None  # noqa: S101  # start() was called before
        if len(request.continuations) != 2 or request.prompt or request.letters:
            return self._refused(
                "a masked language model only compares two sentences; it neither generates nor reads a prompt"
            )
        pair = [self._tokenizer.encode(text) for text in request.continuations]
        longest = max(map(len, pair))
        if longest > self._max_tokens:
            limit = f"{self._config.name} takes at most {self._max_tokens}"
            return self._refused(f"a sentence has {longest} tokens, and {limit}")
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


def pair_scores(
    first: list[int], second: list[int], mask: int, log_probs: LogProbs
) -> tuple[float, float]:
    """Return the pseudo-log-likelihood of the shared tokens in each of two sequences.

    Parameters
    ----------
    first, second : list of int
        Token ids of the two sentences, with special tokens.
    mask : int
        The mask token's id.
    log_probs : LogProbs
        Returns the model's log-probabilities of tokens.

    Returns
    -------
    tuple of float
        For each sequence, the sum of the log-probabilities of the shared tokens, in nats.

    Notes
    -----
    Each shared token is masked in turn, while all other tokens stay visible (Nangia et al. 2020,
    metric.py).
    """
    totals = [0.0, 0.0]
    for k, (ids, positions) in enumerate(
        zip((first, second), shared_positions(first, second), strict=True)
    ):
        for start in range(0, len(positions), BATCH_SEQUENCES):
            batch = positions[start : start + BATCH_SEQUENCES]
            masked = [[*ids[:i], mask, *ids[i + 1 :]] for i in batch]
            rows = log_probs(masked, batch)
            totals[k] += float(sum(row[ids[i]] for row, i in zip(rows, batch, strict=True)))
    return totals[0], totals[1]
