"""Which weights a model configuration means: resolved to a revision before the run, made ready where the engine runs.

`path` is a hub id (revision = commit hash), a local folder (revision = content hash) or `package:<module>`, a GGUF
that a Python package carries (revision = content hash); vLLM then loads a converted copy from the user's cache.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from audit.engines.config import ModelConfig
from audit.engines.model_folder import PACKAGE_PREFIX, SEAL, WEIGHT_FILES, folder_sha256, refuse_pickles
from audit.errors import EngineLoadError
from audit.shards.files import file_sha256

_COMMIT = re.compile(r"^[0-9a-f]{40}$")


@dataclass(frozen=True, slots=True)
class Weights:
    """Resolved weights: what to record, and what vLLM is given (`hub_revision` is None for a folder)."""

    path: str
    revision: str
    hub_revision: str | None


def resolve_weights(model: ModelConfig) -> Weights:
    """Pin the weights. Raises EngineLoadError naming the model when they are missing, gated or unreachable."""
    if model.path.startswith(PACKAGE_PREFIX):
        found = f"sha256:{file_sha256(source := _packaged_gguf(model))}"
        if model.revision not in (None, found):
            raise EngineLoadError(
                f"Model {model.name}: {source} is {found}. Expected {model.revision}: install it again."
            )
        return Weights(model.path, found, None)
    folder = Path(model.path).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise EngineLoadError(f"Model {model.name}: {folder} has no config.json, so it is not a model folder.")
        refuse_pickles(folder)
        return Weights(str(folder.resolve()), f"sha256:{folder_sha256(folder, WEIGHT_FILES)}", None)
    if model.path.startswith((".", "/", "~")):
        raise EngineLoadError(f"Model {model.name}: there is no folder {model.path}.")
    commit = _hub_commit(model)
    return Weights(model.path, commit, commit)


def local_path(model: ModelConfig, weights: Weights) -> str:
    """What vLLM is to load on this machine; converts a packaged GGUF once (half a minute) into the user's cache."""
    if not weights.path.startswith(PACKAGE_PREFIX):
        return weights.path
    target = _cache_dir() / f"{model.name}-{weights.revision.removeprefix('sha256:')[:16]}"
    if not (target / SEAL).is_file():
        source = _packaged_gguf(model)
        shutil.rmtree(target, ignore_errors=True)  # a copy from before copies were sealed
        # In a process of its own: transformers and torch would stay in this one's memory.
        done = subprocess.run(
            [sys.executable, "-m", "audit.engines.convert_gguf", str(source), str(target)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise EngineLoadError(f"Model {model.name}: {source} was not converted.\n{done.stderr[-2000:]}")
    if (target / SEAL).read_text() != folder_sha256(target, WEIGHT_FILES):
        raise EngineLoadError(f"Model {model.name}: {target} is not as it was converted. Delete it: it is made again.")
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


def _hub_commit(model: ModelConfig) -> str:
    from huggingface_hub import HfApi, get_token, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        info = HfApi().model_info(model.path, revision=model.revision, timeout=30)
    # The HTTP client's own errors, and OSError; a token that is not ASCII is a UnicodeError.
    except (OfflineModeIsEnabled, HFValidationError, UnicodeError, *HfHubHTTPError.__bases__) as error:
        refused = hub_refusal(model, error, has_token=get_token() is not None)
        if refused is not None:
            raise refused from error
        try:
            snapshot = snapshot_download(model.path, revision=model.revision, local_files_only=True)
        except (LocalEntryNotFoundError, OSError):
            raise hub_unreachable(model, error) from error
        return Path(snapshot).name
    if info.sha is None or not _COMMIT.match(info.sha):
        raise EngineLoadError(f"{_label(model)}: the hub gave no commit hash.")
    return str(info.sha)


@cache
def hub_text(path: str, revision: str | None, name: str) -> str | None:
    """A small file of a model's repository, from the cache or from the hub; None where neither gives it."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    try:
        cached = try_to_load_from_cache(path, name, revision=revision)
        if not isinstance(cached, str):
            get_hf_file_metadata(hf_hub_url(path, name, revision=revision), timeout=3)  # the download tries six times
            cached = hf_hub_download(path, name, revision=revision, etag_timeout=3)
        return Path(cached).read_text(encoding="utf-8")
    # What is wrong with the repository is said when its weights are resolved.
    except (EntryNotFoundError, HFValidationError, UnicodeError, *HfHubHTTPError.__bases__):
        return None


def hub_refusal(model: ModelConfig, error: Exception, has_token: bool) -> EngineLoadError | None:
    """The hub answered and said no, with what to do about it; None where it gave no answer, or asked to try later.

    A cached copy must not hide a refusal, such as a licence that was withdrawn. Nothing is quoted from the request or
    the answer: the request carries the token.
    """
    from huggingface_hub.errors import (
        DisabledRepoError,
        GatedRepoError,
        HFValidationError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    status = _http_status(error)
    if isinstance(error, GatedRepoError):
        grant = "with the account of that token" if has_token else "then set HF_TOKEN in the environment"
        what = f" is gated. Accept its licence at https://huggingface.co/{model.path}, {grant}."
    elif isinstance(error, RevisionNotFoundError):
        what = f" has no revision {model.revision!r} on the hub. Give a commit, tag or branch, or revision=null."
    elif isinstance(error, HFValidationError):
        what = " is neither a folder nor a hub id. Expected path=<owner>/<name>, such as Qwen/Qwen3-8B."
    elif isinstance(error, RepositoryNotFoundError) or status == 404:
        hidden = "the access token may not read it" if has_token else "HF_TOKEN is not set"
        what = (
            f" is not on the hub, or it is private and {hidden}. Check the spelling, or give path=<hub id or local "
            "folder>."
        )
    elif status == 401 or isinstance(error, UnicodeError):
        what = (
            ": the hub does not accept the access token. Set HF_TOKEN to a valid one, or, for a public model, unset it "
            "and log out (hf auth logout)."
        )
    elif isinstance(error, DisabledRepoError):
        what = " was disabled on the hub. Choose another model, or give path=<local folder>."
    elif status == 403:
        what = (
            ": the hub forbids reading it (403). Give the token the permission to read it; a fine-grained token needs "
            "the one for public gated repositories."
        )
    elif status is not None and 400 <= status < 500 and status not in (408, 429):
        what = f": the hub refused the request (HTTP {status}). Give path=<local folder>, or check HF_ENDPOINT."
    else:
        return None
    return EngineLoadError(f"{_label(model)}{what}")


def hub_unreachable(model: ModelConfig, error: Exception) -> EngineLoadError:
    """No answer from the hub, and no copy of the model here."""
    status = _http_status(error)
    why = type(error).__name__ if status is None else f"HTTP {status}"
    return EngineLoadError(
        f"{_label(model)}: the hub could not be reached and no copy is in the local cache ({why}). "
        "Give path=<local folder>, or run where the hub is reachable."
    )


def _http_status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return None if status is None else int(status)


def _label(model: ModelConfig) -> str:
    return f"Model {model.name} ({model.path})"
