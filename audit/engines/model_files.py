"""Read a model's size from its config.json, weight files and index. No weights are loaded.

The files of a hub model are read from the local cache. If the cache lacks the model, the small
files and the file sizes are requested from the hub.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from audit.core.errors import EngineLoadError
from audit.core.guarded_files import parse_json, read_bytes
from audit.engines.config import ModelConfig
from audit.engines.memory import ModelFiles
from audit.engines.weights import PACKAGE_PREFIX, Weights, hub_size, hub_text, packaged_gguf

_CONFIG, _INDEX, _SINGLE_FILE = "config.json", "model.safetensors.index.json", "model.safetensors"


def files_of(model: ModelConfig, weights: Weights | None) -> ModelFiles:
    """Return a model's config.json and the size of its weight files.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.
    weights : Weights or None
        The model's resolved weights.

    Returns
    -------
    ModelFiles
        The config.json and the size. A value is None if it cannot be read. The reason is then
        reported when the model is loaded.
    """
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
    files = ModelFiles() if cached is None else _in_folder(cached)
    return files if files.stored is not None else _on_hub(weights.path, weights.hub_revision)


def _cached_folder(path: str, revision: str) -> Path | None:
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        file = try_to_load_from_cache(path, _CONFIG, revision=revision)
    except HFValidationError:
        return None
    return Path(file).parent if isinstance(file, str) else None


def _in_folder(folder: Path) -> ModelFiles:
    """Return the config.json and the size of the weight files in a folder.

    Links are followed, since every file in the hub's cache is a link.
    """
    config, index = _read(folder / _CONFIG), _read(folder / _INDEX)
    named = (index or {}).get("weight_map")
    try:
        if isinstance(named, Mapping):
            files = []
            for name in sorted(set(map(str, named.values()))):
                files.append(folder / Path(str(name)).name)
        else:  # Mistral's folders contain the weights twice, also as consolidated.safetensors
            files = []
            for path in folder.glob("*.safetensors"):
                if not path.name.startswith("consolidated"):
                    files.append(path)
        # An interrupted download leaves an index that lists missing files.
        complete = all(path.is_file() for path in files)
        stored = sum(path.stat().st_size for path in files) if complete else 0
    except OSError:
        stored = 0
    return ModelFiles(config, stored or None)


def _on_hub(path: str, revision: str) -> ModelFiles:
    config = _parsed(hub_text(path, revision, _CONFIG))
    index = _parsed(hub_text(path, revision, _INDEX))
    metadata = (index or {}).get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    stored = total if isinstance(total, int) and not isinstance(total, bool) and total > 0 else None
    return ModelFiles(config, stored or hub_size(path, revision, _SINGLE_FILE))


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
