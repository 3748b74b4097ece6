"""What is refused is refused before Ray or an engine starts, with a message that teaches; nothing is lost."""

import json

import pytest
import ray
from pipeline_helpers import keys_of, rows_of

LINE = json.dumps({"question": "What is 1 + 1?", "choices": ["2", "3"], "answer": 0}) + "\n"


@pytest.fixture
def exam(tmp_path):
    def write(*lines: str):
        path = tmp_path / "exam.jsonl"
        path.write_text("".join(lines))
        return f"benchmark.path={path}"

    return write


def test_a_missing_file(sweep):
    done = sweep("benchmark=mcq_file", "benchmark.path=nowhere.jsonl")
    assert done.code == 1 and "nowhere.jsonl" in done.out and "Traceback" not in done.out
    assert not done.run_dir.exists()


def test_a_malformed_row_is_named_by_file_and_line(sweep, exam):
    done = sweep("benchmark=mcq_file", exam(LINE, '{"question": \n'))
    assert done.code == 1 and "exam.jsonl, line 2" in done.out


def test_gold_outside_the_options(sweep, exam):
    done = sweep("benchmark=mcq_file", exam(LINE, LINE.replace('"answer": 0', '"answer": 7').replace("1 + 1", "1 + 2")))
    assert done.code == 1 and "line 2" in done.out and "7" in done.out


def test_fewer_than_two_options(sweep, exam):
    done = sweep("benchmark=mcq_file", exam('{"question": "q", "choices": ["only"], "answer": 0}\n'))
    assert done.code == 1 and "line 1" in done.out


def test_n_larger_than_the_benchmark(sweep):
    done = sweep("n=100000")
    assert done.code == 1 and "n=100000" in done.out


def test_a_hub_model_that_cannot_be_had_is_named(sweep, monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nothing listens there
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    done = sweep(model="qwen3_8b")
    assert done.code == 1 and "qwen3_8b" in done.out


def test_a_missing_model_folder(sweep):
    done = sweep("model.qwen3_8b.path=./no_such_folder", model="qwen3_8b")
    assert done.code == 1 and "./no_such_folder" in done.out


def test_a_run_directory_that_cannot_be_written(sweep, tmp_path):
    (tmp_path / "file").write_text("")
    done = sweep("n=5", run_dir=tmp_path / "file" / "run")
    assert done.code == 1 and "file" in done.out and "Traceback" not in done.out


def test_a_control_benchmark_that_is_the_benchmark(sweep):
    done = sweep("control_benchmark=elementary")
    assert done.code == 1 and "is the benchmark itself" in done.out


def test_a_prompt_too_long_is_an_error_row_and_is_asked_again_on_request(sweep, exam):
    long = LINE.replace("1 + 1", "1 + 1 " + "and so on " * 400)
    arguments = ("benchmark=mcq_file", exam(LINE, long), "n=all", "r=1", "model.scripted.max_model_len=500")
    done = sweep(*arguments)
    assert done.code == 0, done.out
    rows = rows_of(done.run_dir)
    failed = [row for row in rows if row["error"]]
    assert len(rows) == 6 and len(failed) == 3
    assert all("max_model_len" in r["error"] and r["correct"] is None and not r["parsed"] for r in failed)
    assert all(row["correct"] is not None for row in rows if not row["error"])

    again = sweep(*arguments, "store.retry_errors=true")
    assert again.code == 0, again.out
    assert "3 error" in again.out
    assert len(keys_of(done.run_dir)) == len(set(keys_of(done.run_dir))) == 6


def test_refusals_need_no_engine():
    assert ray.is_initialized()  # by the fixture; the tests above left no actor behind
    from ray.util.state import list_actors

    assert not [a for a in list_actors() if a.class_name == "EngineActor" and a.state == "ALIVE"]
