"""A table of a report as csv: the document, and a number in it."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"-[0-9.]+(e[+-]?[0-9]+)?")


def csv_text(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A csv document; None is empty, and no text of it is run by a spreadsheet."""
    out = io.StringIO()
    lines = ([safe(cell) if isinstance(cell, str) else cell for cell in row] for row in (header, *rows))
    csv.writer(out, lineterminator="\n").writerows(lines)
    return out.getvalue()


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
