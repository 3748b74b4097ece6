"""The rewordings of the embedded benchmark: what can be checked of them without a reader or a
model."""

import json
import re
from collections import defaultdict
from importlib.resources import files
from typing import Any

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.benchmarks.rows import words_alone
from audit.core.records import Item
from audit.variants.rules import numbers_in

Questions, Rows = dict[str, Item], list[dict[str, Any]]
_SAID_OTHERWISE = (
    "elementary/body/06",
    "elementary/calendar/15",
)  # "both hands" are two, "double" undoes a half


def _says(text: str, option: str) -> bool:
    return f" {words_alone(option)} " in f" {words_alone(text)} "


@pytest.fixture(scope="module")
def questions() -> Questions:
    return {q.id: q for q in open_benchmark(BenchmarkConfig()).iter_questions()}


@pytest.fixture(scope="module")
def rows() -> Rows:
    text = (
        files("audit").joinpath("data", "variants", "elementary.jsonl").read_text(encoding="utf-8")
    )
    return [json.loads(line) for line in text.splitlines()]


def test_every_question_has_three_or_more_numbered_variants(
    questions: Questions, rows: Rows
) -> None:
    numbers = defaultdict(list)
    for row in rows:
        assert set(row) == {"question_id", "n", "text"}
        numbers[row["question_id"]].append(row["n"])
    assert set(numbers) == set(questions)
    for question_id, sequence in numbers.items():
        assert sequence == list(range(1, len(sequence) + 1)) and len(sequence) >= 3, question_id


def test_no_wording_occurs_twice(questions: Questions, rows: Rows) -> None:
    texts = [words_alone(q.text) for q in questions.values()] + [
        words_alone(row["text"]) for row in rows
    ]
    assert len(set(texts)) == len(texts)
    assert all(row["text"] == " ".join(row["text"].split()) for row in rows)


def test_numbers_of_the_stem_are_kept(questions: Questions, rows: Rows) -> None:
    for row in rows:
        lost = {*numbers_in(questions[row["question_id"]].text)} - {*numbers_in(row["text"])}
        assert not lost or row["question_id"] in _SAID_OTHERWISE, (row, lost)


def test_no_option_is_named_unless_the_stem_names_it(questions: Questions, rows: Rows) -> None:
    """The gold option would be a leak, a wrong one a hint."""
    for row in rows:
        question = questions[row["question_id"]]
        for option in question.options:
            assert _says(question.text, option) or not _says(row["text"], option), (row, option)


def test_a_sentence_to_complete_does_not_give_the_article_away(
    questions: Questions, rows: Rows
) -> None:
    """ "... is a ..." fits some options only if others begin with a vowel."""
    open_ends = [row for row in rows if re.search(r"\ban? \.\.\.$", row["text"])]
    assert open_ends
    for row in open_ends:
        starts = {option[0].lower() in "aeiou" for option in questions[row["question_id"]].options}
        assert starts == {row["text"].endswith(" an ...")}, row
