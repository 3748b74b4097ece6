"""The embedded benchmark, whose every field `test_same_as_before.py` pins: why it is a fair
default."""

from collections import Counter
from statistics import mean

import pytest

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import open_benchmark
from audit.core.records import Item


@pytest.fixture(scope="module")
def questions() -> list[Item]:
    return list(open_benchmark(BenchmarkConfig()).iter_questions())


def test_gold_position_is_balanced(questions: list[Item]) -> None:
    assert Counter(q.gold for q in questions) == {0: 52, 1: 52, 2: 52, 3: 52}
    for domain in {q.id.split("/")[1] for q in questions}:
        counts = Counter(q.gold for q in questions if q.id.split("/")[1] == domain)
        assert max(counts[i] for i in range(4)) - min(counts[i] for i in range(4)) <= 2, domain


def test_length_does_not_give_the_answer_away(questions: list[Item]) -> None:
    """Whoever always picks the longest (or the shortest) option, ties split, stays within 2
    standard errors of 0.25.

    The standard error is sqrt(.25 * .75 / 208) = 0.030.
    """
    for pick in (max, min):
        hits = []
        for q in questions:
            extreme = pick(len(option) for option in q.options)
            ties = [i for i, option in enumerate(q.options) if len(option) == extreme]
            hits.append((q.gold in ties) / len(ties))
        assert abs(mean(hits) - 0.25) < 0.06
