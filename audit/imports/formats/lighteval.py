"""Read the details of lighteval from details_TASK_TIME.parquet, which has one row per document.

Since version 0.11 of lighteval, a row is {doc, metric, model_response}. In earlier versions a row
is flat: {example, choices, gold_index, metrics, ...}. Both forms are written by info_loggers.py
(huggingface/lighteval, src/lighteval/logging).
"""

import re
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from audit.core.errors import DataError
from audit.imports.graded import Sample, graded_log
from audit.imports.record import Log, Record, Wanted, as_list, checked, rows_of, single, texts_of
from audit.imports.scores import shares

_NAME = re.compile(r"details_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]*\d)\.parquet$")
_FLAT = {"example", "metrics", "gold_index"}


def is_lighteval(columns: Collection[str]) -> bool:
    """Return whether a parquet file with these columns holds details of lighteval."""
    return {"doc", "metric"} <= set(columns) or set(columns) >= _FLAT


def read_lighteval(path: Path, wanted: Wanted) -> Log:
    """Return the log of a file of details.

    The file is read twice, since the score must be chosen before outcomes are read.

    Parameters
    ----------
    path : Path
        The file, whose folder has the model's name.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If the folder does not name the model.
    DataError
        If several scores disagree and the user chose no score.
    """
    model = wanted.model_of(_model_of(path), path.name, "it is no folder details/MODEL/TIME")
    return graded_log("lighteval", path, partial(_samples, path, model, wanted), wanted)


def _model_of(path: Path) -> str:
    """Return the model's name in a path details/MODEL/TIME/..., such as meta/llama.

    Return "" if the path has another form.
    """
    name, folders = _NAME.search(path.name), path.absolute().parts[:-1]
    if not name or "details" not in folders:
        return ""
    inside = folders[len(folders) - folders[::-1].index("details") :]
    return "/".join(inside[:-1] if inside[-1:] == (name["time"],) else inside)


def _samples(path: Path, model: str, wanted: Wanted) -> Iterator[Sample]:
    name = _NAME.search(path.name)
    for number, (where, row) in enumerate(rows_of(path, ".parquet")):
        doc = row.get("doc") or row | {"query": row.get("example")}
        options, gold = _options(doc, where)
        choices = doc.get("choices")
        task = str(doc.get("task_name") or (name["task"] if name else path.stem))
        yield Sample(
            model=model,
            benchmark=wanted.benchmark or task,
            task=task,
            name=f"{doc.get('id') or ''}#{number}",
            where=where,
            scores=shares(_metrics(row, where)),
            record=row,
            text=checked(doc.get("query") or "", where),
            options=options,
            gold=gold,
            answer=_answer(row, options),
            target=single(choices) if isinstance(choices, list) and len(choices) == 1 else "",
        )


def _metrics(row: Record, where: str) -> Record:
    metrics = row.get("metric", row.get("metrics"))
    if not isinstance(metrics, dict):
        raise DataError(
            f"{where}: the metric is {metrics!r:.60}. Expected an object of scores. Example: {{'acc': 1.0}}."
        )
    return metrics


def _options(doc: Record, where: str) -> tuple[tuple[str, ...], int | None]:
    """Return the options and the index of the right option.

    If every choice is right, the choices are accepted answers to a question without options. The
    function then returns no options.

    Raises DataError if several options, but not all options, are right. The chance of guessing
    right would then exceed 1 / (number of options).
    """
    choices = texts_of(doc.get("choices") or (), where)
    places = set(as_list(doc.get("gold_index")))
    if len(choices) < 2 or places >= set(range(len(choices))):
        return (), None
    if len(places) > 1:
        number = f"{where}: {len(places)} of {len(choices)} choices are gold"
        raise DataError(
            f"{number}. Expected one right option, or all if the options are possible answers. "
            "Leave such a task out."
        )
    gold = places.pop()
    return choices, gold if isinstance(gold, int) and 0 <= gold < len(choices) else None


def _answer(row: Record, options: tuple[str, ...]) -> str | None:
    """Return the reply, or the letter of the likeliest option if likelihoods were compared."""
    response: Any = row.get("model_response") or {}
    read = response.get("logprobs") or response.get("text") or row.get("predictions") or []
    if len(read) == len(options) > 1 and all(isinstance(value, float) for value in read):
        return chr(65 + read.index(max(read)))
    return str(read[0]) if read else None
