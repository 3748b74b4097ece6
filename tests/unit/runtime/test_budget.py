"""A run that may spend so much: how its tasks are cut into batches."""

import numpy as np
import pytest

from audit.errors import SpentError
from audit.runtime.early import affordable


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


def test_all_is_asked_where_the_money_lasts() -> None:
    assert Till(100, 1.0).run(50, n_parts=2) == [2, 8, 32, 8]
    assert Till(1, 0.0).run(50, n_parts=2) == [2, 8, 32, 8]  # what costs nothing is never short


def test_it_stops_where_another_question_would_cost_more_than_is_left() -> None:
    till = Till(21, 1.0)
    with pytest.raises(SpentError):
        till.run(50, n_parts=2)
    assert till.tasks == 20  # 2 + 8; the 11 left pay for 5 questions of 2 tasks; the 1 left for none


def test_a_run_goes_on_from_what_its_rows_have_cost() -> None:
    till = Till(30, 1.0)
    with pytest.raises(SpentError):
        till.run(50, n_parts=2, done=20)
    assert till.tasks == 30
    with pytest.raises(SpentError):
        Till(20, 1.0).run(50, n_parts=2, done=20)
    assert Till(50, 1.0).run(50, n_parts=2, done=49) == [1]  # the rest of a question that was begun
