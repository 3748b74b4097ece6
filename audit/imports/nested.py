"""Read nested columns of a table by dotted names, such as doc.choices.0."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from audit.core.errors import DataError
from audit.imports.record import Record

ABSENT = object()
# Limits for the list of a row's columns: the largest depth of a column, and the largest number of
# columns.
_DEPTH, _PATHS = 6, 200
_SHOWN = 20


def at(row: Any, path: str, default: Any = None) -> Any:
    """Return the value at a path. A column whose name is the whole path takes precedence.

    Parameters
    ----------
    row : Any
        The row.
    path : str
        Names of fields and indices of lists, separated by dots.
    default : Any
        The value to return if the row does not have this path.

    Examples
    --------
    >>> at({"doc": {"id": 7, "choices": ["cat", "dog"]}, "a.b": 1}, "doc.choices.1"), at({"a.b": 1}, "a.b")
    ('dog', 1)
    >>> at({"a.b": {"c.d": 2}}, "a.b.c.d"), at({"doc": {}}, "doc.id"), at({"x": [1]}, "x.5", "none")
    (2, None, 'none')
    """
    if isinstance(row, dict):
        if path in row:
            return row[path]
        for place, sign in enumerate(path):
            if sign == "." and path[:place] in row:
                value = at(row[path[:place]], path[place + 1 :], ABSENT)
                if value is not ABSENT:
                    return value
    if isinstance(row, list):
        head, _, rest = path.partition(".")
        if head.isdecimal() and len(head) < 7 and int(head) < len(row):
            return at(row[int(head)], rest, default) if rest else row[int(head)]
    return default


def paths(row: Record, before: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the values of a row that are not objects, with their paths. Values at the outer level
    come first.

    Parameters
    ----------
    row : dict
        The row. Fields are left out if their names cannot be written in --map.
    before : str
        Start of each path.
    depth : int
        Number of objects that contain the row.

    Yields
    ------
    path : str
        The path, with dots.
    value : Any
        The value.
    """
    inside = []
    for name, value in row.items():
        path = f"{before}{name}"
        if not set(path) & set(",=") and path == path.strip():
            if isinstance(value, dict) and depth < _DEPTH:
                inside.append((path, value))
            elif not isinstance(value, dict):
                yield path, value
    for path, value in inside:
        yield from paths(value, f"{path}.", depth + 1)


def lists_of(document: Record) -> dict[str, list[Record]]:
    """Map paths to the lists of objects in a document and in its inner objects."""
    every = {**document}
    for name, value in document.items():
        for key, inner in value.items() if isinstance(value, dict) else ():
            every[f"{name}.{key}"] = inner
    lists = {}
    for name, value in every.items():
        if isinstance(value, list) and value and _objects(value):
            lists[name] = value
    return lists


def rows_by_column(document: Record, where: str) -> dict[str, list[Record]]:
    """Map "data" to the rows of a document {"columns": [...], "data": [[...], ...]}.

    MLflow, Weights & Biases and pandas (orient="split") write tables in this form. Return {} for a
    document of another form.

    Raises
    ------
    DataError
        If a row has more or fewer cells than the table has columns.
    """
    columns, data = document.get("columns"), document.get("data")
    if not (isinstance(columns, list) and isinstance(data, list) and data):
        return {}
    names = list(map(str, columns))
    rows = []
    for number, cells in enumerate(data, 1):
        if not isinstance(cells, list) or len(cells) != len(names):
            raise DataError(
                f"{where}, row {number}: the row is {cells!r:.60}. Expected a list of "
                f"{len(names)} cells. Example: write the table again."
            )
        rows.append(dict(zip(names, cells, strict=True)))
    return {"data": rows}


def _objects(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def listed(row: Record) -> str:
    """Format the paths of a row's values for a message."""
    names = [path for path, _ in some_paths(row)]
    return ", ".join(names[:_SHOWN]) + (f", ... ({len(names)})" if len(names) > _SHOWN else "")


def some_paths(row: Record) -> list[tuple[str, Any]]:
    """Return the first paths of a row, each with its value."""
    return list(islice(paths(row), _PATHS))
