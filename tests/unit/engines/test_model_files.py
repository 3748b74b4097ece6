"""Sizes of a model's files: from a folder, the hub's cache and its index. No network."""

import json
from pathlib import Path

import pytest

from audit.engines.config import ModelConfig
from audit.engines.gpus import memory_of
from audit.engines.memory import ModelFiles
from audit.engines.model_files import files_of
from audit.engines.weights import Weights, hub_size, hub_text

MODEL = ModelConfig(name="m", path="p")
COMMIT = "a" * 40


def folder_of(place: Path, files: dict[str, object]) -> Path:
    place.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (place / name).write_bytes(
            b"x" * content if isinstance(content, int) else json.dumps(content).encode()
        )
    return place


def of_folder(place: Path) -> ModelFiles:
    return files_of(MODEL, Weights(str(place), "sha256:0", None))


def test_the_files_that_the_index_names_are_counted_once(tmp_path: Path) -> None:
    """Mistral's folder holds the same weights a second time."""
    index = {
        "metadata": {"total_size": 1},
        "weight_map": {"a": "1.safetensors", "b": "2.safetensors", "c": "2.safetensors"},
    }
    names = {
        "1.safetensors": 7,
        "2.safetensors": 5,
        "consolidated.safetensors": 12,
        "model.safetensors.index.json": index,
    }
    assert of_folder(folder_of(tmp_path, {"config.json": {"k": 1}, **names})) == ModelFiles(
        {"k": 1}, 12
    )
    (tmp_path / "model.safetensors.index.json").unlink()
    assert of_folder(tmp_path).stored == 12


def test_an_incomplete_or_damaged_folder_is_not_known(tmp_path: Path) -> None:
    index = {"weight_map": {"a": "1.safetensors", "b": "absent.safetensors"}}
    broken = folder_of(tmp_path, {"1.safetensors": 7, "model.safetensors.index.json": index})
    (broken / "config.json").write_text("[" * 100_000)
    assert of_folder(broken) == ModelFiles()
    assert of_folder(tmp_path / "absent") == ModelFiles()


@pytest.mark.parametrize(
    "names", [{"a": "../../etc/passwd"}, {"a": "/dev/zero"}, {"a": 7}, ["1.safetensors"]]
)
def test_an_index_leads_to_no_other_folder(tmp_path: Path, names: object) -> None:
    place = folder_of(
        tmp_path, {"1.safetensors": 7, "model.safetensors.index.json": {"weight_map": names}}
    )
    assert of_folder(place).stored in (None, 7)


def test_the_hubs_cache_is_read_and_the_hub_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    snapshot = tmp_path / "models--org--m" / "snapshots" / COMMIT
    folder_of(snapshot, {"config.json": {"k": 2}, "model.safetensors": 9})
    monkeypatch.setattr(
        huggingface_hub,
        "try_to_load_from_cache",
        lambda path, name, revision: (
            str(snapshot / name) if (path, revision) == ("org/m", COMMIT) else None
        ),
    )
    hub_text.cache_clear(), hub_size.cache_clear()
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    assert files_of(MODEL, Weights("org/m", COMMIT, COMMIT)) == ModelFiles({"k": 2}, 9)


def test_an_engine_without_weights_has_no_files() -> None:
    assert files_of(MODEL, None) == ModelFiles()
    assert files_of(ModelConfig(engine="masked_lm"), Weights("x", "y", None)) == ModelFiles()


def test_the_drivers_report_is_read_whole_or_not() -> None:
    assert memory_of("81559\n 24564 \n") == [81_559 << 20, 24_564 << 20]
    assert memory_of("81559\n[N/A]\n") == [] == memory_of("")
