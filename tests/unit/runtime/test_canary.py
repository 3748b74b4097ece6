"""When a model is stopped for what its first answers are."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from audit.runtime.canary import QUESTIONS, Canary, canary_first


def shard(questions: int, read: int, unparsed: int) -> pa.Table:
    """Counts of one shard, its answers in two settings."""
    halves = [read // 2, read - read // 2]
    return pa.table({"questions": [questions] * 2, "read": halves, "unparsed": [unparsed, 0]})


@pytest.mark.parametrize(("unparsed", "stops"), [(0, False), (10, False), (11, True), (20, True)])
def test_more_than_half_of_the_first_twenty(unparsed: int, stops: bool) -> None:
    canary = Canary()
    assert not canary.stops(shard(19, 19, min(unparsed, 19)))  # not twenty yet
    canary = Canary()
    assert canary.stops(shard(20, 20, unparsed)) is stops
    assert not canary.stops(shard(100, 100, 100))  # it has passed, or was told once


def test_many_answers_of_few_questions_are_not_enough() -> None:
    canary = Canary()
    assert not canary.stops(shard(2, 40, 40))
    assert [canary.stops(shard(9, 180, 180)) for _ in range(2)] == [False, True]  # 2 + 9 + 9 = 20 questions


def test_likelihoods_are_not_counted() -> None:
    canary = Canary()
    assert not canary.stops(shard(500, 0, 0)) and canary.questions == 0


def test_the_chances_in_the_docstring() -> None:
    assert QUESTIONS == 20
    assert binom.sf(10, 20, 0.1) == pytest.approx(7.1e-7, rel=0.01)
    assert binom.sf(10, 20, 0.3) == pytest.approx(0.017, rel=0.02)
    assert binom.cdf(10, 20, 0.9) == pytest.approx(7.2e-6, rel=0.01)


@pytest.mark.parametrize(("questions", "parts"), [(100, 11), (20, 1), (7, 3), (1, 1)])
def test_the_first_tasks_are_of_other_questions_and_every_part_and_nothing_is_lost(questions: int, parts: int) -> None:
    tasks = np.arange(questions * parts)
    (whole,) = canary_first(tasks, parts, alone=False)
    first = whole[: min(20, questions)]
    assert sorted(whole) == list(tasks)
    assert len(set(first // parts)) == min(20, questions)
    assert set(first % parts) == set(range(min(parts, 20, questions)))
    batches = list(canary_first(tasks, parts, alone=True))
    assert [len(b) for b in batches] == ([20, 1080] if len(tasks) == 1100 else [len(tasks)])


def test_what_a_resumed_run_still_lacks_is_asked_in_the_same_way() -> None:
    tasks = np.array([4, 5, 900, 901, 902])  # of questions 0 (part 4, 5) and 90 (parts 0, 1, 2), of ten parts
    (whole,) = canary_first(tasks, 10, alone=True)
    assert whole.tolist() == [4, 901, 5, 900, 902]
