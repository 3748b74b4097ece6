from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_tables import Outcome, outcomes_to_table, pair
from shard_rows import row

from audit.core.errors import DataError
from audit.core.records import Reading, Setting
from audit.shards import cells
from audit.shards.cells import N_OPTIONS, cell_columns, pair_batches
from audit.statistics.paired import CellOutcomes, State
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm, Draws

CELL_COLUMNS = cell_columns(SCHEMA)


def batches(outcomes: Sequence[Outcome], size: int = 1024) -> list[pa.RecordBatch]:
    table = outcomes_to_table(list(outcomes))
    columns = [
        pc.list_value_length(table["options"]) if n == N_OPTIONS else table[n] for n in CELL_COLUMNS
    ]
    return list(pa.table(columns, names=list(CELL_COLUMNS)).to_batches(max_chunksize=size))


def state_of(o: Outcome) -> State:
    if o.error is not None:
        return State.ERROR
    if not o.parsed:
        return State.TRUNCATED if o.finish_reason == "length" else State.UNPARSED
    return State.CORRECT if o.correct else State.WRONG


def holds(cells: Sequence[CellOutcomes], outcomes: Sequence[Outcome]) -> None:
    """Cells are those of the rows, taken one by one in plain Python."""
    assert [(c.model, c.benchmark) for c in cells] == sorted(
        {(o.model, o.benchmark) for o in outcomes}
    )
    for cell in cells:
        rows = [o for o in outcomes if (o.model, o.benchmark) == (cell.model, cell.benchmark)]
        groups = sorted({o.group for o in rows})
        items = {o.question_id: [groups.index(o.group), len(o.options)] for o in rows}
        state = {(Setting(o.arm, o.routers, o.replicate), o.question_id): state_of(o) for o in rows}
        assert (cell.draws, cell.reading) == (rows[0].draws, rows[0].reading)
        assert cell.question_ids == tuple(sorted(items)) and cell.settings == tuple(
            sorted({s for s, _ in state})
        )
        assert np.stack([cell.cluster, cell.n_options], axis=1).tolist() == [
            items[q] for q in cell.question_ids
        ]
        wanted = [
            [state.get((s, q), State.ABSENT) for q in cell.question_ids] for s in cell.settings
        ]
        assert cell.state.tolist() == wanted
        assert (cell.cluster.dtype, cell.n_options.dtype, cell.state.dtype) == (
            np.int64,
            np.int64,
            np.int8,
        )


OPTIONS = ("a", "b", "c", "d")
# Of ids and groups the order as text is not that of their numbers, nor that in which rows come.
ROWS = st.builds(
    lambda q, arm, routers, replicate, cell, fate: row(
        q,
        0 if arm is Arm.DIRECT else routers,
        arm,
        model=cell[0],
        replicate=replicate,
        benchmark=cell[1],
        group=f"g{q % 4 + 8}",
        options=OPTIONS[: 2 + q % 3],
        reading=Reading.LETTER if cell[0] == "m" else Reading.LETTER_LOGPROB,
        correct={"right": True, "wrong": False}.get(fate),
        parsed=fate in ("right", "wrong"),
        finish_reason="length" if fate == "cut off" else "stop",
        error="no reply" if fate == "error" else None,
    ),
    st.integers(0, 14),
    st.sampled_from(list(Arm)),
    st.integers(1, 12),
    st.integers(0, 2),
    st.sampled_from([("m", "b"), ("m", "a"), ("l", "b")]),
    st.sampled_from(["right", "wrong", "unparsed", "cut off", "error"]),
)


@settings(max_examples=80)
@given(
    outcomes=st.lists(ROWS, min_size=1, max_size=60, unique_by=lambda r: r.key),
    size=st.sampled_from([1, 7, 1024]),
)
def test_cells_are_those_of_the_rows(outcomes: list[Outcome], size: int) -> None:
    holds(pair_batches(batches(outcomes, size), SCHEMA), outcomes)
    with (
        pytest.MonkeyPatch.context() as patch
    ):  # many rows: numbered and put in their place a few at a time
        patch.setattr(cells, "_ROWS_AT_ONCE", 5)
        patch.setattr(cells, "_ROWS_A_BLOCK", 7)
        holds(pair_batches(batches(outcomes, 3), SCHEMA), outcomes)


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


@pytest.mark.parametrize(
    ("second", "words"),
    [
        (
            row(3, 1),
            "Two rows have the key m, b, q3, Setting.*level=1, replicate=0.*Expected every key once",
        ),
        (
            row(3, 2, group="other"),
            r"Question 'q3' of b has two groups or two numbers of options: \('g0', 4\), \('other', 4\)",
        ),
        (
            row(3, 2, options=("a", "b")),
            r"Question 'q3' of b has two groups or two numbers of options: \('g0', 4\), \('g0', 2\)",
        ),
        (
            row(3, 2, draws=Draws.NESTED),
            r"Rows of m have several values of draws: \['independent', 'nested'\]",
        ),
        (
            row(3, 2, reading=Reading.OPTION_TEXT),
            r"Rows of m have several values of reading: \['letter', 'option_text'\]",
        ),
    ],
)
def test_rows_that_cannot_be_paired_are_refused(second: Outcome, words: str) -> None:
    with pytest.raises(DataError, match=words):
        pair_batches(batches([row(1), row(3), second]), SCHEMA)
