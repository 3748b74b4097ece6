"""Read what a model's files say about their size: config.json, the weight files, their index. Nothing is loaded.

Of a model of the hub the copy in the cache counts; without one its small files and the sizes are asked for."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.engines.config import ModelConfig
from audit.engines.memory import ModelFiles
from audit.engines.weights import PACKAGE_PREFIX, Weights, hub_size, hub_text, packaged_gguf
from audit.errors import EngineLoadError
from audit.guarded_files import parse_json, read_bytes

_CONFIG, _INDEX, _WHOLE = "config.json", "model.safetensors.index.json", "model.safetensors"


def files_of(model: ModelConfig, weights: Weights | None) -> ModelFiles:
    """Return what is known of a model's files. What cannot be read is unknown: loading the model says why."""
    if weights is None or model.engine != "vllm":
        return ModelFiles()
    if weights.path.startswith(PACKAGE_PREFIX):
        try:
            return ModelFiles(None, packaged_gguf(model).stat().st_size)
        except (EngineLoadError, OSError):
            return ModelFiles()
    if weights.hub_revision is None:
        return _in_folder(Path(weights.path))
    cached = _cached_folder(weights.path, weights.hub_revision)
    found = ModelFiles() if cached is None else _in_folder(cached)
    return found if found.stored is not None else _on_hub(weights.path, weights.hub_revision)


def _cached_folder(path: str, revision: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(path, _CONFIG, revision=revision)
    except HFValidationError:
        return None
    return Path(found).parent if isinstance(found, str) else None


def _in_folder(folder: Path) -> ModelFiles:
    """Links are followed: in the hub's cache every file is one."""
    config, index = _read(folder / _CONFIG), _read(folder / _INDEX)
    named = (index or {}).get("weight_map")
    try:
        if isinstance(named, Mapping):
            files = [folder / Path(str(name)).name for name in sorted(set(map(str, named.values())))]
        else:  # Mistral's folders hold the same weights a second time, as consolidated.safetensors
            files = [path for path in folder.glob("*.safetensors") if not path.name.startswith("consolidated")]
        whole = all(path.is_file() for path in files)  # else it is a download that is not complete
        stored = sum(path.stat().st_size for path in files) if whole else 0
    except OSError:
        stored = 0
    return ModelFiles(config, stored or None)


def _on_hub(path: str, revision: str) -> ModelFiles:
    config, index = (_parsed(hub_text(path, revision, name)) for name in (_CONFIG, _INDEX))
    metadata = (index or {}).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    stored = total if isinstance(total, int) and not isinstance(total, bool) and total > 0 else None
    return ModelFiles(config, stored or hub_size(path, revision, _WHOLE))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return _object(parse_json(read_bytes(path, follow=True)))
    except (OSError, ValueError):
        return None


def _parsed(text: str | None) -> dict[str, Any] | None:
    try:
        return _object(json.loads(text or "null"))
    except (ValueError, RecursionError):
        return None


def _object(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None
