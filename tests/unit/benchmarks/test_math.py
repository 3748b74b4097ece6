"""MATH: answers in LaTeX are compared after the authors' rule; what ends in a plain number can be asked."""

import json
from pathlib import Path

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.latex import boxed, same_answer
from audit.benchmarks.load import open_benchmark
from audit.errors import BenchmarkError

ONE = [
    ("\\dfrac{3}{4}", "\\frac34"), ("1,000", "1000"), ("10,\\!080", "10080"), ("1{,}000", "1000"),
    ("12 \\text{ cm}^2", "12"), ("\\text{Evelyn}", "Evelyn"), ("90^\\circ", "90"), ("50\\%", "50"),
    ("-\\frac{1}{2}", "\\frac{-1}{2}"), ("x = 5", "5"), (".5", "0.50"), ("1/2", "\\frac{2}{4}"), ("6 - 5i", "6-5i"),
    ("\\sqrt5", "\\sqrt{5}"), ("\\left( 3, \\pi \\right)", "(3,\\pi)"), ("2.", "2"), ("\\$18.90", "18.9"),
]  # fmt: skip
TWO = [
    ("5", "6"), ("(1,2,3)", "(1,2,4)"), ("1/0", "2/0"), ("\\text{even}", "\\text{odd}"), ("\\text{even}", ""),
    ("2\\sqrt3", "3\\sqrt2"), ("(1,000)", "(1,0)"), ("x+1", "x-1"), ("9" * 2000, "9" * 1999),
]  # fmt: skip


@pytest.mark.parametrize(("one", "other", "same"), [(*pair, True) for pair in ONE] + [(*pair, False) for pair in TWO])
def test_answers_in_latex(one: str, other: str, same: bool) -> None:
    assert same_answer(one, other) is same and same_answer(other, one) is same


def test_the_last_box_of_a_reply() -> None:
    assert boxed("first \\boxed{1}, then \\boxed{\\frac{1}{2}}.") == "\\frac{1}{2}"
    assert [boxed(text) for text in ("none", "\\boxed{cut off", "\\boxed{ }")] == [None] * 3


def test_items_that_end_in_a_number_are_read_and_others_left_out(tmp_path: Path) -> None:
    """Of six rows one is of another level, and two end in LaTeX; ids are places among the rows of the level."""
    rows = [
        {"problem": "How many?", "level": "Level 5", "solution": "so $\\boxed{1,018}$."},
        {"problem": "What part?", "level": "Level 5", "solution": "so \\boxed{\\frac{1}{2}}."},
        {"problem": "Easy?", "level": "Level 1", "solution": "\\boxed{1}"},
        {"problem": "How long?", "level": "Level 5", "answer": -2.5},
        {"problem": "Which?", "level": "Level 5", "solution": "there is no box"},
        {"problem": "How many more?", "level": "Level 5", "answer": 7},
    ]
    path = tmp_path / "math.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = BenchmarkConfig(name="math", format="math", path=str(path), subjects=["Level 5"])
    found = [(one.id, one.target) for one in open_benchmark(config).iter_questions()]
    assert found == [("math/0", 1018.0), ("math/2", -2.5), ("math/4", 7.0)]
    path.write_text(json.dumps({"problem": "No answer?", "level": "Level 5"}) + "\n")
    with pytest.raises(BenchmarkError, match="solution"):
        list(open_benchmark(config).iter_questions())
