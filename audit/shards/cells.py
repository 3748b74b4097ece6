"""Arrow batches -> CellOutcomes: questions are paired across settings here and nowhere else.

Strings become numbers as their batch arrives, so that a row is fifteen bytes, and questions are joined by these
numbers: runs have millions of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from audit.errors import DataError
from audit.records import Setting
from audit.shards.schema import RowSchema
from audit.statistics.paired import CellOutcomes, State

N_OPTIONS = "n_options"  # a column that readers may ask for: how many options the row's question has
_SORT = ("model", "benchmark", "reading")  # what sort of row it is; few values together
_DRAWS = "draws"  # of the sweep: it tells apart rows of one setting, so it belongs to the sort
_ANSWERS = ("answer", "gold")
_ROWS_AT_ONCE = 1 << 14  # rows turned into numbers together: the record batches of a shard are small

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class _Rows:
    """All rows as numbers, arrays (N,). `sorts`, `settings`, `questions` and `groups` say what a number stands for."""

    sort: NDArray[np.int16]
    setting: NDArray[np.int16]
    question: Codes
    group: Codes
    n_options: NDArray[np.int16]
    state: NDArray[np.int8]
    answer: NDArray[np.int16] | None
    gold: NDArray[np.int16] | None
    sorts: list[tuple[str, ...]]
    settings: list[Setting]
    questions: list[str]
    groups: list[str]


def _sort_columns(schema: RowSchema) -> tuple[str, ...]:
    return (*_SORT, _DRAWS) if _DRAWS in schema.columns.names else _SORT


def cell_columns(schema: RowSchema, *, answers: bool = False) -> tuple[str, ...]:
    """What pairing reads of the rows. answers: also which option was answered, where one key is right for all rows."""
    setting = schema.key[3:]
    return (
        *_sort_columns(schema), "question_id", "group", N_OPTIONS, *setting, "correct", "parsed",
        "finish_reason", *schema.failure_columns, *(_ANSWERS if answers else ()),
    )  # fmt: skip


def pick(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """These columns of a batch of the schema; N_OPTIONS is counted from the options."""
    picked = [
        pc.list_value_length(batch.column("options"))
        if name == N_OPTIONS and N_OPTIONS not in batch.schema.names
        else batch.column(name)
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(picked, names=list(columns))


def pair_batches(batches: Iterable[pa.RecordBatch], schema: RowSchema) -> list[CellOutcomes]:
    """Record batches with `cell_columns` -> one CellOutcomes per (model, benchmark), sorted.

    Raises DataError when a key occurs twice, or when one question has different groups or option counts.
    """
    rows = _numbered(batches, schema)
    by_cell: dict[tuple[str, str], list[int]] = {}
    for code, (model, benchmark, *_) in enumerate(rows.sorts):
        by_cell.setdefault((model, benchmark), []).append(code)
    return [_pair_cell(rows, by_cell[cell]) for cell in sorted(by_cell)]


def _numbered(batches: Iterable[pa.RecordBatch], schema: RowSchema) -> _Rows:
    sort_columns = _sort_columns(schema)
    sorts: dict[tuple[Any, ...], int] = {}
    settings: dict[tuple[Any, ...], int] = {}
    questions: dict[tuple[Any, ...], int] = {}
    groups: dict[tuple[Any, ...], int] = {}
    parts: dict[str, list[NDArray[Any]]] = {
        name: [] for name in ("sort", "setting", "question", "group", "n_options", "state", *_ANSWERS)
    }
    for batch in _together(batches):
        parts["sort"].append(_codes([batch.column(name) for name in sort_columns], sorts).astype(np.int16))
        parts["setting"].append(_codes([batch.column(name) for name in schema.key[3:]], settings).astype(np.int16))
        parts["question"].append(_codes([batch.column("question_id")], questions))
        parts["group"].append(_codes([batch.column("group")], groups))
        parts["n_options"].append(_counts(batch.column(N_OPTIONS)))
        parts["state"].append(_states(batch))
        for name in set(_ANSWERS) & set(batch.schema.names):
            parts[name].append(np.asarray(pc.fill_null(batch.column(name), -1).cast(pa.int16())))
    if not parts["state"]:
        parts = {name: [np.zeros(0, dtype=np.int16)] for name in parts}
    answer, gold = (np.concatenate(parts[name]) if parts[name] else None for name in _ANSWERS)
    return _Rows(
        sort=np.concatenate(parts.pop("sort")),
        setting=np.concatenate(parts.pop("setting")),
        question=np.concatenate(parts.pop("question")),
        group=np.concatenate(parts.pop("group")),
        n_options=np.concatenate(parts.pop("n_options")),
        state=np.concatenate(parts.pop("state")),
        answer=answer,
        gold=gold,
        sorts=list(sorts),
        settings=[Setting(*setting) for setting in settings],
        questions=[question for (question,) in questions],
        groups=[group for (group,) in groups],
    )


def _together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(b.num_rows for b in waiting) >= _ROWS_AT_ONCE:
            yield pa.concat_batches(waiting)
            waiting = []
    if waiting:
        yield pa.concat_batches(waiting)


def _codes(columns: list[pa.Array], known: dict[tuple[Any, ...], int]) -> Codes:
    """(rows,) the number of each row's tuple of values; `known` numbers tuples in the order they are first seen."""
    encoded = [column.dictionary_encode(null_encoding="encode") for column in columns]
    values = [column.dictionary.to_pylist() for column in encoded]
    sizes = [len(found) for found in values]
    mixed = np.ravel_multi_index([np.asarray(column.indices) for column in encoded], sizes)
    present = np.flatnonzero(np.bincount(mixed, minlength=1))
    table = np.zeros(int(np.prod(sizes)), dtype=np.int32)
    for code, place in zip(present, zip(*np.unravel_index(present, sizes), strict=True), strict=True):
        value = tuple(found[k] for found, k in zip(values, place, strict=True))
        table[code] = known.setdefault(value, len(known))
    return table[mixed]


def _counts(column: pa.Array) -> NDArray[np.int16]:
    if column.null_count:
        raise DataError(f"{column.null_count} rows have no options; every row lists those of its question.")
    return np.asarray(column.cast(pa.int16()))


def _states(batch: pa.RecordBatch) -> NDArray[np.int8]:
    def true(column: pa.Array) -> NDArray[np.bool_]:
        return np.asarray(pc.fill_null(column, False), dtype=bool)

    cut_off = true(pc.equal(batch.column("finish_reason"), "length"))
    answered = np.where(true(batch.column("correct")), State.CORRECT, State.WRONG)
    state = np.where(true(batch.column("parsed")), answered, np.where(cut_off, State.TRUNCATED, State.UNPARSED))
    state = np.where(true(batch.column("error").is_valid()), State.ERROR, state).astype(np.int8)
    if "asked" in batch.schema.names:  # a row that says why it was not: no error, and nothing to count
        state[~true(batch.column("asked"))] = State.ABSENT
    return state


def _pair_cell(rows: _Rows, sorts: list[int]) -> CellOutcomes:
    """The cell whose rows are of these sorts (more than one is a mixture, and refused)."""
    model, benchmark, reading, *draws = (
        _only([rows.sorts[code][k] for code in sorts], name, rows.sorts[sorts[0]][0])
        for k, name in enumerate((*_SORT, _DRAWS)[: len(rows.sorts[sorts[0]])])
    )
    own = np.flatnonzero(rows.sort == sorts[0])
    question, setting = rows.question[own], rows.setting[own]
    asked = np.flatnonzero(np.bincount(question))
    facts = []
    for values in (rows.group[own], rows.n_options[own]):
        fact = np.zeros(len(rows.questions), dtype=np.int64)
        fact[question] = values
        if (differs := np.flatnonzero(fact[question] != values)).size:
            raise DataError(_two_facts(rows, own[question == question[differs[0]]], benchmark))
        facts.append(fact[asked])
    group, n_options = facts
    run = np.flatnonzero(np.bincount(setting))
    ids, settings = [rows.questions[code] for code in asked], [rows.settings[code] for code in run]
    row_of, column_of = _places(run, settings), _places(asked, ids)
    state = np.full((len(run), len(asked)), State.ABSENT, dtype=np.int8)
    there = np.zeros(state.shape, dtype=bool)
    state[row_of[setting], column_of[question]] = rows.state[own]
    there[row_of[setting], column_of[question]] = True
    if np.count_nonzero(there) < own.size:
        raise DataError(_two_rows(rows, own, f"{model}, {benchmark}"))
    answer = gold = None
    if rows.answer is not None and rows.gold is not None:
        answer = np.full(state.shape, -1, dtype=np.int16)
        answer[row_of[setting], column_of[question]] = rows.answer[own]
        gold = np.zeros(len(asked), dtype=np.int64)
        gold[column_of[question]] = rows.gold[own]
    in_order = np.argsort(column_of[asked])
    clusters = np.flatnonzero(np.bincount(group))
    return CellOutcomes(
        model=model,
        benchmark=benchmark,
        draws=draws[0] if draws else "",
        reading=reading,
        question_ids=tuple(sorted(ids)),
        cluster=_places(clusters, [rows.groups[code] for code in clusters])[group[in_order]],
        n_options=n_options[in_order],
        settings=tuple(sorted(settings)),
        state=state,
        answer=answer,
        gold=gold,
    )


def _places(codes: NDArray[np.int64], values: list[str] | list[Setting]) -> NDArray[np.int64]:
    """(largest code + 1,) for each code the place of its value among the sorted values, which are all different."""
    places = np.zeros(int(codes.max()) + 1, dtype=np.int64)
    order = sorted(range(len(values)), key=values.__getitem__)
    places[codes[order]] = np.arange(len(values))
    return places


def _only(values: list[str], name: str, model: str) -> str:
    if len(set(values)) != 1:
        raise DataError(f"Rows of {model} mix {name}: {sorted(set(values))}. Analyse them as separate runs.")
    return values[0]


def _two_facts(rows: _Rows, same: NDArray[np.int64], benchmark: str) -> str:
    found = dict.fromkeys((rows.groups[rows.group[i]], int(rows.n_options[i])) for i in same)
    text = ", ".join(map(str, found))
    return (
        f"Question {rows.questions[rows.question[same[0]]]!r} of {benchmark} has two groups or option counts: {text}."
    )


def _two_rows(rows: _Rows, own: NDArray[np.int64], cell: str) -> str:
    key = rows.setting[own].astype(np.int64) * len(rows.questions) + rows.question[own]
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    i = own[first[count > 1].min()]
    question, setting = rows.questions[rows.question[i]], rows.settings[rows.setting[i]]
    return f"Two rows for {cell}, {question}, {setting}: every key must occur once."
