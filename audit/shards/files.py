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
from audit.guarded_files import open_file
from audit.shards.working_copy import publish

TMP_SUFFIX = ".tmp"
SHARDS = "shards"
QUARANTINE = "quarantine"

_OTHER = "Choose another place, such as run_dir=outputs/my_run."
_ROOM = "Free some space, or move the run directory to a larger disk (run_dir=<the new place>)."
_MOUNTED = "Expected a folder on a disk that every node mounts, such as run_dir=outputs/my_run."
# What a disk refuses: why, and what to do.
_WHY = {
    errno.ENOSPC: ("the disk is full", _ROOM),
    errno.EDQUOT: ("the disk quota is used up", _ROOM),
    errno.EFBIG: ("the limit on a file's size is reached", _ROOM),
    errno.EACCES: ("no permission to write there", _OTHER),
    errno.EPERM: ("no permission to write there", _OTHER),
    errno.EROFS: ("the file system is mounted read-only", _OTHER),
    errno.ENOTDIR: ("a part of this path is a file, not a folder", _OTHER),
    errno.ENOENT: ("its folder is not there and cannot be made", _MOUNTED),
}
# Directory fsync is not offered everywhere (some network file systems); the rename is still atomic there.
_NO_DIR_FSYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}


def disk_error(path: Path, error: OSError) -> ShardError:
    """The error for a file that could not be written: what refused, what is still valid, what to do."""
    why, todo = _WHY.get(error.errno or 0, ("the system refused", _OTHER))
    if todo == _ROOM:
        folder = next(one for one in path.parents if one.exists())
        why += f", {shutil.disk_usage(folder).free:,} bytes free"
    return ShardError(
        f"Cannot write {path}: {why} ({error.strerror or error}). {todo} Every file written before stays valid; the "
        "same command again goes on."
    )


def write_file(
    path: Path, data: bytes | memoryview | Iterator[bytes], guard: AbstractContextManager[None] | None = None
) -> None:
    """Write `data`, or its pieces, to `path` whole or not at all; `guard` is held over the rename and may refuse it by
    raising. Raises as `whole_file`."""
    with whole_file(path, guard) as file:
        file.writelines(data if isinstance(data, Iterator) else (data,))


@contextmanager
def whole_file(path: Path, guard: AbstractContextManager[None] | None = None) -> Iterator[BinaryIO]:
    """A file to write, which then stands at `path` whole or not at all; in the working copy of a run on object storage
    the object is written too. guard: as of `write_file`. Raises ShardError when the disk refuses; then no temporary
    file is left and what was at `path` is unchanged."""
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
        raise disk_error(path, error) from error
    publish(path)


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


def file_sha256(path: Path, *, follow: bool = False) -> str:
    """Return the hex sha256 of a file, read in pieces. Raises OSError as `guarded_files.open_file`."""
    with open_file(path, follow=follow) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
