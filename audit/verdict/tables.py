"""A table of a report as csv: the document, and a number in it."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any


def csv_text(header: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """A csv document; None is empty."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows((header, *rows))
    return out.getvalue()


def digits(value: float | None) -> str:
    """Six digits; empty where it was not computed."""
    return "" if value is None or not math.isfinite(value) else f"{value:.6g}"
