"""Columns as lists: what `to_pylist` gives, with each text in memory once."""

import math
from dataclasses import fields, replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from outcome_tables import (
    NAMES,
    Outcome,
    OutcomeKey,
    digests_of_keys,
    outcomes_to_table,
    table_to_outcomes,
)
from shard_rows import row

from audit.core.errors import ShardError
from audit.core.records import Reading, Setting
from audit.shards.keys import KeySet, clean_text, digest_grid, digests_of_table, rows_to_table
from audit.shards.schema import shared_values
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm, Draws

# Few values, so that equal halves (the ties a 64-bit coincidence would make) are common.
DIGESTS = arrays(np.uint64, st.tuples(st.integers(0, 30), st.just(2)), elements=st.integers(0, 3))


def test_shifting_text_between_columns_changes_the_digest() -> None:
    first, second = (
        OutcomeKey("ab", "c", "d", Arm.DIRECT, 1, 0),
        OutcomeKey("a", "bc", "d", Arm.DIRECT, 1, 0),
    )
    swapped = OutcomeKey("ab", "c", "d", Arm.DIRECT, 0, 1)
    assert len({d.tobytes() for d in digests_of_keys([first, second, swapped])}) == 3


def test_digests_do_not_change_between_versions() -> None:
    """Shard names of runs on disk depend on them."""
    (digest,) = digests_of_keys([OutcomeKey("m", "b", "q0", Arm.NOISY_REWRITE, 3, 0)])
    assert digest.tobytes().hex() == "c0f2dd2450da7c16379005f30c7dafcb"


def test_all_builders_agree() -> None:
    settings = [
        Setting(Arm.DIRECT, 0),
        Setting(Arm.FORWARD_FULL, 1, 2),
        Setting(Arm.NOISY_REWRITE, 9),
    ]
    ids = ["q0", "q\ud800", "Ω"]
    keys = [OutcomeKey("m", "b", q, s.arm, s.level, s.replicate) for q in ids for s in settings]
    rows = [_with_key(k) for k in keys]
    expected = digests_of_keys(keys)
    assert np.array_equal(expected, digest_grid("m", "b", ids, settings).reshape(-1, 2))
    assert np.array_equal(expected, digests_of_table(outcomes_to_table(rows), SCHEMA))


def _with_key(key: OutcomeKey) -> Outcome:
    return replace(
        row(),
        model=key.model,
        benchmark=key.benchmark,
        question_id=key.question_id,
        arm=key.arm,
        routers=key.level,
        replicate=key.replicate,
    )


@given(DIGESTS, DIGESTS)
def test_key_set_is_a_set(members: np.ndarray, queries: np.ndarray) -> None:
    plain = {tuple(pair) for pair in members.tolist()}
    keys = KeySet.of(members)
    assert len(keys) == len(plain)
    assert [*zip(keys.hi.tolist(), keys.lo.tolist(), strict=True)] == sorted(plain)
    assert keys.contains(queries).tolist() == [tuple(pair) in plain for pair in queries.tolist()]
    assert keys.common(KeySet.of(queries)) == len(
        plain & {tuple(pair) for pair in queries.tolist()}
    )


# Any code point, surrogates and NUL included: this is what a hostile or broken model can send.
TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=12)
TEXTS = st.lists(TEXT, max_size=4).map(tuple)
OUTCOMES = st.builds(
    row,
    model=TEXT,
    question_id=TEXT,
    arm=st.sampled_from(Arm),
    draws=st.sampled_from(Draws),
    options=TEXTS,
    reading=st.sampled_from(Reading),
    response=TEXT,
    answer=st.none() | st.integers(0, 9),
    correct=st.none() | st.booleans(),
    option_logprobs=st.lists(st.none() | st.floats(), max_size=4).map(tuple),
    prompt_tokens=st.integers(0, 2**31 - 1),
    seed=st.integers(-(2**63), 2**63 - 1),
    error=st.none() | TEXT,
)


def canonical(value: object) -> object:
    """Comparable: text as it is stored; NaN equal to NaN, and -0.0 not equal to 0.0."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, tuple):
        return tuple(canonical(v) for v in value)
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value.hex()
    return value


@settings(max_examples=60)
@given(st.lists(OUTCOMES, max_size=4))
def test_outcomes_come_back_as_they_were(outcomes: list[Outcome]) -> None:
    table = outcomes_to_table(outcomes)
    table.validate(full=True)
    assert table.schema.equals(SCHEMA.columns, check_metadata=True)
    back = table_to_outcomes(table)
    for before, after in zip(outcomes, back, strict=True):
        for field in fields(Outcome):
            old, new = getattr(before, field.name), getattr(after, field.name)
            assert type(new) is type(old) and canonical(new) == canonical(old), field.name


@given(TEXT)
def test_clean_text_is_valid_unicode_and_leaves_valid_text_alone(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    if not any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        assert clean == text


def test_lone_surrogates_become_replacement_characters_and_pairs_are_joined() -> None:
    assert clean_text("a\ud800b \udfff nul \0") == "a\ufffdb \ufffd nul \0"
    assert clean_text("\ud83d\ude00") == "\U0001f600"


@pytest.mark.parametrize(
    ("column", "value"), [("seed", 2**63), ("routers", 40_000), ("gold", "A"), ("parsed", "yes")]
)
def test_a_value_that_does_not_fit_is_named(column: str, value: object) -> None:
    with pytest.raises(ShardError, match=rf"column '{column}'.*{value}"):
        outcomes_to_table([row(), replace(row(), **{column: value})])


def test_a_row_has_every_column_and_no_other() -> None:
    assert sorted(NAMES) == sorted(
        SCHEMA.columns.names
    )  # the sweep's rows as objects, and its columns
    whole = {name: getattr(row(), name) for name in NAMES}
    with pytest.raises(
        ShardError,
        match=r"lacks the columns \['draws'\], and has the unknown columns \['extra'\]",
    ):
        rows_to_table([{**{k: v for k, v in whole.items() if k != "draws"}, "extra": 1}], SCHEMA)


@pytest.mark.parametrize(
    "array",
    [
        pa.array(["a", None, "b", "a", ""]),
        pa.array([["a", "b"], None, [], ["b", None, "a"]], pa.list_(pa.string())),
        pa.array([["x"], ["a", "b"], None, [], ["b", "a"], ["y"]], pa.list_(pa.string())).slice(
            1, 4
        ),
        pa.array([], pa.list_(pa.string())),
        pa.array([[0.5], None, []], pa.list_(pa.float32())),
        pa.array([1, None, 3]),
    ],
)
def test_the_values_are_those_of_to_pylist(array: pa.Array) -> None:
    assert shared_values(array, {}) == array.to_pylist()
