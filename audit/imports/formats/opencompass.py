"""Read logs of OpenCompass.

A log is results/MODEL/DATASET.json with details, or predictions/MODEL/DATASET.json, which has no
scores.

If a language model judged the answers, the details hold the judge's replies. The file
results/MODEL/DATASET_replica0.json holds them again.

The formats are those that openicl/icl_evaluator/icl_base_evaluator.py,
openicl/icl_inferencer/*.py, evaluator/generic_llm_evaluator.py and datasets/generic.py write
(open-compass/opencompass).
"""

import re
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
from audit.imports.scores import Outcome, pooled
from audit.imports.table import read_table
from audit.imports.totals import NoOutcomesError

_CORRECT = ("correct", "is_correct", "cascade_correct", "model_extract_correct")
_JUDGE = "judge"  # name of the score that is read from a judge's replies
_VERDICT = re.compile("[AB]")  # the first of these letters in a judge's reply: A right, B wrong
_RESULTS, _REPLICA = "results", re.compile(r"_replica\d+")
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
        if first is None:
            return False
        judged = {"prediction", "origin_prompt"} <= first.keys()
        return judged or bool({"pred", "predictions", *_CORRECT} & first.keys())
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
        If the folder does not name the model, or if the file holds a judge's replies only.
    DataError
        If the details have no score, or if the mean of the scores differs from the mean that the
        file states.
    """
    kind = path.parent.parent.name
    folder = path.parent.name if kind in (_RESULTS, "predictions") else ""
    if "details" not in content and (kind == _RESULTS or _REPLICA.search(path.stem)):
        raise NoOutcomesError(
            f"{path} holds the replies of a judge, not of the model. Expected the results of the "
            "dataset in the same folder, whose name has no _replica0."
        )
    model = wanted.model_of(folder, path.name, "it is no folder results/MODEL")
    name, part = _part(path)
    wanted = replace(wanted, model=model, benchmark=wanted.benchmark or name)
    entries = _entries(content)
    if "details" in content:
        totals: Record = dict.fromkeys(_CORRECT, _share(content.get("accuracy")))
        # Only the results of a judge have this total. It counts the replies with a verdict.
        totals[_JUDGE] = _share(content.get("accuracy_given_attempted"))
        samples = partial(_graded, path, entries, wanted, name, totals[_JUDGE] is not None)
        return graded_log("opencompass", path, samples, wanted, totals=totals)
    rows = partial(_replies, path, entries, f"{part}/" if part else "")
    log = read_table(path, "json", replace(wanted, columns={}, key="text"), rows)
    unfinished = ""
    if path.name.startswith(_TMP):
        unfinished = f"{len(entries)} samples, of a run that goes on or broke off"
    outcomes = (replace(outcome, task=name) for outcome in log.outcomes)
    return replace(log, tool="opencompass", score="reply", unfinished=unfinished, outcomes=outcomes)


def _share(percentage: Any) -> float | None:
    """Return a percentage as a share from 0 to 1; None for a value that is not a number."""
    return percentage / 100 if isinstance(percentage, int | float) else None


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


def _graded(
    path: Path, entries: dict[str, Record], wanted: Wanted, task: str, judged: bool
) -> Iterator[Sample]:
    """Yield the samples of the details.

    If a score is a list, it has an entry for each repetition of the item.

    `judged` states whether the field `prediction` holds a judge's replies.
    """
    for number, entry in entries.items():
        where, options = f"{path}, {number}", _options(entry)
        name = str(entry.get("example_abbr") or number)
        scores = {}
        for score in _CORRECT:
            if score in entry:
                scores[score] = pooled(outcome(value, where) for value in as_list(entry[score]))
        if not scores and judged and "prediction" in entry:
            scores[_JUDGE] = pooled(map(_verdict, as_list(entry["prediction"])))
        if not scores:
            raise DataError(
                f"{where} has no score. Expected {', '.join(_CORRECT)}. Import the folder "
                "predictions/ instead."
            )
        gold, answer = single(first_of(entry, _GOLD)), single(first_of(entry, _ANSWER))
        if _JUDGE in scores:
            answer = ""
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
            task=task,
        )


def _verdict(reply: Any) -> Outcome:
    """Return the outcome that a judge's reply states; (None, 1) for a reply without a verdict."""
    letter = _VERDICT.search(str(reply))
    return (None, 1) if letter is None else (int(letter[0] == "A"), 1)
