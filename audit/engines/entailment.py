"""Estimate whether one text entails another, by an NLI classifier that runs on transformers or
vLLM.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from audit.core.errors import EngineLoadError, check_known
from audit.engines.embedder import Pooling, by_length
from audit.engines.weights import ModelFolder, find_model

FloatArray = NDArray[np.float64]
BATCH_PAIRS = 32


class Entailment:
    """Compute the probability (0-1) that one text entails another text, for pairs of texts."""

    def __init__(self, folder: ModelFolder) -> None:
        from transformers import AutoConfig, AutoTokenizer

        self.name, self.revision = folder.name, folder.revision
        self._tokenizer = AutoTokenizer.from_pretrained(folder.path)
        config = AutoConfig.from_pretrained(folder.path)
        labels = {str(label).lower(): index for index, label in config.id2label.items()}
        if "entailment" not in labels:
            raise EngineLoadError(
                f"The labels of {folder.name} are {', '.join(labels)}. Expected one of them to be entailment."
            )
        self._label = int(labels["entailment"])
        self._max_tokens = min(self._tokenizer.model_max_length, config.max_position_embeddings)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """Return the probability of entailment for each pair.

        Parameters
        ----------
        pairs : sequence of (str, str)
            Pairs of a premise and a hypothesis.

        Returns
        -------
        list of float or None
            The probability that the premise entails the hypothesis, for each pair in order. It is
            None if a pair is longer than the model's limit, since pairs are never cut.
        """
        probabilities: list[float | None] = [None] * len(pairs)
        tokens = [self._tokenizer(*pair, truncation=False) for pair in pairs]
        lengths = {i: len(pair["input_ids"]) for i, pair in enumerate(tokens)}
        fitting = {}
        for i, n in lengths.items():
            if n <= self._max_tokens:
                fitting[i] = n
        for batch in by_length(fitting, BATCH_PAIRS):
            logits = self._logits([tokens[i] for i in batch])
            shares = scipy.special.softmax(logits, axis=1)[:, self._label]
            for i, share in zip(batch, shares.tolist(), strict=True):
                probabilities[i] = share
        return probabilities

    def _logits(self, batch: list[Mapping[str, list[int]]]) -> FloatArray:
        """Return the logits as an array of shape (pairs, labels). The pairs are given as token ids,
        with token types if the model has token types.
        """
        raise NotImplementedError


class TransformersEntailment(Entailment):
    """Run an NLI classifier with transformers on the CPU. One of its labels must be
    "entailment".
    """

    def __init__(self, folder: ModelFolder) -> None:
        from transformers import AutoModelForSequenceClassification

        super().__init__(folder)
        self._model = AutoModelForSequenceClassification.from_pretrained(folder.path).eval()

    def _logits(self, batch: list[Mapping[str, list[int]]]) -> FloatArray:
        import torch

        padded = self._tokenizer.pad(batch, padding=True, return_tensors="pt")
        with torch.inference_mode():
            return self._model(**padded).logits.double().numpy()


class VllmEntailment(Pooling, Entailment):
    """Run an NLI classifier with vLLM on a GPU."""

    def __init__(self, folder: ModelFolder, **engine_args: Any) -> None:
        super().__init__(folder)
        self.start(folder, "nli", engine_args)

    def _logits(self, batch: list[Mapping[str, list[int]]]) -> FloatArray:
        from vllm import PoolingParams

        prompts = [{"prompt_token_ids": pair["input_ids"]} for pair in batch]
        # Logits are requested instead of probabilities. vLLM's probabilities may be wrong, because
        # a cross-encoder's configuration may turn softmax off.
        params = []
        for pair in batch:
            params.append(PoolingParams(use_activation=False, extra_kwargs=_second_text(pair)))
        outputs = self._llm.classify(prompts, pooling_params=params, use_tqdm=False)
        return np.array([output.outputs.probs for output in outputs], dtype=float)


def load_entailment(
    model: str, revision: str | None = None, adapter: str = "transformers"
) -> Entailment:
    """Load an NLI classifier.

    Parameters
    ----------
    model : str
        A hub id or a local folder.
    revision : str or None
        The commit of a hub model.
    adapter : str
        "transformers" or "vllm".

    Returns
    -------
    Entailment
        The loaded model.

    Raises
    ------
    EngineLoadError
        If the model cannot be loaded.
    """
    adapters = {"transformers": TransformersEntailment, "vllm": VllmEntailment}
    check_known("nli adapter", adapter, adapters)
    return adapters[adapter](find_model(model, revision))


def _second_text(tokens: Mapping[str, list[int]]) -> dict[str, int] | None:
    """Return the position at which the second text begins; None for models without token types.

    A model with token types, such as BERT, marks each token of the first text with 0 and each token
    of the second text with 1. vLLM takes only the position of the first 1.
    """
    types = tokens.get("token_type_ids") or []
    return {"compressed_token_type_ids": types.index(1)} if 1 in types else None
