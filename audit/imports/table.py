"""A table of outcomes, one row a model and item: csv, jsonl, a JSON list, parquet."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from audit.benchmarks.answers import LETTERS, MARKER, NUMBER_ALONE, read_number, score_number
from audit.benchmarks.latex import boxed, same_answer
from audit.benchmarks.rows import text_key
from audit.errors import ConfigError, DataError
from audit.imports.nested import at, listed, propose
from audit.imports.record import Imported, Log, Records, Wanted, checked, epoch, outcome, rows_of, trials

FIELDS = (
    *("model", "item", "correct", "of", "benchmark", "text", "options", "answer", "reply", "gold", "epoch", "error"),
    "stratum",
)
_WORDS = ("model", "item", "correct", "of", "benchmark", "gold", "epoch", "stratum")  # no object and no list
_MAY_LACK = ("error", "epoch", "stratum")  # of a jsonl: the first row may have none, and a later one


def read_table(path: Path, kind: str, wanted: Wanted, rows: Records | None = None) -> Log:
    """kind: csv, jsonl, json or parquet. rows: of a document that is no list of them. ConfigError where a column is
    missing that is needed."""
    return Log("table", kind, _outcomes(path, rows_of(path, f".{kind}") if rows is None else rows, wanted))


def _outcomes(path: Path, rows: Records, wanted: Wanted) -> Iterator[Imported]:
    columns: dict[str, str] = {}
    for where, row in rows:
        columns = columns or _columns(path, row, wanted)
        later = {name: name for name in _MAY_LACK if name in row}
        told = {name: at(row, column) for name, column in (later | columns).items()}
        yield _outcome(path, {"options": wanted.columns.get("options")} | told, where, wanted)


def _outcome(path: Path, told: dict[str, Any], where: str, wanted: Wanted) -> Imported:
    model, item = wanted.model or _word(told, "model", where), _word(told, "item", where)
    text = None if told.get("text") in (None, "") else checked(told["text"], where)
    for name, found in (("model", model), ("item", item or text)):
        if not found:
            raise DataError(f"{where}: the {name} is empty; expected a name in every row.")
    if "reply" in told:  # read here, by the rule that this program's own runs of free-form questions have
        told["answer"], told["correct"] = read_reply(told, where)
    right, of = _right(told, where)
    options, error = _options(told.get("options"), where), _word(told, "error", where)[:200] or None
    by_text = text_key(text or "", options)
    sample = item or by_text
    return Imported(
        model=model,
        benchmark=wanted.benchmark or _word(told, "benchmark", where) or path.stem,
        key=by_text if wanted.key == "text" else sample,
        sample=sample,
        right=None if error else right,
        of=of,
        text=text,
        options=options,
        gold=_letter(_word(told, "gold", where), len(options)),
        answer=None if told.get("answer") is None else str(told["answer"])[:200],
        epoch=epoch(_word(told, "epoch", where)),
        error=error,
        stratum=_word(told, "stratum", where)[:200],
    )


def _word(told: dict[str, Any], name: str, where: str) -> str:
    """A field as text; "" where it is empty or not there."""
    return "" if told.get(name) is None else checked(told[name], where).strip()


def _letter(word: str, n: int) -> int | None:
    found = LETTERS[:n].find(word.upper()) if len(word) == 1 else -1
    return found if found >= 0 else None


def _columns(path: Path, row: dict[str, Any], wanted: Wanted) -> dict[str, str]:
    """{field: column} for this table: as mapped, else the column of the field's own name."""
    for name, column in wanted.columns.items():
        if name not in FIELDS:
            raise ConfigError(f"--map {name}={column}: unknown field {name}; expected one of {', '.join(FIELDS)}.")
        fixed = name == "options" and column.isdecimal()  # 4: as many in every row
        if column not in row and at(row, column) is None and not fixed:
            raise ConfigError(f"{path} has no column {column!r}; found {listed(row)}.")
        if name in _WORDS and isinstance(at(row, column), dict | list):
            found = f"The column {column!r} of {path} holds {type(at(row, column)).__name__}"
            raise ConfigError(f"{found}. Expected a text or a number. Example: {listed(row)}.")
    named = {name: wanted.columns.get(name, name) for name in FIELDS}
    columns = {name: column for name, column in named.items() if name in wanted.columns or column in row}
    scored = "correct" in columns or any({one, "gold"} <= set(columns) for one in ("answer", "reply"))
    if not scored or not ("model" in columns or wanted.model) or not {"item", "text"} & set(columns):
        words = propose(row, bool(wanted.model)) or "--map model=name,item=question_id,correct=score"
        raise ConfigError(
            f"{path} has the columns {listed(row)}; expected a model, an item and correct (or answer and gold), "
            f"such as {words}"
        )
    return columns


def read_reply(told: dict[str, Any], where: str) -> tuple[str | None, bool | None]:
    """(the answer that a reply gives, whether it is the key): what its last \\boxed{...} holds; else, where the key is
    a number, the number that the reply ends with. None where there is neither."""
    key, reply = str(told.get("gold") or "").strip("# "), told["reply"]
    if not key:
        raise DataError(f"{where}: the key is empty; expected what the reply is to end with, such as 42.")
    text = checked("\n".join(map(str, reply)) if isinstance(reply, list) else str(reply or ""), where)
    said, key = boxed(text), boxed(key) or key
    target = read_number(f"{MARKER} {key}").value if NUMBER_ALONE.fullmatch(key) else None
    if target is None or (said and same_answer(said, key)):
        return said, None if said is None else same_answer(said, key)
    answer, right = score_number(f"{MARKER} {said}" if said else text, target)
    return None if answer.value is None else f"{answer.value:g}", right


def _right(told: dict[str, Any], where: str) -> tuple[int | None, int]:
    if "of" in told:
        return trials(told.get("correct"), told["of"], where)
    if "correct" in told:
        return outcome(told["correct"], where)
    if told["answer"] in (None, ""):
        return None, 1
    return int(str(told["answer"]).strip().casefold() == str(told["gold"]).strip().casefold()), 1


def _options(value: Any, where: str) -> tuple[str, ...]:
    """Texts of options, or letters for their number: that is enough to know what guessing gives."""
    word = str(value if value is not None else "").strip()
    try:
        found = value if isinstance(value, list) else json.loads(word or "[]")  # a csv has a list as its text
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, list):
        return tuple(checked(one, where) for one in found)
    # 4.0 stands in a column that has gaps elsewhere.
    if isinstance(found, int | float) and not isinstance(found, bool) and found in range(1, len(LETTERS) + 1):
        return tuple(LETTERS[: int(found)])
    raise DataError(f'{where}: found the options {word[:60]!r}; expected their number, such as 4, or ["cat", "dog"].')
