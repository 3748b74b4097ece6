"""Read OpenCompass: results/MODEL/DATASET.json with details, or predictions/MODEL/DATASET.json, which hold no score.

As opencompass/tasks/openicl_eval.py, openicl/icl_evaluator/icl_base_evaluator.py and
openicl/icl_inferencer/icl_base_inferencer.py write them (open-compass/opencompass).
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from audit.benchmarks.reply import MARKER
from audit.benchmarks.rows import text_key
from audit.errors import ConfigError, DataError
from audit.imports.record import Imported, Log, Record, Records, Wanted, checked, outcome
from audit.imports.scores import Column, check_total, choose_score, pooled
from audit.imports.table import read_table

_CORRECT = ("correct", "is_correct", "cascade_correct", "model_extract_correct")
_GOLD, _ANSWER = ("answer", "references", "gold"), ("pred", "predictions", "prediction")
_TMP, _LABEL = "tmp_", "label: "  # of a file that is being written; of an option whose likelihood was computed
REPLY = "reply"  # the name of the score where this program reads the replies


def is_opencompass(found: Any) -> bool:
    """Return whether a JSON document holds details of results, or predictions by their number."""
    if not isinstance(found, dict) or not found:
        return False
    entries = _entries(found)
    first = entries[0][1] if entries else None
    if "details" in found:
        return isinstance(first, dict) and bool({"pred", "predictions", *_CORRECT} & first.keys())
    return isinstance(first, dict) and "prediction" in first and all(name.isdecimal() for name in found)


def read_opencompass(path: Path, found: Record, wanted: Wanted) -> Log:
    """Return the log of a document.

    Raises ConfigError if the folder does not name the model, DataError if the details have no score or another mean.
    """
    model = wanted.model or (path.parent.name if path.parent.parent.name in ("results", "predictions") else "")
    if not model:
        raise ConfigError(f"The model of {path.name} is missing: it is no folder results/MODEL. Say --model NAME.")
    entries = _entries(found)
    name, part = _part(path)
    unfinished = f"{len(entries)} samples, of a run that goes on or broke off" if path.name.startswith(_TMP) else ""
    wanted = replace(wanted, benchmark=wanted.benchmark or name)
    if "details" not in found:
        rows = partial(_replies, path, entries, model, part)
        asked = replace(wanted, columns={}, key="text")
        log = replace(read_table(path, "json", asked, rows), tool="opencompass", score=REPLY)
        return replace(log, unfinished=unfinished)
    columns: dict[str, Column] = {}
    for name, entry in entries:
        for score in (one for one in _CORRECT if one in entry):
            columns.setdefault(score, {})[name] = _share(entry[score], f"{path}, {name}")
    if not columns:
        names = ", ".join(entries[0][1])
        raise DataError(f"The details of {path} have no score: {names}. Expected correct. Give predictions/ instead.")
    score = choose_score(columns, wanted.metric, str(path))
    total = found.get("accuracy")
    check_total(total / 100 if isinstance(total, int | float) else None, columns[score], score, str(path))
    return Log("opencompass", "", _graded(path, entries, model, wanted, columns[score]), score)


def _entries(found: Record) -> list[tuple[str, Record]]:
    """Return (name, entry) of each item: details are a list, or an object by number with a type beside the items."""
    details = found.get("details", found)
    pairs: Iterable[tuple[Any, Any]] = details.items() if isinstance(details, dict) else enumerate(details or ())
    return [(str(name), one) for name, one in pairs if name != "type" and isinstance(one, dict)]


def _share(value: Any, where: str) -> tuple[int | None, int]:
    """Return k of n: a list has an entry for each replica."""
    return pooled(outcome(one, where) for one in (value if isinstance(value, list) else [value]))


def _part(path: Path) -> tuple[str, str]:
    """Return (name of the dataset, number of the part) of a file; a long dataset is in parts NAME_0, NAME_1, ..."""
    stem = path.stem.removeprefix(_TMP)
    name, _, number = stem.rpartition("_")
    first = path.with_name(path.name.replace(stem, f"{name}_0", 1))
    return (name, number) if name and number.isdecimal() and first.is_file() else (stem, "")


def _replies(path: Path, entries: list[tuple[str, Record]], model: str, part: str) -> Records:
    """Yield predictions as rows of a table, whose replies are compared with the keys; of GSM8K's keys their number.

    Of likelihoods the prediction is the label of one option, and no reply.
    """
    for name, entry in entries:
        where = f"{path}, {name}"
        options = _labels(entry)
        if "prediction" not in entry:
            raise DataError(f"{where}: the prediction is missing. Expected one of every item. Run OpenCompass again.")
        answer, read = _one(entry["prediction"]), "answer" if options else "reply"
        if "pred_label" in entry and options:  # the prediction is a list of probabilities
            label = entry["pred_label"]
            answer = options[label] if isinstance(label, int) and 0 <= label < len(options) else ""
        gold = _one(entry.get("gold")).rpartition(MARKER)[2].strip()
        text = _prompt(entry.get("origin_prompt", entry.get("prompt")), where)
        item = f"{part}/{name}" if part else name
        row = {"model": model, "item": item, "text": text, read: answer, "gold": gold}
        yield where, row | ({"options": list(options)} if options else {})


def _labels(entry: Record) -> tuple[str, ...]:
    """Return the options whose likelihoods were compared; () of a generated reply."""
    if isinstance(entry.get("choices"), list):
        return tuple(map(str, entry["choices"]))
    beside = entry.get("origin_prediction")
    if isinstance(beside, dict):  # details
        return tuple(name for name, one in beside.items() if isinstance(one, dict) and {"PPL", "BPB"} & one.keys())
    return tuple(name.removeprefix(_LABEL) for name in entry if name.startswith(_LABEL))


def _graded(
    path: Path, entries: list[tuple[str, Record]], model: str, wanted: Wanted, column: Column
) -> Iterator[Imported]:
    for name, entry in entries:
        where = f"{path}, {name}"
        gold, answer = (_one(next((entry[one] for one in names if one in entry), None)) for names in (_GOLD, _ANSWER))
        text = _prompt(entry.get("prompt"), where)
        item = str(entry.get("example_abbr") or name)
        options = _labels(entry)
        own = sha256(f"{item}\0{gold}".encode("utf-8", "backslashreplace")).hexdigest()[:24]
        right, of = column[name]
        yield Imported(
            model=model,
            benchmark=wanted.benchmark,
            key=wanted.key_of(entry, text_key(text, options) if text else own, where),
            sample=item,
            right=right,
            of=of,
            text=text or None,
            options=options,
            gold=options.index(gold) if options.count(gold) == 1 else None,
            answer=answer[:200] or None,
            target="" if options else gold[:200],
        )


def _one(value: Any) -> str:
    """Return a value as text, and the one of a list of one."""
    value = value[0] if isinstance(value, list) and len(value) == 1 else value
    return value if isinstance(value, str) else "" if value is None else json.dumps(value)


def _prompt(given: Any, where: str) -> str:
    turns = given if isinstance(given, list) else [given]
    return checked("\n".join(_one(one.get("prompt") if isinstance(one, dict) else one) for one in turns), where)
