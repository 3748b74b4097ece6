"""A dressed reply is read as the number that it was made of, or is unparsed: never as another
number."""

import json
from collections import Counter
from pathlib import Path
from random import Random
from time import process_time

import pytest
from dressed_replies import Dressed, dressed
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.benchmarks.number import same_number
from audit.benchmarks.reply import score_number
from audit.scoring.keyed import read_against_key


@st.composite
def replies(draw: st.DrawFn) -> Dressed:
    return dressed(lambda options: draw(st.sampled_from(options)))


@given(reply=replies())
@settings(max_examples=300, derandomize=True, deadline=None)
def test_a_reply_is_read_as_its_number_or_is_unparsed(reply: Dressed) -> None:
    value = score_number(reply.text, 0.0)[0].value
    assert value is None or (reply.value is not None and same_number(value, float(reply.value))), (
        reply
    )


def test_most_replies_are_read_and_none_as_another_number() -> None:
    """Of 3,000 drawn replies with a number 7 of 10 are read; of those that hedge none is."""
    rng, counts = Random(49), Counter[str]()
    for _ in range(3000):
        reply = dressed(rng.choice)
        value = score_number(reply.text, 0.0)[0].value
        right = (
            value is not None and reply.value is not None and same_number(value, float(reply.value))
        )
        counts["unparsed" if value is None else "right" if right else "wrong"] += 1
        counts["answers"] += reply.value is not None
    assert counts["wrong"] == 0
    assert counts["right"] > 0.7 * counts["answers"] > 1500


@given(
    text=st.text(
        st.sampled_from("0123456789.,'/-^%$€ \n=:()[]{}\\boxednswer#&*kKMe½²٣x"), max_size=60
    )
)
@settings(max_examples=300, derandomize=True, deadline=None)
def test_no_text_is_too_odd_to_be_read(text: str) -> None:
    score_number(text, 0.0)
    score_number(f"\\boxed{{{text}}}", 5.0)


PIECES = [
    "1,",
    "1 000 ",
    "\\boxed{",
    "\\boxed{1} ",
    "answer is ",
    "#### 1\n",
    "1/",
    "[1]",
    "(",
    "**",
    "\\text{",
    "a\n",
]


@pytest.mark.parametrize("piece", PIECES)
def test_the_time_is_linear_in_the_length(piece: str) -> None:
    """Four times the length takes four times as long; of a quadratic pattern it would be sixteen
    times."""

    def seconds(characters: int) -> float:
        start = process_time()
        score_number(piece * (characters // len(piece)), 0.0)
        return process_time() - start

    assert seconds(48_000) < 10 * seconds(12_000) + 0.3


def _published(shared_data: Path, folder: str) -> list[dict[str, str]]:
    lines = (
        (shared_data / "public_reports" / folder / "replies.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    return [json.loads(line) for line in lines]


UNPARSED = {
    "space thousands",
    "think never closed",
    "range answer",
    "time",
}  # two meanings, or none


def test_numbers_of_public_reports(shared_data: Path) -> None:
    rows = _published(shared_data, "08-reply-numbers")
    unparsed = set()
    for row in rows:
        value = score_number(row["reply"], 0.0)[0].value
        if value is None:
            unparsed.add(row["item"])
        else:
            assert same_number(value, float(row["gold"])), row
    assert len(rows) == 29 and unparsed == UNPARSED


def test_boxes_of_public_reports(shared_data: Path) -> None:
    """Two boxes joined by "or", and a pair against a number, are neither right nor wrong."""
    right = {
        row["item"]: read_against_key(row["reply"], row["gold"])[1]
        for row in _published(shared_data, "09-reply-boxed-math")
    }
    assert len(right) == 19
    assert {item for item, correct in right.items() if correct is not True} == {
        "two boxes",
        "pair against number",
    }
    assert right["two boxes"] is None and right["pair against number"] is None
    letters = [
        read_against_key(row["reply"], row["gold"])
        for row in _published(shared_data, "07-reply-boxed-letter-dress")
    ]
    assert letters == [("B", True)] * 9
