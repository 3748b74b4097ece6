"""The rewordings of the embedded benchmark: what can be checked of them without a reader or a model."""

import json
import re
from collections import defaultdict
from importlib.resources import files
from typing import Any

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.records import Question

# "one" is left out: it is a pronoun far more often than a number. Ordinals are names here ("Second World War").
_SPELT = {
    "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7", "eight": "8", "nine": "9",
    "ten": "10", "sixteen": "16", "twenty": "20", "ninety-nine": "99", "both": "2", "pair": "2",
}  # fmt: skip


def _words(text: str) -> str:
    """Lower-case words, one space between them, no punctuation: what "the same wording" means here."""
    return " ".join(re.findall(r"[a-z0-9]+(?:['-][a-z0-9]+)*", text.lower()))


def _numbers(text: str) -> set[str]:
    return {_SPELT.get(word, word) for word in _words(text).split() if word in _SPELT or word.isdecimal()}


def _says(text: str, option: str) -> bool:
    return f" {_words(option)} " in f" {_words(text)} "


@pytest.fixture(scope="module")
def questions() -> dict[str, Question]:
    return {q.id: q for q in open_benchmark(BenchmarkConfig()).iter_questions()}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    text = files("audit").joinpath("data", "variants", "elementary.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_every_question_has_three_or_more_numbered_variants(
    questions: dict[str, Question], rows: list[dict[str, Any]]
) -> None:
    numbers = defaultdict(list)
    for row in rows:
        assert set(row) == {"question_id", "n", "text"}
        numbers[row["question_id"]].append(row["n"])
    assert set(numbers) == set(questions)
    for question_id, found in numbers.items():
        assert found == list(range(1, len(found) + 1)) and len(found) >= 3, question_id


def test_no_wording_occurs_twice(questions: dict[str, Question], rows: list[dict[str, Any]]) -> None:
    texts = [_words(q.text) for q in questions.values()] + [_words(row["text"]) for row in rows]
    assert len(set(texts)) == len(texts)
    assert all(row["text"] == " ".join(row["text"].split()) for row in rows)


def test_numbers_of_the_stem_are_kept(questions: dict[str, Question], rows: list[dict[str, Any]]) -> None:
    assert _numbers(questions["elementary/calendar/16"].text) == {"7", "8"}  # "What is seven plus eight?"
    for row in rows:
        lost = _numbers(questions[row["question_id"]].text) - _numbers(row["text"])
        assert not lost, (row, lost)


def test_no_option_is_named_unless_the_stem_names_it(
    questions: dict[str, Question], rows: list[dict[str, Any]]
) -> None:
    """The gold option would be a leak, a wrong one a hint."""
    for row in rows:
        question = questions[row["question_id"]]
        for option in question.options:
            assert _says(question.text, option) or not _says(row["text"], option), (row, option)


def test_a_sentence_to_complete_does_not_give_the_article_away(
    questions: dict[str, Question], rows: list[dict[str, Any]]
) -> None:
    """ "... is a ..." fits some options only if others begin with a vowel."""
    open_ends = [row for row in rows if re.search(r"\ban? \.\.\.$", row["text"])]
    assert open_ends
    for row in open_ends:
        starts = {option[0].lower() in "aeiou" for option in questions[row["question_id"]].options}
        assert starts == {row["text"].endswith(" an ...")}, row
