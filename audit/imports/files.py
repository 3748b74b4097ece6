"""A file of a log, read within bounds: lines, one JSON document, members of a zip. No pickle, nothing is unpacked."""

import json
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from audit.errors import DataError

MAX_LINE = 64 << 20  # bytes of a line, or of a member of a zip
MAX_DOCUMENT = 1 << 30  # bytes of one JSON document
MAX_MEMBERS = 1_000_000
_ZSTD = 93  # a zip's number for it


def parse(data: bytes | str, where: str) -> Any:
    """A JSON value; DataError where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON ({str(error)[:120]}). Expected a whole log: copy it again.") from error


def document(path: Path) -> Any:
    """The JSON document that a file is."""
    if path.stat().st_size > MAX_DOCUMENT:
        raise DataError(
            f"{path} has {path.stat().st_size:,} bytes; expected at most {MAX_DOCUMENT:,}. Save the log as .eval."
        )
    return parse(path.read_bytes(), str(path))


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(where, object) of each line that is not blank."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            where = f"{path}, line {number}"
            if len(line) > MAX_LINE:
                raise DataError(f"{where} has more than {MAX_LINE:,} bytes; expected one sample a line.")
            if not line.strip():
                continue
            found = parse(line, where)
            if not isinstance(found, dict):
                raise DataError(f"{where} holds {type(found).__name__}; expected an object, such as {{...}}.")
            yield where, found


def open_zip(path: Path) -> zipfile.ZipFile:
    """An archive whose members are within bounds; DataError otherwise."""
    try:
        archive = zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise DataError(f"{path} is not a whole zip ({error}). Expected an .eval log: copy it again.") from error
    if len(archive.infolist()) > MAX_MEMBERS:
        raise DataError(f"{path} has {len(archive.infolist()):,} members; expected at most {MAX_MEMBERS:,}.")
    return archive


def member(archive: zipfile.ZipFile, name: str, limit: int = MAX_LINE) -> Any:
    """The JSON value of a member, which is never unpacked to disk, and not beyond a limit whatever it claims."""
    where = f"{archive.filename}, {name}"
    try:
        with _opened(archive, archive.getinfo(name)) as file:
            data = _at_most(file, where, limit)
    except KeyError as error:
        raise DataError(f"{archive.filename} has no {name}. Expected an .eval log of Inspect.") from error
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        RuntimeError,
        NotImplementedError,
        pa.ArrowException,
    ) as error:
        raise DataError(f"{where} cannot be read ({error}). Expected a whole .eval log without a password.") from error
    return parse(data, where)


def _opened(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    """A member to read from. Inspect packs by Zstandard, which zipfile reads from Python 3.14 on: Arrow does."""
    if info.compress_type != _ZSTD:
        return archive.open(info)
    with Path(str(archive.filename)).open("rb") as file:
        file.seek(info.header_offset + 26)  # of the member's own header, whose lengths may differ from the directory's
        name, extra = struct.unpack("<HH", file.read(4).ljust(4, b"\0"))
        file.seek(name + extra, os.SEEK_CUR)
        packed = file.read(min(info.compress_size, MAX_LINE))
    return pa.CompressedInputStream(pa.BufferReader(packed), "zstd")


def _at_most(file: IO[bytes], where: str, limit: int) -> bytes:
    data = file.read(limit + 1)
    if len(data) > limit:
        raise DataError(f"{where} unpacks to more than {limit:,} bytes; expected one sample.")
    return data
