"""Stream raw rows from jsonl, json, csv, parquet and Arrow files.

Each row is yielded together with its place, such as "line 7", for error messages.
"""

import csv
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from audit.benchmarks.arrow_files import arrow_batches
from audit.benchmarks.config import SUFFIXES
from audit.benchmarks.rows import RawRow
from audit.core.errors import BenchmarkError
from audit.core.guarded_files import check_regular, open_file, read_bytes

_TEXT = (".jsonl", ".json", ".csv", ".tsv")
_DELIMITERS = (";", "\t", "|")  # delimiters that are tried, in this order, for a csv without commas
_ENCODING_BYTES = 1 << 22  # number of bytes at a file's start from which its encoding is guessed
PARQUET_BATCH_ROWS = (
    # Dictionary encoding stores a repeated text once, so a few rows may decompress to many bytes.
    64
)
_UNFOLDED = 1 << 30  # largest decompressed size, in bytes, of the rows that are in memory
_FOLDED = 1000  # largest ratio of decompressed size to file size, for files above _UNFOLDED / 1000
# Largest size of a line in bytes, or of a text in characters. A text of a million tokens has about
# a quarter of this size.
MAX_TEXT = 1 << 24
MAX_DOCUMENT = 1 << 30  # largest JSON document, in bytes
# Names under which a split may be published. The requested name is tried first.
_SPLIT_ALIASES = {
    "validation": ("validation", "valid", "val", "dev"),
    "val": ("val", "validation", "valid"),
    "dev": ("dev", "validation"),
}
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\..*)")
# Names of encodings for iconv and Python. Windows-1252 contains the printable characters of
# Latin-1.
_WESTERN = {"WINDOWS-1252": "cp1252", "MACINTOSH": "mac_roman"}
_USUAL = frozenset("àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœ’‘“”–—…°²½€£§¿¡")
_LIKELY = 0.6  # an encoding fits if at least this share of the non-ASCII characters is plausible
_SPLIT_NAMES = {"train", "test", "validation", "valid", "val", "dev"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """Hold a file to read.

    Parameters
    ----------
    path : Path
        File to read.
    label : str
        Name of the file in error messages.
    subject : str
        The subject that the file's name states, or "".
    """

    path: Path
    label: str
    subject: str = ""


def read_rows(
    path: Path, *, suffix: str = "", header: bool = True, delimiter: str | None = None
) -> Iterator[tuple[str, RawRow]]:
    r"""Yield every row of a file together with its place.

    Parameters
    ----------
    path : Path
        File to read.
    suffix : str
        Suffix that states the kind of file; "" uses the suffix of the file's name.
    header : bool
        True if a csv begins with column names. Without them, rows are lists of text.
    delimiter : str or None
        Separator of the fields of a csv or tsv (a written-out "\t" means a tab). None means a
        comma, or a tab in a .tsv file.

    Yields
    ------
    tuple of str and RawRow
        Place and row, such as ("line 7", {...}).

    Raises
    ------
    BenchmarkError
        If a row cannot be read. The message states the place, but not the file.

    Notes
    -----
    Only one row is in memory at a time. There are three exceptions: a few rows of a parquet or
    Arrow file, up to 1 GiB of rows if such a file is compressed, and the whole document of a .json
    file.
    """
    suffix = suffix or path.suffix.lower()
    try:
        check_regular(path, follow=True)
        if suffix in _TEXT:
            _check_utf16(path)
        match suffix:
            case ".jsonl":
                yield from _read_jsonl(path)
            case ".json":
                yield from _read_json(path)
            case ".csv" | ".tsv":
                cut_at = delimiter or ("\t" if suffix == ".tsv" else ",")
                yield from _read_csv(path, header, cut_at.replace("\\t", "\t"))
            case ".parquet":
                yield from _numbered(parquet_batches(path), "parquet")
            case ".arrow":
                yield from _numbered(arrow_batches(path, _UNFOLDED), "Arrow")
            case _:
                kind = suffix or "a file without suffix"
                raise BenchmarkError(f"cannot read {kind}; expected {', '.join(SUFFIXES)}.")
    except OSError as error:
        raise BenchmarkError(f"cannot be read: {error.strerror or error}.") from error


def labelled_rows(
    file: DataFile, *, header: bool = True, delimiter: str | None = None
) -> Iterator[tuple[str, RawRow]]:
    """Yield the rows of a file, with the file's label in places and errors: "arc.jsonl, line 3"."""
    try:
        for place, row in read_rows(file.path, header=header, delimiter=delimiter):
            yield f"{file.label}, {place}", row
    except BenchmarkError as error:
        raise BenchmarkError(f"{file.label}, {error}") from error


def _read_jsonl(path: Path) -> Iterator[tuple[str, RawRow]]:
    with path.open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(MAX_TEXT + 1), b""), start=1):
            place = f"line {number}"
            _check_size(place, len(line))
            text = _decode(
                line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line, place, path
            ).strip()
            if text:
                yield place, _object(_parse_json(text, place), place)


def _check_size(place: str, size: int) -> None:
    """Raise BenchmarkError if a text is too large, since a small file can decompress to
    gigabytes."""
    if size > MAX_TEXT:
        raise BenchmarkError(
            f"{place}: a text has more than {MAX_TEXT:,} characters. Expected shorter texts; no "
            "question is that long."
        )


def _read_json(path: Path) -> Iterator[tuple[str, RawRow]]:
    if (size := path.stat().st_size) > MAX_DOCUMENT:
        raise BenchmarkError(
            f"the JSON document has {size:,} bytes; expected at most {MAX_DOCUMENT:,}. Save it as "
            ".jsonl."
        )
    data = read_bytes(path, MAX_DOCUMENT, follow=True).removeprefix(b"\xef\xbb\xbf")
    document = _parse_json(_decode(data, "the document", path), "")
    if not isinstance(document, list):
        kind = type(document).__name__
        raise BenchmarkError(
            f"the file is one JSON {kind}; expected a list of objects, or one object per line in a "
            ".jsonl file."
        )
    for number, row in enumerate(document, start=1):
        yield f"item {number}", _object(row, f"item {number}")


def _read_csv(path: Path, header: bool, delimiter: str) -> Iterator[tuple[str, RawRow]]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        rows = _csv_records(stream, delimiter, path)
        names: list[str] | None = None
        for place, fields in rows:
            if not header:
                yield place, fields
            elif names is None:
                names = [name.strip() for name in fields]
                if names[0].startswith(("[{", '{"')) or names in (["["], ["{"]):
                    raise BenchmarkError(
                        f"{place}: the file begins with {names[0][:20]!r}, so it is JSON. Expected a header. "
                        "Example: a name that ends in .json or .jsonl."
                    )
                named = []
                for name in names:
                    if name:
                        named.append(name)
                if len(set(named)) != len(named):
                    raise BenchmarkError(
                        f"{place}: the header repeats a column: {', '.join(named)}."
                    )
                if len(names) == 1 and (other := max(_DELIMITERS, key=names[0].count)) in names[0]:
                    raise BenchmarkError(
                        f"{place}: the header has only the column {names[0]!r}, and seems to be "
                        f"separated by {other!r}. Set 'benchmark.delimiter=\"{_shown(other)}\"'."
                    )
            elif len(fields) != len(names):
                raise BenchmarkError(
                    f"{place}: the row has {len(fields)} fields, but the header has {len(names)} "
                    f"({', '.join(names)}). Quote a field that contains {_shown(delimiter)!r}, "
                    f'such as "Paris{_shown(delimiter)} France".'
                )
            else:
                yield place, dict(zip(names, fields, strict=True))


def likely_delimiter(path: Path) -> str | None:
    """Return the separator that a csv's header contains more often than commas.

    Return None if there is no such separator.
    """
    with open_file(path, follow=True) as raw, TextIOWrapper(raw, "utf-8-sig", "replace") as stream:
        header = stream.readline(MAX_TEXT)
    best = max((",", *_DELIMITERS), key=header.count)
    return None if best == "," else best


def _shown(delimiter: str) -> str:
    return "\\t" if delimiter == "\t" else delimiter


def _csv_records(stream: TextIO, delimiter: str, path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each record of a csv with the number of its first line; a quoted field may span
    lines."""
    csv.field_size_limit(MAX_TEXT)
    reader = csv.reader(stream, strict=True, delimiter=delimiter)
    while True:
        place = f"line {reader.line_num + 1}"
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BenchmarkError(
                f'{place}: malformed csv row ({error}); a quote within quotes is "".'
            ) from error
        except UnicodeDecodeError as error:
            raise _not_utf8(
                f"near {place}: byte 0x{error.object[error.start]:02x}", path
            ) from error
        if fields:
            yield place, fields


def parquet_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a parquet file, in batches that fit into memory after decompression.

    Parameters
    ----------
    path : Path
        File to read.

    Yields
    ------
    RecordBatch
        The batches, in order.

    Raises
    ------
    BenchmarkError
        If a text is too large, or if the file decompresses to far more than its size. The message
        does not name the file.
    """
    with pq.ParquetFile(path) as table:
        widest = 1
        for group in map(table.metadata.row_group, range(table.num_row_groups)):
            sizes = [group.column(k).total_uncompressed_size for k in range(group.num_columns)]
            _check_size(
                f"a row of {group.num_rows:,}", max(sizes, default=0) // max(group.num_rows, 1)
            )
            widest = max([widest, *sizes])  # No text of the row group is longer than this.
        limit, unfolded = max(_UNFOLDED, _FOLDED * path.stat().st_size), 0
        for batch in table.iter_batches(min(PARQUET_BATCH_ROWS, max(1, _UNFOLDED // widest))):
            unfolded += sum(_plain(column).nbytes for column in batch.columns)
            if unfolded > limit:
                raise BenchmarkError(
                    f"the rows have more than {limit:,} bytes when decompressed, because long "
                    "texts are repeated. Leave the column with these texts out, or save the rows "
                    "as jsonl."
                )
            yield batch


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _numbered(batches: Iterator[pa.RecordBatch], kind: str) -> Iterator[tuple[str, RawRow]]:
    number = 0
    try:
        for batch in batches:
            batch.validate(full=True)  # Damaged offsets would otherwise crash the process.
            for row in _few_at_once(batch):
                number += 1
                lengths = []
                for value in row.values():
                    if isinstance(value, str):
                        lengths.append(len(value))
                _check_size(f"row {number}", max(lengths, default=0))
                yield f"row {number}", row
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise BenchmarkError(
            f"after row {number}: the file is not a readable {kind} file ({reason})."
        ) from error


def _few_at_once(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for first in range(0, len(batch), PARQUET_BATCH_ROWS):
        yield from batch.slice(first, PARQUET_BATCH_ROWS).to_pylist()


def _parse_json(text: str, place: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        at = f"{place}: " if place else ""
        # Python's message on numbers with thousands of digits ends with advice, which is cut off.
        reason = str(error).partition("; use sys.")[0]
        raise BenchmarkError(
            f'{at}malformed JSON ({reason}); expected whole objects, such as {{"id": 1}}.'
        ) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the (key, value) pairs of a JSON object as a dict. A repeated key is an error, because
    json would keep only its last value."""
    values = dict(pairs)
    if len(values) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise ValueError(
            f"the key {max(times, key=times.__getitem__)!r} occurs twice in one object"
        )
    return values


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def _object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BenchmarkError(f"{place}: expected a JSON object, found {type(value).__name__}.")
    return value


def _decode(data: bytes, place: str, path: Path) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_utf8(f"{place}: byte 0x{data[error.start]:02x}", path) from error


def _check_utf16(path: Path) -> None:
    """Raise BenchmarkError if a file begins as UTF-16. Without a byte order mark, English text in
    UTF-16 is valid UTF-8 with many NUL characters.
    """
    with path.open("rb") as stream:
        start = stream.read(1024)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start:
        raise _not_utf8("line 1: it", path)


def _not_utf8(problem: str, path: Path) -> BenchmarkError:
    with path.open("rb") as stream:
        name = likely_encoding(stream.read(_ENCODING_BYTES))
    advice = "Save it as UTF-8 in the program that wrote it (its encoding is unclear)."
    if name:
        advice = f"It looks like {name}: convert it with `iconv -f {name} -t UTF-8 {path.name} > utf8-{path.name}`."
    return BenchmarkError(f"{problem} is not UTF-8. {advice}")


def likely_encoding(data: bytes) -> str | None:
    """Guess the encoding of a text that is not UTF-8.

    Parameters
    ----------
    data : bytes
        The text, or its beginning.

    Returns
    -------
    str or None
        Name of the encoding for iconv; None if no encoding fits.

    Notes
    -----
    UTF-16 is recognised by its byte order mark, or by a NUL beside each ASCII character. Among the
    one-byte encodings of western Europe, the encoding with the most plausible accented letters and
    typographic marks is chosen.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    if b"\0" in data:
        even, odd = data[::2].count(0), data[1::2].count(0)
        if even == odd:
            return None
        return "UTF-16LE" if odd > even else "UTF-16BE"
    best = max(_WESTERN, key=lambda name: _sense(data, _WESTERN[name]))
    return best if _sense(data, _WESTERN[best]) >= _LIKELY else None


def _sense(data: bytes, encoding: str) -> float:
    """Return the share (0-1) of non-ASCII characters that fit their neighbours (`_usual`)."""
    text = f" {data.decode(encoding, errors='replace')} "
    places = []
    for i, character in enumerate(text):
        if character > "\x7f":
            places.append(i)
    return sum(_usual(*text[i - 1 : i + 2]) for i in places) / max(len(places), 1)


def _usual(before: str, character: str, after: str) -> bool:
    """Return whether a character is plausible between its neighbours.

    A capital inside a small word and a run of accents are not plausible. Texts in another script
    look like this if they are decoded wrongly.
    """
    if (
        character.isalpha()
        and (before.isalpha() and before > "\x7f")
        and (after.isalpha() and after > "\x7f")
    ):
        return False
    if character in _USUAL:
        return True
    return (
        character.lower() in _USUAL
        and not before.islower()
        and not (before.isupper() and after.islower())
    )


def content_hash(files: Sequence[DataFile]) -> str:
    """Return a hash of the content of files.

    Parameters
    ----------
    files : sequence of DataFile
        The files, in order.

    Returns
    -------
    str
        "sha256:<hex>". For one file, this is the hash of its bytes. For several files, it is the
        hash of a text with the line "<sha256>  <name>" for each file.

    Raises
    ------
    BenchmarkError
        If a file cannot be read.
    """
    digests = []
    for file in files:
        try:
            with open_file(file.path, follow=True) as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        except OSError as error:
            raise BenchmarkError(
                f"{file.label} cannot be read: {error.strerror or error}."
            ) from error
    if len(digests) == 1:
        return f"sha256:{digests[0]}"
    listed = []
    for digest, file in zip(digests, files, strict=True):
        listed.append(f"{digest}  {file.path.name}\n")
    lines = "".join(listed)
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def missing_shards(names: Iterable[str]) -> list[str]:
    """Return the names of missing files if files are numbered, such as
    test-00000-of-00003.parquet."""
    present = set(names)
    wanted: set[str] = set()
    for name in present:
        match = _SHARD.fullmatch(name)
        if match:
            stem, _, of, suffix = match.groups()
            wanted.update(f"{stem}-{k:0{len(of)}d}-of-{of}{suffix}" for k in range(int(of)))
    return sorted(wanted - present)


def select_files(
    names: Sequence[str], *, config: str | None, split: str, suffixes: Sequence[str], strict: bool
) -> list[str]:
    """Select the files that hold one configuration and split.

    Parameters
    ----------
    names : sequence of str
        Paths relative to the root, such as "ARC-Easy/test-00000-of-00001.parquet".
    config : str or None
        Name of the configuration.
    split : str
        Name of the split.
    suffixes : sequence of str
        Kinds of files. The first kind that is present is used.
    strict : bool
        True (for the hub) requires the configuration and the split in the path. False (for a
        user's folder) ignores a configuration or split that is in no path, so that a folder of
        <category>.jsonl files is read completely.

    Returns
    -------
    list of str
        Paths of the files, in order; empty if no file fits.
    """
    for suffix in suffixes:
        of_kind = sorted(n for n in names if n.lower().endswith(suffix) and not n.startswith("."))
        chosen = _of_config(of_kind, config, strict)
        fitting = _of_split(chosen, split)
        if fitting:
            return fitting
        if chosen and not strict and _SPLIT_NAMES.isdisjoint(_tokens("/".join(chosen))):
            return chosen
    return []


def _of_config(names: list[str], config: str | None, strict: bool) -> list[str]:
    """Return the files of a configuration, as `select_files` describes it."""
    if not config:
        return _one_folder(names) if strict else names
    fitting = [name for name in names if _has_config(name, config)]
    return fitting if fitting or strict else names


def _of_split(names: Sequence[str], split: str) -> list[str]:
    """Return the files with the split in their names; if there are none, the files with a synonym
    of the split."""
    for alias in (split, *_SPLIT_ALIASES.get(split, ())):
        fitting = [name for name in names if alias.lower() in _tokens(name)]
        if fitting:
            return fitting
    return []


def some_names(names: Sequence[str], most: int) -> str:
    """Join at most `most` names, followed by the number of files if there are more."""
    more = f", ... ({len(names)} files)" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def _tokens(name: str) -> set[str]:
    return set(re.split(r"[-_./]+", name.lower()))


def _has_config(name: str, config: str) -> bool:
    wanted, *parts = config.lower(), *name.lower().split("/")
    return wanted in parts[:-1] or bool(re.match(rf"{re.escape(wanted)}([-_.]|$)", parts[-1]))


def _one_folder(names: list[str]) -> list[str]:
    """Return the files of a repository without configurations.

    The files are in the root, in data/, or in the repository's only folder.
    """
    plain = []
    for n in names:
        if n.split("/")[0] in ("data", "default") or "/" not in n:
            plain.append(n)
    return plain if plain or len({n.split("/")[0] for n in names}) > 1 else names
