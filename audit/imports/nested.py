"""Read nested columns of a table by dotted names, such as doc.choices.0, and propose the names that would read it."""

import shlex
from collections.abc import Iterator
from typing import Any

from audit.errors import DataError
from audit.imports.record import Record, outcome

ABSENT = object()
_DEPTH, _PATHS = 6, 200  # of a row that names are proposed for
_SHOWN = 20
_MODEL = ("model", "model_name", "model_id", "model_path")
_ITEM = ("item", "item_id", "question_id", "sample_id", "task_id", "doc_id", "example_id", "id", "qid", "idx", "index")
_CORRECT = ("correct", "is_correct", "acc", "accuracy", "exact_match", "extractive_match", "em", "passed", "pass",
            "success", "score")  # fmt: skip
_ANSWER = ("answer", "pred", "prediction", "predicted", "picked")
_GOLD = ("gold", "target", "reference", "expected", "label", "ideal")
_OPTIONS = ("options", "choices")


def at(row: Any, path: str, default: Any = None) -> Any:
    """Return the value at a path, `default` if there is none. A column of the path's own name comes first.

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
    """Yield (path, value) of what is no object, outer ones first. Names that --map cannot hold are left out."""
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
    """Return the lists of objects in a document and in the objects of it, by path."""
    outer = {name: one for name, one in document.items() if isinstance(one, dict)}
    inner = {f"{name}.{key}": one for name, each in outer.items() for key, one in each.items()}
    every = {**document, **inner}
    return {name: one for name, one in every.items() if isinstance(one, list) and one and _objects(one)}


def _objects(values: list[Any]) -> bool:
    return all(isinstance(one, dict) for one in values)


def listed(row: Record) -> str:
    """Return the paths of a row for a message."""
    names = [path for path, _ in _some(row)]
    return ", ".join(names[:_SHOWN]) + (f", ... ({len(names)})" if len(names) > _SHOWN else "")


def propose(row: Record, has_model: bool) -> str:
    """Return the arguments that read a row such as this one; "" if its names do not say which they are."""
    found = dict(_some(row))
    scalars = {path: value for path, value in found.items() if isinstance(value, str | int | float)}
    scores = {path: value for path, value in scalars.items() if _is_score(value)}
    fields = {"item": _first(scalars, _ITEM), "correct": _first(scores, _CORRECT)}
    if not fields["correct"]:
        fields |= {"answer": _first(scalars, _ANSWER), "gold": _first(scalars, _GOLD)}
        fields.pop("correct")
    if not all(fields.values()):
        return ""
    model = "" if has_model else _first({path: one for path, one in scalars.items() if one}, _MODEL)
    options = _first({path: one for path, one in found.items() if isinstance(one, list) and len(one) > 1}, _OPTIONS)
    fields |= {name: path for name, path in (("model", model), ("options", options)) if path}
    words = ",".join(f"{name}={path}" for name, path in fields.items())
    return f"--map {shlex.quote(words)}" + ("" if has_model or model else " --model NAME")


def _some(row: Record) -> list[tuple[str, Any]]:
    return [pair for pair, _ in zip(paths(row), range(_PATHS), strict=False)]


def _first(values: Record, names: tuple[str, ...]) -> str:
    """Return the path whose last part is the earliest of some names, of several the outermost; "" if there is none."""
    for name in names:
        for path, value in values.items():
            if value not in (None, "") and path.rpartition(".")[2].casefold() == name:
                return path
    return ""


def _is_score(value: Any) -> bool:
    try:
        return outcome(value, "")[0] is not None
    except DataError:
        return False
