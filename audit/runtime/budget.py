"""A run that may spend so much: its questions are asked in batches that what is left pays for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from audit.errors import SpentError

_GROWTH = 4  # a batch against the one before: its price is estimated from what was asked so far


def affordable(
    batches: Iterator[NDArray[np.int64]], done: int, n_parts: int, left: Callable[[], tuple[float, float]]
) -> Iterator[NDArray[np.int64]]:
    """The same tasks in batches that what is left pays for. A batch is on disk when the next one is drawn, so nothing
    that is paid for is thrown away. SpentError where it does not pay for another question.

    done: tasks of this model that have rows. n_parts: tasks of a question. left: (money left, what this model's rows
    have cost).

    >>> [len(batch) for batch in affordable(iter([np.arange(40)]), 0, 2, lambda: (9.0, 0.0))]
    [2, 8, 30]
    """
    size = n_parts
    for tasks in batches:
        while len(tasks):
            money, cost = left()
            pays_for = money * done / cost if cost > 0 and done else len(tasks)
            fits = len(tasks) if pays_for >= len(tasks) else int(pays_for) // n_parts * n_parts
            if money <= 0 or not fits:
                raise SpentError
            now = min(size, fits)
            yield tasks[:now]
            tasks, done, size = tasks[now:], done + now, now * _GROWTH
