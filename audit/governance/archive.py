"""Write and read the zip of an evidence pack.

The zip is deterministic: equal contents give equal bytes. A zip with any other bytes is rejected.
Entries are stored without compression, so the bytes do not depend on the version of zlib, and a zip
bomb is impossible. The module does not load NumPy or Arrow.
"""

import hashlib
import io
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import BadZipFile, ZipFile, ZipInfo

from audit.core.errors import SignatureError
from audit.core.guarded_files import check_regular, parse_json
from audit.governance.keys import MAX_BYTES
from audit.shards.files import file_sha256

STATEMENT = "statement.dsse.json"
# These files hold the sealed plan of a run, and the differences between the run and this plan.
SEAL, DEVIATIONS = "seal.dsse.json", "deviations.json"
SUITES = ("suite.json", "suite.yaml")
RUN = "run"
SENSITIVITY = "sensitivity.json"
# This folder inside a run's folder holds the reference runs on which the run's verdict depends.
REFERENCES = "references"
VERDICT = f"{RUN}/report/verdict.json"
PREDICATE = "urn:benchmark-audit:evidence:v1"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # every entry gets the earliest time that a zip can hold
_NAME = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._ -]*(/[A-Za-z0-9._-][A-Za-z0-9._ -]*)*")
_MAX_ENTRIES = 100_000
_MAX_JSON = 256 << 20


def write_archive(target: BinaryIO, files: Mapping[str, bytes | Path]) -> None:
    """Write a zip whose bytes depend only on the contents.

    Parameters
    ----------
    target : binary file
        The file to write the zip into.
    files : mapping
        Maps the name of each entry to its content. The content may be the path of a file, which is
        copied.
    """
    with ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            content = files[name]
            info = ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.file_size = len(content) if isinstance(content, bytes) else content.stat().st_size
            source = io.BytesIO(content) if isinstance(content, bytes) else content.open("rb")
            with source, archive.open(info, "w") as entry:
                shutil.copyfileobj(source, entry, 1 << 20)


def open_archive(path: Path) -> ZipFile:
    """Open a pack for reading.

    Parameters
    ----------
    path : Path
        Path of the zip.

    Returns
    -------
    ZipFile
        The open zip. The names of its entries are valid and different, and the entries are together
        not larger than the file. `check_bytes` checks everything else.

    Raises
    ------
    SignatureError
        If the file is not a zip, a name is invalid or occurs twice, or the entries together are
        larger than the file.
    """
    try:
        check_regular(path, follow=True)
        archive = ZipFile(path)
    except (OSError, ValueError, NotImplementedError, BadZipFile) as error:
        raise SignatureError(f"{path} is not a readable zip ({error}).") from error
    if problem := _not_to_be_read(archive.infolist(), path.stat().st_size):
        archive.close()
        raise SignatureError(f"{path} {problem}.")
    return archive


def _not_to_be_read(entries: Sequence[ZipInfo], size: int) -> str:
    if len(entries) > _MAX_ENTRIES:
        return f"has {len(entries):,} entries; expected at most {_MAX_ENTRIES:,}"
    seen: set[str] = set()
    for name in (entry.filename for entry in entries):
        if not good_name(name):
            return f"has an entry {name[:80]!r}, which is not a valid name in a pack"
        if name.casefold() in seen:
            return f"has two entries {name!r}"
        seen.add(name.casefold())
    total = sum(entry.file_size for entry in entries)
    return f"has {size:,} bytes and claims to hold {total:,}" if total > size else ""


def read_entry(archive: ZipFile, name: str, limit: int) -> bytes:
    """Return the content of one entry.

    Parameters
    ----------
    archive : ZipFile
        An open pack.
    name : str
        Name of the entry.
    limit : int
        The largest number of bytes that the entry may have.

    Returns
    -------
    bytes
        The content of the entry.

    Raises
    ------
    SignatureError
        If the entry has more than `limit` bytes, or cannot be read completely.
    """
    if archive.getinfo(name).file_size > limit:
        raise SignatureError(
            f"{name} has {archive.getinfo(name).file_size:,} bytes. Expected at most {limit:,}."
        )
    with _entry(archive, name) as entry:
        return entry.read()


def good_name(name: str) -> bool:
    """Return whether a pack may have an entry of this name.

    The name must not lead out of its folder, and must be valid on every operating system.
    """
    return _NAME.fullmatch(name) is not None and not {".", ".."} & set(name.split("/"))


def hash_entry(archive: ZipFile, name: str) -> str:
    """Return the sha256 of one entry. Raises SignatureError if the entry cannot be read
    completely.
    """
    with _entry(archive, name) as entry:
        return hashlib.file_digest(entry, "sha256").hexdigest()


@contextmanager
def _entry(archive: ZipFile, name: str) -> Iterator[Any]:
    try:
        with archive.open(name) as entry:
            yield entry
    except (OSError, ValueError, EOFError, RuntimeError, BadZipFile) as error:
        raise SignatureError(f"{name} cannot be read from the pack ({error}).") from error


def check_bytes(path: Path, archive: ZipFile) -> None:
    """Raise SignatureError unless the zip has exactly the bytes that `write_archive` would write
    for its contents.
    """
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, bytes | Path] = {}
        for number, name in enumerate(archive.namelist()):
            files[name] = copy = Path(folder) / str(number)
            with _entry(archive, name) as source, copy.open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        rewritten = Path(folder) / "rewritten.zip"
        with rewritten.open("xb") as file:
            write_archive(file, files)
        if file_sha256(rewritten) != file_sha256(path):
            raise SignatureError(
                f"{path}: the files are as listed, but `audit evidence` did not write this zip."
            )


@dataclass(frozen=True)
class Pack:
    """Hold an open pack. `sums` maps each file that the pack's SHA256SUMS lists to its sha256."""

    path: Path
    archive: ZipFile
    sums: Mapping[str, str]

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises SignatureError if it has more than MAX_BYTES
        bytes.
        """
        return read_entry(self.archive, name, MAX_BYTES)

    def json(self, name: str) -> Any:
        """Return a JSON file's parsed content. Raises SignatureError if the file is not JSON."""
        try:
            return parse_json(read_entry(self.archive, name, _MAX_JSON), _MAX_JSON)
        except ValueError as error:
            raise self.wrong(f"{name} is not JSON ({error}).") from error

    @property
    def with_shards(self) -> bool:
        """Return whether the pack contains shards."""
        return any(re.match(f"{RUN}/([^/]+/)?shards/", name) for name in self.sums)

    def named(self, pattern: str) -> list[str]:
        """Return the names in SHA256SUMS that match a pattern completely, sorted."""
        return sorted(name for name in self.sums if re.fullmatch(pattern, name))

    def wrong(self, problem: str) -> SignatureError:
        """Return an error whose message names this pack and the problem."""
        return SignatureError(f"{self.path}: {problem}")
