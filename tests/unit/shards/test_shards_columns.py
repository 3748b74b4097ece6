"""Columns as lists: what `to_pylist` gives, with each text in memory once."""

import panels
import pyarrow as pa
import pytest

from audit.shards.schema import shared_values


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "b", "a", ""]),
        pa.array([["a", "b"], None, [], ["b", None, "a"]], pa.list_(pa.string())),
        pa.array([["x"], ["a", "b"], None, [], ["b", "a"], ["y"]], pa.list_(pa.string())).slice(1, 4),
        pa.array([], pa.string()),
        pa.array([], pa.list_(pa.string())),
        pa.array([[0.5], None, []], pa.list_(pa.float32())),
        pa.array([1, None, 3]),
    ],
)
def test_the_values_are_those_of_to_pylist(array: pa.Array) -> None:
    assert shared_values(array, {}) == array.to_pylist()


def test_every_column_of_a_shard() -> None:
    table = panels.table_of(panels.outcomes_of(2, 5))
    for name in table.column_names:
        for chunk in table.column(name).chunks:
            assert shared_values(chunk, {}) == chunk.to_pylist(), name


def test_equal_texts_are_one_object_across_columns_and_batches() -> None:
    shared: dict[str, str] = {}
    first = shared_values(pa.array(["long text", "other"]), shared)
    (second,) = shared_values(pa.array([["other", "long text"]]), shared)
    assert first[0] is second[1]
    assert first[1] is second[0]
