"""Variants that exist already, human-written or foreign: rows of a file, aligned by id or by row. Pure."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from audit.errors import ConfigError, unknown_name
from audit.records import Question
from audit.variants.record import Candidate

ALIGNMENTS = ("id", "row")


@dataclass(frozen=True, slots=True)
class FileFormat:
    """How the rows of a variants file are read.

    align: "id" (`id_column` names the question; several rows are several variants) or "row" (row i rewords question i,
    so there must be as many). extract: a regular expression whose group `text` is the variant, where a field holds
    more; a field that it does not match is a candidate that failed, with the reason.
    """

    align: str = "id"
    text_column: str = "text"
    id_column: str = "question_id"
    extract: str | None = None

    def __post_init__(self) -> None:
        if self.align not in ALIGNMENTS:
            raise unknown_name("align", self.align, ALIGNMENTS)
        if self.extract is not None:
            try:
                groups = re.compile(self.extract).groupindex
            except re.error as error:
                raise ConfigError(f"extract={self.extract!r} is no regular expression ({error}).") from error
            if "text" not in groups:
                raise ConfigError(f"extract={self.extract!r} has no group (?P<text>...).")


def file_candidates(
    rows: Iterable[tuple[str, Mapping[str, Any] | Sequence[str]]], questions: Sequence[Question], format_: FileFormat
) -> list[Candidate]:
    """The candidates of all rows, numbered from 1 within a question in the file's order.

    rows: (place, row), such as ("line 3", {...}). questions: those the file was made for, in the benchmark's order.
    Raises ConfigError for a row without the columns, an id that the benchmark does not have, or, aligned by row,
    another number of rows than of questions.
    """
    located = list(rows)
    if format_.align == "row" and len(located) != len(questions):
        raise ConfigError(
            f"The file has {len(located)} rows for {len(questions)} questions; aligned by row there must be one each. "
            "Choose the same part of the benchmark (benchmark.subjects=...), or use align=id with a column of ids."
        )
    known = {question.id for question in questions}
    numbers: Counter[str] = Counter()
    found = []
    for index, (place, row) in enumerate(located):
        id_ = questions[index].id if format_.align == "row" else str(_field(place, row, format_.id_column))
        if id_ not in known:
            raise ConfigError(f"{place}: the benchmark has no question {id_!r}; it has such as {questions[0].id!r}.")
        text, error = _extracted(_field(place, row, format_.text_column), format_.extract)
        numbers[id_] += 1
        found.append(Candidate(id_, numbers[id_], text, place, error=error))
    return found


def _field(place: str, row: Mapping[str, Any] | Sequence[str], name: str) -> Any:
    if not isinstance(row, Mapping) or name not in row:
        found = ", ".join(map(str, row)) if isinstance(row, Mapping) else "no named fields"
        raise ConfigError(f"{place}: no field {name!r}; found: {found}. Set file.text_column and file.id_column.")
    return row[name]


def _extracted(value: Any, pattern: str | None) -> tuple[str, str | None]:
    """(text, why there is none)."""
    if value is None:
        return "", None
    if not isinstance(value, str):
        return "", f"the field is {type(value).__name__}, not text"
    if pattern is None:
        return value.strip(), None
    match = re.search(pattern, value, re.DOTALL)
    return (match["text"].strip(), None) if match else ("", "the field does not match `extract`")
