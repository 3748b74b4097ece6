"""Numbers out of replies: by hand, and against the authors' own judgements of published model solutions."""

import json
from pathlib import Path

import pytest

from audit.benchmarks.answers import read_number, same_number, score_number

SOLVERS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


@pytest.mark.parametrize(
    ("text", "value", "form"),
    [
        ("9 * 2 = 18\n#### 18", 18.0, "marked"),
        ("#### $1,234.50 dollars", 1234.5, "marked"),
        ("#### -5", -5.0, "marked"),
        ("#### 12\nWait, no.\n#### 13", 13.0, "marked"),  # the last marker
        ("#### 12 apples and 3 pears", 12.0, "marked"),  # the first number after it
        ("#### 9 * 2 = 18", 18.0, "marked"),
        ("#### Step 1: eggs\n9\n#### Step 2: money\n9 * 2 = 18\nThe answer is \\boxed{18}.", 18.0, "last"),
        ("#### 1. Eggs\n9\n#### 2. Money\n9 * 2 = 18", 18.0, "last"),
        ("#### Answer for 3 days: 54", 54.0, "last"),
        ("#### 18\n#### Step 2: check\n2 * 9", 18.0, "marked"),  # a heading takes nothing back
        ("**#### 18**", 18.0, "marked"),
        ("#### 1{,}200", 1200.0, "marked"),
        ("$\\boxed{1{,}000}$", 1000.0, "last"),
        ("$\\$1,\\!200$ and 12\\,500\\,000", 12_500_000.0, "last"),
        ("She makes $18.", 18.0, "last"),
        ("It is 20% more, so 3.5kg", 3.5, "last"),
        ("A: 1,00,000", 100000.0, "last"),
        ("one of 1,2,3", 3.0, "last"),  # a list, not a thousand
        ("so 16-3", 3.0, "last"),
        ("so 16 - 3", 3.0, "last"),
        ("The answer is -3", -3.0, "last"),
        ("x = - 7", -7.0, "last"),
        ("x = \u2212 7", -7.0, "last"),
        ("-$5", -5.0, "last"),
        ("$-5", -5.0, "last"),
        (".5", 0.5, "last"),
        ("3²", 3.0, "last"),  # a power is not the number 32
        ("<think>It may be 4.</think>It is 6.", 6.0, "last"),
    ],
)
def test_read_number(text: str, value: float, form: str) -> None:
    assert read_number(text) == (value, form)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "half of it",
        "#### \n5",
        "7 is not it\n#### none",
        "#### 3/4",
        "#### 1e3",
        "#### 1 000",
        "#### $1.5 million",
        "<think>It is 4.",
    ],
)
def test_no_number_is_its_own_state(text: str) -> None:
    answer, correct = score_number(text, 5.0)
    assert answer == (None, "none")
    assert correct is None


def test_a_reply_that_was_cut_off_is_read_by_its_marker_only() -> None:
    assert read_number("First, 3 * 4 = 12, then", truncated=True).value is None
    assert read_number("#### 12\nTo check", truncated=True).value == 12.0
    assert read_number("#### Step 2: money\n9 *", truncated=True).value is None


def test_same_number_is_the_value_not_the_writing() -> None:
    assert same_number(read_number("0.30").value or 0, 0.3)
    assert same_number(70000.0, 70_000)
    assert not same_number(70_001.0, 70_000.0)
    assert score_number("#### 19", 18.0)[1] is False


def test_agrees_with_the_authors_on_1200_published_solutions(shared_data: Path) -> None:
    lines = (shared_data / "gsm8k" / "example_model_solutions.first300lines.jsonl").read_text().splitlines()
    n = right = 0
    for row in map(json.loads, lines):
        target = read_number(row["ground_truth"]).value
        assert target is not None
        for solver in SOLVERS:
            n += 1
            correct = score_number(row[solver]["solution"], target)[1]
            right += correct is True
            assert correct is row[solver]["is_correct"], row[solver]["solution"][-100:]
    assert (n, right) == (1200, 71 + 118 + 113 + 170)  # the counts of shared/data/README.md


def test_a_reply_counts_as_whole_unless_it_is_said_to_be_cut_off():
    assert score_number("3 and 4 make 7", 7.0)[1] is True
    assert score_number("3 and 4 make 7", 7.0, truncated=True)[1] is None
