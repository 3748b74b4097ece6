"""Does one text entail another? A port for NLI classifiers, two adapters (transformers on CPU, vLLM on GPUs)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from audit.engines.embedder import Pooling, by_length
from audit.engines.weights import ModelFolder, find_model
from audit.errors import EngineLoadError, check_known

FloatArray = NDArray[np.float64]
BATCH_PAIRS = 32


class Entailment:
    """Gives the probability (0-1) that the first text of each pair entails the second; None when it cannot be had."""

    def __init__(self, folder: ModelFolder) -> None:
        from transformers import AutoConfig, AutoTokenizer

        self.name, self.revision = folder.name, folder.revision
        self._tokenizer = AutoTokenizer.from_pretrained(folder.path)
        config = AutoConfig.from_pretrained(folder.path)
        labels = {str(label).lower(): index for index, label in config.id2label.items()}
        if "entailment" not in labels:
            raise EngineLoadError(
                f"{folder.name} has the labels {', '.join(labels)}; expected one of them to be 'entailment'."
            )
        self._label = int(labels["entailment"])
        self._max_tokens = min(self._tokenizer.model_max_length, config.max_position_embeddings)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """A pair that is longer than the model holds is None: it is never cut."""
        found: list[float | None] = [None] * len(pairs)
        tokens = [self._tokenizer(*pair, truncation=False) for pair in pairs]
        lengths = {i: len(one["input_ids"]) for i, one in enumerate(tokens)}
        for batch in by_length({i: n for i, n in lengths.items() if n <= self._max_tokens}, BATCH_PAIRS):
            shares = scipy.special.softmax(self._logits([tokens[i] for i in batch]), axis=1)[:, self._label]
            for i, share in zip(batch, shares.tolist(), strict=True):
                found[i] = share
        return found

    def _logits(self, batch: list[Mapping[str, list[int]]]) -> FloatArray:
        """(pairs, labels), each pair given as its token ids (and token types, where the model has them)."""
        raise NotImplementedError


class TransformersEntailment(Entailment):
    """A sequence classifier with a label "entailment", on the CPU."""

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
    def __init__(self, folder: ModelFolder, **engine_args: Any) -> None:
        super().__init__(folder)
        self.start(folder, "nli", engine_args)

    def _logits(self, batch: list[Mapping[str, list[int]]]) -> FloatArray:
        from vllm import PoolingParams

        # Logits, not vLLM's probabilities: a cross-encoder's own configuration may ask for no softmax.
        outputs = self._llm.classify(
            [{"prompt_token_ids": one["input_ids"]} for one in batch],
            pooling_params=[PoolingParams(use_activation=False, extra_kwargs=_second_text(one)) for one in batch],
            use_tqdm=False,
        )
        return np.array([output.outputs.probs for output in outputs], dtype=float)


def load_entailment(model: str, revision: str | None = None, adapter: str = "transformers") -> Entailment:
    """The classifier of a hub model at a pinned commit, or of a local folder, by this adapter ("transformers" or
    "vllm"). EngineLoadError when it cannot load."""
    adapters = {"transformers": TransformersEntailment, "vllm": VllmEntailment}
    check_known("nli adapter", adapter, adapters)
    return adapters[adapter](find_model(model, revision))


def _second_text(tokens: Mapping[str, list[int]]) -> dict[str, int] | None:
    """Where the second text begins, for a model that is told (BERT): vLLM takes token types as the first 1's place."""
    types = tokens.get("token_type_ids") or []
    return {"compressed_token_type_ids": types.index(1)} if 1 in types else None
