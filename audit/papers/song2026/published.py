"""A published model-by-router table, read and checked against itself (pure): csv texts in, counts out."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from audit.errors import DataError

if TYPE_CHECKING:  # a refused table needs no statistics
    from audit.papers.song2026.reanalysis import PrintedTable
    from audit.sweep.paper import SettingRow

COLUMNS = ("model", "routers", "clean_accuracy", "noisy_accuracy", "gain", "improve", "degrade")
EXAMPLE = "Llama-3.1-8B,6,0.26,0.43,0.17,21,4"


def read_settings(text: str, n: int, source: str = "table") -> tuple[list[SettingRow], list[str]]:
    """A model-by-router csv -> rows formed from counts, and the cells whose printed numbers contradict each other.

    Accuracies may be rounded: an accuracy stands for the whole number of items that rounds to it. Raises DataError,
    naming the row, for a missing column, a value that is no number, an accuracy outside 0-1 or that no count of n
    items gives, counts that n items do not allow, or a setting that occurs twice.
    """
    from audit.sweep.paper import setting_row

    table = _read_csv(text, COLUMNS, source)
    rows: list[SettingRow] = []
    contradictions: list[str] = []
    seen: set[tuple[str, int]] = set()
    clean_of: dict[str, int] = {}
    for line, cells in table:
        where = f"{source}, line {line} ({cells['model']}, routers={cells['routers']})"
        routers = _whole(cells["routers"], "routers", where)
        improve, degrade = _whole(cells["improve"], "improve", where), _whole(cells["degrade"], "degrade", where)
        clean = _items(cells["clean_accuracy"], "clean_accuracy", n, where)
        noisy = _items(cells["noisy_accuracy"], "noisy_accuracy", n, where)
        gain = _number(cells["gain"], "gain", where)
        if degrade > clean:
            raise DataError(f"{where}: degrade is {degrade}, but only {clean} of {n} items were right when clean.")
        if improve > n - clean:
            raise DataError(f"{where}: improve is {improve}, but only {n - clean} of {n} items were wrong when clean.")
        if (cells["model"], routers) in seen:
            raise DataError(f"{where}: this setting occurs twice; every model and router count occurs once.")
        seen.add((cells["model"], routers))
        slack = _half_digit(cells["gain"]) + 1e-9
        if abs((improve - degrade) / n - gain) > slack:
            contradictions.append(
                f"{where}: gain {gain:+g}, but (improve - degrade) / n = {(improve - degrade) / n:+g}"
            )
        if noisy - clean != improve - degrade:
            contradictions.append(
                f"{where}: noisy - clean = {noisy - clean} items, improve - degrade = {improve - degrade}"
            )
        if clean_of.setdefault(cells["model"], clean) != clean:
            contradictions.append(
                f"{where}: clean accuracy {clean / n:g}, {clean_of[cells['model']] / n:g} in its first row"
            )
        rows.append(setting_row(cells["model"], routers, clean, improve, degrade, n))
    return rows, contradictions


def read_printed(text: str, key: str, columns: Sequence[str], source: str) -> PrintedTable:
    """A printed summary csv -> {row key: {column: (value, half of its last printed digit)}}."""
    out = {}
    for line, cells in _read_csv(text, (key, *columns), source):
        where = f"{source}, line {line} ({cells[key]})"
        out[cells[key]] = {c: (_number(cells[c], c, where), _half_digit(cells[c])) for c in columns}
    return out


def _read_csv(text: str, columns: Sequence[str], source: str) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(text.splitlines())
    missing = [c for c in columns if c not in (reader.fieldnames or [])]
    if missing:
        raise DataError(
            f"{source} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; found "
            f"{', '.join(reader.fieldnames or ['nothing'])}. Expected the header: {','.join(columns)}"
        )
    out = []
    for cells in reader:
        line = reader.line_num
        if any(cells[c] is None for c in columns):
            raise DataError(f"{source}, line {line}: fewer cells than the header has. A row looks like: {EXAMPLE}")
        out.append((line, {c: cells[c].strip() for c in columns}))
    if not out:
        raise DataError(f"{source} has a header and no rows. A row looks like: {EXAMPLE}")
    return out


def _number(cell: str, column: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{where}: {column} is {cell!r}, expected a number such as 0.26. A row looks like: {EXAMPLE}")
    return value


def _whole(cell: str, column: str, where: str) -> int:
    value = _number(cell, column, where)
    if value < 0 or value != int(value):
        raise DataError(f"{where}: {column} is {cell}, expected a whole number >= 0 such as 21.")
    return int(value)


def _items(cell: str, column: str, n: int, where: str) -> int:
    """The number of items that an accuracy over n items stands for."""
    value = _number(cell, column, where)
    if not 0 <= value <= 1:
        raise DataError(f"{where}: {column} is {cell}, expected a share between 0 and 1 such as 0.26 (not per cent).")
    count = round(value * n)
    if abs(count / n - value) > _half_digit(cell) + 1e-9:
        raise DataError(f"{where}: no count of {n} items gives {column} {cell}. Is --n {n} right?")
    return count


def _half_digit(cell: str) -> float:
    """Half of the last printed digit: '0.178' -> 0.0005."""
    digits = cell.split(".")[1] if "." in cell else ""
    return 0.5 * 10 ** -len(digits) if digits else 0.0
