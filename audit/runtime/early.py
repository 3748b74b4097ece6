"""Divide the tasks of a run into batches, and stop a model early if necessary.

A model is stopped if most of its first answers are unparsed, or if the budget is spent.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from audit.core.aliases import named
from audit.core.errors import AuditError, EngineError, SpentError
from audit.core.exits import one_line
from audit.shards.read import iter_columns
from audit.shards.schema import RowSchema
from audit.shards.working_copy import fetch_shards

QUESTIONS = 20
# With fewer tasks than this, a separate first batch would save little and cost some seconds.
_ALONE_FROM = 2 * QUESTIONS
# number of replies that a message shows, and number of characters of each reply
_SHOWN, _LENGTH = 2, 200


def canary_first(
    tasks: NDArray[np.int64], n_parts: int, *, alone: bool
) -> Iterator[NDArray[np.int64]]:
    """Yield the tasks, beginning with the canary: one task for each of QUESTIONS questions, spread
    over all parts.

    Parameters
    ----------
    tasks : array of int
        Sorted task numbers: number of the question x n_parts + number of the part.
    n_parts : int
        Number of tasks of a question.
    alone : bool
        Whether the canary is a separate batch, so that its replies are checked before further
        questions are sent (paid endpoints). A small run is not divided.

    Yields
    ------
    array of int
        The batches.

    Examples
    --------
    >>> [batch.tolist() for batch in canary_first(np.arange(4), 2, alone=False)]
    [[0, 3, 1, 2]]
    """
    _, start, count = np.unique(tasks // n_parts, return_index=True, return_counts=True)
    chosen = np.unique(np.linspace(0, len(start) - 1, min(QUESTIONS, len(start))).astype(np.int64))
    first = start[chosen] + np.arange(len(chosen)) % count[chosen]
    parts = [tasks[first], np.delete(tasks, first)]
    yield from parts if alone and len(tasks) >= _ALONE_FROM else [np.concatenate(parts)]


def check_panel(
    refused: Mapping[str, AuditError], models: Collection[str], judged: Collection[str] | None
) -> None:
    """Check that enough models can be asked to compare their answers.

    This is checked before the first call, since answers cost money.

    Parameters
    ----------
    refused : mapping of str to AuditError
        Maps each model that cannot be asked to its error.
    models : collection of str
        The models to ask.
    judged : collection of str or None
        The models that are judged; all other models are references. None for an audit without
        references.

    Raises
    ------
    EngineError
        If some models can be asked, but a reference cannot be asked, or no judged model can be
        asked.
    """
    if judged is None or not refused or len(refused) == len(models):
        return
    references = [name for name in refused if name not in judged]
    if not references and not set(judged) <= set(refused):
        return
    why = "; ".join(f"{name}: {error}" for name, error in refused.items())
    advice = f" Or leave it out of references=: {', '.join(references)}." if references else ""
    raise EngineError(
        f"{len(refused)} of {len(models)} models cannot be asked, so no question was sent. {why}{advice}"
    )


class Canary:
    """Stop a model if most of its first answers are unparsed.

    This saves the money for further answers. The canary counts the stored answers to the first
    QUESTIONS questions. It stops the model if more than half of these answers are unparsed. The
    number of unparsed answers X is Binomial(20, p), where p is the model's probability of an
    unparsed answer:

    - p = .1: the model is stopped with probability P(X >= 11) = 7e-7.
    - p = .3: the model is stopped with probability .017.
    - p = .9: the model is not stopped with probability 7e-6.

    The canary waits for a number of questions, not of answers, because the answers to one question
    tend to fail together.
    """

    def __init__(self) -> None:
        self.questions = self.answers = self.unparsed = 0
        self._passed = False

    def stops(self, counts: pa.Table) -> bool:
        """Count the answers of a stored shard, and return whether the model must stop.

        Parameters
        ----------
        counts : Table
            The counts of the shard, as returned by `shards.complete.count_answers`.

        Returns
        -------
        bool
            True if the model must stop. After True was returned once, the result is always False.
        """
        if self._passed or not (read := int(pc.sum(counts["read"]).as_py() or 0)):
            return False
        self.questions += counts["questions"][0].as_py()
        self.answers += read
        self.unparsed += pc.sum(counts["unparsed"]).as_py()
        self._passed = self.questions >= QUESTIONS
        return self._passed and 2 * self.unparsed > self.answers


def refusal(canary: Canary, run_dir: Path, schema: RowSchema, model: str) -> EngineError:
    """Return the error for a model that was stopped, with two of its replies.

    Parameters
    ----------
    canary : Canary
        The counts of the model's first answers.
    run_dir : Path
        Directory with the files of the run.
    schema : RowSchema
        Schema of the audit's rows.
    model : str
        Name of the stopped model.

    Returns
    -------
    EngineError
        The error, which states the reason. Its attribute `stopped` holds the code "canary".
    """
    fetch_shards(run_dir)
    replies = islice(_unparsed(run_dir, schema, model), _SHOWN)
    shown = "".join(f"\n  reply {k}: {text}" for k, text in enumerate(replies, start=1))
    error = EngineError(
        f"{canary.unparsed} of the first {canary.answers} answers are unparsed, "
        f"so the model was stopped.{shown}\n"
        "Expected replies that hold an answer, such as 'B'. A reply that is cut off needs a larger worker.max_tokens, "
        "or thinking switched off. A reply that does not fit the question indicates a wrong chat "
        "template or server.\n"
        f"The answers stay in {named(run_dir)}. To continue, type the same command with canary=false. After a repair, "
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


# A batch may be this many times larger than the previous batch. The price of a batch is estimated
# from all earlier batches.
_GROWTH = 4


def affordable(
    batches: Iterator[NDArray[np.int64]],
    done: int,
    n_parts: int,
    left: Callable[[], tuple[float, float]],
) -> Iterator[NDArray[np.int64]]:
    """Yield the same tasks in batches, each of which the remaining money can pay for.

    The answers to a batch are on disk before the next batch is yielded, so no paid answer is lost.

    Parameters
    ----------
    batches : iterator of array
        The tasks.
    done : int
        Number of tasks of this model that already have rows.
    n_parts : int
        Number of tasks of a question.
    left : callable
        Returns the remaining money, and the cost of this model's rows so far.

    Yields
    ------
    array of int
        Batches.

    Raises
    ------
    SpentError
        If the remaining money cannot pay for another question.

    Examples
    --------
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
