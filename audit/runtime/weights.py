"""Which weights a model configuration means: resolved to a revision before the run, made ready where the engine runs.

`path` is a hub id (revision = commit hash), a local folder (revision = content hash) or `package:<module>`, a GGUF
that a Python package carries (revision = content hash); vLLM then loads a converted copy from the user's cache.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from audit.config import ModelConfig
from audit.errors import EngineLoadError

PACKAGE_PREFIX = "package:"
_COMMIT = re.compile(r"^[0-9a-f]{40}$")
_WEIGHT_FILES = ("*.safetensors", "*.bin", "*.gguf", "*.json", "*.model", "*.jinja", "*.txt")


@dataclass(frozen=True, slots=True)
class Weights:
    """Resolved weights: what to record, and what vLLM is given (`hub_revision` is None for a folder)."""

    path: str
    revision: str
    hub_revision: str | None


def resolve_weights(model: ModelConfig) -> Weights:
    """Pin the weights. Raises EngineLoadError naming the model when they are missing, gated or unreachable."""
    if model.path.startswith(PACKAGE_PREFIX):
        return Weights(model.path, f"sha256:{_file_sha256(_packaged_gguf(model))}", None)
    folder = Path(model.path).expanduser()
    if folder.is_dir():
        return Weights(str(folder.resolve()), f"sha256:{_folder_sha256(model, folder)}", None)
    if model.path.startswith((".", "/", "~")):
        raise EngineLoadError(f"Model {model.name}: there is no folder {model.path}.")
    commit = _hub_commit(model)
    return Weights(model.path, commit, commit)


def local_path(model: ModelConfig, weights: Weights) -> str:
    """What vLLM is to load on this machine; converts a packaged GGUF once (half a minute) into the user's cache."""
    if not weights.path.startswith(PACKAGE_PREFIX):
        return weights.path
    target = _cache_dir() / f"{model.name}-{weights.revision.removeprefix('sha256:')[:16]}"
    if not (target / "config.json").is_file():
        source = _packaged_gguf(model)
        # In a process of its own: transformers and torch would stay in this one's memory.
        done = subprocess.run(
            [sys.executable, "-m", "audit.runtime.convert_gguf", str(source), str(target)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise EngineLoadError(f"Model {model.name}: {source} was not converted.\n{done.stderr[-2000:]}")
    return str(target)


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "benchmark-audit" / "models"


def _packaged_gguf(model: ModelConfig) -> Path:
    module = model.path.removeprefix(PACKAGE_PREFIX)
    spec = importlib.util.find_spec(module)  # found, not imported: the package asks for more than its weights
    if spec is None or spec.origin is None:
        raise EngineLoadError(
            f"Model {model.name} comes from the Python package {module!r}, which is not installed. "
            "Run 'make install', or choose a model from the hub."
        )
    found = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if len(found) != 1:
        raise EngineLoadError(f"Model {model.name}: expected one .gguf file in package {module!r}, found {len(found)}.")
    return found[0]


def _file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _folder_sha256(model: ModelConfig, folder: Path) -> str:
    files = sorted({path for pattern in _WEIGHT_FILES for path in folder.glob(pattern)})
    if not (folder / "config.json").is_file():
        raise EngineLoadError(f"Model {model.name}: {folder} has no config.json, so it is not a model folder.")
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.name}\0{_file_sha256(path)}\n".encode())
    return digest.hexdigest()


def _hub_commit(model: ModelConfig) -> str:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    label = f"Model {model.name} ({model.path})"
    try:
        info = HfApi().model_info(model.path, revision=model.revision, timeout=30)
    except GatedRepoError as error:
        raise EngineLoadError(
            f"{label} is gated. Accept its licence on the hub, then set HF_TOKEN in the environment."
        ) from error
    except RevisionNotFoundError as error:
        raise EngineLoadError(f"{label} has no revision {model.revision!r} on the hub.") from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise EngineLoadError(
            f"{label} is not on the hub, or it is private and HF_TOKEN is not set. Give path=<hub id or local folder>."
        ) from error
    except (OfflineModeIsEnabled, *HfHubHTTPError.__bases__) as error:  # the HTTP client's own errors, and OSError
        try:
            snapshot = snapshot_download(model.path, revision=model.revision, local_files_only=True)
        except (LocalEntryNotFoundError, OSError):
            raise EngineLoadError(
                f"{label}: the hub could not be reached and no copy is in the local cache ({type(error).__name__}). "
                "Give path=<local folder>, or run where the hub is reachable."
            ) from error
        return Path(snapshot).name
    if info.sha is None or not _COMMIT.match(info.sha):
        raise EngineLoadError(f"{label}: the hub gave no commit hash.")
    return str(info.sha)
