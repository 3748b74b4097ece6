"""Write files so that a file is either complete or absent.

Each file is written under a temporary name in its folder, fsync'ed and renamed.

An error message states why the file could not be written, and what to do.
"""

import errno
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from audit.core.errors import ConfigError, ShardError
from audit.core.guarded_files import open_file
from audit.shards.working_copy import publish

TMP_SUFFIX = ".tmp"
SHARDS = "shards"
QUARANTINE = "quarantine"

_OTHER = "Choose another place: run_dir=outputs/my_run, or of an import -o outputs/my_run."
_ROOM = "Free some space, or move the run directory to a larger disk (run_dir=<the new place>)."
_MOUNTED = "Expected a folder on a disk that every node mounts, such as run_dir=outputs/my_run."
# This dict maps each error number of the disk to the reason and to what the user must do.
_WHY = {
    errno.ENOSPC: ("the disk is full", _ROOM),
    errno.EDQUOT: ("the disk quota is used up", _ROOM),
    errno.EFBIG: ("the limit on a file's size is reached", _ROOM),
    errno.EACCES: ("no permission to write there", _OTHER),
    errno.EPERM: ("no permission to write there", _OTHER),
    errno.EROFS: ("the file system is mounted read-only", _OTHER),
    errno.ENOTDIR: ("a part of this path is a file, not a folder", _OTHER),
    errno.ENOENT: ("its folder is missing and cannot be created", _MOUNTED),
}
# Some network file systems cannot fsync directories. On such file systems, renaming a file is
# atomic nevertheless.
_NO_DIR_FSYNC = {errno.EINVAL, errno.ENOTSUP, errno.EBADF}


def disk_error(path: Path, error: OSError) -> ShardError:
    """Return the error for a file that could not be written.

    Parameters
    ----------
    path : Path
        Path of the file.
    error : OSError
        Error of the operating system.

    Returns
    -------
    ShardError
        The error. Its message states the reason, which files remain valid, and what to do.
    """
    why, todo = _WHY.get(error.errno or 0, ("the system refused", _OTHER))
    if todo == _ROOM:
        existing = []
        for parent in path.parents:
            if parent.exists():
                existing.append(parent)
        why += f", {shutil.disk_usage(existing[0]).free:,} bytes free"
    return ShardError(
        f"Cannot write {path}: {why} ({error.strerror or error}). {todo} All files that were "
        "written before remain valid. To continue, type the same command again."
    )


def check_place(folder: Path) -> None:
    """Raise ConfigError if a run directory cannot be created or written.

    The check is made before a model is loaded or a question is asked.

    Parameters
    ----------
    folder : Path
        The run directory, which need not exist.

    Raises
    ------
    ConfigError
        If a part of the path is a file, or if the nearest existing folder is not writable.
    """
    place = folder.absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    may = place.is_dir() and os.access(place, os.W_OK | os.X_OK)
    if not may:
        why = "is a file" if place.is_file() else "is not writable"
        raise ConfigError(f"run_dir is {folder}, and {place} {why}. {_OTHER}")


def check_new(
    path: Path, typed: Path | None = None, others: Sequence[str] = (), *, force: bool
) -> None:
    """Raise ConfigError if a file that a command would write exists.

    Parameters
    ----------
    path : Path
        Path of the file to write.
    typed : Path or None
        The folder that the user typed, if the user typed a folder and not the file.
    others : sequence of str
        Names of further files and folders that the command writes into the typed folder.
    force : bool
        True allows the file to be replaced (`--force`).
    """
    if force:
        return
    place = typed or path
    present = [file for file in (path, *(place / name for name in others)) if file.exists()]
    if present:
        other = place.with_name(f"{place.stem}_2{place.suffix}")
        raise ConfigError(
            f"{present[0]} exists. Expected a new place, such as {other}, or --force, which replaces it."
        )


def write_file(
    path: Path,
    data: bytes | memoryview | Iterator[bytes],
    guard: AbstractContextManager[None] | None = None,
) -> None:
    """Write a file completely or not at all.

    Parameters
    ----------
    path : Path
        Path of the file.
    data : bytes, memoryview or iterator of bytes
        Contents of the file, as one value or in pieces.
    guard : context manager or None
        Context that is entered for the rename. It may prevent the rename by raising an error.

    Raises
    ------
    ShardError
        If the file cannot be written.
    """
    with whole_file(path, guard) as file:
        file.writelines(data if isinstance(data, Iterator) else (data,))


@contextmanager
def whole_file(path: Path, guard: AbstractContextManager[None] | None = None) -> Iterator[BinaryIO]:
    """Open a file for writing.

    The file appears at its path either completely or not at all.

    Parameters
    ----------
    path : Path
        Path of the file.
    guard : context manager or None
        Context that is entered for the rename, as for `write_file`.

    Yields
    ------
    BinaryIO
        The open file.

    Raises
    ------
    ShardError
        If the file cannot be written. Then no temporary file is left, and the old file is
        unchanged.

    Notes
    -----
    If the path lies in the working copy of a run on object storage, the object is written too.
    """
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
    """Flush a folder to disk, so that a rename in it survives a power failure."""
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _NO_DIR_FSYNC:
            raise
    finally:
        os.close(fd)


def make_folder(folder: Path) -> None:
    """Create a folder with its parents, and check that it is writable.

    Parameters
    ----------
    folder : Path
        Path of the folder.

    Raises
    ------
    ShardError
        If the folder cannot be created or is not writable.
    """
    probe = folder / f".probe.{uuid.uuid4().hex}{TMP_SUFFIX}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            probe.touch()
        finally:
            probe.unlink(missing_ok=True)
    except FileExistsError as error:
        raise ShardError(f"{folder} is a file. Expected a folder. {_OTHER}") from error
    except OSError as error:
        raise disk_error(folder / "manifest.json", error) from error


def file_sha256(path: Path, *, follow: bool = False) -> str:
    """Return the sha256 of a file in hexadecimal digits; the file is read in pieces.

    Parameters
    ----------
    path : Path
        Path of the file.
    follow : bool
        True follows a symbolic link; False refuses it.

    Returns
    -------
    str
        The hash.

    Raises
    ------
    OSError
        If the file cannot be opened or read, as for `guarded_files.open_file`.
    """
    with open_file(path, follow=follow) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
