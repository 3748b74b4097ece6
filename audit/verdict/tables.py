"""A table of a report as csv: the document, and a number in it."""

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any

_LINES_AT_ONCE = 1024
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"-[0-9.]+(e[+-]?[0-9]+)?")


def csv_text(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A csv document; None is empty, and no text of it is run by a spreadsheet."""
    return "".join(csv_pieces(header, rows))


def csv_pieces(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """The same some lines at a time."""
    rest = chain((header,), rows)
    while lines := list(islice(rest, _LINES_AT_ONCE)):
        out = io.StringIO()
        plain = ([safe(cell) if isinstance(cell, str) else cell for cell in row] for row in lines)
        csv.writer(out, lineterminator="\n").writerows(plain)
        yield out.getvalue()


def columns(rows: Iterable[Any], *names: str, plain: Callable[[Any], Any] | None = None) -> str:
    """A csv of these attributes of each row, under their own names or as "name=path". A path goes by dots through
    attributes and mappings, and is empty where it ends before. plain: how a value is written."""
    paths = [name.rpartition("=")[2].split(".") for name in names]
    write = plain or _plain
    return csv_text([name.partition("=")[0] for name in names], ([write(_at(r, p)) for p in paths] for r in rows))


def _at(one: Any, path: Iterable[str]) -> Any:
    for name in path:
        one = one.get(name) if isinstance(one, Mapping) else None if one is None else getattr(one, name)
    return one


def _plain(value: Any) -> Any:
    return digits(value) if isinstance(value, float) else int(value) if isinstance(value, bool) else value


def safe(text: str) -> str:
    """A text from outside that no spreadsheet runs as a formula (OWASP, "CSV injection"): numbers stay numbers.

    >>> safe("=HYPERLINK(1)")
    "'=HYPERLINK(1)"
    """
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # the csv module does not quote a lone CR
    return "'" + lines if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else lines


def digits(value: float | None) -> str:
    """Six digits; empty where it was not computed."""
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"
