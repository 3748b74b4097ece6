from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_tables import Outcome, outcomes_to_table, pair
from shard_rows import row

from audit.errors import DataError
from audit.records import Reading, Setting
from audit.shards import cells
from audit.shards.cells import N_OPTIONS, cell_columns, pair_batches
from audit.statistics.paired import CellOutcomes, State
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm, Draws

CELL_COLUMNS = cell_columns(SCHEMA)


def batches(outcomes: Sequence[Outcome], size: int = 1024) -> list[pa.RecordBatch]:
    table = outcomes_to_table(list(outcomes))
    columns = [pc.list_value_length(table["options"]) if n == N_OPTIONS else table[n] for n in CELL_COLUMNS]
    return list(pa.table(columns, names=list(CELL_COLUMNS)).to_batches(max_chunksize=size))


def lists(outcomes: Sequence[Outcome]) -> dict[str, list[Any]]:
    found = batches(outcomes)
    return {name: [value for batch in found for value in batch[name].to_pylist()] for name in CELL_COLUMNS}


def pair_lists(columns: Mapping[str, Sequence[Any]]) -> list[CellOutcomes]:
    """What `pair_batches` has to give: the same, row by row and in plain Python.

    columns: equally long lists of `cell_columns`.
    """
    length = len(columns["model"])
    by_cell: dict[tuple[str, str], list[int]] = {}
    for i in range(length):
        by_cell.setdefault((columns["model"][i], columns["benchmark"][i]), []).append(i)
    return [_pair_cell(columns, model, benchmark, by_cell[model, benchmark]) for model, benchmark in sorted(by_cell)]


def _pair_cell(columns: Mapping[str, Sequence[Any]], model: str, benchmark: str, rows: list[int]) -> CellOutcomes:
    item: dict[str, tuple[str, int]] = {}
    outcome: dict[tuple[Setting, str], State] = {}
    for i in rows:
        qid = columns["question_id"][i]
        item[qid] = (columns["group"][i], int(columns["n_options"][i]))
        setting = Setting(Arm(columns["arm"][i]), int(columns["routers"][i]), int(columns["replicate"][i]))
        outcome[setting, qid] = _state(columns, i)
    ids = sorted(item)
    settings = sorted({s for s, _ in outcome})
    groups = {g: k for k, g in enumerate(sorted({g for g, _ in item.values()}))}
    state = np.array([[outcome.get((s, q), State.ABSENT) for q in ids] for s in settings], dtype=np.int8)
    return CellOutcomes(
        model=model, benchmark=benchmark, draws=columns["draws"][rows[0]],
        reading=columns["reading"][rows[0]], question_ids=tuple(ids),
        cluster=np.array([groups[item[q][0]] for q in ids], dtype=np.int64),
        n_options=np.array([item[q][1] for q in ids], dtype=np.int64), settings=tuple(settings), state=state,
    )  # fmt: skip


def _state(columns: Mapping[str, Sequence[Any]], i: int) -> State:
    if columns["error"][i] is not None:
        return State.ERROR
    if not columns["parsed"][i]:
        return State.TRUNCATED if columns["finish_reason"][i] == "length" else State.UNPARSED
    return State.CORRECT if columns["correct"][i] else State.WRONG


def plain(cell: CellOutcomes) -> dict[str, Any]:
    arrays = {name: getattr(cell, name).tolist() for name in ("cluster", "n_options", "state")}
    kinds = {name: getattr(cell, name).dtype for name in arrays}
    texts = {n: getattr(cell, n) for n in ("model", "benchmark", "draws", "reading", "question_ids", "settings")}
    return {**texts, **arrays, "kinds": kinds}


def same_as_lists(outcomes: Sequence[Outcome], size: int = 1024) -> None:
    expected = [plain(cell) for cell in pair_lists(lists(outcomes))]
    assert [plain(cell) for cell in pair_batches(batches(outcomes, size), SCHEMA)] == expected
    with pytest.MonkeyPatch.context() as patch:  # many rows: numbered and put in their place a few at a time
        patch.setattr(cells, "_ROWS_AT_ONCE", 5)
        patch.setattr(cells, "_ROWS_A_BLOCK", 7)
        assert [plain(cell) for cell in pair_batches(batches(outcomes, 3), SCHEMA)] == expected


OPTIONS = ("a", "b", "c", "d")
# Of ids and groups the order as text is not that of their numbers, nor that in which rows come.
ROWS = st.builds(
    lambda q, arm, routers, replicate, cell, fate: row(
        q, 0 if arm is Arm.DIRECT else routers, arm, model=cell[0], replicate=replicate, benchmark=cell[1],
        group=f"g{q % 4 + 8}", options=OPTIONS[: 2 + q % 3],
        reading=Reading.LETTER if cell[0] == "m" else Reading.LETTER_LOGPROB,
        correct={"right": True, "wrong": False}.get(fate), parsed=fate in ("right", "wrong"),
        finish_reason="length" if fate == "cut off" else "stop", error="no reply" if fate == "error" else None,
    ),
    st.integers(0, 14),
    st.sampled_from(list(Arm)),
    st.integers(1, 12),
    st.integers(0, 2),
    st.sampled_from([("m", "b"), ("m", "a"), ("l", "b")]),
    st.sampled_from(["right", "wrong", "unparsed", "cut off", "error"]),
)  # fmt: skip


@settings(max_examples=80)
@given(outcomes=st.lists(ROWS, min_size=1, max_size=60, unique_by=lambda r: r.key), size=st.sampled_from([1, 7, 1024]))
def test_batches_and_lists_make_the_same_cells(outcomes: list[Outcome], size: int) -> None:
    same_as_lists(outcomes, size)


def test_answers_are_read_where_they_are_asked_for() -> None:
    outcomes = [
        row(1, 1, answer=2, gold=3),
        row(0, 1, answer=None, gold=1, correct=None, parsed=False),
        row(1, 2, gold=3),
    ]
    (cell,) = pair(outcomes, answers=True)
    assert cell.answer[0].tolist() == [-1, 2] and cell.gold.tolist() == [1, 3]
    assert pair(outcomes)[0].answer is None


def test_nothing_makes_no_cell() -> None:
    assert pair_batches([], SCHEMA) == []
    assert pair_batches(batches([row()])[:0], SCHEMA) == []
    assert pair_batches([batches([row()])[0].slice(0, 0)], SCHEMA) == []


def test_states_are_those_of_the_rows() -> None:
    fates = [
        row(0, correct=True),
        row(1, correct=False),
        row(2, correct=None, parsed=False),
        row(3, correct=None, parsed=False, finish_reason="length"),
        row(4, correct=None, parsed=False, finish_reason="error", error="prompt too long"),
        row(5, 2, correct=True),
    ]
    (cell,) = pair_batches(batches(fates), SCHEMA)
    s = State
    assert cell.settings == (Setting(Arm.NOISY_REWRITE, 1), Setting(Arm.NOISY_REWRITE, 2))
    assert cell.state.tolist() == [
        [s.CORRECT, s.WRONG, s.UNPARSED, s.TRUNCATED, s.ERROR, s.ABSENT],
        [s.ABSENT] * 5 + [s.CORRECT],
    ]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (row(3, 1), "Two rows for m, b, q3, Setting.*level=1, replicate=0.*every key must occur once"),
        (row(3, 2, group="other"), r"Question 'q3' of b has two groups or option counts: \('g0', 4\), \('other', 4\)"),
        (
            row(3, 2, options=("a", "b")),
            r"Question 'q3' of b has two groups or option counts: \('g0', 4\), \('g0', 2\)",
        ),
        (row(3, 2, draws=Draws.NESTED), r"Rows of m mix draws: \['independent', 'nested'\]"),
        (row(3, 2, reading=Reading.OPTION_TEXT), r"Rows of m mix reading: \['letter', 'option_text'\]"),
    ],
)
def test_rows_that_cannot_be_paired_are_refused(second: Outcome, words: str) -> None:
    with pytest.raises(DataError, match=words):
        pair_batches(batches([row(1), row(3), second]), SCHEMA)
