"""Files -> raw rows, streaming: jsonl, json, csv, parquet and Arrow, with the line of every row for error messages."""

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
from audit.errors import BenchmarkError
from audit.guarded_files import check_regular, open_file, read_bytes

_TEXT = (".jsonl", ".json", ".csv", ".tsv")
_DELIMITERS = (";", "\t", "|")  # of a csv that is not cut at commas, in the order in which they are suspected
_ENCODING_BYTES = 1 << 22  # of a file that is not UTF-8, to tell what it is
PARQUET_BATCH_ROWS = 64  # a dictionary writes a text once for all rows: few of them are unfolded at once
_UNFOLDED = 1 << 30  # bytes of the rows that are unfolded at once
_FOLDED = 1000  # a file that is larger than that unfolds to no more times its own bytes
MAX_TEXT = 1 << 24  # bytes of a line, characters of a text: a million tokens are a quarter of it
MAX_DOCUMENT = 1 << 30  # bytes of one JSON document
# One item may be published under any of these names of a split; the asked name is tried first.
_SPLIT_ALIASES = {
    "validation": ("validation", "valid", "val", "dev"),
    "val": ("val", "validation", "valid"),
    "dev": ("dev", "validation"),
}
_SHARD = re.compile(r"(.*)-(\d{5})-of-(\d{5})(\..*)")
# iconv's name -> Python's. Windows-1252 holds Latin-1's printable characters.
_WESTERN = {"WINDOWS-1252": "cp1252", "MACINTOSH": "mac_roman"}
_USUAL = frozenset("àáâãäåæçèéêëìíîïñòóôõöøùúûüýÿßœ’‘“”–—…°²½€£§¿¡")
_LIKELY = 0.6  # share of the characters outside ASCII that have to make sense
_SPLIT_NAMES = {"train", "test", "validation", "valid", "val", "dev"}


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file to read. `label` is how messages name it; `subject` comes from the file's name ("" where none)."""

    path: Path
    label: str
    subject: str = ""


def read_rows(
    path: Path, *, suffix: str = "", header: bool = True, delimiter: str | None = None
) -> Iterator[tuple[str, RawRow]]:
    """(place, row) of every row, such as ("line 7", {...}); csv without header gives lists of text.

    suffix: what the file is; "": what its name says. delimiter: of a csv or tsv ("\\t" written out is a tab); None: a
    comma, of a .tsv a tab. Memory is bounded by one row (some of parquet and Arrow, 1 GiB where they are compressed),
    except .json: one document. Raises BenchmarkError that names the place but not the file.
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
                what = suffix or "a file without suffix"
                raise BenchmarkError(f"cannot read {what}; expected {', '.join(SUFFIXES)}.")
    except OSError as error:
        raise BenchmarkError(f"cannot be read: {error.strerror or error}.") from error


def labelled_rows(file: DataFile, *, header: bool = True, delimiter: str | None = None) -> Iterator[tuple[str, RawRow]]:
    """As `read_rows`; places and errors begin with the file's label, such as "arc.jsonl, line 3"."""
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
            text = _decode(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line, place, path).strip()
            if text:
                yield place, _object(_parse_json(text, place), place)


def _check_size(place: str, size: int) -> None:
    """BenchmarkError for a text that no question has: a small file can unfold to one of gigabytes."""
    if size > MAX_TEXT:
        raise BenchmarkError(f"{place}: a text of more than {MAX_TEXT:,} characters. No question is that long.")


def _read_json(path: Path) -> Iterator[tuple[str, RawRow]]:
    if (size := path.stat().st_size) > MAX_DOCUMENT:
        raise BenchmarkError(f"a document of {size:,} bytes; expected at most {MAX_DOCUMENT:,}. Save it as .jsonl.")
    data = read_bytes(path, MAX_DOCUMENT, follow=True).removeprefix(b"\xef\xbb\xbf")
    document = _parse_json(_decode(data, "the document", path), "")
    if not isinstance(document, list):
        found = type(document).__name__
        raise BenchmarkError(f"one JSON {found}; expected a list of objects, or an object a line in a file .jsonl.")
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
                    found = f"{place}: the file begins with {names[0][:20]!r}, so it is JSON"
                    raise BenchmarkError(f"{found}. Expected a header. Example: a name that ends in .json or .jsonl.")
                named = [name for name in names if name]
                if len(set(named)) != len(named):
                    raise BenchmarkError(f"{place}: the header repeats a column: {', '.join(named)}.")
                if len(names) == 1 and (other := max(_DELIMITERS, key=names[0].count)) in names[0]:
                    found = f"{place}: the header is one column, {names[0]!r}, and seems to be cut at {other!r}"
                    raise BenchmarkError(f"{found}: set 'benchmark.delimiter=\"{_shown(other)}\"'.")
            elif len(fields) != len(names):
                raise BenchmarkError(
                    f"{place}: {len(fields)} fields, but the header has {len(names)} ({', '.join(names)}). "
                    f'Quote a field that holds {_shown(delimiter)!r}, such as "Paris{_shown(delimiter)} France".'
                )
            else:
                yield place, dict(zip(names, fields, strict=True))


def likely_delimiter(path: Path) -> str | None:
    """Between the fields of a csv whose header has another sign than a comma more often; None for the usual one."""
    with open_file(path, follow=True) as raw, TextIOWrapper(raw, "utf-8-sig", "replace") as stream:
        header = stream.readline(MAX_TEXT)
    best = max((",", *_DELIMITERS), key=header.count)
    return None if best == "," else best


def _shown(delimiter: str) -> str:
    return "\\t" if delimiter == "\t" else delimiter


def _csv_records(stream: TextIO, delimiter: str, path: Path) -> Iterator[tuple[str, list[str]]]:
    """Records with the line each begins on (a quoted field may span lines); empty lines are skipped."""
    csv.field_size_limit(MAX_TEXT)
    reader = csv.reader(stream, strict=True, delimiter=delimiter)
    while True:
        place = f"line {reader.line_num + 1}"
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise BenchmarkError(f'{place}: malformed csv row ({error}); a quote within quotes is "".') from error
        except UnicodeDecodeError as error:
            raise _not_utf8(f"near {place}: byte 0x{error.object[error.start]:02x}", path) from error
        if fields:
            yield place, fields


def parquet_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows, as many at a time as memory holds however they are folded. BenchmarkError, without the file's name,
    for texts that no question has, and for a file that unfolds to absurdly more than it is."""
    with pq.ParquetFile(path) as table:
        widest = 1
        for group in map(table.metadata.row_group, range(table.num_row_groups)):
            sizes = [group.column(k).total_uncompressed_size for k in range(group.num_columns)]
            _check_size(f"a row of {group.num_rows:,}", max(sizes, default=0) // max(group.num_rows, 1))
            widest = max([widest, *sizes])  # no text of the group is longer
        limit, unfolded = max(_UNFOLDED, _FOLDED * path.stat().st_size), 0
        for batch in table.iter_batches(min(PARQUET_BATCH_ROWS, max(1, _UNFOLDED // widest))):
            unfolded += sum(_plain(column).nbytes for column in batch.columns)
            if unfolded > limit:
                found = f"its rows hold more than {limit:,} bytes: long texts are repeated in it"
                raise BenchmarkError(f"{found}. Leave that column out, or save the rows as jsonl.")
            yield batch


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _numbered(batches: Iterator[pa.RecordBatch], kind: str) -> Iterator[tuple[str, RawRow]]:
    number = 0
    try:
        for batch in batches:
            batch.validate(full=True)  # damaged offsets would otherwise crash the process that follows them
            for row in _few_at_once(batch):
                number += 1
                _check_size(f"row {number}", max((len(v) for v in row.values() if isinstance(v, str)), default=0))
                yield f"row {number}", row
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise BenchmarkError(f"after row {number}: not a readable {kind} file ({reason}).") from error


def _few_at_once(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    for first in range(0, len(batch), PARQUET_BATCH_ROWS):
        yield from batch.slice(first, PARQUET_BATCH_ROWS).to_pylist()


def _parse_json(text: str, place: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        at = f"{place}: " if place else ""
        reason = str(error).partition("; use sys.")[0]  # Python's advice on a number of thousands of digits
        raise BenchmarkError(f'{at}malformed JSON ({reason}); expected whole objects, such as {{"id": 1}}.') from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a repeated key is an error, because json would silently keep the last one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        times = Counter(key for key, _ in pairs)
        raise ValueError(f"key {max(times, key=times.__getitem__)!r} occurs twice in one object")
    return found


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
    """UTF-16 is refused as such at the start: without its mark, English in UTF-16 is valid UTF-8 full of NULs."""
    with path.open("rb") as stream:
        start = stream.read(1024)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in start:
        raise _not_utf8("line 1: it", path)


def _not_utf8(found: str, path: Path) -> BenchmarkError:
    with path.open("rb") as stream:
        name = likely_encoding(stream.read(_ENCODING_BYTES))
    advice = "Save it as UTF-8 in the program that made it (its encoding cannot be told from its bytes)."
    if name:
        advice = f"It looks like {name}: convert it with `iconv -f {name} -t UTF-8 {path.name} > utf8-{path.name}`."
    return BenchmarkError(f"{found} is not UTF-8. {advice}")


def likely_encoding(data: bytes) -> str | None:
    """What a text that is not UTF-8 was probably written in, by the name that iconv knows; None where nothing fits.

    UTF-16 shows by its mark, or by a NUL beside each ASCII character. Between the one-byte encodings of western Europe
    decides which of them makes small accented letters and typographic marks of the bytes outside ASCII.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    if b"\0" in data:
        even, odd = data[::2].count(0), data[1::2].count(0)
        return None if even == odd else "UTF-16LE" if odd > even else "UTF-16BE"
    best = max(_WESTERN, key=lambda name: _sense(data, _WESTERN[name]))
    return best if _sense(data, _WESTERN[best]) >= _LIKELY else None


def _sense(data: bytes, encoding: str) -> float:
    """Share (0-1) of the characters outside ASCII that are usual where they stand."""
    text = f" {data.decode(encoding, errors='replace')} "
    places = [i for i, character in enumerate(text) if character > "\x7f"]
    return sum(_usual(*text[i - 1 : i + 2]) for i in places) / max(len(places), 1)


def _usual(before: str, character: str, after: str) -> bool:
    """No capital within a word of small letters, and no run of accents: another script looks like that."""
    if character.isalpha() and (before.isalpha() and before > "\x7f") and (after.isalpha() and after > "\x7f"):
        return False
    if character in _USUAL:
        return True
    return character.lower() in _USUAL and not before.islower() and not (before.isupper() and after.islower())


def content_hash(files: Sequence[DataFile]) -> str:
    """sha256:<hex> of one file's bytes; of several, of their "<sha256>  <name>" lines in order."""
    digests = []
    for file in files:
        try:
            with open_file(file.path, follow=True) as stream:
                digests.append(hashlib.file_digest(stream, "sha256").hexdigest())
        except OSError as error:
            raise BenchmarkError(f"{file.label} cannot be read: {error.strerror or error}.") from error
    if len(digests) == 1:
        return f"sha256:{digests[0]}"
    lines = "".join(f"{digest}  {file.path.name}\n" for digest, file in zip(digests, files, strict=True))
    return f"sha256:{hashlib.sha256(lines.encode()).hexdigest()}"


def missing_shards(names: Iterable[str]) -> list[str]:
    """Those of test-00000-of-00003.parquet, ... that are not among the names."""
    there = set(names)
    shards = {match.groups() for name in there if (match := _SHARD.fullmatch(name))}
    wanted = {f"{stem}-{k:0{len(of)}d}-of-{of}{suffix}" for stem, _, of, suffix in shards for k in range(int(of))}
    return sorted(wanted - there)


def select_files(
    names: Sequence[str], *, config: str | None, split: str, suffixes: Sequence[str], strict: bool
) -> list[str]:
    """Which of a folder's or repository's files hold one configuration and split, in order; [] when none does.

    names: paths relative to the root, such as "ARC-Easy/test-00000-of-00001.parquet". The first suffix found wins.
    strict (the hub): configuration and split must be in the path. Otherwise (a user's folder) a name that no file
    carries does not select, so that a folder of <category>.jsonl is read whole.
    """
    for suffix in suffixes:
        found = sorted(n for n in names if n.lower().endswith(suffix) and not n.startswith("."))
        if config:
            mine = [n for n in found if _has_config(n, config)]
            found = mine if mine or strict else found
        elif strict:
            found = _one_folder(found)
        for alias in (split, *_SPLIT_ALIASES.get(split, ())):
            if mine := [n for n in found if alias.lower() in _tokens(n)]:
                return mine
        if found and not strict and _SPLIT_NAMES.isdisjoint(_tokens("/".join(found))):
            return found
    return []


def some_names(names: Sequence[str], most: int) -> str:
    more = f", ... ({len(names)} files)" if len(names) > most else ""
    return (", ".join(names[:most]) or "none") + more


def _tokens(name: str) -> set[str]:
    return set(re.split(r"[-_./]+", name.lower()))


def _has_config(name: str, config: str) -> bool:
    wanted, *parts = config.lower(), *name.lower().split("/")
    return wanted in parts[:-1] or bool(re.match(rf"{re.escape(wanted)}([-_.]|$)", parts[-1]))


def _one_folder(names: list[str]) -> list[str]:
    """Files of a repository without configurations: the root or data/, or the only folder there is."""
    plain = [n for n in names if n.split("/")[0] in ("data", "default") or "/" not in n]
    return plain if plain or len({n.split("/")[0] for n in names}) > 1 else names
