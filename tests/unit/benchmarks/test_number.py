"""GSM8K and MATH: rows as published, and numbers out of replies, by hand and against the authors'
own judgements."""

import json
from pathlib import Path

import pytest
from exams import jsonl, opened, questions, refused

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.latex import boxed, same_answer
from audit.benchmarks.load import open_benchmark
from audit.benchmarks.number import decimal_mark, one_number, same_number
from audit.benchmarks.reply import read_key, score_number
from audit.benchmarks.rows import RowContext, gsm8k, shuffled
from audit.benchmarks.sample import draw_sample
from audit.core.errors import BenchmarkError
from audit.core.records import NO_OPTION, Item

SOLVERS = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")


@pytest.mark.parametrize(
    ("text", "value", "form"),
    [
        ("9 * 2 = 18\n#### 18", 18.0, "marked"),
        ("#### $1,234.50 dollars", 1234.5, "marked"),
        ("#### -5", -5.0, "marked"),
        ("#### 12\nWait, no.\n#### 13", 13.0, "marked"),  # the last marker
        ("#### 9 * 2 = 18", 18.0, "marked"),
        (
            "#### Step 1: eggs\n9\n#### Step 2: money\n9 * 2 = 18\nThe answer is \\boxed{18}.",
            18.0,
            "declared",
        ),
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
def test_a_reply_is_read(text: str, value: float, form: str) -> None:
    assert score_number(text, 0.0)[0] == (value, form)


NO_NUMBER = [
    "",
    "half of it",
    "#### \n5",
    "7 is not it\n#### none",
    "one of 1,2,3",
    "16-3",
    "so 16 - 3",
]


@pytest.mark.parametrize("text", [*NO_NUMBER, "#### 12 apples and 3 pears", "<think>It is 4."])
def test_no_number_is_its_own_state(text: str) -> None:
    assert score_number(text, 5.0) == ((None, "none"), None)


def test_a_reply_that_was_cut_off_is_read_by_its_marker_only() -> None:
    assert score_number("First, 3 * 4 = 12, then", 0.0, truncated=True)[0].value is None
    assert score_number("#### 12\nTo check", 0.0, truncated=True)[0].value == 12.0
    assert score_number("#### Step 2: money\n9 *", 0.0, truncated=True)[0].value is None


def test_same_number_is_the_value_not_the_writing() -> None:
    assert same_number(score_number("0.30", 0.0)[0].value or 0, 0.3)
    assert same_number(70000.0, 70_000)
    assert not same_number(70_001.0, 70_000.0)
    assert score_number("#### 19", 18.0)[1] is False


def test_agrees_with_the_authors_on_1200_published_solutions(shared_data: Path) -> None:
    lines = (
        (shared_data / "gsm8k" / "example_model_solutions.first300lines.jsonl")
        .read_text()
        .splitlines()
    )
    n = right = unparsed = 0
    for row in map(json.loads, lines):
        target = read_key(row["ground_truth"].rpartition("A: ")[2])
        assert target is not None
        for solver in SOLVERS:
            n += 1
            correct = score_number(row[solver]["solution"], target)[1]
            right += correct is True
            unparsed += correct is None
            assert correct is None or correct is row[solver]["is_correct"], row[solver]["solution"][
                -100:
            ]
    assert (n, right) == (1200, 71 + 118 + 113 + 170)  # the counts of shared/data/README.md
    assert unparsed == 5  # each breaks off within a calculation, before its answer


ONE = [
    ("\\dfrac{3}{4}", "\\frac34"),
    ("1,000", "1000"),
    ("10,\\!080", "10080"),
    ("1{,}000", "1000"),
    ("12 \\text{ cm}^2", "12"),
    ("\\text{Evelyn}", "Evelyn"),
    ("90^\\circ", "90"),
    ("50\\%", "50"),
    ("-\\frac{1}{2}", "\\frac{-1}{2}"),
    ("x = 5", "5"),
    (".5", "0.50"),
    ("1/2", "\\frac{2}{4}"),
    ("6 - 5i", "6-5i"),
    ("\\sqrt5", "\\sqrt{5}"),
    ("\\left( 3, \\pi \\right)", "(3,\\pi)"),
    ("2.", "2"),
    ("\\$18.90", "18.9"),
    ("1\\frac12", "\\frac{3}{2}"),
    ("10^{-2}", "0.01"),
    ("\\{3,4\\}", "4,3"),
    ("x=3 \\text{ or } x=5", "5, 3"),
    ("1,000,000", "10^6"),
    ("(1{,}234, 5)", "(1234,5)"),
    ("x \\in [0,1)", "\\left[0, 1\\right)"),
]
TWO = [
    ("5", "6"),
    ("(1,2,3)", "(1,2,4)"),
    ("1/0", "2/0"),
    ("\\text{even}", "\\text{odd}"),
    ("\\text{even}", ""),
    ("2\\sqrt3", "3\\sqrt2"),
    ("(1,000)", "(1,0)"),
    ("x+1", "x-1"),
    ("5!", "5"),
    ("(3,4)", "(4,3)"),
    ("[0,1)", "(0,1]"),
    ("9" * 2000, "9" * 1999),
]


EITHER = [
    ("(1,234)", "(1234)"),
    ("50\\%", "0.5"),
    ("3,5", "35"),
    ("(2,3)", "2,3"),
    ("1,2,3", "123"),
]


@pytest.mark.parametrize(("first", "other"), EITHER)
def test_answers_that_may_be_meant_as_one(first: str, other: str) -> None:
    assert same_answer(first, other) is None and same_answer(other, first) is None


@pytest.mark.parametrize(
    ("first", "other", "same"), [(*pair, True) for pair in ONE] + [(*pair, False) for pair in TWO]
)
def test_answers_in_latex(first: str, other: str, same: bool) -> None:
    assert same_answer(first, other) is same and same_answer(other, first) is same


def test_the_last_box_of_a_reply() -> None:
    assert boxed("first \\boxed{1}, then \\boxed{\\frac{1}{2}}.") == "\\frac{1}{2}"
    assert [boxed(text) for text in ("none", "\\boxed{cut off", "\\boxed{ }")] == [None] * 3


def test_items_that_end_in_a_number_are_read_and_others_left_out(tmp_path: Path) -> None:
    """Of six rows one is of another level, and two end in LaTeX; ids are places among the rows of
    the level."""
    rows = [
        {"problem": "How many?", "level": "Level 5", "solution": "so $\\boxed{1,018}$."},
        {"problem": "What part?", "level": "Level 5", "solution": "so \\boxed{\\frac{1}{2}}."},
        {"problem": "Easy?", "level": "Level 1", "solution": "\\boxed{1}"},
        {"problem": "How long?", "level": "Level 5", "answer": -2.5},
        {"problem": "Which?", "level": "Level 5", "solution": "there is no box"},
        {"problem": "How many more?", "level": "Level 5", "answer": 7},
    ]
    config = BenchmarkConfig(name="math", format="math", subjects=["Level 5"])
    targets = [
        (question.id, question.target)
        for question in questions(jsonl(tmp_path / "math.jsonl", *rows), config)
    ]
    assert targets == [("math/0", 1018.0), ("math/2", -2.5), ("math/4", 7.0)]
    without = jsonl(tmp_path / "math.jsonl", {"problem": "No answer?", "level": "Level 5"})
    assert "solution" in refused(without, config)


CONTEXT = RowContext(BenchmarkConfig(name="gsm8k", format="gsm8k"), "", 3)
ROW = {"question": " How many are left? ", "answer": "2,000 - 1 = <<2000-1=1999>>1,999\n#### 1,999"}


def test_a_row_has_a_target_and_no_options() -> None:
    question = gsm8k(ROW, CONTEXT)
    assert question == Item(
        "gsm8k/3", "gsm8k", "How many are left?", (), NO_OPTION, "gsm8k/3", (), target=1999.0
    )
    with pytest.raises(IndexError):
        _ = question.options[question.gold]  # never by mistake the first option


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answer": "so 18"}, "has no number after '####'"),
        ({"answer": "#### none"}, "has no number"),
        *(
            ({"answer": odd}, "has no number")
            for odd in (None, "about 12", "3/4", True, 2.5j, "12 or 13")
        ),
        ({"question": "  "}, "the question is empty"),
        ({"question": None}, "the question is null"),
    ],
)
def test_bad_rows(change: dict[str, object], message: str) -> None:
    with pytest.raises(BenchmarkError, match=message):
        gsm8k({**ROW, **change}, CONTEXT)


@pytest.mark.parametrize(
    ("answer", "value"), [("1,080", 1080.0), (12, 12.0), ("$3.50", 3.5), ("-4", -4.0)]
)
def test_an_answer_that_is_the_number_alone_is_read_as_gsm1k_has_it(
    answer: object, value: float
) -> None:
    assert gsm8k({**ROW, "answer": answer}, CONTEXT).target == value


def test_conflicting_targets_are_counted(tmp_path: Path) -> None:
    rows = [
        {"question": text, "answer": f"#### {n}"}
        for text, n in (("q", 1), ("q", 2), ("p", 1), ("p", 1))
    ]
    census = opened(
        jsonl(tmp_path / "test.jsonl", *rows), BenchmarkConfig(name="gsm8k", format="gsm8k")
    ).census
    assert (census.duplicates, census.conflicting, census.repeated_options) == (
        ((0, 1), (2, 3)),
        1,
        0,
    )


def test_published_file(shared_data: Path) -> None:
    config = BenchmarkConfig(
        name="gsm8k", format="gsm8k", path=str(shared_data / "gsm8k" / "test.jsonl")
    )
    benchmark = open_benchmark(config)
    targets = [q.target or 0 for q in benchmark.iter_questions()]
    assert len(targets) == 1319 and targets[:3] == [18.0, 3.0, 70_000.0]
    assert sum(target < 0 for target in targets) == 2  # the counts of shared/data/README.md
    assert draw_sample(benchmark, 10).chance == 0.0


def test_a_question_without_options_is_not_shuffled() -> None:
    with pytest.raises(BenchmarkError):
        shuffled(gsm8k(ROW, CONTEXT), 1)


WRITTEN = [
    ("1,234.50", 1234.5),
    ("1.234,50 EUR", 1234.5),
    ("1.234.567", 1234567),
    ("1 234 567", 1234567),
    ("10\u202f000", 10000),
    ("1'234'567.5", 1234567.5),
    ("1,00,000", 100000),
    ("12,50 €", 12.5),
    ("0.125", 0.125),
    ("1{,}000", 1000),
    ("10\\,000", 10000),
    ("1 1/2", 1.5),
    ("6½", 6.5),
    ("1\\frac{1}{2}", 1.5),
    ("-\\dfrac12", -0.5),
    ("6 and a half", 6.5),
    ("10^{3}", 1000),
    ("2³", 8),
    ("1.5e3", 1500),
    ("1.5 \\times 10^{-1}", 0.15),
    ("2.5 million", 2.5e6),
    ("130k", 130000),
    ("5 lakh", 500000),
    ("-$5", -5),
    ("$-5", -5),
    ("−5", -5),
    ("–5", -5),
    ("24 cm^2", 24),
    ("24 m2", 24),
    ("42\\text{ apples}", 42),
    ("90^\\circ", 90),
    ("25 %", 25),
    ("٣٫٥", 3.5),
    ("１８", 18),
    ("**18**.", 18),
    ("18 dollars per day", 18),
]
AMBIGUOUS = [
    "",
    "two",
    "3 to 5",
    "3-5",
    "3 or 5",
    "1.234",
    "3,5",
    "1,2,3",
    "1,234,56",
    "1.2.3",
    "0,500,000",
    "(1,234)",
    "1/2/2024",
    "12:30",
    "5 ft 3 in",
    "3x",
    "2\\sqrt{3}",
    "5\\pi",
    "5!",
    "5th",
    "130 K",
    "5m",
    "3 dozen",
    "1_000",
    "1..5",
    "0.333...",
    "- 5",
    "- 18 apples",
    "1 / 0",
    "9" * 40,
    "2^{999}",
]


@pytest.mark.parametrize(("text", "value"), WRITTEN)
def test_one_number(text: str, value: float) -> None:
    number = one_number(text)
    assert number is not None and float(number) == value


@pytest.mark.parametrize("text", AMBIGUOUS)
def test_no_number_or_more_than_one_meaning(text: str) -> None:
    assert one_number(text) is None


def test_a_lone_mark_is_read_by_the_other_numbers_of_the_text() -> None:
    """1.234 beside 2.5 is one and a part, beside 2.500.000 a thousand; alone or beside both it has
    no value."""
    assert [decimal_mark(text) for text in ("2.5", "2.500.000", "2.5 and 2.500.000", "1,234")] == [
        ".",
        ",",
        "?",
        None,
    ]
    replies = [
        "{} is 2.5 more.\n#### 1.234",
        "{} is 2.500.000 more.\n#### 1.234",
        "2.5, 2.500.000.\n#### 1.234",
        "#### 1.234",
    ]
    assert [score_number(reply, 0.0)[0].value for reply in replies] == [1.234, 1234.0, None, None]
    assert read_key("#### 1.234") == 1.234  # a key is written by a program


def test_a_percentage_against_its_hundredth_is_neither_right_nor_wrong() -> None:
    assert [score_number("The answer is 25%.", target)[1] for target in (25.0, 0.25, 24.0)] == [
        True,
        None,
        False,
    ]


# Written to trick the reader, and what a person reads.
TRICKS = [
    ("The answer is: 18 (see equation 3).", 18),
    ("#### 18 dollars/day", 18),
    ("The ratio is 3/2.", 1.5),
    ("Answer: $5.00 per hour", 5),
    ("The answer is 20 - 2 = 18", 18),
    ("The answer is 5^2", 25),
    ("The answer is 5^2 = 25", 25),
    ("Answer: -18", -18),
    ("Answer: (18)", 18),
    ("The answer is 0.5%", 0.5),
    ("Answer: .5", 0.5),
    ("Answer: 1.5.", 1.5),
    ("Answer: 12,34,567", 1234567),
    ("Answer: 1 000 000", 1000000),
    ("Answer: 10 000", 10000),
    ("Answer: 5 300", 5300),
    ("\\boxed{\\frac{18}{1}}", 18),
    ("\\boxed{\\text{18}}", 18),
    ("\\boxed{18}, so 18", 18),
    ("The answer is \\boxed{18}. This is 20% of 90.", 18),
    ("\\boxed{10\\%}", 10),
    ("\\boxed{\\$10}", 10),
    ("\\boxed{5\\times 10^3}", 5000),
    ("\\boxed{2^{-1}}", 0.5),
    ("\\boxed{a_{10}=34}", 34),
    ("\\boxed{f(3)=7}", 7),
    ("\\boxed{90^\\circ}", 90),
    ("\\boxed{12.}", 12),
    ("Answer: 5 (five)", 5),
    ("The answer to question 3 is 18.", 18),
    ("Answer to part 2: 18", 18),
    ("The answer is 18.\n\nSo the final answer is 20.", 20),
    ("#### 18\n#### 20", 20),
    ("The total is 18.\n\n(Word count: 45)", 18),
    ("It costs 18 dollars (20 with tax). The answer is 20.", 20),
    ("Total = 100 000 000", 100000000),
    ("The answer is negative 5.", -5),
    ("The answer is 5 more than before.", 5),
    ("The answer is 1e-3.", 0.001),
    ("The answer is 1E3", 1000),
    ("0.5 * 2.468 = 1.234", 1.234),
    ("Answer: 1.234.567,89", 1234567.89),
    ("Answer: 1,234,567.891", 1234567.891),
    ("Answer: 00012", 12),
    ("Answer: 1/3", 0.333333333333333),
    ("Answer: 10/2", 5),
    ("Answer: 4 1/2", 4.5),
    ("Answer: 1 / 2 cup", 0.5),
    ("Answer: 24/7", 3.42857142857143),
    ("Answer: ₹1,00,000", 100000),
    ("Answer: 5 lakh", 500000),
    ("Answer: 2.5M", 2500000),
    ("Answer: 3B", 3000000000),
    ("Answer: $3bn", 3000000000),
    ("答案是 18", 18),
    ("答案：18。", 18),
    ("Die Antwort ist 1.234,5.", 1234.5),
    ("La respuesta es 18", 18),
    ("１８", 18),
    ("Answer: 18²", 324),
    ("Answer: 18*", 18),
    ("Answer: 18**", 18),
    ("```\n18\n```", 18),
    ("`18`", 18),
    ("| answer | 18 |", 18),
    ('{"answer": 18}', 18),
    ("return 18", 18),
    ("18\n", 18),
    ("The answer is at least 5", 5),
    ("The answer is at most 5", 5),
    ("Tom's answer is 18 but the right answer is 20.", 20),
    ("If the answer is 18, x=2. The answer is 20.", 20),
]
NO_ANSWER = [
    "The answer is 18. But if she also sells 2 more, it is 20.",
    "The answer is 3:2",
    "Answer: 12/05/2024",
    "The answer is 7.30 pm",
    "Answer: 7pm",
    "Answer: 1st",
    "The answer is the 3rd option",
    "The answer is option 3",
    "It is 5 o'clock",
    "Answer: 20s",
    "The year is 1990s",
    "Answer: 5'3\"",
    "Answer: 5 ft 3 in",
    "Answer: 5ft 3in",
    "The answer is 18, not 20.",
    "The answer is 18 = 20 - 2",
    "The answer is 2 * 9",
    "The answer is 18 out of 20",
    "Answer: - 18",
    "Answer: 1,5",
    "Answer: 1..5",
    "1,234,56",
    "Answer: 1_000",
    "We bought 2 500 ml bottles.",
    "On day 5 300 people came.",
    "\\boxed{18}\\boxed{19}",
    "\\boxed{18} and \\boxed{19}",
    "\\boxed{}",
    "\\boxed{eighteen}",
    "\\boxed{18",
    "\\boxed{3, 4}",
    "\\boxed{(3,4)}",
    "\\boxed{\\pm 3}",
    "\\boxed{x > 3}",
    "\\boxed{3 < x}",
    "\\boxed{3x}",
    "\\boxed{2:30}",
    "\\boxed{\\infty}",
    "\\boxed{3!}",
    "\\boxed{10_2}",
    "\\boxed{1010_2}",
    "\\boxed{101_{2}}",
    "\\boxed{\\log 5}",
    "\\boxed{0.\\overline{3}}",
    "\\boxed{0.333...}",
    "The answer is 0.333...",
    "\\boxed{5 \\text{ or } 6}",
    "\\boxed{\\text{between }5\\text{ and }6}",
    "\\boxed{10 \\text{ dollars and } 5 \\text{ cents}}",
    "\\boxed{\\sqrt[3]{8}}",
    "\\boxed{\\binom{5}{2}}",
    "\\boxed{|5|}",
    "\\boxed{5 \\cdot 3}",
    "\\boxed{e^2}",
    "\\boxed{\\frac{3}{4}\\pi}",
    "\\boxed{\\frac{\\pi}{4}}",
    "\\boxed{\\frac{a}{4}}",
    "\\boxed{\\frac{3}{\\sqrt{2}}}",
    "\\boxed{a_4}",
    "\\boxed{f(3)}",
    "\\boxed{7=f(3)}",
    "\\boxed{x=3, y=4}",
    "I think it is 5. No, 6.",
    "5? 6?",
    "Answer: 5 or so",
    "The answer is five (5).",
    "Answer: five",
    "There are 5 boxes. The answer is eighteen.",
    "She has 3 pens and 4 books, so seven.",
    "The answer for 3 days: 54",
    "answer is 18\n\nanswer is 20",
    "#### 18\nThe answer is 20",
    "Total: 18\nDone in 3 turns.",
    "So she has 18 left.\n\nBest,\nTom, 42",
    "So there are 18.\nIn other words, 1.5 dozen.",
    "It costs 18 dollars (20 with tax).",
    "Answer: 18 (20 with tax)",
    "Hence 18 apples, i.e. 3 boxes.",
    "2, 4, 6, 8",
    "10 20 30",
    "It is 5 degrees below zero.",
    "minus 5",
    "The answer is 5 less than 20.",
    "The answer is about 5-6.",
    "The answer is 5–6.",
    "0x1F",
    "The answer is 3D.",
    "Answer: B12",
    "Answer: H2O",
    "Answer: room 12",
    "Answer: 555-1234",
    "Answer: 192.168.0.1",
    "Answer: v1.2",
    "Answer: 12am",
    "The answer is 100.000",
    "The answer is 2.500",
    "1.234 * 2 = 2.468",
    "Answer: 0,5",
    "Answer: 4-1/2",
    "Answer: 4 and 1/2",
    "Answer: 4 3/2",
    "Answer: 1/2/3",
    "Answer: 2 dozen",
    "Answer: 2.5m",
    "Answer: 3 bn",
    "Answer: 3 thousandths",
    "Answer: 3 thousand and 5",
    "Answer: 3 million 500 thousand",
    "Answer: three hundred 5",
    "Answer: 18 ²",
    "Answer: ~~17~~ 18",
    "Answer: <del>17</del>18",
    '{"answer": [18, 20]}',
    "{'answer': 18, 'steps': 3}",
    "print(18)",
    "18\n\n19",
    "",
    "The answer is 18, and the change is 2.",
    "The answer is 18 with 2 left over",
    "the answer is 4 remainder 2",
    "the answer is over 9000",
    "The correct answer is not 18; it is 20.",
    "The previous answer is 18.",
    "Q: 5?",
    "Double-checking: 18 + 2 = 20. Yes.",
    "She has 18 apples left. She started with 20.",
    "She started with 20 and ended with 18.",
]


@pytest.mark.parametrize(("text", "value"), TRICKS)
def test_tricks(text: str, value: float) -> None:
    number = score_number(text, 0.0)[0].value
    assert number is not None and same_number(number, value)


@pytest.mark.parametrize("text", NO_ANSWER)
def test_replies_without_one_answer(text: str) -> None:
    assert score_number(text, 0.0)[0].value is None
