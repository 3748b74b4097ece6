"""Propose a value of `--map` with which a table can be read, by the names of its columns (pure)."""

import shlex
from typing import Any

from audit.core.errors import DataError
from audit.imports.nested import some_paths
from audit.imports.record import Record, outcome, trials

_MODEL = ("model", "model_name", "model_id", "model_path", "generator")
_ITEM = (
    "item",
    "item_id",
    "question_id",
    "sample_id",
    "task_id",
    "doc_id",
    "example_id",
    "instance_id",
    "problem_id",
    "id",
    "qid",
    "idx",
    "index",
)
# If no column names the item, a column with its text does.
_TEXT = ("question", "problem", "prompt", "query", "input", "inputs", "user_input", "instruction")
_EPOCH = ("trial", "trial_id", "repeat", "sample_idx", "completion_id")
_CORRECT = (
    "correct",
    "right",
    "is_correct",
    "acc",
    "accuracy",
    "exact_match",
    "extractive_match",
    "em",
    "passed",
    "pass",
    "pass@1",
    "success",
    "score",
    "symbolic_correct",
    "correctness",
    "resolved",
    "is_resolved",
    "solved",
    "hit",
    "reward",
)
# A column "answer" beside a prediction is the key.
_ANSWER = (
    "pred",
    "parsed_pred",
    "prediction",
    "predicted",
    "predicted_answer",
    "extracted_answer",
    "model_answer",
    "picked",
    "answer",
)
_GOLD = (
    "gold",
    "gold_answer",
    "target",
    "targets",
    "reference",
    "expected",
    "expected_answer",
    "ground_truth",
    "label",
    "ideal",
    "answer",
)
_OPTIONS = ("options", "choices")
_COUNT = ("correct", "right", "num_correct", "n_correct", "successes")
_TRIALS = ("of", "n", "trials", "attempts", "total", "n_samples", "num_samples")
_BENCHMARK = ("set", "split", "dataset", "subset", "task")
UNKNOWN = "COLUMN"  # stands for the column of a field if no column's name fits


def propose(row: Record, has_model: bool) -> str:
    """Return the command-line arguments with which rows such as this row can be read.

    Parameters
    ----------
    row : dict
        A row of the table, as a mapping from columns to values.
    has_model : bool
        Whether the user named the model.

    Returns
    -------
    str
        The argument --map. If no column can hold the model's name, also the argument --model. If no
        column's name fits a field, --map has COLUMN in place of the column.
    """
    scalars, texts, lists, filled, marks = {}, {}, {}, {}, {}
    for path, value in some_paths(row):
        if isinstance(value, str | int | float):
            scalars[path] = value
            if value:
                filled[path] = value
        if isinstance(value, str):
            texts[path] = value
        if isinstance(value, list) and len(value) > 1:
            lists[path] = value
        if isinstance(value, list) and set(map(type, value)) == {bool}:
            marks[path] = value
    outer = {name: value for name, value in scalars.items() if name in row}
    item = _first(outer, _ITEM) or _first(scalars, _ITEM)
    text = _first(texts, _TEXT)
    names = {"item": item or UNKNOWN} if item or not text else {"text": text}
    fields = {**names, **_scored(scalars)}
    if fields.get("correct") == UNKNOWN:
        fields["correct"] = next(iter(marks), UNKNOWN)
    if "correct" not in fields and scalars.get("correct", "") != "":
        # The row has a column "correct", but its value is not a score. Without this entry, the
        # column would be read in addition to answer and key.
        fields["correct"] = UNKNOWN
    if _counts_otherwise(fields, scalars, row):
        fields["correct"] = UNKNOWN
    model = "" if has_model else _first(filled, _MODEL)
    benchmark = "" if "benchmark" in row else _first(texts, _BENCHMARK)
    epoch = "" if "epoch" in row else _first(_whole_numbers(scalars), _EPOCH)
    fields |= {
        "model": model,
        "options": _first(lists, _OPTIONS),
        "benchmark": benchmark,
        "epoch": epoch,
    }
    names_model = has_model or bool(model)
    return f"--map {shlex.quote(_map_of(fields))}" + ("" if names_model else " --model NAME")


def _counts_otherwise(fields: dict[str, str], scalars: Record, row: Record) -> bool:
    """Return whether a row has a column "of" that is not the number of trials of the score."""
    scored = fields.get("correct", UNKNOWN)
    return "of" in row and scored != UNKNOWN and not _is_count(scalars.get(scored), row["of"])


def _map_of(fields: dict[str, str]) -> str:
    """Return the value of --map.

    A column is left out if it has the name of its field, unless all columns do.
    """
    same: list[str] = []
    other: list[str] = []
    for name, path in fields.items():
        if path:
            (same if name == path else other).append(f"{name}={path}")
    return ",".join(other or same)


def _scored(scalars: Record) -> dict[str, str]:
    """Return the columns that determine the score.

    These columns are a number of right trials with the number of all trials, or a score, or an
    answer with its key.
    """
    scores = {path: value for path, value in scalars.items() if _is_score(value)}
    correct, count = _first(scores, _CORRECT), _first(scalars, _COUNT)
    of = _first(scalars, _TRIALS)
    # In a column named "correct", 1 is a right answer. In a column named "right", 1 may mean 1 of
    # 10 trials.
    unsure = not correct or (correct == count and "correct" not in correct.casefold())
    if count and of and unsure and _is_count(scalars[count], scalars[of]):
        return {"correct": count, "of": of}
    answer = _first(scalars, _ANSWER)
    gold = _first({path: value for path, value in scalars.items() if path != answer}, _GOLD)
    if answer and gold and not correct:
        return {"answer": answer, "gold": gold}
    return {"correct": correct or UNKNOWN}


def _whole_numbers(values: Record) -> Record:
    return {path: value for path, value in values.items() if type(value) is int}


def _first(values: Record, names: tuple[str, ...]) -> str:
    """Return the path whose last part is one of the given names; "" if no path fits.

    The parts of a path are separated by dots or slashes.

    If several paths fit, the earliest name decides, and then the outermost path.
    """
    for name in names:
        for path, value in values.items():
            last = path.replace("/", ".").rpartition(".")[2].casefold()
            if value not in (None, "") and last == name:
                return path
    return ""


def _is_count(right: Any, of: Any) -> bool:
    try:
        return trials(right, of, "")[0] is not None
    except DataError:
        return False


def _is_score(value: Any) -> bool:
    try:
        return outcome(value, "")[0] is not None
    except DataError:
        return False
