"""Programming problems: how rows and replies are read, and what becomes of them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.benchmarks.rows import RowContext, humaneval
from audit.core.errors import BenchmarkError, ConfigError, DataError
from audit.core.records import NO_OPTION, Answer, FinishReason, Generation, Item, Reading
from audit.scoring.sandbox import sandbox_python
from audit.scoring.score import Score, read_code, score
from audit.shards.questions import QuestionFile, write_questions

PROBLEMS = Path(__file__).with_name("problems.jsonl")
ROWS = [json.loads(line) for line in PROBLEMS.read_text(encoding="utf-8").splitlines()]
CONTEXT = RowContext(BenchmarkConfig(name="humaneval", format="humaneval"), "", 0)
sandboxed = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="bwrap (bubblewrap) is not installed"
)

DEF = "def f(x):\n    return x\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (f"```python\n{DEF}```", DEF),
        (f"Sure!\n```\n{DEF}```\nIt is used so:\n```python\nprint(f(1))\n```", DEF),
        (f"```python\n{DEF}```\nBetter:\n```python\n{DEF}# quick\n```", f"{DEF}# quick\n"),
        ("```\nprint(1)\n```\n```\nprint(2)\n```", "print(1)\n"),
        (f"~~~py\n{DEF}~~~", DEF),
        ("```py\nT = '''\n``` no end\n'''\n" + DEF + "```", "T = '''\n``` no end\n'''\n" + DEF),
        (DEF, DEF.strip()),
        ("\n    return x\n", "    return x\n"),
        ("    return x # ```", "    return x # ```"),
        (f"<think>```\ndef f(x): return 0\n```</think>```\n{DEF}```", DEF),
        ("def g(x):\n    return x", None),
        ("I cannot write that.", None),
        ("", None),
        ("   \n ", None),
        (f"```python\n{DEF}", None),  # never closed
        (f"<think>```\n{DEF}```", None),
    ],
)
def test_which_part_of_a_reply_is_code(text: str, code: str | None) -> None:
    assert read_code(text, "f") == code


@pytest.mark.parametrize("text", [DEF, "    return x", f"```\n{DEF}"])
def test_a_reply_that_was_cut_off_is_no_code_unless_its_block_is_whole(text: str) -> None:
    assert read_code(text, "f", truncated=True) is None
    assert read_code(f"```\n{DEF}```\nThis", "f", truncated=True) == DEF


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"prompt": "def tide_height(hour):\n"}, "prompt is not valid Python by itself"),
        ({"entry_point": "tide"}, "prompt does not define the function 'tide'"),
        ({"test": "assert True"}, "test does not define the function 'check'"),
        ({"canonical_solution": ""}, "canonical_solution is empty"),
        ({"test": None}, "test is null"),
    ],
)
def test_bad_rows(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BenchmarkError, match=message):
        humaneval({**ROWS[-1], **change}, CONTEXT)


def problems() -> list[Item]:
    return [
        q
        for _, q in open_benchmark(
            BenchmarkConfig("humaneval", "humaneval", path=str(PROBLEMS))
        ).iter_located()
    ]


def test_problems_and_numbers_survive_the_questions_file(tmp_path: Path) -> None:
    programs, numbers = problems(), [Item("n", "n", "How many?", (), NO_OPTION, "n", (), 2.5)]
    assert [(q.id, q.options, q.gold, q.code.entry_point if q.code else "") for q in programs][
        1:2
    ] == [("ours/ferry", (), NO_OPTION, "ferry_times")]
    for name, questions in (("code", programs), ("numbers", numbers)):
        (tmp_path / name).mkdir()
        write_questions(tmp_path / name, questions)
        assert list(QuestionFile(tmp_path / name)) == questions


def scored(text: str, question: Item, finish: FinishReason = FinishReason.STOP) -> Score:
    return score(Generation(text, finish), (), NO_OPTION, Reading.CODE, item=question)


@sandboxed
def test_the_solutions_are_right_and_the_prompts_alone_are_wrong() -> None:
    for question in problems():
        assert question.code
        whole = f"```python\n{question.text}{question.code.solution}```"
        for right in (whole, question.code.solution):
            assert scored(right, question) == (Answer(None, "passed"), True, FinishReason.STOP), (
                question.id
            )
        answer, correct, _ = scored(f"```\n{question.text}```", question)
        assert correct is False and answer != Answer(None, "passed")


@sandboxed
def test_no_code_is_unparsed_and_a_failed_sandbox_is_an_error() -> None:
    question = problems()[0]
    none = Answer(None, "none")
    assert scored("I would rather not.", question) == (none, None, FinishReason.STOP)
    cut = (none, None, FinishReason.LENGTH)
    assert scored("```python\ndef crates_needed(", question, FinishReason.LENGTH) == cut
    with pytest.raises(DataError, match="has no tests"):
        scored(DEF, Item("a", "b", "c", (), NO_OPTION, "a"))


def test_without_bwrap_it_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    sandbox_python.cache_clear()
    with pytest.raises(ConfigError, match="apt-get install bubblewrap"):
        sandbox_python()
