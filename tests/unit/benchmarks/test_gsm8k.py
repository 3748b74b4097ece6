"""GSM8K rows: published format, the hub's fields, bad rows."""

from pathlib import Path

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.benchmarks.rows import RowContext, gsm8k, shuffled
from audit.benchmarks.sample import draw_sample, take_census
from audit.errors import BenchmarkError
from audit.records import NO_OPTION, Question
from audit.shards.questions import QuestionFile, write_questions

CONTEXT = RowContext(BenchmarkConfig(name="gsm8k", format="gsm8k"), "", 3)
ROW = {"question": " How many are left? ", "answer": "2,000 - 1 = <<2000-1=1999>>1,999\n#### 1,999"}


def test_a_row_has_a_target_and_no_options() -> None:
    question = gsm8k(ROW, CONTEXT)
    assert question == Question("gsm8k/3", "gsm8k", "How many are left?", (), NO_OPTION, "gsm8k/3", (), target=1999.0)
    with pytest.raises(IndexError):
        _ = question.options[question.gold]  # never by mistake the first option


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"answer": "so 18"}, "names no number after '####'"),
        ({"answer": "#### none"}, "names no number"),
        ({"answer": None}, "names no number"),
        ({"question": "  "}, "the question is empty"),
        ({"question": None}, "the question is null"),
    ],
)
def test_bad_rows(change: dict[str, object], found: str) -> None:
    with pytest.raises(BenchmarkError, match=found):
        gsm8k({**ROW, **change}, CONTEXT)


def test_target_survives_the_questions_file(tmp_path: Path) -> None:
    choice = Question("a/1", "a", "2 + 2?", ("3", "4"), 1, "a/1", (0, 1))
    questions = [gsm8k(ROW, CONTEXT), choice]
    write_questions(tmp_path, questions)
    assert list(QuestionFile(tmp_path)) == questions


def test_conflicting_targets_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text(
        '{"question": "q", "answer": "#### 1"}\n{"question": "q", "answer": "#### 2"}\n'
        '{"question": "p", "answer": "#### 1"}\n{"question": "p", "answer": "#### 1"}\n'
    )
    census = take_census(open_benchmark(BenchmarkConfig(name="gsm8k", format="gsm8k", path=str(path))))
    assert (census.duplicates, census.conflicting, census.repeated_options) == (((0, 1), (2, 3)), 1, 0)


def test_published_file(shared_data: Path) -> None:
    config = BenchmarkConfig(name="gsm8k", format="gsm8k", path=str(shared_data / "gsm8k" / "test.jsonl"))
    benchmark = open_benchmark(config)
    questions = list(benchmark.iter_questions())
    assert len(questions) == 1319
    assert [q.target for q in questions[:3]] == [18.0, 3.0, 70_000.0]
    assert sum((q.target or 0) < 0 for q in questions) == 2  # the counts of shared/data/README.md
    assert draw_sample(benchmark, 10).chance == 0.0


def test_a_question_without_options_is_not_shuffled() -> None:
    with pytest.raises(BenchmarkError):
        shuffled(gsm8k(ROW, CONTEXT), 1)
