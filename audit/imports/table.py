"""Read a table of outcomes with one row for each model and item, as csv, jsonl, a JSON list or
parquet.
"""

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from audit.benchmarks.answers import LETTERS
from audit.benchmarks.fresh import day_of, is_from, within
from audit.benchmarks.latex import boxed
from audit.benchmarks.rows import text_key
from audit.core.errors import ConfigError, DataError
from audit.imports.nested import ABSENT, at, listed
from audit.imports.propose import propose
from audit.imports.record import (
    NO_ANSWER,
    Imported,
    Log,
    Record,
    Records,
    Wanted,
    checked,
    epoch,
    is_failure,
    outcome,
    rows_of,
    texts_of,
    trials,
)
from audit.imports.scores import pooled
from audit.imports.typed import Columns, Typing, cell_of, same_truths, undressed
from audit.scoring.keyed import read_against_key

FIELDS = (
    *(
        "model",
        "item",
        "correct",
        "of",
        "benchmark",
        "text",
        "options",
        "answer",
        "reply",
        "gold",
        "epoch",
        "error",
    ),
    "stratum",
    "date",
)
_SHORT = 12  # texts with fewer characters may be truth values
# If every filled cell of the column `correct` means right, empty cells may mean wrong. The file is
# refused if the number of empty cells exceeds two limits: this share of the number of filled cells,
# and this number.
_EMPTY_MAX, _EMPTY_MIN = (
    0.1,
    2,
)
_WRONG = {"wrong", "incorrect", "error", "errors", "mistake", "mistakes", "failed", "failure"}
_NAME_PARTS = re.compile(r"[a-z]+")
# The values of these fields must be neither objects nor lists.
_WORDS = ("model", "item", "benchmark", "epoch", "stratum")


def read_table(
    path: Path, kind: str, wanted: Wanted, rows: Callable[[], Records] | None = None
) -> Log:
    """Return the log of a table.

    Parameters
    ----------
    path : Path
        Path of the table.
    kind : str
        csv, jsonl, json or parquet.
    rows : callable or None
        A function that returns the rows, for a document that is not a list of rows.

    Raises
    ------
    ConfigError
        If a required column is missing.
    """
    notes: list[str] = []
    return Log(
        "table",
        kind,
        _outcomes(path, rows or partial(rows_of, path, f".{kind}"), wanted, notes),
        notes=notes,
    )


Judge = Callable[
    [str | None, str | None, tuple[str, ...]], tuple[bool | None, int | None, int | None]
]


@dataclass(frozen=True)
class _Table:
    """Hold the result of a first pass over the rows of a table.

    Attributes
    ----------
    columns : dict
        {field: column}.
    typing : Typing
        How answers and keys are read.
    no : bool
        Whether "n" in the column `correct` means no, and not a missing answer.
    blank : bool
        Whether no row without an answer is marked as right in `correct`. In this case rows without
        an answer get no score, whatever their mark is.
    """

    columns: dict[str, str]
    typing: Typing
    no: bool
    blank: bool


def _outcomes(
    path: Path, rows: Callable[[], Records], wanted: Wanted, notes: list[str]
) -> Iterator[Imported]:
    """Yield the outcomes of a table.

    At the end a note is added that states how many answers are unparsed: neither clearly the key
    nor clearly another answer.
    """
    table = _surveyed(path, rows, wanted)
    number = unclear = 0
    example = ""
    left_out = Counter[str]()
    judge = lru_cache(maxsize=1 << 11)(table.typing.judge)
    constant = {"options": wanted.columns.get("options")}
    compared = table.columns.keys().isdisjoint(("correct", "reply"))
    for where, row in rows():
        cells = _cells(row, table.columns, where)
        read = _outcome(path, constant | cells, where, wanted, table, judge)
        placed = _placed(read, cells, where, wanted)
        if isinstance(placed, str):
            left_out[placed] += 1
            continue
        number += 1
        if compared and read.right is None and read.answer is not None:
            unclear += 1
            example = example or f"{read.answer[:40]!r} beside {str(cells['gold'])[:40]!r}"
        yield placed
    for why, n in left_out.items():
        notes.append(f"{n} rows of {path.name} are {why}: left out")
    if unclear:
        notes.append(
            f"{unclear} of {number} answers of {path.name} are neither clearly the key nor clearly another, such as "
            f"{example}: the score is of the others"
        )


def _cells(row: Record, columns: Mapping[str, str], where: str) -> dict[str, Any]:
    """Map each field to its cell in a row.

    A list of several marks in the column `correct`, such as [true, false], has one mark for each
    trial. It is replaced by the counts k/n.
    """
    cells = {name: at(row, column) for name, column in columns.items()}
    marks = cells.get("correct")
    if isinstance(marks, list) and len(marks) > 1:
        right, of = pooled(outcome(mark, where) for mark in marks)
        cells["correct"] = None if right is None else f"{right}/{of}"
    return cells


def _placed(read: Imported, cells: Mapping[str, Any], where: str, wanted: Wanted) -> Imported | str:
    """Return an outcome with its date, or the reason why the outcome's row is left out.

    If the table is split by date, outcomes from this date on belong to the held-out benchmark.
    Raises DataError if a row needs a date but has none.
    """
    named = cells.get("benchmark")
    if wanted.split and wanted.benchmark and named not in (None, "", wanted.benchmark):
        return "of other benchmarks"
    if wanted.window is None or "date" not in cells:
        return read
    held_out, dates = wanted.window
    if not wanted.split and read.benchmark != held_out:
        return read
    day = day_of(str(cells["date"]))
    try:
        benchmark = read.benchmark
        if wanted.split and is_from(day, wanted.split):
            benchmark = held_out
        inside = benchmark != held_out or within(day, dates)
    except ConfigError as error:
        raise DataError(f"{where}: {error}") from error
    return replace(read, benchmark=benchmark, date=day) if inside else f"dated outside {dates}"


def _surveyed(path: Path, rows: Callable[[], Records], wanted: Wanted) -> _Table:
    """Read all rows of a table once, and decide what its columns mean."""
    names = _named(rows, wanted)
    if not names:
        return _Table({}, Typing(), no=False, blank=False)
    columns = _columns(path, names, wanted)
    _check_no_wrong(path, columns)
    compared, marks = Columns(), _Marks()
    benchmarks: set[str] = set()
    for where, row in rows():
        cells = _cells(row, columns, where)
        benchmarks.add(str(cells.get("benchmark") or ""))
        if _failed(cells, where):
            marks.add_failed(cells, where)
            continue
        options = _options(cells.get("options", wanted.columns.get("options")), where)
        if "correct" in cells:
            marks.add(cells, where)
        else:
            compared.add(*_answer_and_key(cells, where, wanted), options)
    marks.check_wrong_ones(path)
    if "error" not in wanted.columns:
        marks.check_errors(path, columns)
    if wanted.split and not wanted.benchmark and len(benchmarks) > 1:
        raise ConfigError(
            f"{path} has the benchmarks {', '.join(sorted(benchmarks)[:6])}. Expected the name of "
            f"the benchmark to split. Example: --benchmark {shlex.quote(max(benchmarks))}"
        )
    _check_no_key(path, marks.answers - {""}, marks.words, columns, wanted)
    typing = _typed(path, compared, columns, wanted)
    return _Table(columns, typing, _is_no(path, marks.words), marks.blank and marks.answered)


def _named(rows: Callable[[], Records], wanted: Wanted) -> dict[str, Any]:
    """Map the name of each column that occurs in any row to one of the column's values.

    The value is empty only if the column is empty in every row. A nested column, such as doc.id, is
    included if --map names it and a row has it.
    """
    names: dict[str, Any] = {}
    empty: set[str] = set()
    nested = [column for column in wanted.columns.values() if "." in column]
    for _, row in rows():
        # Most columns that are empty in one row are empty in all rows.
        if row.keys() - names.keys() or any(row[name] for name in row.keys() & empty):
            for name, value in row.items():
                if name not in names or name in empty:
                    names[name] = value
            empty = {name for name, value in names.items() if value in (None, "")}
        for column in nested:
            value = ABSENT if column in names else at(row, column, ABSENT)
            if value is not ABSENT:
                names[column] = value
    return names


@dataclass
class _Marks:
    """Collect the values of the column `correct` of a table, and the answers in the same rows.

    Attributes
    ----------
    words : set of str
        The short values of `correct` (marks), in lower case.
    answers : set of str
        The short answers. Longer answers are all represented by "long".
    marked, empty : int
        Number of rows with a mark, and number of rows without a mark, an answer and a count.
    answered : bool
        Whether any row has an answer.
    blank : bool
        Whether no row without an answer is marked as right.
    failed : int
        Number of rows that are marked as wrong and have a text in the column `error`.
    """

    words: set[str] = field(default_factory=set)
    answers: set[str] = field(default_factory=set)
    marked: int = 0
    empty: int = 0
    answered: bool = False
    blank: bool = True
    failed: int = 0

    def add_failed(self, cells: Mapping[str, Any], where: str) -> None:
        """Add the cells of a row with an error."""
        if not cells.get("error") or "correct" not in cells:
            return
        if "of" in cells:
            right, _ = trials(cells["correct"], cells["of"], where)
        else:
            right, _ = outcome(_mark(cells["correct"]), where)
        self.failed += right == 0

    def add(self, cells: Mapping[str, Any], where: str) -> None:
        """Add the cells of a row.

        Parameters
        ----------
        cells : mapping
            {field: cell}.
        where : str
            Where the row is, for errors.
        """
        mark = _mark(cells["correct"])
        if mark is not None and len(mark) < _SHORT:
            self.words.add(mark.casefold())
        counted = "of" in cells
        self.marked += mark is not None
        self.empty += mark is None and "answer" not in cells and not counted
        self.answers.add(_short_answer(cells.get("answer")))
        if "answer" in cells and not counted:
            no_answer = cell_of(cells["answer"]) is None
            self.answered |= not no_answer
            self.blank &= not (no_answer and outcome(mark, where)[0])

    def check_wrong_ones(self, path: Path) -> None:
        """Check that wrong answers are marked in the column `correct`, and not only right answers.

        Raises
        ------
        DataError
            If only right answers seem to be marked.
        """
        many = self.empty > max(_EMPTY_MAX * self.marked, _EMPTY_MIN)
        if many and len(self.words) == 1 and outcome(min(self.words), str(path))[0]:
            raise DataError(
                f"{path}: correct is {min(self.words)!r} in {self.marked} rows and empty in {self.empty}. Expected a "
                "score in every answered row: an empty cell means no answer, and no row is marked "
                "as wrong. Example: 0."
            )

    def check_errors(self, path: Path, columns: Mapping[str, str]) -> None:
        """Check that the column `error` does not hold the reasons why answers are wrong.

        Raises
        ------
        ConfigError
            If many rows are marked as wrong, and all of them have a text in this column.
        """
        many = self.failed > max(_EMPTY_MAX * self.marked, _EMPTY_MIN)
        if many and self.words and all(outcome(word, str(path))[0] for word in self.words):
            raise ConfigError(
                f"{path}: all {self.failed} rows that are wrong have a text in the column "
                f"{columns['error']}. Expected whether these answers are missing. Example: --map "
                f"error={columns['error']} if the requests failed, --map error=0 if the answers are "
                "wrong."
            )


def _short_answer(value: Any) -> str:
    """Return a short answer in lower case, without quotes and similar signs.

    For a longer answer, return "long".
    """
    answer = "" if value is None else str(value)
    if len(answer) >= _SHORT:
        return "long"
    return undressed(answer).casefold() if answer else ""


def _mark(value: Any) -> str | None:
    """Return a cell of `correct` as text; None for an empty cell.

    Quotes and similar signs are removed in the same way as in answers.
    """
    cell = cell_of(value)
    return None if cell is None else undressed(cell)


def _typed(path: Path, cells: Columns, columns: dict[str, str], wanted: Wanted) -> Typing:
    try:
        return cells.typing(wanted.answer_as, wanted.gold_as, free="reply" in columns)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _check_no_wrong(path: Path, columns: dict[str, str]) -> None:
    """Raise ConfigError if the column for the field `correct` has a name such as "wrong" or
    "errors".
    """
    column = columns.get("correct", "")
    if _WRONG & set(_NAME_PARTS.findall(column.casefold())):
        raise ConfigError(
            f"{path}: the score is the column {column!r}, which by its name says what is wrong. Expected 1 for a right "
            "answer. Example: a column correct with 1 and 0 exchanged."
        )


def _check_no_key(
    path: Path, answers: set[str], marks: set[str], columns: dict[str, str], wanted: Wanted
) -> None:
    """Raise DataError if the column `correct` may hold the key and not a score.

    This is so if its values are of the same kind as the answers, such as letters, or yes and no.
    """
    if "correct" in wanted.columns or "gold" in columns or not answers or not marks:
        return
    lettered = marks == {"c"} and all(len(word) == 1 and word.isalpha() for word in answers)
    if lettered or same_truths(answers | marks):
        raise DataError(
            f"{path}: the answers are {' and '.join(sorted(answers)[:4])}, and correct is "
            f"{' and '.join(sorted(marks))}. Expected a score, but correct may be the key. "
            "Example: --map gold=correct "
            "if it is, --map correct=correct if it is the score."
        )


def _is_no(path: Path, marks: set[str]) -> bool:
    """Return whether "n" in the column `correct` means no.

    In tables from Inspect the values are C, I and P, and N means a missing answer. Raises DataError
    if the other values do not show which meaning is right.
    """
    yes, inspect = bool(marks & {"y", "t", "f"}), bool(marks & {"c", "i", "p"})
    if NO_ANSWER in marks and yes == inspect:
        others = "and both y and c or i" if yes else "and neither y nor c or i"
        raise DataError(
            f"{path}: correct is n in some rows, {others}. Expected yes and no, such as 1 and 0."
        )
    return yes


def _answer_and_key(cells: dict[str, Any], where: str, wanted: Wanted) -> tuple[str | None, str]:
    """Return the texts of the answer and of the key in a row.

    If the table has replies, the answer is the content of the last \\boxed{} in the reply, or else
    the whole reply. Raises DataError if the key is empty.
    """
    gold = cell_of(cells.get("gold"), literal=wanted.gold_as in ("word", "text"))
    if gold is None or not gold.strip("# "):
        value = f"{where}: the key is empty ({cells.get('gold')!r:.40})"
        raise DataError(f"{value}. Expected one key in every row, such as B or 42.")
    if "reply" not in cells:
        return cell_of(cells["answer"], literal=wanted.answer_as in ("word", "text")), gold
    text = _reply(cells, where)
    return boxed(text) or text.strip() or None, gold


def _outcome(
    path: Path, cells: dict[str, Any], where: str, wanted: Wanted, table: _Table, judge: Judge
) -> Imported:
    model, item = wanted.model or _word(cells, "model", where), _word(cells, "item", where)
    text = None if cells.get("text") in (None, "") else checked(cells["text"], where)
    for name, value in (("model", model), ("item", item or text)):
        if not value:
            raise DataError(f"{where}: the {name} is empty; expected a name in every row.")
    options, error = _options(cells.get("options"), where), _failed(cells, where) or None
    right, of, answer, gold = _right(
        cells, options, where, wanted, table, judge, failed=error is not None
    )
    by_text = text_key(text or "", options)
    sample = item or by_text
    return Imported(
        model=model,
        benchmark=wanted.benchmark or _word(cells, "benchmark", where) or path.stem,
        key=by_text if wanted.key == "text" else sample,
        sample=sample,
        right=None if error else right,
        of=of,
        text=text,
        options=options,
        gold=gold,
        answer=None if answer is None else answer[:200],
        epoch=epoch(_word(cells, "epoch", where)),
        error=error,
        stratum=_word(cells, "stratum", where)[:200],
        target="" if options else _target(cells),
        counted="of" in cells or "/" in str(cells.get("correct")),
    )


def _target(cells: dict[str, Any]) -> str:
    """Return the key of an item whose options are not listed."""
    return (cell_of(cells.get("gold")) or "")[:200]


def _word(cells: dict[str, Any], name: str, where: str) -> str:
    """Return a field of a row as text; "" if the field is empty or missing.

    Raises DataError if a field that must be a text holds an object or a list.
    """
    value = cells.get(name)
    if name in _WORDS and isinstance(value, dict | list):
        kind = f"{where}: the {name} is {type(value).__name__}"
        raise DataError(f"{kind}. Expected a text or a number. Example: --map {name}=doc.id")
    return "" if value is None else checked(value, where).strip()


def _failed(cells: dict[str, Any], where: str) -> str:
    """Return the error in a row; "" if the row has no error.

    The error is the value of the column `error`, or a reply that is an error message of a client or
    server.
    """
    error = _word(cells, "error", where)
    if error:
        return error[:200]
    for name in ("reply", "answer"):
        text = str(cells.get(name) or "")
        if text and is_failure(text):
            return text[:200]
    return ""


def _letter(word: str, n: int) -> int | None:
    place = LETTERS[:n].find(word.upper()) if len(word) == 1 else -1
    return place if place >= 0 else None


def _columns(path: Path, row: dict[str, Any], wanted: Wanted) -> dict[str, str]:
    """Map each field to the name of its column in a table.

    This is the column that the user named, or else the column with the field's name.
    """
    for name, column in wanted.columns.items():
        if name not in FIELDS:
            raise ConfigError(
                f"--map {name}={column}: unknown field {name}; expected one of {', '.join(FIELDS)}."
            )
        # A number in place of a column, such as 4, means that every row has four options. The
        # number 0 in place of the column of errors means that no row has an error.
        if column not in row and not (name in ("options", "error") and column.isdecimal()):
            raise ConfigError(f"{path} has no column {column!r}; found {listed(row)}.")
    named = {name: wanted.columns.get(name, name) for name in FIELDS}
    columns = {name: column for name, column in named.items() if column in row}
    answered = "answer" in columns or "reply" in columns
    scored = "correct" in columns or ("gold" in columns and answered)
    if (
        not scored
        or not ("model" in columns or wanted.model)
        or not {"item", "text"} & set(columns)
    ):
        words = (
            propose(row, bool(wanted.model)) or "--map model=name,item=question_id,correct=score"
        )
        raise ConfigError(
            f"{path} has the columns {listed(row)}; expected a model, an item and correct (or answer and gold), "
            f"such as {words}"
        )
    return columns


def _reply(cells: dict[str, Any], where: str) -> str:
    reply = cells["reply"]
    text = "\n".join(map(str, reply)) if isinstance(reply, list) else str(reply or "")
    return checked(text, where)


def _right(
    cells: dict[str, Any],
    options: tuple[str, ...],
    where: str,
    wanted: Wanted,
    table: _Table,
    judge: Judge,
    *,
    failed: bool,
) -> tuple[int | None, int, str | None, int | None]:
    """Return four values of a row: k and n (k of n trials are right), the answer, and the index of
    the right option.
    """
    if "correct" in cells:
        gold = _letter(_word(cells, "gold", where), len(options))
        answer = None if cell_of(cells.get("answer")) is None else str(cells["answer"])
        if "of" in cells:
            return *trials(cells["correct"], cells["of"], where), answer, gold
        mark = _mark(cells["correct"])
        if mark is not None and len(mark) == 1 and table.no:
            mark = "0" if mark.casefold() == NO_ANSWER else mark
        right, of = outcome(mark, where)
        return (None if table.blank and answer is None else right), of, answer, gold
    if failed:
        return None, 1, None, None
    cell, key = _answer_and_key(cells, where, wanted)
    # The reply is read in the same way as in this program's own runs of free-form questions.
    if "reply" in cells and not table.typing.pairs:
        answer, same = read_against_key(_reply(cells, where), key.strip("# "), options)
        return None if same is None else int(same), 1, answer, None
    same, place, gold = judge(cell, key, options)
    answer = cell if place is None else LETTERS[place]
    return None if same is None else int(same), 1, answer, gold


def _options(value: Any, where: str) -> tuple[str, ...]:
    """Return the texts of a row's options.

    If only the number of options is known, return letters. The number is enough to compute the
    chance of guessing right.
    """
    if value is None or value == "":
        return ()
    word = str(value).strip()
    try:
        # In a csv file, a list is written as text
        options = value if isinstance(value, list) else json.loads(word or "[]")
    except (ValueError, RecursionError):
        options = None
    if isinstance(options, list):
        return texts_of(options, where)
    # If a column has empty cells, its number 4 is read as 4.0.
    if (
        isinstance(options, int | float)
        and not isinstance(options, bool)
        and options in range(1, len(LETTERS) + 1)
    ):
        return tuple(LETTERS[: int(options)])
    raise DataError(
        f'{where}: found the options {word[:60]!r}; expected their number, such as 4, or ["cat", "dog"].'
    )
