"""Finds a library by hash prefix, path or name: in the user's folder (outputs/variants) and among the shipped ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files as package_files
from pathlib import Path

from audit.errors import LibraryError, unknown_name
from audit.variants.arrow import FILE, read_about, read_library, write_library
from audit.variants.record import Library

DEFAULT_FOLDER = Path("outputs/variants")
MIN_PREFIX_CHARS = 6
_HASH = re.compile(rf"[0-9a-f]{{{MIN_PREFIX_CHARS},64}}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A library on disk, by what its file says of itself (its rows are not read)."""

    path: Path
    name: str
    sha256: str
    benchmark: str
    counts: dict[str, int]


def shipped_folder() -> Path:
    return Path(str(package_files("audit").joinpath("data", "variants")))


def list_libraries(folder: Path = DEFAULT_FOLDER) -> list[Entry]:
    """The libraries in `folder` and the shipped ones, by name. LibraryError for a file there that is no library."""
    paths = [path for root in (folder, shipped_folder()) for path in sorted(root.glob(f"*/{FILE}"))]
    entries = []
    for path in paths:
        about = read_about(path)
        header = about["header"]
        entries.append(Entry(path, header["name"], about["sha256"], header["benchmark"], about["counts"]))
    return sorted(entries, key=lambda entry: (entry.name, entry.sha256))


def save_library(library: Library, folder: Path = DEFAULT_FOLDER) -> Path:
    """Write FOLDER/<name>-<hash>/variants.arrow and return its path."""
    return write_library(library, folder / f"{library.header.name}-{library.sha256[:12]}" / FILE)


def find_library(reference: str, folder: Path = DEFAULT_FOLDER) -> Library:
    """The library that `reference` means: a path (file or its folder), a hash or its first 6 digits or more, a name.

    Raises LibraryError when nothing or more than one fits, and when a file is damaged or not what its hash says.
    """
    path = Path(reference).expanduser()
    if path.is_file() or (path / FILE).is_file():
        return read_library(path if path.is_file() else path / FILE)
    if path.suffix == ".arrow" or len(path.parts) > 1:
        raise LibraryError(f"There is no variant library at {reference}. Expected a file such as DIR/{FILE}.")
    entries = list_libraries(folder)
    fitting = {entry.sha256: entry for entry in entries if entry.name == reference}
    if not fitting and _HASH.fullmatch(reference):
        fitting = {entry.sha256: entry for entry in entries if entry.sha256.startswith(reference)}
    if len(fitting) > 1:
        listed = _hashes(fitting.values())
        raise LibraryError(f"{reference!r} means {len(fitting)} libraries: {listed}. Name one by its hash.")
    if not fitting:
        known = unknown_name("variant library", reference, {entry.name for entry in entries})
        raise LibraryError(f"{known} Hashes: {_hashes(entries) or 'none'}.")
    return read_library(next(iter(fitting.values())).path)


def _hashes(entries: Iterable[Entry]) -> str:
    return ", ".join(f"{entry.name} {entry.sha256[:12]}" for entry in entries)
