"""Propose the `--map` that would read a table, by the names of its columns (pure)."""

import shlex
from typing import Any

from audit.core.errors import DataError
from audit.imports.nested import some_paths
from audit.imports.record import Record, outcome

_MODEL = ("model", "model_name", "model_id", "model_path")
_ITEM = (
    "item",
    "item_id",
    "question_id",
    "sample_id",
    "task_id",
    "doc_id",
    "example_id",
    "id",
    "qid",
    "idx",
    "index",
)
_CORRECT = (
    "correct",
    "is_correct",
    "acc",
    "accuracy",
    "exact_match",
    "extractive_match",
    "em",
    "passed",
    "pass",
    "success",
    "score",
)
_ANSWER = ("answer", "pred", "prediction", "predicted", "picked")
_GOLD = ("gold", "target", "reference", "expected", "label", "ideal")
_OPTIONS = ("options", "choices")


def propose(row: Record, has_model: bool) -> str:
    """Return the arguments that read a row such as this one; "" if its names do not say which they
    are."""
    found = dict(some_paths(row))
    scalars = {path: value for path, value in found.items() if isinstance(value, str | int | float)}
    scores = {path: value for path, value in scalars.items() if _is_score(value)}
    fields = {"item": _first(scalars, _ITEM), "correct": _first(scores, _CORRECT)}
    if not fields["correct"]:
        fields |= {"answer": _first(scalars, _ANSWER), "gold": _first(scalars, _GOLD)}
        fields.pop("correct")
    if not all(fields.values()):
        return ""
    model = "" if has_model else _first({path: one for path, one in scalars.items() if one}, _MODEL)
    options = _first(
        {path: one for path, one in found.items() if isinstance(one, list) and len(one) > 1},
        _OPTIONS,
    )
    fields |= {name: path for name, path in (("model", model), ("options", options)) if path}
    words = ",".join(f"{name}={path}" for name, path in fields.items())
    return f"--map {shlex.quote(words)}" + ("" if has_model or model else " --model NAME")


def _first(values: Record, names: tuple[str, ...]) -> str:
    """Return the path whose last part is the earliest of some names, of several the outermost; ""
    if there is none."""
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
