"""Compute which rows a finished run has, and which tasks are missing; Ray is not needed."""

from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from audit.config.audits import Audit
from audit.config.resolve import ResolvedRun
from audit.core.records import Design
from audit.engines.config import ModelConfig
from audit.shards.keys import KeySet, digest_grid
from audit.shards.questions import QuestionFile


def engines_of(resolved: ResolvedRun, name: str) -> list[ModelConfig]:
    """Return the engines that a model's run loads.

    Parameters
    ----------
    resolved : ResolvedRun
        Resolved configuration of the run.
    name : str
        Name of the model.

    Returns
    -------
    list of ModelConfig
        The settings of the engines. If the model answers its own messages, one pool of engines
        serves both roles.
    """
    return loaded(resolved.audit, resolved.config.model[name], resolved.answering[name])


def loaded(audit: Audit, model: ModelConfig, answering: ModelConfig) -> list[ModelConfig]:
    """Return the engines of a model and of its answering model.

    The list has one engine if both models are the same, or if no calls are made before the answer.
    """
    return [answering] if audit.prepare is None or answering is model else [model, answering]


def missing_tasks(
    done: KeySet, model: str, design: Design, questions: QuestionFile
) -> NDArray[np.int64]:
    """Return the numbers of those tasks for which at least one row is not stored.

    Parameters
    ----------
    done : KeySet
        The keys of stored rows.
    model : str
        Name of the model.
    design : Design
        The run's design.
    questions : QuestionFile
        All questions of the run.

    Returns
    -------
    array of int
        The task numbers. The tasks of one question follow one another.
    """
    n_parts = len(design.parts)
    settings = list(chain.from_iterable(part.settings for part in design.parts))
    owner = np.repeat(np.arange(n_parts), [len(part.levels) for part in design.parts])
    missing = [np.empty(0, dtype=np.int64)]
    for start, benchmark, ids in question_blocks(questions):
        absent = ~done.contains(digest_grid(model, benchmark, ids, settings))
        tasks = (start + np.arange(len(ids)))[:, None] * n_parts + owner[None, :]
        missing.append(np.unique(tasks[absent]))
    return np.concatenate(missing)


def expected_keys(models: Sequence[str], design: Design, questions: QuestionFile) -> KeySet:
    """Return the keys of all rows that a finished run has.

    Parameters
    ----------
    models : sequence of str
        Names of the models.
    design : Design
        The run's design.
    questions : QuestionFile
        All questions of the run.

    Returns
    -------
    KeySet
        The keys.
    """
    grids = [np.zeros((0, 2), dtype=np.uint64)]
    for _, benchmark, ids in question_blocks(questions):
        for model in models:
            grids.append(digest_grid(model, benchmark, ids, design.settings).reshape(-1, 2))
    return KeySet.of(np.concatenate(grids))


def question_blocks(questions: QuestionFile) -> Iterator[tuple[int, str, list[str]]]:
    """Yield blocks of neighbouring questions that belong to one benchmark.

    Parameters
    ----------
    questions : QuestionFile
        All questions of the run.

    Returns
    -------
    iterator of (int, str, list of str)
        For each block: the index of its first question, the benchmark and the ids of the questions.
    """
    first = 0
    for names in questions.names():
        for benchmark, group in groupby(names, key=itemgetter(0)):
            block = [id_ for _, id_ in group]
            yield first, benchmark, block
            first += len(block)
