"""Read the details of lighteval: details_TASK_TIME.parquet with one row a document.

Since 0.11 a row is {doc, metric, model_response}; before, it is flat: {example, choices, gold_index, metrics, ...}.
Both are as lighteval's info_loggers.py writes them (huggingface/lighteval, src/lighteval/logging).
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from audit.benchmarks.rows import text_key
from audit.errors import ConfigError, DataError
from audit.imports.record import Imported, Log, Record, Wanted, checked, rows_of
from audit.imports.scores import Column, choose_score, share

_NAME = re.compile(r"details_(?P<task>.+)_(?P<time>\d{4}-\d\d-\d\dT[\d.:-]*\d)\.parquet$")
_FLAT = {"example", "metrics", "gold_index"}


def is_lighteval(columns: Collection[str]) -> bool:
    """Return whether a parquet file with these columns holds details of lighteval."""
    return {"doc", "metric"} <= set(columns) or set(columns) >= _FLAT


def read_lighteval(path: Path, wanted: Wanted) -> Log:
    """Return the log. The file is read twice: a score is chosen before an outcome is read.

    Raises ConfigError if the folder does not name the model, DataError if scores disagree and none is asked for.
    """
    model = wanted.model or _model_of(path)
    if not model:
        raise ConfigError(f"The model of {path.name} is missing: it is no folder details/MODEL/TIME. Say --model NAME.")
    columns: dict[str, Column] = {}
    for where, row in rows_of(path, ".parquet"):
        for name, value in _metrics(row, where).items():
            if (read := share(value)) is not None:
                columns.setdefault(name, {})[where] = read
    score = choose_score(columns, wanted.metric, str(path))
    return Log("lighteval", "", _outcomes(path, model, wanted, score), score)


def _model_of(path: Path) -> str:
    """Return the folders between details and the time, such as meta/llama; "" if the path is another."""
    name, folders = _NAME.search(path.name), path.absolute().parts[:-1]
    if not name or "details" not in folders:
        return ""
    inside = folders[len(folders) - folders[::-1].index("details") :]
    return "/".join(inside[:-1] if inside[-1:] == (name["time"],) else inside)


def _metrics(row: Record, where: str) -> Record:
    found = row.get("metric", row.get("metrics"))
    if not isinstance(found, dict):
        raise DataError(f"{where}: the metric is {found!r:.60}. Expected an object of scores. Example: {{'acc': 1.0}}.")
    return found


def _outcomes(path: Path, model: str, wanted: Wanted, score: str) -> Iterator[Imported]:
    name = _NAME.search(path.name)
    for number, (where, row) in enumerate(rows_of(path, ".parquet")):
        doc = row.get("doc") or row | {"query": row.get("example")}
        text, options, gold = checked(doc.get("query") or "", where), *_options(doc, where)
        right, of = share(_metrics(row, where).get(score)) or (None, 1)
        yield Imported(
            model=model,
            benchmark=wanted.benchmark or str(doc.get("task_name") or (name["task"] if name else path.stem)),
            key=wanted.key_of(row, text_key(text, options), where),
            sample=f"{doc.get('id') or ''}#{number}",
            right=right,
            of=of,
            text=text,
            options=options,
            gold=gold,
            answer=_answer(row, options),
            target="" if options else _only(doc.get("choices"))[:200],
        )


def _options(doc: Record, where: str) -> tuple[tuple[str, ...], int | None]:
    """Return (options, place of the gold one). Where every choice is gold, they are answers to a free question.

    Raises DataError if several of the options are gold: guessing is right more often than once in their number.
    """
    choices = [checked(one, where) for one in doc.get("choices") or ()]
    golds = doc.get("gold_index")
    places = set(golds if isinstance(golds, list) else [golds])
    if len(choices) < 2 or places >= set(range(len(choices))):
        return (), None
    if len(places) > 1:
        found = f"{where}: {len(places)} of {len(choices)} choices are gold"
        raise DataError(f"{found}. Expected one, or all where they are answers. Leave such a task out.")
    gold = places.pop()
    return tuple(choices), gold if isinstance(gold, int) and 0 <= gold < len(choices) else None


def _only(choices: Any) -> str:
    """Return the one choice of a free question; "" of several, which are answers alike."""
    return str(choices[0]) if isinstance(choices, list) and len(choices) == 1 else ""


def _answer(row: Record, options: tuple[str, ...]) -> str | None:
    """Return the reply, or of likelihoods the letter of the likeliest option."""
    response: Any = row.get("model_response") or {}
    read = response.get("logprobs") or response.get("text") or row.get("predictions") or []
    if len(read) == len(options) > 1 and all(isinstance(one, float) for one in read):
        return chr(65 + read.index(max(read)))
    return str(read[0])[:200] if read else None
