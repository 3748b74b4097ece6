"""Pair the rows of each question across settings.

Only this module converts Arrow batches to CellOutcomes.

Runs may have millions of rows. Each string is therefore replaced by a number when its batch is
read. Rows are then joined by these numbers, one block at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from audit.core.errors import DataError
from audit.core.records import Setting
from audit.shards.schema import RowSchema
from audit.statistics.paired import CellOutcomes, State

N_OPTIONS = "n_options"  # computed column with the number of options of the row's question
# Rows are divided into sorts. Two rows are of the same sort if they have the same values in these
# columns. Each column has few different values.
_SORT = (
    "model",
    "benchmark",
    "reading",
)
# Only the sweep has this column. It separates rows that have the same setting, so it is part of the
# sort.
_DRAWS = "draws"
_ANSWERS = ("answer", "gold")
_ROWS_AT_ONCE = 1 << 14  # number of rows encoded together; the batches of a shard are smaller
_ROWS_A_BLOCK = 1 << 20  # number of rows placed in the arrays at a time, which bounds the memory

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class _Rows:
    """Hold all N rows as numbers, in one array (N,) per column.

    The lists `sorts`, `settings`, `questions` and `groups` hold the values that the numbers stand
    for.
    """

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
    questions: pa.Array
    groups: pa.Array


def _sort_columns(schema: RowSchema) -> tuple[str, ...]:
    return (*_SORT, _DRAWS) if _DRAWS in schema.columns.names else _SORT


def cell_columns(schema: RowSchema, *, answers: bool = False) -> tuple[str, ...]:
    """Return the names of the columns that are needed to pair questions.

    Parameters
    ----------
    schema : RowSchema
        Schema of the audit's rows.
    answers : bool
        True adds the columns with the answered and the right option. A question must then have the
        same key in all rows.

    Returns
    -------
    tuple of str
        Names of columns.
    """
    setting = schema.key[3:]
    return (
        *_sort_columns(schema),
        "question_id",
        "group",
        N_OPTIONS,
        *setting,
        "correct",
        "parsed",
        "finish_reason",
        *schema.failure_columns,
        *(_ANSWERS if answers else ()),
    )


def pick(batch: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Return a batch reduced to some columns.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        A batch of the schema.
    columns : sequence of str
        Names of columns. N_OPTIONS is computed from the options.

    Returns
    -------
    pyarrow.RecordBatch
        The batch with these columns, in the given order.
    """
    picked = []
    for name in columns:
        if name == N_OPTIONS and N_OPTIONS not in batch.schema.names:
            picked.append(pc.list_value_length(batch.column("options")))
        else:
            picked.append(batch.column(name))
    return pa.RecordBatch.from_arrays(picked, names=list(columns))


def pair_batches(batches: Iterable[pa.RecordBatch], schema: RowSchema) -> list[CellOutcomes]:
    """Pair record batches into one CellOutcomes per (model, benchmark).

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Batches with the columns of `cell_columns`.
    schema : RowSchema
        Schema of the audit's rows.

    Returns
    -------
    list of CellOutcomes
        One entry for each model and benchmark, sorted by both.

    Raises
    ------
    DataError
        If a key occurs twice, or if the rows of a question differ in its group or its number of
        options.
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
    questions: list[pa.DictionaryArray] = []
    groups: list[pa.DictionaryArray] = []
    parts: dict[str, list[NDArray[Any]]] = {}
    for name in ("sort", "setting", "n_options", "state", *_ANSWERS):
        parts[name] = []
    for batch in together(batches):
        parts["sort"].append(
            _codes([batch.column(name) for name in sort_columns], sorts).astype(np.int16)
        )
        parts["setting"].append(
            _codes([batch.column(name) for name in schema.key[3:]], settings).astype(np.int16)
        )
        questions.append(_names(batch.column("question_id")))
        # Usually each question is a group of its own. The name of the question is then encoded only
        # once.
        same_groups = batch.column("group").equals(batch.column("question_id"))
        groups.append(questions[-1] if same_groups else _names(batch.column("group")))
        parts["n_options"].append(np.asarray(batch.column(N_OPTIONS).cast(pa.int16())))
        parts["state"].append(states_of(batch))
        for name in set(_ANSWERS) & set(batch.schema.names):
            parts[name].append(np.asarray(pc.fill_null(batch.column(name), -1).cast(pa.int16())))
    if not parts["state"]:
        parts = {name: [np.zeros(0, dtype=np.int16)] for name in parts}
    whole: dict[str, Any] = {}
    for name in list(parts):
        whole[name] = np.concatenate(parts.pop(name)) if parts[name] else None
    question = _as_one(questions)
    group = (
        question if all(a is b for a, b in zip(groups, questions, strict=True)) else _as_one(groups)
    )
    return _Rows(
        question=question[0],
        group=group[0],
        sorts=list(sorts),
        settings=[Setting(*setting) for setting in settings],
        questions=question[1],
        groups=group[1],
        **whole,
    )


def _names(column: pa.Array) -> pa.DictionaryArray:
    # large_string is needed, because all names together may exceed 2 GB.
    return column.cast(pa.large_string()).dictionary_encode()


def _as_one(batches: list[pa.DictionaryArray]) -> tuple[Codes, pa.Array]:
    """Join the batches of one column, and replace each distinct value by a number.

    Return the number for each row, as an array (rows,), and the values that the numbers stand for.
    """
    whole = pa.chunked_array(
        batches, pa.dictionary(pa.int32(), pa.large_string())
    ).unify_dictionaries()
    if not whole.num_chunks:
        return np.zeros(0, dtype=np.int32), pa.array([], pa.large_string())
    return np.concatenate([np.asarray(chunk.indices) for chunk in whole.chunks]), whole.chunk(
        0
    ).dictionary


def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches, and yield a joined batch once it has at least `_ROWS_AT_ONCE` rows.

    The last batch may be shorter.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Small batches of one schema.

    Yields
    ------
    pyarrow.RecordBatch
        Joined batches.
    """
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
    """Return, for each row, the number of its tuple of values.

    `known` maps each tuple to its number. A new tuple gets the next number.
    """
    encoded = [column.dictionary_encode(null_encoding="encode") for column in columns]
    values = [column.dictionary.to_pylist() for column in encoded]
    sizes = [len(texts) for texts in values]
    mixed = np.ravel_multi_index([np.asarray(column.indices) for column in encoded], sizes)
    present = np.flatnonzero(np.bincount(mixed, minlength=1))
    table = np.zeros(int(np.prod(sizes)), dtype=np.int32)
    for code, place in zip(
        present, zip(*np.unravel_index(present, sizes), strict=True), strict=True
    ):
        value = tuple(texts[k] for texts, k in zip(values, place, strict=True))
        table[code] = known.setdefault(value, len(known))
    return table[mixed]


def states_of(batch: pa.RecordBatch) -> NDArray[np.int8]:
    """Return the outcome of each row.

    Parameters
    ----------
    batch : pyarrow.RecordBatch
        Batch with the columns that `cell_columns` names.

    Returns
    -------
    (rows,) int8 array
        `State` of each row.
    """

    def true(column: pa.Array) -> NDArray[np.bool_]:
        return np.asarray(pc.fill_null(column, False), dtype=bool)

    cut_off = true(pc.equal(batch.column("finish_reason"), "length"))
    answered = np.where(true(batch.column("correct")), State.CORRECT, State.WRONG)
    state = np.where(
        true(batch.column("parsed")), answered, np.where(cut_off, State.TRUNCATED, State.UNPARSED)
    )
    state = np.where(true(batch.column("error").is_valid()), State.ERROR, state).astype(np.int8)
    if (
        "asked" in batch.schema.names
    ):  # A row whose question was never asked is neither an error nor an outcome.
        state[~true(batch.column("asked"))] = State.ABSENT
    return state


def _pair_cell(rows: _Rows, sorts: list[int]) -> CellOutcomes:
    """Return the cell (one model on one benchmark) that consists of the rows of the given sorts.

    Raises DataError if more than one sort is given, because such rows must not be mixed in one
    cell.
    """
    model, benchmark, reading, *draws = (
        _only([rows.sorts[code][k] for code in sorts], name, rows.sorts[sorts[0]][0])
        for k, name in enumerate((*_SORT, _DRAWS)[: len(rows.sorts[sorts[0]])])
    )
    group = _facts(rows, rows.group, sorts[0], benchmark)
    n_options = _facts(rows, rows.n_options, sorts[0], benchmark)
    present = np.flatnonzero(group >= 0)
    run = np.unique(
        np.concatenate([np.unique(rows.setting[block]) for block in _blocks(rows, sorts[0])])
    )
    settings = [rows.settings[code] for code in run]
    row_of = np.zeros(len(rows.settings), dtype=np.int64)
    row_of[run] = _ranks(pa.array(sorted(range(len(run)), key=settings.__getitem__), pa.int64()))
    in_order = pc.sort_indices(rows.questions.take(pa.array(present)))
    ids = rows.questions.take(pa.array(present)).take(in_order)
    column_of = np.zeros(len(rows.questions), dtype=np.int32)
    column_of[present] = _ranks(in_order)
    state = np.full((len(run), len(present)), State.ABSENT, dtype=np.int8)
    filled = np.zeros(state.shape, dtype=bool)
    answer = gold = None
    if rows.answer is not None and rows.gold is not None:
        answer, gold = (
            np.full(state.shape, -1, dtype=np.int16),
            np.zeros(len(present), dtype=np.int64),
        )
    count = 0
    for block in _blocks(rows, sorts[0]):
        count += block.size
        row, column = row_of[rows.setting[block]], column_of[rows.question[block]]
        state[row, column] = rows.state[block]
        filled[row, column] = True
        if (
            answer is not None
            and gold is not None
            and rows.answer is not None
            and rows.gold is not None
        ):
            answer[row, column] = rows.answer[block]
            gold[column] = rows.gold[block]
    if np.count_nonzero(filled) < count:
        raise DataError(
            _two_rows(rows, np.flatnonzero(rows.sort == sorts[0]), f"{model}, {benchmark}")
        )
    placed = present[np.asarray(in_order)]
    clusters = np.unique(group[present])
    cluster_of = np.zeros(len(rows.groups), dtype=np.int64)
    cluster_of[clusters] = _ranks(pc.sort_indices(rows.groups.take(pa.array(clusters))))
    return CellOutcomes(
        model=model,
        benchmark=benchmark,
        draws=draws[0] if draws else "",
        reading=reading,
        question_ids=tuple(ids.to_pylist()),
        cluster=cluster_of[group[placed]],
        n_options=n_options[placed],
        settings=tuple(sorted(settings)),
        state=state,
        answer=answer,
        gold=gold,
    )


def _blocks(rows: _Rows, sort: int) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of the rows of one sort, in blocks of bounded size."""
    for start in range(0, rows.sort.size, _ROWS_A_BLOCK):
        yield start + np.flatnonzero(rows.sort[start : start + _ROWS_A_BLOCK] == sort)


def _facts(rows: _Rows, values: NDArray[Any], sort: int, benchmark: str) -> NDArray[np.int64]:
    """Return, for each question, the value that its rows share; -1 for questions of other cells.

    The result has the shape (all questions,).
    """
    fact = np.full(len(rows.questions), -1, dtype=np.int64)
    for block in _blocks(rows, sort):
        fact[rows.question[block]] = values[block]
    for block in _blocks(rows, sort):
        question = rows.question[block]
        differs = np.flatnonzero(fact[question] != values[block])
        if differs.size:
            positions = np.flatnonzero(rows.sort == sort)
            raise DataError(
                _two_facts(
                    rows, positions[rows.question[positions] == question[differs[0]]], benchmark
                )
            )
    return fact


def _ranks(order: pa.Array) -> NDArray[np.int64]:
    """Return the rank of each element, from an order returned by `sort_indices`."""
    places = np.zeros(len(order), dtype=np.int64)
    places[np.asarray(order)] = np.arange(len(order))
    return places


def _only(values: list[str], name: str, model: str) -> str:
    if len(set(values)) != 1:
        raise DataError(
            f"Rows of {model} have several values of {name}: {sorted(set(values))}. Expected a "
            "single value. Analyse these rows as separate runs."
        )
    return values[0]


def _two_facts(rows: _Rows, same: NDArray[np.int64], benchmark: str) -> str:
    fact_pairs = []
    for i in same:
        fact_pairs.append((rows.groups[rows.group[i]].as_py(), int(rows.n_options[i])))
    facts = dict.fromkeys(fact_pairs)
    text = ", ".join(map(str, facts))
    question = rows.questions[rows.question[same[0]]].as_py()
    return f"Question {question!r} of {benchmark} has two groups or two numbers of options: {text}."


def _two_rows(rows: _Rows, rows_of_cell: NDArray[np.int64], cell: str) -> str:
    key = (
        rows.setting[rows_of_cell].astype(np.int64) * len(rows.questions)
        + rows.question[rows_of_cell]
    )
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    i = rows_of_cell[first[count > 1].min()]
    question, setting = rows.questions[rows.question[i]].as_py(), rows.settings[rows.setting[i]]
    return f"Two rows have the key {cell}, {question}, {setting}. Expected every key once."
