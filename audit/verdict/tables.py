"""A table of a report as csv: the document, and a number in it."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
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
