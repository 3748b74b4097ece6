"""How a run's tasks are cut into batches, and when its first answers or its money stop it."""

from contextlib import nullcontext

import numpy as np
import pyarrow as pa
import pytest

from audit.core.errors import EngineError, SpentError
from audit.runtime.early import Canary, affordable, canary_first, check_panel


class Till:
    """money in it; a task costs `price`. What a batch cost is known when the next one is drawn."""

    def __init__(self, money: float, price: float) -> None:
        self.money, self.price, self.tasks = money, price, 0

    def left(self) -> tuple[float, float]:
        return self.money - self.tasks * self.price, self.tasks * self.price

    def run(self, tasks: int, n_parts: int, done: int = 0) -> list[int]:
        self.tasks = done
        sizes = []
        for batch in affordable(iter([np.arange(done, tasks)]), done, n_parts, self.left):
            sizes.append(len(batch))
            self.tasks += len(batch)
        return sizes


@pytest.mark.parametrize(
    ("refused", "judged", "ends"),
    [
        ([], ["mine"], False),
        (["ref"], ["mine"], True),  # a reference
        (["mine"], ["mine"], True),  # the references would be asked for nothing
        (["mine"], ["mine", "other"], False),
        (["mine", "ref"], ["mine", "other"], True),
        (["ref"], None, False),  # an audit without references
        (["mine", "other", "ref"], ["mine"], False),  # the run names each
    ],
)
def test_a_panel_that_lacks_a_model_ends_before_the_first_call(
    refused: list[str], judged: list[str] | None, ends: bool
) -> None:
    errors = {name: EngineError("HTTP 404") for name in refused}
    with pytest.raises(EngineError, match="HTTP 404") if ends else nullcontext():
        check_panel(errors, ["mine", "other", "ref"], judged)


def test_all_is_asked_where_the_money_lasts() -> None:
    assert Till(100, 1.0).run(50, n_parts=2) == [2, 8, 32, 8]
    assert Till(1, 0.0).run(50, n_parts=2) == [2, 8, 32, 8]  # what costs nothing is never short


def test_it_stops_where_another_question_would_cost_more_than_is_left() -> None:
    till = Till(21, 1.0)
    with pytest.raises(SpentError):
        till.run(50, n_parts=2)
    assert (
        till.tasks == 20
    )  # 2 + 8; the 11 left pay for 5 questions of 2 tasks; the 1 left for none


def test_a_run_goes_on_from_what_its_rows_have_cost() -> None:
    till = Till(30, 1.0)
    with pytest.raises(SpentError):
        till.run(50, n_parts=2, done=20)
    assert till.tasks == 30
    with pytest.raises(SpentError):
        Till(20, 1.0).run(50, n_parts=2, done=20)
    assert Till(50, 1.0).run(50, n_parts=2, done=49) == [1]  # the rest of a question that was begun


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


def test_many_answers_of_few_questions_are_not_enough_and_likelihoods_are_not_counted() -> None:
    canary = Canary()
    assert not canary.stops(shard(500, 0, 0)) and canary.questions == 0
    assert not canary.stops(shard(2, 40, 40))
    assert [canary.stops(shard(9, 180, 180)) for _ in range(2)] == [
        False,
        True,
    ]  # 2 + 9 + 9 = 20 questions


@pytest.mark.parametrize(("questions", "parts"), [(100, 11), (20, 1), (7, 3), (1, 1)])
def test_the_first_tasks_are_of_other_questions_and_every_part_and_nothing_is_lost(
    questions: int, parts: int
) -> None:
    tasks = np.arange(questions * parts)
    (whole,) = canary_first(tasks, parts, alone=False)
    first = whole[: min(20, questions)]
    assert sorted(whole) == list(tasks)
    assert len(set(first // parts)) == min(20, questions)
    assert set(first % parts) == set(range(min(parts, 20, questions)))
    batches = list(canary_first(tasks, parts, alone=True))
    small = len(tasks) < 40
    assert [len(b) for b in batches] == (
        [len(tasks)] if small else [len(first), len(tasks) - len(first)]
    )


def test_what_a_resumed_run_still_lacks_is_asked_in_the_same_way() -> None:
    tasks = np.array(
        [4, 5, 900, 901, 902]
    )  # of questions 0 (part 4, 5) and 90 (parts 0, 1, 2), of ten parts
    (whole,) = canary_first(tasks, 10, alone=True)
    assert whole.tolist() == [4, 901, 5, 900, 902]
