"""Does one text entail another? A port, and its transformers adapter for NLI classifiers (RoBERTa, ModernBERT)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from audit.engines.model_folder import ModelFolder, find_model
from audit.errors import EngineLoadError

BATCH_PAIRS = 32


class Entailment(Protocol):
    """Gives the probability (0-1) that the first text of each pair entails the second; None when it cannot be had."""

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> str: ...

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]: ...


def load_entailment(model: str, revision: str | None = None) -> Entailment:
    """The classifier of a hub model at a pinned commit, or of a local folder."""
    return TransformersEntailment(find_model(model, revision))


class TransformersEntailment:
    """A sequence classifier with a label "entailment", on the CPU."""

    def __init__(self, folder: ModelFolder) -> None:
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        self.name, self.revision = folder.name, folder.revision
        self._tokenizer = AutoTokenizer.from_pretrained(folder.path)
        self._model = AutoModelForSequenceClassification.from_pretrained(folder.path).eval()
        labels = {str(label).lower(): index for index, label in self._model.config.id2label.items()}
        if "entailment" not in labels:
            raise EngineLoadError(
                f"{folder.name} has the labels {', '.join(labels)}; expected one of them to be 'entailment'."
            )
        self._label = int(labels["entailment"])
        self._max_tokens = min(self._tokenizer.model_max_length, self._model.config.max_position_embeddings)

    def entails(self, pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        """A pair that is longer than the model holds is None: it is never cut."""
        import torch

        found: list[float | None] = [None] * len(pairs)
        lengths = [len(self._tokenizer(*pair, truncation=False)["input_ids"]) for pair in pairs]
        fitting = sorted((n, i) for i, n in enumerate(lengths) if n <= self._max_tokens)
        for start in range(0, len(fitting), BATCH_PAIRS):
            batch = [i for _, i in fitting[start : start + BATCH_PAIRS]]
            firsts, seconds = zip(*(pairs[i] for i in batch), strict=True)
            tokens = self._tokenizer(list(firsts), list(seconds), padding=True, truncation=False, return_tensors="pt")
            with torch.inference_mode():
                shares = torch.softmax(self._model(**tokens).logits.float(), dim=-1)[:, self._label]
            for i, share in zip(batch, shares.tolist(), strict=True):
                found[i] = share
        return found
