import math
from dataclasses import fields, replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_tables import NAMES, Outcome, outcomes_to_table, table_to_outcomes
from shard_rows import row

from audit.errors import ShardError
from audit.records import Reading
from audit.shards.keys import clean_text, rows_to_table
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm, Draws

# Any code point, surrogates and NUL included: this is what a hostile or broken model can send.
TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=0x10FFFF), max_size=12)
TEXTS = st.lists(TEXT, max_size=4).map(tuple)
TOKENS = st.integers(0, 2**31 - 1)
OUTCOMES = st.builds(
    Outcome,
    model=TEXT,
    model_revision=TEXT,
    benchmark=TEXT,
    question_id=TEXT,
    group=TEXT,
    arm=st.sampled_from(Arm),
    routers=st.integers(0, 64),
    replicate=st.integers(0, 99),
    draws=st.sampled_from(Draws),
    reading=st.sampled_from(Reading),
    question=TEXT,
    options=TEXTS,
    router_messages=TEXTS,
    router_finish_reasons=TEXTS,
    prompt=TEXT,
    response=TEXT,
    answer=st.none() | st.integers(0, 9),
    gold=st.integers(0, 9),
    correct=st.none() | st.booleans(),
    parsed=st.booleans(),
    answer_form=TEXT,
    finish_reason=TEXT,
    option_logprobs=st.lists(st.none() | st.floats(), max_size=4).map(tuple),
    prompt_tokens=TOKENS,
    cached_tokens=TOKENS,
    completion_tokens=TOKENS,
    router_prompt_tokens=TOKENS,
    router_cached_tokens=TOKENS,
    router_completion_tokens=TOKENS,
    engine_id=TEXT,
    router_engine_ids=TEXTS,
    seed=st.integers(-(2**63), 2**63 - 1),
    error=st.none() | TEXT,
    options_shown=st.booleans(),
    reasked=st.booleans(),
    request_sha256=st.none() | TEXT,
    router_calls=TOKENS,
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
    (back,) = table_to_outcomes(
        outcomes_to_table([row(response="a\ud800b", options=("x\udfff", "\ud83d\ude00"), router_messages=("nul \0",))])
    )
    assert back.response == "a\ufffdb"
    assert back.options == ("x\ufffd", "\U0001f600")
    assert back.router_messages == ("nul \0",)


@pytest.mark.parametrize(("column", "value"), [("seed", 2**63), ("routers", 40_000), ("gold", "A"), ("parsed", "yes")])
def test_a_value_that_does_not_fit_is_named(column: str, value: object) -> None:
    with pytest.raises(ShardError, match=rf"Column '{column}'.*{value}"):
        outcomes_to_table([row(), replace(row(), **{column: value})])


def test_no_outcomes_give_an_empty_table_of_the_schema() -> None:
    assert outcomes_to_table([]).schema == SCHEMA.columns and outcomes_to_table([]).num_rows == 0
    assert isinstance(outcomes_to_table([row()]).column("option_logprobs").type, pa.ListType)


def test_a_row_has_every_column_and_no_other() -> None:
    assert sorted(NAMES) == sorted(SCHEMA.columns.names)  # the sweep's rows as objects, and its columns
    whole = {name: getattr(row(), name) for name in NAMES}
    with pytest.raises(ShardError, match=r"audit sweep lacks \['draws'\] and has \['extra'\]"):
        rows_to_table([{**{k: v for k, v in whole.items() if k != "draws"}, "extra": 1}], SCHEMA)
