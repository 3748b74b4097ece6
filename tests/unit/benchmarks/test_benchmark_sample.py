"""The fixed sample: reproducible, without duplicates, streamed."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from exams import MCQ, TWO, jsonl, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.benchmarks.load import Benchmark
from audit.benchmarks.rows import shuffled
from audit.benchmarks.sample import draw_sample, sampled_questions
from audit.core.errors import BenchmarkError, ConfigError
from audit.core.records import Item


@pytest.fixture
def ten(tmp_path: Path) -> Benchmark:
    """Ten rows; 3 and 8 repeat row 1 but for whitespace, 9 repeats 4 with another gold; 4 and 9
    have three options."""
    rows = [{"question": f"Number {i} ?", "choices": ["a", "b"], "answer": 0} for i in range(10)]
    rows[3]["question"], rows[8]["question"] = "Number  1 ?\n", " Number 1\t?"
    rows[4] |= {"choices": ["a", "b", "b"]}
    rows[9] |= {"question": "Number 4 ?", "choices": ["a", "b", "b"], "answer": 1}
    return opened(jsonl(tmp_path / "ten.jsonl", *rows))


def test_duplicates_are_found_reported_and_not_sampled(ten: Benchmark) -> None:
    everything = draw_sample(ten, None)
    assert everything.ids == tuple(f"exam/{i}" for i in (0, 1, 2, 4, 5, 6, 7))
    assert everything.duplicates == (("exam/1", "exam/3", "exam/8"), ("exam/4", "exam/9"))
    assert (everything.n_total, everything.n_distinct, everything.n) == (10, 7, 7)
    assert everything.chance == pytest.approx((6 / 2 + 1 / 3) / 7)
    assert [w.split()[0] for w in ten.warnings] == [
        "3",
        "1",
        "2",
    ]  # repeats, conflicting golds, repeated options


def test_same_seed_same_questions_in_the_order_of_the_benchmark(ten: Benchmark) -> None:
    sample = draw_sample(ten, 4, seed=7)
    assert sample == draw_sample(ten, 4, seed=7)
    assert list(sample.indices) == sorted(sample.indices)
    assert sample.ids == tuple(f"exam/{i}" for i in sample.indices)
    assert len({draw_sample(ten, 4, seed=s).ids for s in range(20)}) > 5
    assert tuple(q.id for q in sampled_questions(ten, sample)) == sample.ids


def test_every_distinct_question_is_equally_likely(ten: Benchmark) -> None:
    counts = dict.fromkeys((0, 1, 2, 4, 5, 6, 7), 0)
    for seed in range(700):
        for index in draw_sample(ten, 2, seed=seed).indices:
            counts[index] += 1
    # Expected 200 each, standard deviation sqrt(700 * 2/7 * 5/7) = 12; the seeds are fixed, so this
    # is no gamble.
    assert all(150 < count < 250 for count in counts.values()), counts


def test_n_beyond_the_benchmark_names_its_size(ten: Benchmark) -> None:
    with pytest.raises(ConfigError, match=r"n is 8, but exam has 7 distinct questions \(10 rows"):
        draw_sample(ten, 8)
    with pytest.raises(ConfigError, match="seed is -1"):
        draw_sample(ten, 3, seed=-1)


def test_a_file_that_changed_after_sampling_is_noticed(tmp_path: Path) -> None:
    rows, path = (
        [{**TWO, "question": f"{i}?", "id": f"q{i}"} for i in range(5)],
        tmp_path / "x.jsonl",
    )
    config = replace(MCQ, id_column="id")
    sample = draw_sample(opened(jsonl(path, *rows), config), None)
    for left, why in (
        (rows[:3], "ends before the sampled question 'q3'"),
        (rows[1:], "'q1' was read where 'q0' was sampled"),
    ):
        with pytest.raises(BenchmarkError, match=why):
            list(sampled_questions(opened(jsonl(path, *left), config), sample))


@given(st.integers(2, 12), st.integers(0, 2**31), st.data())
@settings(max_examples=100)
def test_a_shuffled_question_is_the_same_question(k: int, seed: int, data: st.DataObject) -> None:
    gold = data.draw(st.integers(0, k - 1))
    published = Item(
        "q", "b", "?", tuple(f"option {i}" for i in range(k)), gold, "q", tuple(range(k))
    )
    shown = shuffled(published, seed)
    assert shown == shuffled(published, seed)
    assert shown.options[shown.gold] == published.options[gold]
    assert tuple(published.options[i] for i in shown.order) == shown.options
    assert (shown.published, shown.key) == (published.options, gold)
    assert sorted(shown.order) == list(range(k))


def test_duplicates_are_found_under_shuffling(tmp_path: Path) -> None:
    rows = [{"question": "Same?", "choices": list("abcdef"), "answer": 3} for _ in range(4)]
    benchmark = opened(jsonl(tmp_path / "s.jsonl", *rows), replace(MCQ, shuffle_options=True))
    assert len({q.options for q in benchmark.iter_questions()}) > 1
    assert draw_sample(benchmark, None).n == 1
    assert benchmark.census.conflicting == 0


MEASURE = """
import resource, sys
from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.benchmarks.sample import draw_sample
for path in sys.argv[1:]:
    sample = draw_sample(open_benchmark(BenchmarkConfig(name="exam", format="mcq_file", path=path)), 100)
    print(sample.n_total, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""


@pytest.mark.long
def test_100000_lines_are_streamed(tmp_path: Path) -> None:
    """The peak memory of a process (bytes) after 10,000 lines, then after 100,000 (32 MB of
    text)."""
    paths = []
    for n in (10_000, 100_000):
        rows = ({**TWO, "question": f"{i} " + "x" * 250} for i in range(n))
        paths.append(str(jsonl(tmp_path / f"{n}.jsonl", *rows)))
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *paths],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (small, before), (large, after) = (
        [int(word) for word in line.split()] for line in done.stdout.splitlines()
    )
    assert (small, large) == (10_000, 100_000)
    assert after - before < 25e6, f"{(after - before) / 1e6:.0f} MB more"
