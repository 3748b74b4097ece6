"""Read and write the file of a library.

The file is in Arrow IPC format and has a row for each candidate. The metadata of its schema hold
the header. Reading a file also verifies its hash.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from audit.core.errors import ConfigError, LibraryError, unknown_name
from audit.core.guarded_files import nearest, read_bytes
from audit.shards.files import make_folder, whole_file, write_file
from audit.shards.read import write_table
from audit.variants.record import SCHEMA_VERSION, Judgement, Library, State, Variant, header_from

FILE = "variants.arrow"
METADATA = b"audit.variants"

_COLUMNS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("question_id", pa.string(), "the question, unique within the benchmark"),
    ("number", pa.int32(), "number of the candidate, from 1 within its question"),
    ("question_sha256", pa.string(), "hash of the published question (16 hex digits)"),
    ("context", pa.string(), "the text before the reworded part, which never changes"),
    ("original", pa.string(), "the part that may change, as published"),
    ("text", pa.string(), "its rewording; untrusted text if a model wrote it"),
    ("options", pa.list_(pa.string()), "options of this variant; empty for a free-form answer"),
    ("gold", pa.int16(), "index of the right option as shown; -1 without options"),
    ("order", pa.list_(pa.int16()), "published position of each option shown"),
    ("target", pa.float64(), "the right number of a free-form answer; null otherwise"),
    ("source", pa.string(), "row, rule or prompt of the candidate"),
    ("attempt", pa.int32(), "attempt of the strategy, from 0"),
    (
        "state",
        pa.string(),
        "accepted, or the first gate that stopped it (audit.variants.record.State)",
    ),
    ("accepted", pa.bool_(), "state is accepted"),
    ("same_as", pa.string(), "original, or the id of the variant with the same words"),
    ("distance", pa.float64(), "cosine distance of the embeddings of original and text, 0-2"),
    ("rules", pa.list_(pa.string()), "findings of the rules"),
    ("nli_forward", pa.float64(), "probability that the original entails the text"),
    ("nli_backward", pa.float64(), "probability that the text entails the original"),
    ("judge_votes", pa.list_(pa.string()), "kept, broken, unsure, unreadable or failed, each vote"),
    ("judgement", pa.string(), "not_asked, kept, broken, tie, unreadable or failed"),
    ("panel", pa.string(), "empty, passed or suspect"),
    ("review", pa.string(), "empty, ok or broken"),
    ("error", pa.string(), "reason for a missing text or distance"),
)
SCHEMA = pa.schema([pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in _COLUMNS])


def to_table(library: Library) -> pa.Table:
    """Return a library as a table.

    Parameters
    ----------
    library : Library
        The library.

    Returns
    -------
    pyarrow.Table
        One row for each candidate. The column `accepted` states whether the candidate is a variant.
        The metadata hold the header and the hash of the library.
    """
    columns = {}
    for name in SCHEMA.names:
        columns[name] = [getattr(variant, name) for variant in library.variants]
    columns["state"] = [v.state.value for v in library.variants]
    columns["judgement"] = [v.judgement.value for v in library.variants]
    about = json.dumps(
        {"sha256": library.sha256, "counts": library.counts, "header": asdict(library.header)}
    )
    return pa.table(columns, schema=SCHEMA.with_metadata({METADATA: about.encode()}))


def write_library(library: Library, path: Path) -> Path:
    """Write the file of a library. If writing fails, no partial file remains.

    Parameters
    ----------
    library : Library
        The library.
    path : Path
        The file.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ShardError
        If the file cannot be written.
    """
    make_folder(path.parent)
    return write_table(path, to_table(library))


def read_about(path: Path) -> dict[str, Any]:
    """Return the hash, the counts and the header of a library's file, without reading its rows.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    dict
        A mapping with the keys "sha256", "counts" and "header".

    Raises
    ------
    LibraryError
        If the file is not a library.
    """
    with _opened(path) as reader:
        return _about(path, reader.schema)


def read_library(path: Path) -> Library:
    """Read a library, and verify its hash.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Library
        The library.

    Raises
    ------
    LibraryError
        If the file is damaged, or the hash of its content differs from the hash in its metadata.
    """
    with _opened(path) as reader:
        about = _about(path, reader.schema)
        if not reader.schema.equals(SCHEMA, check_metadata=False):
            raise _damaged(path, f"its columns are {reader.schema.names}")
        try:
            table = reader.read_all()
            table.validate(full=True)  # Damaged offsets would crash a process that uses them.
            library = Library(header_from(about["header"]), tuple(map(_variant, table.to_pylist())))
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise _damaged(path, f"{type(error).__name__}: {error}") from error
    if library.sha256 != about["sha256"]:
        raise LibraryError(
            f"{path} was changed: its content is {library.sha256[:12]}. "
            f"Expected library {about['sha256'][:12]}. Copy the original file, or build it again."
        )
    return library


_MAX_BYTES = 2 << 30


def _opened(path: Path) -> pa.ipc.RecordBatchFileReader:
    try:
        return pa.ipc.open_file(pa.BufferReader(read_bytes(path, _MAX_BYTES, follow=True)))
    except (pa.ArrowException, OSError) as error:
        raise _damaged(path, str(error)) from error


def _about(path: Path, schema: pa.Schema) -> dict[str, Any]:
    try:
        about: dict[str, Any] = json.loads(schema.metadata[METADATA])
        version = about["header"]["schema_version"]
        if version != SCHEMA_VERSION:
            raise _damaged(path, f"its version is {version}, not {SCHEMA_VERSION}")
        return {
            "sha256": str(about["sha256"]),
            "counts": about["counts"],
            "header": about["header"],
        }
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise _damaged(path, "its metadata has no header") from error


def _damaged(path: Path, reason: str) -> LibraryError:
    return LibraryError(
        f"{path} is not a variant library: {reason}. "
        "Expected a file that audit variants build wrote."
    )


def _variant(row: dict[str, Any]) -> Variant:
    row.pop("accepted")
    for name in ("options", "order", "rules", "judge_votes"):
        row[name] = tuple(row[name])
    return Variant(
        **{**row, "state": State(row["state"]), "judgement": Judgement(row["judgement"])}
    )


SUFFIXES = (".jsonl", ".parquet")


def export_library(library: Library, path: Path) -> int:
    """Write the accepted variants, with the value of each gate, to a jsonl or Parquet file.

    Parameters
    ----------
    library : Library
        The library.
    path : Path
        The file to write. A Parquet file holds the library's header in its metadata. In a jsonl
        file, each row names the library.

    Returns
    -------
    int
        Number of variants that were written.

    Raises
    ------
    ConfigError
        If the suffix is unknown.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(
            f"Suffix of {path} is {path.suffix!r}. Expected {' or '.join(SUFFIXES)}. "
            f"Example: {path.with_suffix(SUFFIXES[0])}"
        )
    table = to_table(library)
    table = table.filter(table["accepted"])
    if path.suffix == ".parquet":
        with whole_file(path) as file:
            pq.write_table(table, file)
    else:
        text = ""
        for row in table.to_pylist():
            text += json.dumps({"library": library.sha256, **row}, ensure_ascii=False) + "\n"
        write_file(path, text.encode())
    return int(table.num_rows)


DEFAULT_FOLDER = Path("outputs/variants")
MIN_PREFIX_CHARS = 6
_HASH = re.compile(rf"[0-9a-f]{{{MIN_PREFIX_CHARS},64}}")


@dataclass(frozen=True, slots=True)
class Entry:
    """Describe a library on disk, from the header of its file and without its rows.

    Attributes
    ----------
    path : Path
        The file.
    name, sha256, benchmark : str
        Name and hash of the library, and the benchmark that it rewords.
    counts : dict of str to int
        Number of candidates by state.
    """

    path: Path
    name: str
    sha256: str
    benchmark: str
    counts: dict[str, int]


def shipped_folder() -> Path:
    """Return the folder of the shipped libraries."""
    return Path(str(package_files("audit").joinpath("data", "variants")))


def list_libraries(folder: Path = DEFAULT_FOLDER) -> list[Entry]:
    """Return the libraries in a folder and the shipped libraries, sorted by name.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    list of Entry
        The libraries.

    Raises
    ------
    LibraryError
        If a file is not a library.
    """
    paths = sorted(folder.glob(f"*/{FILE}")) + sorted(shipped_folder().glob(f"*/{FILE}"))
    entries = []
    for path in paths:
        about = read_about(path)
        header = about["header"]
        entries.append(
            Entry(path, header["name"], about["sha256"], header["benchmark"], about["counts"])
        )
    return sorted(entries, key=lambda entry: (entry.name, entry.sha256))


def save_library(library: Library, folder: Path = DEFAULT_FOLDER) -> Path:
    """Write FOLDER/<name>-<hash>/variants.arrow and return its path."""
    return write_library(library, folder / f"{library.header.name}-{library.sha256[:12]}" / FILE)


def find_library(reference: str, folder: Path = DEFAULT_FOLDER) -> Library:
    """Return a library by its path, hash or name.

    Parameters
    ----------
    reference : str
        The path of the library's file or folder, its name, its hash, or the first 6 or more digits
        of its hash.
    folder : Path
        The folder of the libraries.

    Returns
    -------
    Library
        The library.

    Raises
    ------
    LibraryError
        If no library or several libraries match, or the file is damaged.
    """
    path = Path(reference).expanduser()
    if path.is_file() or (path / FILE).is_file():
        return read_library(path if path.is_file() else path / FILE)
    if path.suffix == ".arrow" or len(path.parts) > 1:
        raise LibraryError(
            f"{reference} is not a variant library.{nearest(path)} "
            f"Expected a file. Example: DIR/{FILE}"
        )
    entries = list_libraries(folder)
    matching = {entry.sha256: entry for entry in entries if entry.name == reference}
    if not matching and _HASH.fullmatch(reference):
        matching = {entry.sha256: entry for entry in entries if entry.sha256.startswith(reference)}
    if len(matching) > 1:
        listed = _hashes(matching.values())
        raise LibraryError(
            f"{reference!r} means {len(matching)} libraries. Expected one of the hashes: {listed}."
        )
    if not matching:
        known = unknown_name("variant library", reference, {entry.name for entry in entries})
        raise LibraryError(f"{known} Hashes: {_hashes(entries) or 'none'}.")
    return read_library(next(iter(matching.values())).path)


def _hashes(entries: Iterable[Entry]) -> str:
    return ", ".join(f"{entry.name} {entry.sha256[:12]}" for entry in entries)
