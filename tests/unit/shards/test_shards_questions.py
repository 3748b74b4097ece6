import os
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outcome_tables import digests_of_keys, iter_outcomes
from shard_rows import names, new_run, row, write

from audit.core.errors import BenchmarkError, ShardError
from audit.core.records import NO_OPTION, Code, Item, Setting
from audit.shards.complete import verify_run
from audit.shards.keys import KeySet, digest_grid
from audit.shards.questions import BATCH_ROWS, QUESTIONS, QuestionFile, write_questions
from audit.shards.read import scan_run
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Arm


def question(k: int) -> Item:
    return Item(
        f"q{k}",
        "b",
        f"text {k} Ω",
        tuple("abcd"[: 2 + k % 3]),
        k % 2,
        f"g{k // 4}",
        (1, 0) if k % 2 else (),
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
    pairs = [pair for names in file.names() for pair in names]
    assert pairs == [(question(k).benchmark, f"q{k}") for k in range(N)]
    assert list(file) == [question(k) for k in range(N)]
    assert file[N - 1] == question(N - 1)


@pytest.mark.parametrize("coded", [0, BATCH_ROWS + 1])
def test_problems_of_code_and_other_questions_are_no_one_file(coded: int, tmp_path: Path) -> None:
    """Written before: a file that could not be read where the first was of code, and one that lost
    the code else."""
    code = Code("add", "assert add(1, 1) == 2", "return a + b")
    questions = [question(k) for k in range(N)]
    questions[coded] = Item("code", "b", "def add(a, b):", (), NO_OPTION, "code", code=code)
    with pytest.raises(BenchmarkError, match="in a separate run"):
        write_questions(tmp_path, questions)
    assert not (tmp_path / QUESTIONS).exists()
    assert (
        write_questions(tmp_path, [questions[coded]]) == 1
        and QuestionFile(tmp_path)[0].code == code
    )


def test_a_slice_touches_one_batch_of_a_large_file(tmp_path: Path) -> None:
    """8 MB of text are read by position without holding them: Arrow allocates nothing, the map does
    it."""
    write_questions(
        tmp_path, (Item(f"q{k}", "b", "x" * 1000, ("a", "b"), 0, "g") for k in range(8000))
    )
    file = QuestionFile(tmp_path)
    before = pa.total_allocated_bytes()
    assert file.slice(7000, 7003)[1].id == "q7001"
    assert pa.total_allocated_bytes() - before < 100_000


def test_hostile_text_and_no_questions(tmp_path: Path) -> None:
    write_questions(tmp_path, [Item("a\0", "b", "x\ud800", ("\udfff", "y"), 1, "g")])
    assert QuestionFile(tmp_path).slice(0, 1) == [
        Item("a\0", "b", "x\ufffd", ("\ufffd", "y"), 1, "g")
    ]
    assert write_questions(tmp_path, []) == 0
    assert (
        len(QuestionFile(tmp_path / QUESTIONS)) == 0 and list(QuestionFile(tmp_path).names()) == []
    )


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
    with pytest.raises(ShardError, match=r"has the columns \['a'\]. Expected \['id'"):
        QuestionFile(tmp_path)
    with pytest.raises(ShardError, match="folder is missing"):
        write_questions(tmp_path / "nowhere", [question(0)])


def keys(questions: Iterable[int]) -> KeySet:
    return KeySet.of(digests_of_keys([row(q).key for q in questions]))


@pytest.fixture
def run(tmp_path: Path) -> tuple[Path, str]:
    return new_run(tmp_path / "run")


def test_missing_and_unexpected_rows_are_counted_and_named(run: tuple[Path, str]) -> None:
    write(*run, row(0), row(1), row(77))
    report = verify_run(run[0], SCHEMA, keys(range(5)), run[1])
    assert (report.rows, report.missing, report.unexpected) == (3, 3, 1)
    with pytest.raises(
        ShardError,
        match=r"has 3 rows, and 5 were expected. Missing rows: 3. Rows that belong to no question of the run: 1",
    ):
        report.require_complete()
    grid = digest_grid("m", "b", [f"q{q}" for q in range(5)], [Setting(Arm.NOISY_REWRITE, 1)])
    by_grid = verify_run(run[0], SCHEMA, KeySet.of(grid), run[1])
    assert (by_grid.missing, by_grid.unexpected) == (3, 1)


def test_of_two_rows_with_one_key_the_older_stays(run: tuple[Path, str]) -> None:
    newer = write(*run, row(0, response="new"), row(1))
    older = write(*run, row(0, response="old"), row(2))
    gone = write(*run, row(2, response="newest"))
    for age, info in enumerate((older, newer, gone)):
        os.utime(info.path, (1000 + age, 1000 + age))
    report = verify_run(run[0], SCHEMA, keys(range(3)), run[1])
    assert (report.rows, report.complete) == (3, True)
    assert {o.question_id: o.response for o in iter_outcomes(run[0])} == {
        "q0": "old",
        "q1": "A",
        "q2": "A",
    }
    assert names(run[0] / "shards") == sorted([newer.path.name, older.path.name])
    assert {s.path: s.sha256 for s in report.shards} == {
        s.path: s.sha256 for s in scan_run(run[0], SCHEMA).shards
    }


@settings(max_examples=15)
@given(chunks=st.lists(st.sets(st.integers(0, 12), min_size=1), min_size=1, max_size=6))
def test_whatever_overlaps_every_key_is_there_once(
    chunks: list[set[int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    run, attempt = new_run(tmp_path_factory.mktemp("overlap") / "run")
    for chunk in chunks:
        write(run, attempt, *(row(q) for q in sorted(chunk)))
    wanted = set().union(*chunks)
    assert verify_run(run, SCHEMA, keys(wanted), attempt).complete
    assert sorted(o.question_id for o in iter_outcomes(run)) == sorted(f"q{q}" for q in wanted)
    assert verify_run(run, SCHEMA, keys(wanted), attempt).rows == len(wanted)


def test_a_superseded_driver_repairs_nothing(run: tuple[Path, str]) -> None:
    write(*run, row(0), row(1))
    write(*run, row(1))
    with pytest.raises(ShardError, match="superseded"):
        verify_run(run[0], SCHEMA, keys(range(2)), "f" * 32)
    scan = scan_run(run[0], SCHEMA)
    assert scan.duplicates == 1 and [info.rows for info in scan.shards] in ([1, 2], [2, 1])
