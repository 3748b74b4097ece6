"""GSM8K and MATH: rows as published, and numbers out of replies, by hand and against the authors' own judgements."""

import json
from pathlib import Path

import pytest
from exams import jsonl, opened, questions, refused

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.latex import boxed, same_answer
from audit.benchmarks.load import open_benchmark
from audit.benchmarks.number import decimal_mark, one_number, same_number
from audit.benchmarks.reply import read_key, read_number, score_number
from audit.benchmarks.rows import RowContext, gsm8k, shuffled
from audit.benchmarks.sample import draw_sample
from audit.errors import BenchmarkError
from audit.records import NO_OPTION, Item

SOLVERS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


@pytest.mark.parametrize(
    ("text", "value", "form"),
    [
        ("9 * 2 = 18\n#### 18", 18.0, "marked"),
        ("#### $1,234.50 dollars", 1234.5, "marked"),
        ("#### -5", -5.0, "marked"),
        ("#### 12\nWait, no.\n#### 13", 13.0, "marked"),  # the last marker
        ("#### 9 * 2 = 18", 18.0, "marked"),
        ("#### Step 1: eggs\n9\n#### Step 2: money\n9 * 2 = 18\nThe answer is \\boxed{18}.", 18.0, "declared"),
        ("#### 1. Eggs\n9\n#### 2. Money\n9 * 2 = 18", 18.0, "last"),
        ("#### 18\n#### Step 2: check\n2 * 9", 18.0, "marked"),  # a heading takes nothing back
        ("**#### 18**", 18.0, "marked"),
        ("#### 1{,}200", 1200.0, "marked"),
        ("$\\boxed{1{,}000}$", 1000.0, "declared"),
        ("so 12\\,500\\,000", 12_500_000.0, "last"),
        ("She makes $18.", 18.0, "last"),
        ("It is 20% more, so 3.5kg", 3.5, "last"),
        ("A: 1,00,000", 100000.0, "declared"),
        ("The answer is -3", -3.0, "declared"),
        ("x = - 7", -7.0, "last"),
        ("x = \u2212 7", -7.0, "last"),
        ("-$5", -5.0, "last"),
        ("$-5", -5.0, "last"),
        (".5", 0.5, "last"),
        ("3²", 9.0, "last"),  # a power is not the number 32
        ("#### 3/4", 0.75, "marked"),
        ("#### 1e3", 1000.0, "marked"),
        ("#### 1 000", 1000.0, "marked"),
        ("#### $1.5 million", 1_500_000.0, "marked"),
        ("<think>It may be 4.</think>It is 6.", 6.0, "last"),
    ],
)
def test_read_number(text: str, value: float, form: str) -> None:
    assert read_number(text) == (value, form)


NO_NUMBER = ["", "half of it", "#### \n5", "7 is not it\n#### none", "#### 3/4", "#### 1e3", "#### 1 000"]


@pytest.mark.parametrize("text", [*NO_NUMBER, "#### 12 apples and 3 pears", "<think>It is 4."])
def test_no_number_is_its_own_state(text: str) -> None:
    assert score_number(text, 5.0) == ((None, "none"), None)


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
    n = right = unparsed = 0
    for row in map(json.loads, lines):
        target = read_key(row["ground_truth"].rpartition("A: ")[2])
        assert target is not None
        for solver in SOLVERS:
            n += 1
            correct = score_number(row[solver]["solution"], target)[1]
            right += correct is True
            unparsed += correct is None
            assert correct is None or correct is row[solver]["is_correct"], row[solver]["solution"][-100:]
    assert (n, right) == (1200, 71 + 118 + 113 + 170)  # the counts of shared/data/README.md
    assert unparsed == 6  # five that break off within a calculation, one with 14 decimals... and no end


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
    config = BenchmarkConfig(name="math", format="math", subjects=["Level 5"])
    found = [(one.id, one.target) for one in questions(jsonl(tmp_path / "math.jsonl", *rows), config)]
    assert found == [("math/0", 1018.0), ("math/2", -2.5), ("math/4", 7.0)]
    without = jsonl(tmp_path / "math.jsonl", {"problem": "No answer?", "level": "Level 5"})
    assert "solution" in refused(without, config)


CONTEXT = RowContext(BenchmarkConfig(name="gsm8k", format="gsm8k"), "", 3)
ROW = {"question": " How many are left? ", "answer": "2,000 - 1 = <<2000-1=1999>>1,999\n#### 1,999"}


def test_a_row_has_a_target_and_no_options() -> None:
    question = gsm8k(ROW, CONTEXT)
    assert question == Item("gsm8k/3", "gsm8k", "How many are left?", (), NO_OPTION, "gsm8k/3", (), target=1999.0)
    with pytest.raises(IndexError):
        _ = question.options[question.gold]  # never by mistake the first option


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"answer": "so 18"}, "names no number after '####'"),
        ({"answer": "#### none"}, "names no number"),
        *(({"answer": odd}, "names no number") for odd in (None, "about 12", "3/4", True, 2.5j, "12 or 13")),
        ({"question": "  "}, "the question is empty"),
        ({"question": None}, "the question is null"),
    ],
)
def test_bad_rows(change: dict[str, object], found: str) -> None:
    with pytest.raises(BenchmarkError, match=found):
        gsm8k({**ROW, **change}, CONTEXT)


@pytest.mark.parametrize(("answer", "value"), [("1,080", 1080.0), (12, 12.0), ("$3.50", 3.5), ("-4", -4.0)])
def test_an_answer_that_is_the_number_alone_is_read_as_gsm1k_has_it(answer: object, value: float) -> None:
    assert gsm8k({**ROW, "answer": answer}, CONTEXT).target == value


def test_conflicting_targets_are_counted(tmp_path: Path) -> None:
    rows = [{"question": text, "answer": f"#### {n}"} for text, n in (("q", 1), ("q", 2), ("p", 1), ("p", 1))]
    census = opened(jsonl(tmp_path / "test.jsonl", *rows), BenchmarkConfig(name="gsm8k", format="gsm8k")).census
    assert (census.duplicates, census.conflicting, census.repeated_options) == (((0, 1), (2, 3)), 1, 0)


def test_published_file(shared_data: Path) -> None:
    config = BenchmarkConfig(name="gsm8k", format="gsm8k", path=str(shared_data / "gsm8k" / "test.jsonl"))
    benchmark = open_benchmark(config)
    targets = [q.target or 0 for q in benchmark.iter_questions()]
    assert len(targets) == 1319 and targets[:3] == [18.0, 3.0, 70_000.0]
    assert sum(target < 0 for target in targets) == 2  # the counts of shared/data/README.md
    assert draw_sample(benchmark, 10).chance == 0.0


def test_a_question_without_options_is_not_shuffled() -> None:
    with pytest.raises(BenchmarkError):
        shuffled(gsm8k(ROW, CONTEXT), 1)
