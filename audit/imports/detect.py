"""Find the reader of a file by its content, not by its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import methodcaller
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from audit.core.errors import ConfigError, DataError
from audit.core.guarded_files import nearest, open_file
from audit.imports.formats.eee import is_eee, read_eee
from audit.imports.formats.evalplus import is_evalplus, read_evalplus
from audit.imports.formats.helm import STATE, read_helm
from audit.imports.formats.inspect_log import is_inspect, read_eval, read_json
from audit.imports.formats.lighteval import is_lighteval, read_lighteval
from audit.imports.formats.lm_eval import read_lm_eval
from audit.imports.formats.openai_evals import is_evals, read_evals
from audit.imports.formats.opencompass import is_opencompass, read_opencompass
from audit.imports.formats.promptfoo import is_promptfoo, is_result, read_promptfoo
from audit.imports.formats.swe_bench import is_swe_bench, read_swe_bench
from audit.imports.nested import ABSENT, at, lists_of, rows_by_column
from audit.imports.propose import UNKNOWN, propose
from audit.imports.record import Imported, Log, Record, Records, Wanted, document, parse, rows_of
from audit.imports.sets import read_own
from audit.imports.table import read_table
from audit.imports.totals import refuse_numbers, refuse_totals
from audit.shards.manifest import MANIFEST

_HEAD = 16 << 20  # largest size of the first line, in bytes


def read_log(path: Path, wanted: Wanted) -> Log:
    """Read a file or a folder as a log, with the reader of its format.

    Parameters
    ----------
    path : Path
        The file, or the folder of a run.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If the path does not exist.
    DataError
        If the format is unknown. An outcome that is invalid in its format raises the error later,
        when the outcome is read.
    """
    with _as_its_format(path):
        log = _read(path, wanted)
    return replace(log, outcomes=_guarded(path, log.outcomes))


def _guarded(path: Path, outcomes: Iterator[Imported]) -> Iterator[Imported]:
    with _as_its_format(path):
        yield from outcomes


@contextmanager
def _as_its_format(path: Path) -> Iterator[None]:
    try:
        yield
    # Each of these errors means that a value has an unexpected type, such as a list in place of an
    # object.
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
    ) as error:
        raise DataError(
            f"{path} does not follow its format ({error!r:.120}). Expected a whole log: copy it "
            "again."
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
            alone = not file.read(_HEAD).strip()
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be read ({error.strerror}).{nearest(path)} "
            "Expected a log, such as logs/a.eval."
        ) from error
    if line.startswith(b"PK\3\4"):
        return read_eval(path, wanted)
    if line.startswith(b"PAR1"):
        if is_lighteval(_columns(path)):
            return read_lighteval(path, wanted)
        return read_table(path, "parquet", wanted)
    text = line.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] not in (b"{", b"["):
        if not text or (b"\0" in line and not _is_utf16(line)):
            raise DataError(
                f"{path} is {'binary' if text else 'empty'}; expected an eval log, csv, jsonl or parquet."
            )
        return read_table(path, "csv", wanted)
    return _json(path, text, alone, wanted)


def _is_utf16(line: bytes) -> bool:
    """Return whether a line is text in UTF-16.

    The reader of tables then refuses the file with a message that names UTF-16.
    """
    return line.startswith((b"\xff\xfe", b"\xfe\xff")) or not (
        any(line[:16:2]) and any(line[1:16:2])
    )


def _columns(path: Path) -> list[str]:
    """Return the names of a parquet file's columns.

    The list is empty for a damaged file. The damage is reported when the rows are read.
    """
    try:
        return list(pq.read_schema(path).names)
    except (pa.ArrowException, OSError):
        return []


def _json(path: Path, line: bytes, alone: bool, wanted: Wanted) -> Log:
    """Return the log of a JSON file. The file is one document, or has one object per line.

    `alone` states whether the file has a single line.
    """
    kind = "jsonl"
    try:
        first = parse(line, str(path))
    except DataError:
        first, kind, alone = document(path), "json", True
    refuse_totals(path, first)
    if is_inspect(first):
        return read_json(path, wanted)
    if is_eee(first):
        return read_eee(path, wanted)
    if not isinstance(first, dict):
        return read_table(path, "json" if isinstance(first, list) else kind, wanted)
    if {"doc", "doc_id"} <= set(first):
        return read_lm_eval(path, wanted)
    if is_evals(first):
        return read_evals(path, wanted)
    if is_result(first):
        return read_promptfoo(path, [row for _, row in rows_of(path, ".jsonl")], wanted)
    if {"idx", "origin_prompt", "prediction"} <= set(first):
        items = {str(row["idx"]): row for _, row in rows_of(path, ".jsonl")}
        return read_opencompass(path, items, wanted)
    log = _document(path, first, wanted) if alone else None
    return log or read_table(path, kind, wanted)


def _document(path: Path, content: Record, wanted: Wanted) -> Log | None:
    """Return the log of a file that is a single JSON object.

    The object has a known format, or it contains a list of objects, or it contains the names of
    columns and a list of rows. The rows are read as a table.
    """
    if is_evalplus(content):
        return read_evalplus(path, content, wanted)
    if is_promptfoo(content):
        about = content.get("config")
        description = about.get("description") if isinstance(about, dict) else None
        return read_promptfoo(path, content["results"]["results"], wanted, str(description or ""))
    if is_opencompass(content):
        return read_opencompass(path, content, wanted)
    if is_swe_bench(content):
        return read_swe_bench(path, content, wanted)
    if _is_row(content, wanted):
        return None
    refuse_numbers(path, content)
    lists = rows_by_column(content, str(path)) or _mapped(lists_of(content), wanted)
    if len(lists) > 1:
        raise DataError(
            f"{path} holds {len(lists)} lists ({', '.join(list(lists)[:6])}). Expected a file with "
            f"one list, or columns of one list. Example: {_columns_of_one(lists, wanted)}"
        )
    facts = {}
    for name in ("model", "benchmark"):
        if isinstance(content.get(name), str):
            facts[name] = content[name]
    for name, rows in lists.items():
        return read_table(path, "json", wanted, partial(_placed, f"{path}, {name}", rows, facts))
    return None


def _columns_of_one(lists: dict[str, list[Record]], wanted: Wanted) -> str:
    """Return the arguments with which one of several lists can be read.

    This is the list whose columns' names fit the most fields.
    """
    proposals = []
    for rows in lists.values():
        proposals.append(propose(rows[0], bool(wanted.model)))
    return min(proposals, key=methodcaller("count", UNKNOWN))


def _mapped(lists: dict[str, list[Record]], wanted: Wanted) -> dict[str, list[Record]]:
    """Return the lists whose first object has every column that the user named.

    If no list has them, or the user named no column, return all lists.
    """
    fit = {}
    for name, rows in lists.items():
        if _has_columns(rows[0], wanted):
            fit[name] = rows
    return fit or lists


def _is_row(content: Record, wanted: Wanted) -> bool:
    """Return whether an object, which is a whole file, is the only row of a table.

    An object with a list is not always a table, since a row may also contain a list, such as
    messages.
    """
    return {"item", "correct"} <= set(content) or _has_columns(content, wanted)


def _has_columns(row: Record, wanted: Wanted) -> bool:
    """Return whether the user named columns, and a row has all of them."""
    columns = [column for column in wanted.columns.values() if not column.isdecimal()]
    return bool(columns) and all(at(row, name, ABSENT) is not ABSENT for name in columns)


def _placed(where: str, rows: list[Record], facts: Record) -> Records:
    for number, row in enumerate(rows, 1):
        yield f"{where}, item {number}", facts | row
