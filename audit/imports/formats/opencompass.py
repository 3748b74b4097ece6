"""Read logs of OpenCompass.

A log is results/MODEL/DATASET.json with details, or predictions/MODEL/DATASET.json, which has no
scores.

The formats are those that openicl/icl_evaluator/icl_base_evaluator.py and
openicl/icl_inferencer/*.py write (open-compass/opencompass).
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from audit.benchmarks.reply import MARKER
from audit.core.errors import DataError
from audit.imports.graded import Sample, graded_log
from audit.imports.record import (
    Log,
    Record,
    Records,
    Wanted,
    as_list,
    first_of,
    messages,
    outcome,
    place_of,
    single,
)
from audit.imports.scores import pooled
from audit.imports.table import read_table

_CORRECT = ("correct", "is_correct", "cascade_correct", "model_extract_correct")
_GOLD, _ANSWER = ("answer", "references", "gold"), ("pred", "predictions", "prediction")
# The first prefix marks a file that is still being written. The second prefix marks a field of an
# option whose likelihood was computed.
_TMP, _LABEL = (
    "tmp_",
    "label: ",
)


def is_opencompass(content: Any) -> bool:
    """Return whether a JSON document holds details of results, or predictions numbered from 0."""
    first = next(iter(_entries(content).values()), None) if isinstance(content, dict) else None
    if first is None or "details" in content:
        return first is not None and bool({"pred", "predictions", *_CORRECT} & first.keys())
    return "prediction" in first and all(map(str.isdecimal, content))


def read_opencompass(path: Path, content: Record, wanted: Wanted) -> Log:
    """Return the log of a document.

    Parameters
    ----------
    path : Path
        The file, whose folder has the model's name.
    content : dict
        The JSON document in the file.
    wanted : Wanted
        How to read it.

    Raises
    ------
    ConfigError
        If the folder does not name the model.
    DataError
        If the details have no score, or if the mean of the scores differs from the mean that the
        file states.
    """
    folder = path.parent.name if path.parent.parent.name in ("results", "predictions") else ""
    model = wanted.model_of(folder, path.name, "it is no folder results/MODEL")
    name, part = _part(path)
    wanted = replace(wanted, model=model, benchmark=wanted.benchmark or name)
    entries = _entries(content)
    if "details" in content:
        total = content.get("accuracy")
        totals = dict.fromkeys(_CORRECT, total / 100 if isinstance(total, int | float) else None)
        samples = partial(_graded, path, entries, wanted)
        return graded_log("opencompass", path, samples, wanted, totals=totals)
    rows = partial(_replies, path, entries, f"{part}/" if part else "")
    log = read_table(path, "json", replace(wanted, columns={}, key="text"), rows)
    unfinished = ""
    if path.name.startswith(_TMP):
        unfinished = f"{len(entries)} samples, of a run that goes on or broke off"
    return replace(log, tool="opencompass", score="reply", unfinished=unfinished)


def _entries(content: Record) -> dict[str, Record]:
    """Map the name of each item in the details to the item.

    The details are a list of items, or an object with numbered items and a field `type`.
    """
    details = content.get("details", content) or {}
    each = details if isinstance(details, dict) else dict(enumerate(details))
    items = {}
    for name, entry in each.items():
        if name != "type" and isinstance(entry, dict):
            items[str(name)] = entry
    return items


def _part(path: Path) -> tuple[str, str]:
    """Return the name of the dataset, and the number of the part that a file contains.

    A long dataset is split into files NAME_0, NAME_1, ... . If the dataset is in one file, the
    number is "".
    """
    stem = path.stem.removeprefix(_TMP)
    name, _, number = stem.rpartition("_")
    first = path.with_name(path.name.replace(stem, f"{name}_0", 1))
    return (name, number) if name and number.isdecimal() and first.is_file() else (stem, "")


def _replies(path: Path, entries: dict[str, Record], prefix: str) -> Records:
    """Convert predictions to rows of a table, and yield the rows.

    The answer of a row is a reply or the label of an option. For GSM8K, only the number at the end
    of the key is used as key.
    """
    for name, entry in entries.items():
        where = f"{path}, {name}"
        options, read = _options(entry), single(entry["prediction"])
        # In this case the prediction is a list of probabilities, so the answer is read from
        # pred_label.
        if options and "pred_label" in entry:
            read = dict(enumerate(options)).get(entry["pred_label"], "")
        text = messages(first_of(entry, ("origin_prompt", "prompt")), where)
        row: Record = {
            "item": prefix + name,
            "text": text,
            "gold": single(entry.get("gold")).rpartition(MARKER)[2].strip(),
        }
        if options:
            row |= {"answer": read, "options": list(options)}
        else:
            row["reply"] = read
        yield where, row


def _options(entry: Record) -> tuple[str, ...]:
    """Return the options whose likelihoods were compared; () for a generated reply."""
    if isinstance(entry.get("choices"), list):
        return tuple(map(str, entry["choices"]))
    beside = entry.get("origin_prediction")
    if isinstance(beside, dict):  # the entry comes from details
        options = []
        for name, details in beside.items():
            if isinstance(details, dict) and {"PPL", "BPB"} & details.keys():
                options.append(name)
        return tuple(options)
    return tuple(name.removeprefix(_LABEL) for name in entry if name.startswith(_LABEL))


def _graded(path: Path, entries: dict[str, Record], wanted: Wanted) -> Iterator[Sample]:
    """Yield the samples of the details.

    If a score is a list, it has an entry for each repetition of the item.
    """
    for number, entry in entries.items():
        where, options = f"{path}, {number}", _options(entry)
        name = str(entry.get("example_abbr") or number)
        scores = {}
        for score in _CORRECT:
            if score in entry:
                scores[score] = pooled(outcome(value, where) for value in as_list(entry[score]))
        if not scores:
            raise DataError(
                f"{where} has no score. Expected {', '.join(_CORRECT)}. Import the folder "
                "predictions/ instead."
            )
        gold, answer = single(first_of(entry, _GOLD)), single(first_of(entry, _ANSWER))
        yield Sample(
            wanted.model,
            wanted.benchmark,
            name,
            where,
            scores,
            entry,
            messages(entry.get("prompt"), where),
            options,
            place_of(gold, options),
            answer=answer or None,
            target=gold,
        )
