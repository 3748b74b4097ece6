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
    """Return a csv document in which no text can run as a formula in a spreadsheet.

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
    """Return a csv document with one line for each row and one column for each chosen attribute.

    Parameters
    ----------
    rows : iterable
        Objects or mappings.
    *names : str
        The columns, each as "name" or "name=path". A path consists of attributes and keys that are
        separated by dots. The column holds the value at the path, or the attribute `name` if there
        is no path. If the value does not exist, the field is empty.
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
    """Make an untrusted text safe for spreadsheets, so that it does not run as a formula.

    The source of the rule is OWASP, "CSV injection".

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        The text, with an apostrophe before it if a spreadsheet could run the text as a formula.
        Numbers are not changed.

    Examples
    --------
    >>> safe("=HYPERLINK(1)")
    "'=HYPERLINK(1)"
    """
    # The csv module does not quote a carriage return without a line feed.
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
