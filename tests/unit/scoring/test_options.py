"""Likelihoods to an answer: the three normalisations by hand, and what is never guessed."""

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.errors import ConfigError, DataError
from audit.scoring.score import NORMALISATIONS, read_logprobs

NAN, INF = math.nan, math.inf


def test_the_normalisations_by_hand() -> None:
    # totals -6, -8, -9; tokens 2, 4, 3 -> means -3, -2, -3; bytes 3, 20, 45 -> -2, -.4, -.2
    logprobs, tokens, options = (-6.0, -8.0, -9.0), (2, 4, 3), ("abc", "x" * 20, "y" * 45)
    assert read_logprobs(logprobs, tokens, "none").index == 0
    assert read_logprobs(logprobs, tokens, "token").index == 1
    assert read_logprobs(logprobs, tokens, "byte", options).index == 2
    assert (read_logprobs(logprobs, tokens).index, read_logprobs(logprobs, tokens).form) == (
        1,
        "logprob",
    )
    assert (
        read_logprobs((-2.0, -4.0), (1, 2), "token").index is None
    )  # equal after normalisation is a tie


def test_bytes_are_bytes_and_not_characters() -> None:
    # -6 over 2 characters: -3 by character for both; "éé" has 4 bytes (-1.5), "ee" has 2 (-3)
    assert read_logprobs((-6.0, -6.0), (), "byte", ("éé", "ee")).index == 0


@pytest.mark.parametrize(
    "logprobs",
    [
        (),
        (None, None),
        (-1.0, None),  # the unknown option may be the best
        (-1.0, -1.0, -2.0),  # a tie: taking the first would favour A
        (-1.0, NAN),
        (NAN, NAN),
        (-1.0, INF),
        (-INF, -INF),
        (-INF,),
    ],
)
def test_unparsed_and_not_guessed(logprobs: tuple[float | None, ...]) -> None:
    answer = read_logprobs(logprobs, normalise="none")
    assert (answer.index, answer.form) == (None, "none")


def test_an_impossible_option_loses_without_spoiling_the_rest() -> None:
    assert read_logprobs((-INF, -3.0), (1, 1)).index == 1


def test_bad_arguments_say_what_is_expected() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'token'"):
        read_logprobs((-1.0, -2.0), (1, 1), "tokens")
    with pytest.raises(DataError, match=r"token counts .* Expected 2 lengths"):
        read_logprobs((-1.0, -2.0), (1,), "token")
    with pytest.raises(DataError, match="at least 1"):
        read_logprobs((-1.0, -2.0), (1, 0), "token")
    with pytest.raises(DataError, match="option texts"):
        read_logprobs((-1.0, -2.0), (1, 1), "byte")


@given(
    st.lists(st.one_of(st.none(), st.floats()), max_size=10),
    st.sampled_from(NORMALISATIONS),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_the_answer_is_a_best_option_and_does_not_depend_on_the_order(
    logprobs: list[float | None], normalise: str, lowest: bool, random: Random
) -> None:
    k = len(logprobs)
    rows = [(logprob, i + 1, "x" * (i + 1)) for i, logprob in enumerate(logprobs)]

    def winner(order: list[tuple[float | None, int, str]]) -> tuple[float | None, int, str] | None:
        answer = read_logprobs(
            [r[0] for r in order],
            [r[1] for r in order],
            normalise,
            [r[2] for r in order],
            none_is_lowest=lowest,
        )
        assert answer.index is None or 0 <= answer.index < k
        assert answer.parsed == (answer.form == "logprob")
        return None if answer.index is None else order[answer.index]

    first = winner(rows)
    shuffled = rows[:]
    random.shuffle(shuffled)
    assert winner(shuffled) == first
