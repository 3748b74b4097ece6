"""Make and check the files of a pack that repeat or explain other files of the pack.

Such a file is derived from the manifest, from the tables in the pack, or from the program's own
files. If it is derived from the program's files, only the program version that made the pack can
check it. A file that cannot be derived again is accepted as signed. The result of the check names
this file.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from audit.core.errors import DataError
from audit.governance.chronology import parse_chronology, project_file

SUMS = "SHA256SUMS"
NOTE = "VERIFY.md"
LISTED = "shards.json"  # lists the files in the run's directory
PROGRAM_CHRONOLOGY = "program_chronology.jsonl"
CHRONOLOGIES = ("chronology.jsonl", "CHRONOLOGY.jsonl")
# The hash of the program leaves out the program's chronology, which grows, and files that Python
# compiles.
_NOT_HASHED = (
    "_chronology.jsonl",
    "*.pyc",
)


def revisions_of(models: Mapping[str, Mapping[str, Any]]) -> dict[str, str | None]:
    """Map each model in a manifest to its revision; None stands for an unknown revision."""
    return {name: facts.get("revision") for name, facts in models.items()}


@cache
def program_sha256() -> str:
    """Return a hash that identifies the program.

    Returns
    -------
    str
        The sha256 (hex) of the names and contents of the program's files.
    """
    root, digest = Path(str(files("audit"))), hashlib.sha256()
    for path in sorted(filter(Path.is_file, root.rglob("*"))):
        if not any(map(path.match, _NOT_HASHED)):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(root).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def prompts_of(hashes: Mapping[str, str], config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of prompts.json, given a manifest's `prompt_hashes` and `config`."""
    return {"sha256": dict(hashes), "protocols": config.get("protocols")}


def note_text(runs: Sequence[tuple[str, str]], with_shards: bool, signed: bool) -> bytes:
    """Return the content of VERIFY.md.

    Parameters
    ----------
    runs : sequence of (str, str)
        The audit's name and the fingerprint of each run, in any order.
    with_shards : bool
        Whether the pack holds the shards.
    signed : bool
        Whether the pack is signed.

    Returns
    -------
    bytes
        The content, in Markdown.
    """
    lines = []
    for audit, fingerprint in sorted(runs):
        lines.append(f"Audit {audit}, fingerprint {fingerprint}.")
    listed = "\n".join(lines)
    if len(runs) > 1:
        listed += "\n\nSeveral runs that were judged together: of each, the files below are under `run/<its name>/`."
    shards = (
        "The shards are in the pack, so the verdict is computed again from them and compared byte for byte."
        if with_shards
        else "The shards are not in the pack; `shards.json` has the hash of each. The verdict cannot be computed again "
        "from this pack alone."
    )
    vouched = (
        "`statement.dsse.json` is a DSSE envelope (ed25519, or a sigstore bundle) over an in-toto statement that binds "
        "`SHA256SUMS`, and so every file. Get the public key, or the identity and its issuer, from whoever you trust "
        "to know it, and not from beside this pack."
        if signed
        else "**Nobody signed this pack.** Its hashes show that it is consistent, not who made it."
    )
    check = "--keys FOLDER_OF_PUBLIC_KEYS" if signed else "--unsigned"
    text = files("audit.governance").joinpath(NOTE).read_text(encoding="utf-8")
    return (
        Template(text)
        .substitute(what=listed, check=check, sums=SUMS, vouched=vouched, shards=shards)
        .encode()
    )


def same_program_chronology(data: bytes) -> bool:
    """Return whether a packed chronology is an earlier or later version of this program's
    chronology.

    Lines are only ever added at the end of a chronology. Therefore the earlier of two versions is
    the beginning of the later version.
    """
    shipped = project_file().read_bytes()
    return shipped.startswith(data) or data.startswith(shipped)


def is_shipped(value: Any, *names: str) -> bool:
    """Return whether a value equals the JSON content of a file in `audit/data`.

    The file is the first of the given names that exists.
    """
    for name in names:
        path = files("audit").joinpath("data", name)
        if path.is_file():
            return bool(json.loads(path.read_text(encoding="utf-8")) == value)
    return False


def wrong_copies(
    manifest: Mapping[str, Any], copies: Mapping[str, Any], hashes: Mapping[str, str]
) -> Iterator[str]:
    """Yield the name of each file that should repeat parts of the manifest, but differs from the
    manifest.

    Parameters
    ----------
    manifest : mapping
        The parsed manifest.
    copies : mapping
        The parsed config.json, prompts.json, environment.json and shards.json, if present.
    hashes : mapping
        The sha256 of the tables in the pack, by file name.

    Yields
    ------
    str
        The name of a file that differs.
    """
    expected = {
        "config.json": manifest["config"],
        "prompts.json": prompts_of(manifest.get("prompt_hashes", {}), manifest["config"]),
    }
    for name, value in expected.items():
        if name in copies and copies[name] != value:
            yield name
    if "environment.json" in copies:
        names = ("audit", "packages", "platform", "python")
        if any(copies["environment.json"].get(name) != manifest.get(name) for name in names):
            yield "environment.json"
    if LISTED in copies:
        rows = {row["file"]: row["sha256"] for row in copies[LISTED]}
        listed = {f"shards/{Path(row['file']).name}": row["sha256"] for row in manifest["shards"]}
        tables = {**hashes, **manifest.get("tables", {})}
        shards = {}
        for file, sha256 in rows.items():
            if file.startswith("shards/"):
                shards[file] = sha256
        if shards != listed or any(rows.get(name) != sha256 for name, sha256 in tables.items()):
            yield LISTED


def check_chronology(data: bytes, where: str) -> None:
    """Raise DataError if the bytes are not a valid chronology.

    `where` is the name of the file, for the message.
    """
    try:
        parse_chronology(data.decode("utf-8"), where)
    except UnicodeDecodeError as error:
        raise DataError(f"{where} is not UTF-8 ({error}).") from error
