"""Read files of other programs and people, but only regular files of a limited size.

Reading a pipe would block, and a device never ends. A sparse file can be larger than memory. A
link, which is refused too, can lead to a file that only this user may read. All checks use the open
file, so nobody can replace the file between the check and the reading.
"""

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from io import BufferedReader
from pathlib import Path
from typing import Any

MAX_BYTES = 64 << 20
MAX_DEPTH = 100  # deepest nesting of lists and objects in a JSON document
# A document may have one list or object for each 16 bytes of its size limit. An empty Python list
# takes 4 times as many bytes of memory.
_BYTES_A_VALUE = 16


class RefusedFileError(OSError):
    """Report a file whose kind or size is refused."""

    def __init__(self, number: int, why: str, path: Path) -> None:
        super().__init__(number, why, str(path))

    def __str__(self) -> str:
        return f"{self.filename} {self.strerror}"


def nearest(path: Path | str) -> str:
    """Return " Did you mean PATH?" with the existing path whose name is most similar.

    Parameters
    ----------
    path : Path or str
        A path that does not exist, perhaps mistyped in its folders too.

    Returns
    -------
    str
        The question, with a blank before it; "" if no existing name is similar.
    """
    similar = nearest_path(Path(path).expanduser())
    return f" Did you mean {similar}?" if similar is not None else ""


def nearest_path(path: Path) -> Path | None:
    """Return the existing path with the most similar name.

    Return None if no name is similar, or if `path` itself exists.
    """
    return None if path.exists() else _nearest(path)


def _nearest(path: Path) -> Path | None:
    if path == path.parent:
        return None
    folder = path.parent if path.parent.is_dir() else _nearest(path.parent)
    if folder is None or not folder.is_dir():
        return None
    if (folder / path.name).exists():
        return folder / path.name
    try:
        names = [child.name for child in folder.iterdir()]
    except OSError:
        return None
    close = get_close_matches(path.name, sorted(names), n=1)
    return folder / close[0] if close else None


@contextmanager
def open_file(path: Path, *, follow: bool = False) -> Iterator[BufferedReader]:
    """Open a regular file to read.

    Parameters
    ----------
    path : Path
        File to read.
    follow : bool
        True if `path` may be a link, which is allowed for files that the user names.

    Yields
    ------
    BufferedReader
        The open file.

    Raises
    ------
    OSError
        If the file does not exist or is not a regular file, or if it is a link and `follow` is
        False.
    """
    # A file that this process holds open has only this name, which is a link.
    follow = follow or str(path).startswith("/proc/self/fd/")
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        fd = os.open(path, flags)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) and not follow:
            raise RefusedFileError(
                errno.ELOOP, "is a link. Expected the file itself", path
            ) from error
        if error.errno == errno.ENXIO:  # The path is a socket.
            raise RefusedFileError(errno.ENXIO, "is not a regular file", path) from error
        raise
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise RefusedFileError(errno.EINVAL, "is not a regular file", path)
    with os.fdopen(fd, "rb") as file:
        yield file


def check_regular(path: Path, *, follow: bool = False) -> None:
    """Raise OSError if `open_file` would refuse this file.

    This check is for libraries that open files by name.
    """
    with open_file(path, follow=follow):
        pass


def read_bytes(path: Path, limit: int = MAX_BYTES, *, follow: bool = False) -> bytes:
    """Return the bytes of a file.

    Parameters
    ----------
    path : Path
        File to read.
    limit : int
        Largest size of the file in bytes.
    follow : bool
        True if `path` may be a link.

    Raises
    ------
    OSError
        As in `open_file`, and if the file has more than `limit` bytes.
    """
    with open_file(path, follow=follow) as file:
        data = b"" if os.fstat(file.fileno()).st_size > limit else file.read(limit + 1)
        size = len(data) or os.fstat(file.fileno()).st_size
    if size > limit:
        raise RefusedFileError(errno.EFBIG, f"has more than {limit:,} bytes", path)
    return data


def read_text(path: Path, limit: int = MAX_BYTES, *, follow: bool = False) -> str:
    """Return the text of a file.

    Parameters
    ----------
    path, limit, follow
        The file, its largest size in bytes, and whether `path` may be a link.

    Raises
    ------
    OSError
        If the file cannot be read, or is larger than `limit`.
    UnicodeDecodeError
        If the file is not UTF-8.
    """
    return read_bytes(path, limit, follow=follow).decode("utf-8")


def read_json(path: Path, limit: int = MAX_BYTES, *, follow: bool = False) -> Any:
    """Return the JSON value in a file.

    Parameters
    ----------
    path, limit, follow
        The file, its largest size in bytes, and whether `path` may be a link.

    Raises
    ------
    OSError
        If the file cannot be read, or is larger than `limit`.
    ValueError
        As in `parse_json`.
    """
    return parse_json(read_bytes(path, limit, follow=follow), limit)


def parse_json(data: bytes, limit: int = MAX_BYTES) -> Any:
    """Return the JSON value in some bytes.

    Parameters
    ----------
    data : bytes
        The document as bytes.
    limit : int
        Largest size of a document in bytes. The limit also bounds the number of lists and objects.

    Raises
    ------
    ValueError
        If the bytes are not JSON, or are nested more than MAX_DEPTH deep. Also if there are so many
        lists and objects that the value would need many times the memory of its bytes.
    """
    values = data.count(b"[") + data.count(b"{")
    if values > limit // _BYTES_A_VALUE:
        raise ValueError(
            f"it has {values:,} lists and objects. Expected at most {limit // _BYTES_A_VALUE:,}"
        )
    try:
        value = json.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """Raise ValueError if lists and objects are nested more than MAX_DEPTH deep.

    The function is not recursive, since recursion would end in a RecursionError.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for parent in level:
            if isinstance(parent, dict | list):
                children = parent.values() if isinstance(parent, dict) else parent
                inner += [child for child in children if isinstance(child, dict | list)]
        if not inner:
            return
        level = inner
    raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
