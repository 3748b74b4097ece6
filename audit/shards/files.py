"""Files that are whole or absent: written beside, fsync'ed, renamed; and errors that teach when a disk refuses."""

import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from audit.errors import ShardError
from audit.shards.working_copy import publish

TMP_SUFFIX = ".tmp"
SHARDS = "shards"
QUARANTINE = "quarantine"

_FULL = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the limit on a file's size is reached",
}
_REFUSED = {
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.EROFS: "the file system is mounted read-only",
}
_OTHER = "Choose another place, such as run_dir=outputs/my_run"
# Directory fsync is not offered everywhere (some network file systems); the rename is still atomic there.
_NO_DIR_FSYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}


def disk_error(path: Path, error: OSError, size: int | None = None) -> ShardError:
    """The error for a file that could not be written: what refused, what is still valid, what to do."""
    found = f"Cannot write {path}: "
    if error.errno in _FULL:
        need = f", {size:,} bytes were to be written" if size is not None else ""
        return ShardError(
            f"{found}{_FULL[error.errno]} ({error.strerror}{need}, {_free(path)} free). No partial file was left and "
            f"every shard written before stays valid. Free some space, or move the run directory to a larger disk, "
            f"then type the same command again (run_dir=<the new place> if it moved): it goes on where it stopped."
        )
    if error.errno in _REFUSED:
        return ShardError(
            f"{found}{_REFUSED[error.errno]} ({error.strerror}). Expected a folder this user can write, "
            f"such as run_dir=outputs/my_run; check with: touch {path.parent}/x"
        )
    if error.errno == errno.ENOTDIR:
        return ShardError(f"{found}a part of this path is a file, not a folder. {_OTHER}")
    if error.errno == errno.ENOENT:
        return ShardError(
            f"{found}its folder is not there and cannot be made ({error.strerror}). Expected a folder on a disk that "
            f"every node mounts, such as run_dir=outputs/my_run; where it was moved or deleted while the run was "
            f"writing, type the same command again."
        )
    return ShardError(f"{found}{error}. Every shard written before stays valid; the same command again goes on.")


def _free(path: Path) -> str:
    for folder in path.parents:
        if folder.exists():
            return f"{shutil.disk_usage(folder).free:,} bytes"
    return "unknown"


def write_file(
    path: Path, data: bytes | memoryview | Iterator[bytes], guard: AbstractContextManager[None] | None = None
) -> None:
    """Write `data`, or its pieces, to `path` whole or not at all; `guard` is held over the rename and may refuse it by
    raising. Raises as `whole_file`."""
    whole = None if isinstance(data, Iterator) else data
    with whole_file(path, whole, guard) as file:
        file.writelines(data if isinstance(data, Iterator) else (data,))


@contextmanager
def whole_file(
    path: Path, data: bytes | memoryview | None = None, guard: AbstractContextManager[None] | None = None
) -> Iterator[BinaryIO]:
    """A file to write, which then stands at `path` whole or not at all; in the working copy of a run on object storage
    the object is written too. data: all that will be written, where that is at hand; guard: as of `write_file`. Raises
    ShardError when the disk refuses; then no temporary file is left and what was at `path` is unchanged."""
    tmp = path.parent / f".{path.name}.{uuid.uuid4().hex}{TMP_SUFFIX}"
    try:
        try:
            with tmp.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            with guard if guard is not None else nullcontext():
                tmp.replace(path)
            sync_folder(path.parent)
        finally:
            tmp.unlink(missing_ok=True)
    except OSError as error:
        raise disk_error(path, error, None if data is None else len(data)) from error
    publish(path, data)


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_DIR_FSYNC:
            raise
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Create `folder` and its parents and prove that it can be written; ShardError when it cannot."""
    probe = folder / f".probe.{uuid.uuid4().hex}{TMP_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            probe.touch()
        finally:
            probe.unlink(missing_ok=True)
    except FileExistsError as error:
        raise ShardError(f"{folder} is a file; a folder is needed there. {_OTHER}") from error
    except OSError as error:
        raise disk_error(folder / "manifest.json", error) from error


def file_sha256(path: Path) -> str:
    """Hex sha256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_text(path: Path) -> str:
    """The text of a file; OSError for a pipe or device, which would never end."""
    if path.exists() and not path.is_file():
        raise OSError(f"{path} is no plain file")
    return path.read_text(encoding="utf-8")
