import pickle
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.errors import BenchmarkError, ShardError
from audit.records import Question
from audit.shards.questions import BATCH_ROWS, QUESTIONS, QuestionFile, write_questions


def question(k: int) -> Question:
    return Question(
        f"q{k}", "b", f"text {k} Ω", tuple("abcd"[: 2 + k % 3]), k % 2, f"g{k // 4}", (1, 0) if k % 2 else ()
    )


N = 2 * BATCH_ROWS + 77


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> QuestionFile:
    folder = tmp_path_factory.mktemp("questions")
    assert write_questions(folder, map(question, range(N))) == N
    return QuestionFile(folder)


@given(st.integers(0, N), st.integers(0, N))
def test_any_slice_is_what_was_written(file: QuestionFile, a: int, b: int) -> None:
    start, stop = sorted((a, b))
    assert file.slice(start, stop) == [question(k) for k in range(start, stop)]


def test_length_ids_and_iteration(file: QuestionFile) -> None:
    assert len(file) == N
    names = file.names()
    assert isinstance(names, Iterator)
    found = [pair for benchmarks, ids in names for pair in zip(benchmarks, ids, strict=True)]
    assert found == [(question(k).benchmark, f"q{k}") for k in range(N)]
    assert list(file) == [question(k) for k in range(N)]
    assert file[N - 1] == question(N - 1)
    for start, stop in [(-1, 2), (0, N + 1), (5, 4)]:
        with pytest.raises(IndexError, match=rf"holds positions 0..{N}"):
            file.slice(start, stop)


def test_it_travels_as_its_path(file: QuestionFile) -> None:
    sent = pickle.dumps(file)
    assert len(sent) < 1000
    assert pickle.loads(sent).slice(511, 514) == [question(k) for k in range(511, 514)]


def test_a_slice_touches_one_batch_of_a_large_file(tmp_path: Path) -> None:
    """8 MB of text are read by position without holding them: Arrow allocates nothing, the map does it."""
    write_questions(tmp_path, (Question(f"q{k}", "b", "x" * 1000, ("a", "b"), 0, "g") for k in range(8000)))
    file = QuestionFile(tmp_path)
    before = pa.total_allocated_bytes()
    assert file.slice(7000, 7003)[1].id == "q7001"
    assert pa.total_allocated_bytes() - before < 100_000


def test_hostile_text_and_no_questions(tmp_path: Path) -> None:
    write_questions(tmp_path, [Question("a\0", "b", "x\ud800", ("\udfff", "y"), 1, "g")])
    assert QuestionFile(tmp_path).slice(0, 1) == [Question("a\0", "b", "x\ufffd", ("\ufffd", "y"), 1, "g")]
    assert write_questions(tmp_path, []) == 0
    assert len(QuestionFile(tmp_path / QUESTIONS)) == 0 and list(QuestionFile(tmp_path).names()) == []


def test_a_repeated_id_is_refused_and_the_file_before_stays(tmp_path: Path) -> None:
    write_questions(tmp_path, [question(0)])
    with pytest.raises(BenchmarkError, match="'q1' occurs twice in b"):
        write_questions(tmp_path, [*map(question, range(600)), question(1)])
    assert len(QuestionFile(tmp_path)) == 1 and [p.name for p in tmp_path.iterdir()] == [QUESTIONS]


def test_damaged_absent_and_foreign_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="cannot be read as a file of questions"):
        QuestionFile(tmp_path)
    write_questions(tmp_path, map(question, range(600)))
    path = tmp_path / QUESTIONS
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(ShardError, match="cannot be read as a file of questions"):
        QuestionFile(tmp_path)
    with pa.ipc.new_file(path, pa.schema([("a", pa.int8())])):
        pass
    with pytest.raises(ShardError, match=r"holds \['a'\]; expected \['id'"):
        QuestionFile(tmp_path)
    with pytest.raises(ShardError, match="folder is not there"):
        write_questions(tmp_path / "nowhere", [question(0)])
