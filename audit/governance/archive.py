"""The zip of an evidence pack: the same contents give the same bytes, and what is read is refused unless it is so made.

Files are stored, not compressed: no compressor's version shows in the bytes, and nothing can swell when it is read.
"""

import hashlib
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from audit.errors import SignatureError

_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every entry: the earliest that zip knows
_NAME = re.compile(r"[A-Za-z0-9._-][A-Za-z0-9._ -]*(/[A-Za-z0-9._-][A-Za-z0-9._ -]*)*")
_MAX_ENTRIES = 100_000


def write_archive(target: BinaryIO, files: Mapping[str, bytes | Path]) -> None:
    """A zip of `files`, by name within it. A Path is copied as it is read."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            content = files[name]
            info = zipfile.ZipInfo(name, _EPOCH)
            info.create_system = 3
            info.external_attr = (stat.S_IFREG | 0o644) << 16
            info.file_size = len(content) if isinstance(content, bytes) else content.stat().st_size
            with archive.open(info, "w") as entry:
                if isinstance(content, bytes):
                    entry.write(content)
                else:
                    with content.open("rb") as source:
                        shutil.copyfileobj(source, entry, 1 << 20)


def open_archive(path: Path) -> zipfile.ZipFile:
    """A pack for reading. SignatureError for what `write_archive` does not write: a name that leaves the folder, a
    name twice, a link, a compressed or encrypted entry, entries that overlap."""
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise SignatureError(f"{path} is no readable zip ({error}).") from error
    try:
        _check(archive, path)
    except SignatureError:
        archive.close()
        raise
    return archive


def _check(archive: zipfile.ZipFile, path: Path) -> None:
    entries = archive.infolist()
    if len(entries) > _MAX_ENTRIES:
        raise SignatureError(f"{path} has {len(entries):,} entries; expected at most {_MAX_ENTRIES:,}.")
    seen: set[str] = set()
    for entry in entries:
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if not good_name(entry.filename):
            raise SignatureError(f"{path} has an entry {entry.filename[:80]!r}, a name that no pack has.")
        if entry.filename.casefold() in seen:
            raise SignatureError(f"{path} has two entries {entry.filename!r}.")
        if kind not in (0, stat.S_IFREG):
            raise SignatureError(f"{path} has an entry {entry.filename!r} that is no plain file.")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size or entry.flag_bits & 0x1:
            raise SignatureError(f"{path}: {entry.filename!r} is compressed or encrypted. A pack's files are stored.")
        seen.add(entry.filename.casefold())
    total = sum(entry.file_size for entry in entries)
    if total > path.stat().st_size:
        raise SignatureError(f"{path} has {path.stat().st_size:,} bytes and claims to hold {total:,}.")


def read_entry(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """One entry. SignatureError where it cannot be read whole, or has more than `limit` bytes."""
    if archive.getinfo(name).file_size > limit:
        raise SignatureError(f"{name} is larger than any that a pack has.")
    with _entry(archive, name) as entry:
        return entry.read()


def good_name(name: str) -> bool:
    """Whether a pack may have an entry of this name: it stays in its folder, and is spelt alike everywhere."""
    return _NAME.fullmatch(name) is not None and not {".", ".."} & set(name.split("/"))


def hash_entry(archive: zipfile.ZipFile, name: str) -> str:
    """sha256 of one entry. SignatureError where it cannot be read whole."""
    with _entry(archive, name) as entry:
        return hashlib.file_digest(entry, "sha256").hexdigest()


@contextmanager
def _entry(archive: zipfile.ZipFile, name: str) -> Iterator[Any]:
    try:
        with archive.open(name) as entry:
            yield entry
    except (OSError, ValueError, EOFError, NotImplementedError, RuntimeError, zipfile.BadZipFile) as error:
        raise SignatureError(f"{name} cannot be read from the pack ({error}).") from error


def extract(archive: zipfile.ZipFile, prefix: str, folder: Path) -> None:
    """The checked entries under `prefix/` into a folder, without the prefix."""
    for name in archive.namelist():
        if name.startswith(f"{prefix}/"):
            target = folder / name.removeprefix(f"{prefix}/")
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as source, target.open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)


def check_bytes(path: Path, archive: zipfile.ZipFile) -> None:
    """SignatureError unless the zip has, to the byte, the form that `write_archive` gives its contents."""
    with tempfile.TemporaryDirectory() as folder:
        files: dict[str, bytes | Path] = {}
        for number, name in enumerate(archive.namelist()):
            files[name] = Path(folder) / str(number)
            with archive.open(name) as source, (Path(folder) / str(number)).open("xb") as file:
                shutil.copyfileobj(source, file, 1 << 20)
        again = Path(folder) / "again.zip"
        with again.open("xb") as file:
            write_archive(file, files)
        with closing(again.open("rb")) as one, closing(path.open("rb")) as other:
            if hashlib.file_digest(one, "sha256").digest() != hashlib.file_digest(other, "sha256").digest():
                raise SignatureError(
                    f"{path}: the files are as listed, and the zip around them is not as it was written: it was "
                    "changed, or packed again by another program. Expected the pack as `audit evidence` wrote it."
                )
