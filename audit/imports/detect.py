"""What a file is, by its content and not its name; and its reader."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from audit.errors import ConfigError, DataError
from audit.guarded_files import open_file
from audit.imports.eee import is_eee, read_eee
from audit.imports.helm import STATE, read_helm
from audit.imports.inspect_log import is_inspect, read_eval, read_json
from audit.imports.lm_eval import read_lm_eval
from audit.imports.record import Imported, Log, Wanted, document, parse
from audit.imports.sets import read_own
from audit.imports.table import read_table
from audit.shards.manifest import MANIFEST

_HEAD = 16 << 20  # bytes of a first line


def read_log(path: Path, wanted: Wanted) -> Log:
    """The log that a file or folder is. ConfigError where it is not there, DataError where it is of no known format, or
    an outcome, as it is read, is not as its format has them."""
    with _as_its_format(path):
        log = _read(path, wanted)
    return replace(log, outcomes=_told(path, log.outcomes))


def _told(path: Path, outcomes: Iterator[Imported]) -> Iterator[Imported]:
    with _as_its_format(path):
        yield from outcomes


@contextmanager
def _as_its_format(path: Path) -> Iterator[None]:
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:  # a list for an object, say
        raise DataError(
            f"{path} is not as its format has it ({error!r:.120}). Expected a whole log: copy it again."
        ) from error


def _read(path: Path, wanted: Wanted) -> Log:
    if (path / MANIFEST).is_file():
        return read_own(path, wanted)
    if (path / STATE).is_file():
        return read_helm(path, wanted)
    if path.is_dir():
        raise ConfigError(
            f"{path} is a folder without {STATE} or {MANIFEST}. Expected log files, such as {path}/*.jsonl."
        )
    try:
        with open_file(path, follow=True) as file:
            line = file.readline(_HEAD)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}). Expected a log, such as logs/a.eval.") from error
    if line.startswith(b"PK\3\4"):
        return read_eval(path, wanted)
    if line.startswith(b"PAR1"):
        return read_table(path, "parquet", wanted)
    text = line.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] not in (b"{", b"["):
        if b"\0" in line or not text:
            raise DataError(f"{path} is {'binary' if text else 'empty'}; expected an eval log, csv, jsonl or parquet.")
        return read_table(path, "csv", wanted)
    return _json(path, text, wanted)


def _json(path: Path, line: bytes, wanted: Wanted) -> Log:
    """One document over several lines or in one, or an object a line."""
    kind = "jsonl"
    try:
        first = parse(line, str(path))
    except DataError:
        first, kind = document(path), "json"
    if is_inspect(first):
        return read_json(path, wanted)
    if is_eee(first):
        return read_eee(path, wanted)
    if not isinstance(first, dict):
        return read_table(path, "json" if isinstance(first, list) else kind, wanted)
    if {"doc", "doc_id"} <= set(first):
        return read_lm_eval(path, wanted)
    if {"results", "configs"} <= set(first):
        raise ConfigError(f"{path} holds totals alone. Give the samples_*.jsonl beside it: --log_samples writes them.")
    return read_table(path, kind, wanted)
