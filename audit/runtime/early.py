"""Divide the tasks of a run into batches; stop a model by its first answers, or by what they cost."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from audit.errors import EngineError, SpentError
from audit.exits import one_line
from audit.shards.read import iter_columns
from audit.shards.schema import RowSchema
from audit.shards.working_copy import fetch_shards, named

QUESTIONS = 20
_ALONE_FROM = 10 * QUESTIONS  # tasks: of fewer the first ones are no small part, and a batch of their own costs seconds
_SHOWN, _LENGTH = 2, 200  # replies, and characters of each


def canary_first(tasks: NDArray[np.int64], n_parts: int, *, alone: bool) -> Iterator[NDArray[np.int64]]:
    """The batches of these tasks: one task each of QUESTIONS questions first, over all of them and all parts.

    tasks: sorted numbers, question x n_parts + part. alone: calls cost money, so of a large run these are a batch of
    their own: what follows is asked once they are read.

    >>> [batch.tolist() for batch in canary_first(np.arange(4), 2, alone=False)]
    [[0, 3, 1, 2]]
    """
    _, start, count = np.unique(tasks // n_parts, return_index=True, return_counts=True)
    chosen = np.unique(np.linspace(0, len(start) - 1, min(QUESTIONS, len(start))).astype(np.int64))
    first = start[chosen] + np.arange(len(chosen)) % count[chosen]
    parts = [tasks[first], np.delete(tasks, first)]
    yield from parts if alone and len(tasks) >= _ALONE_FROM else [np.concatenate(parts)]


class Canary:
    """Counts a model's answers as they are stored, until it has those of QUESTIONS questions; stops it where more than
    half of these are unparsed, before the rest is paid for. Of a model that leaves 10 % unparsed this has probability
    P(X >= 11), X ~ Binomial(20, .1), = 7e-7; of one that leaves 30 %, .017; of one that leaves 90 % the stop is missed
    with probability 7e-6. Questions are counted and not answers: those of one question fail together."""

    def __init__(self) -> None:
        self.questions = self.answers = self.unparsed = 0
        self._passed = False

    def stops(self, counts: pa.Table) -> bool:
        """counts: of one stored shard (`shards.complete.count_answers`). True once, where the model has to stop."""
        if self._passed or not (read := int(pc.sum(counts["read"]).as_py() or 0)):
            return False
        self.questions += counts["questions"][0].as_py()
        self.answers += read
        self.unparsed += pc.sum(counts["unparsed"]).as_py()
        self._passed = self.questions >= QUESTIONS
        return self._passed and 2 * self.unparsed > self.answers


def refusal(canary: Canary, run_dir: Path, schema: RowSchema, model: str) -> EngineError:
    """Why the model was stopped, with two of its replies."""
    fetch_shards(run_dir)
    replies = islice(_unparsed(run_dir, schema, model), _SHOWN)
    shown = "".join(f"\n  reply {k}: {text}" for k, text in enumerate(replies, start=1))
    error = EngineError(
        f"{canary.unparsed} of its first {canary.answers} answers are unparsed, so it was stopped.{shown}\n"
        "Expected replies that hold an answer, such as 'B'. A reply that is cut off needs a larger worker.max_tokens, "
        "or thinking switched off; one that does not fit the question comes of a wrong chat template or server.\n"
        f"The answers stay in {named(run_dir)}, and the same command with canary=false goes on there. After a repair "
        "choose a new run_dir: stored answers are not asked again."
    )
    error.stopped = {"code": "canary"}
    return error


def _unparsed(run_dir: Path, schema: RowSchema, model: str) -> Iterator[str]:
    columns = ("model", "parsed", "error", "response", "finish_reason")
    for batch in iter_columns(run_dir, schema, columns):
        for row in batch.to_pylist():
            if row["model"] == model and not row["parsed"] and row["error"] is None:
                text = one_line(row["response"].strip())
                cut = f"{text[:_LENGTH]}..." if len(text) > _LENGTH else text
                yield f"{cut!r} (finish_reason {row['finish_reason']})"


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
