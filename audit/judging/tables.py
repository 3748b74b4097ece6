"""Write a table of a report as csv."""

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
    """Return a csv document with texts that no spreadsheet runs as formulas.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : iterable of iterable
        Values of each row; None becomes an empty field.

    Returns
    -------
    str
        The csv document.
    """
    return "".join(csv_pieces(header, rows))


def csv_pieces(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> Iterator[str]:
    """Yield a csv document in pieces of several lines.

    Parameters
    ----------
    header : sequence of str
        Names of the columns.
    rows : iterable of iterable
        Values of each row, as for `csv_text`.

    Yields
    ------
    str
        The next piece of the document.
    """
    rest = chain((header,), rows)
    lines = list(islice(rest, _LINES_AT_ONCE))
    while lines:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for row in lines:
            writer.writerow([safe(cell) if isinstance(cell, str) else cell for cell in row])
        yield out.getvalue()
        lines = list(islice(rest, _LINES_AT_ONCE))


def columns(rows: Iterable[Any], *names: str, plain: Callable[[Any], Any] | None = None) -> str:
    """Return a csv document with chosen attributes of each row.

    Parameters
    ----------
    rows : iterable
        Objects or mappings.
    *names : str
        Columns. "name" is a column with the attribute of this name. "name=path" is a column with
        the value at a path of attributes and keys separated by dots. The field is empty if the path
        does not exist.
    plain : callable, optional
        Function from a value to the text that is written.

    Returns
    -------
    str
        The csv document.
    """
    paths = [name.rpartition("=")[2].split(".") for name in names]
    write = plain or _plain
    header = [name.partition("=")[0] for name in names]
    body = []
    for row in rows:
        body.append([write(_at(row, path)) for path in paths])
    return csv_text(header, body)


def _at(value: Any, path: Iterable[str]) -> Any:
    for name in path:
        if isinstance(value, Mapping):
            value = value.get(name)
        elif value is not None:
            value = getattr(value, name)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return digits(value)
    return int(value) if isinstance(value, bool) else value


def safe(text: str) -> str:
    """Return an untrusted text that no spreadsheet runs as a formula (OWASP, "CSV injection").

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        The text. If a spreadsheet could run it as a formula, it begins with an apostrophe. Numbers
        are not changed.

    Examples
    --------
    >>> safe("=HYPERLINK(1)")
    "'=HYPERLINK(1)"
    """
    # The csv module does not quote a lone CR.
    lines = text.replace("\r\n", "\n").replace("\r", "\n")
    return "'" + lines if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else lines


def digits(value: float | None) -> str:
    """Return a number as a field of a csv document.

    Parameters
    ----------
    value : float or None
        The number.

    Returns
    -------
    str
        The number with six significant digits; "" for None.
    """
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"
