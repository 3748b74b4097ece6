"""What is refused is refused before Ray or an engine starts, with a message that teaches; nothing
is lost."""

import json

import pytest
from pipeline_helpers import keys_of, rows_of

LINE = json.dumps({"question": "What is 1 + 1?", "choices": ["2", "3"], "answer": 0}) + "\n"
# Words, and rows of a file of one's own -> what the message names.
REFUSED = [
    ([], LINE + '{"question": \n', ["exam.jsonl, line 2"]),
    (["model=qwen3_8b", "model.qwen3_8b.path=./no_such_folder"], "", ["./no_such_folder"]),
    (["control_benchmark=elementary"], "", ["is the benchmark itself"]),
]


@pytest.fixture
def exam(tmp_path):
    def write(lines: str):
        path = tmp_path / "exam.jsonl"
        path.write_text(lines)
        return ("benchmark=mcq_file", f"benchmark.path={path}")

    return write


@pytest.mark.parametrize(
    ("words", "lines", "parts"), REFUSED, ids=lambda words: " ".join(words)[:30]
)
def test_what_cannot_be_asked_is_named_and_leaves_no_run(sweep, exam, words, lines, parts):
    done = sweep(
        *words,
        *(exam(lines) if lines else ()),
        model="" if "model=qwen3_8b" in words else "scripted",
    )
    assert (
        done.code == 1 and all(part in done.out for part in parts) and "Traceback" not in done.out
    )
    assert not done.run_dir.exists()


def test_a_run_directory_that_cannot_be_written(sweep, tmp_path):
    (tmp_path / "file").write_text("")
    done = sweep("n=5", run_dir=tmp_path / "file" / "run")
    assert done.code == 1 and "file" in done.out and "Traceback" not in done.out


def test_a_prompt_too_long_is_an_error_row_and_is_asked_again_on_request(sweep, exam):
    long = LINE.replace("1 + 1", "1 + 1 " + "and so on " * 400)
    arguments = (*exam(LINE + long), "n=all", "r=1", "model.scripted.max_model_len=500")
    done = sweep(*arguments)
    assert done.code == 0, done.out
    rows = rows_of(done.run_dir)
    failed = [row for row in rows if row["error"]]
    assert len(rows) == 6 and len(failed) == 3
    assert all(
        "max_model_len" in r["error"] and r["correct"] is None and not r["parsed"] for r in failed
    )
    assert all(row["correct"] is not None for row in rows if not row["error"])

    retried = sweep(*arguments, "store.retry_errors=true")
    assert retried.code == 0, retried.out
    assert "3 error" in retried.out
    assert len(keys_of(done.run_dir)) == len(set(keys_of(done.run_dir))) == 6
