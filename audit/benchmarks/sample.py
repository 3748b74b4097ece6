"""Draw the fixed sample of questions that every model answers in every arm (song2026, section 4.1).

The module does no I/O and streams: a benchmark is read once for the census, and no question stays
in memory.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from audit.benchmarks.rows import normalised
from audit.core.errors import BenchmarkError, ConfigError, check_seed
from audit.core.records import Item

IntArray = NDArray[np.int64]


class Source(Protocol):
    """Supply the questions of a run at a fixed revision; `load.Benchmark` implements it."""

    @property
    def name(self) -> str:
        """Return the name of the benchmark."""

    @property
    def revision(self) -> str:
        """Return the commit, or the hash of the content."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return warnings about the data for readers of a result."""

    @property
    def census(self) -> Census:
        """Return the census: counts and duplicates."""

    def iter_located(self) -> Iterator[tuple[str, Item]]:
        """Yield every item, together with its place."""


@dataclass(frozen=True, slots=True)
class Census:
    """Hold the result of one pass over a benchmark.

    Parameters
    ----------
    ids, n_options : tuple
        Id and number of options of each question, in order; 0 options for a free answer.
    frame : array of int
        Sampling frame: ascending positions (from 0) of the first occurrence of each distinct
        question.
    duplicates : tuple of tuple of int
        For each repeated question, the positions of all its occurrences. Text and options are
        compared in published order, with whitespace normalised.
    conflicting : int
        Number of groups of duplicates with more than one gold answer.
    repeated_options : int
        Number of questions in which two options have the same text.
    lowest_key : int
        Lowest position of a gold option. It has no meaning if the answers are numbers.
    """

    ids: tuple[str, ...]
    n_options: tuple[int, ...]
    frame: IntArray
    duplicates: tuple[tuple[int, ...], ...]
    conflicting: int
    repeated_options: int
    lowest_key: int

    @property
    def n_total(self) -> int:
        """Return the number of questions."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Sample:
    """Hold the drawn questions, in the order of the benchmark.

    Parameters
    ----------
    ids, indices : tuple
        Ids of the drawn questions, and their positions in the benchmark.
    n_total : int
        Number of questions in the benchmark.
    n_distinct : int
        Number of questions in the sampling frame, which contains a repeated question only once.
    duplicates : tuple of tuple of str
        For each repeated question of the benchmark, the ids of all its occurrences.
    chance : float
        Mean of 1/k over the drawn questions (accuracy, 0-1), where k is the number of options. A
        question whose answer is a free-form number counts as 0.
    seed : int
        Seed of the draw.
    """

    ids: tuple[str, ...]
    indices: tuple[int, ...]
    n_total: int
    n_distinct: int
    duplicates: tuple[tuple[str, ...], ...]
    chance: float
    seed: int

    @property
    def n(self) -> int:
        """Return the number of drawn questions."""
        return len(self.ids)


def draw_sample(benchmark: Source, n: int | None = 100, seed: int = 42) -> Sample:
    """Draw n distinct questions by simple random sampling without replacement.

    Parameters
    ----------
    benchmark : Source
        Benchmark whose questions are read.
    n : int or None
        Number of questions; None draws every distinct question.
    seed : int
        Seed of the draw. The result depends only on it, on n and on the content of the benchmark.

    Returns
    -------
    Sample
        The drawn questions.

    Raises
    ------
    ConfigError
        If n exceeds the number of distinct questions.
    BenchmarkError
        If a row of the benchmark cannot be used.
    """
    check_seed(seed)
    census = benchmark.census
    size = len(census.frame)
    chosen = census.frame
    if n is not None and n > size:
        repeats = census.n_total - size
        also = (
            f" ({census.n_total} rows, of which {repeats} are exact repetitions)" if repeats else ""
        )
        raise ConfigError(
            f"n is {n}, but {benchmark.name} has {size} distinct questions{also}. Expected "
            f"n={size} or less, or n=all."
        )
    if n is not None:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, size=n, replace=False))
    drawn, ids = chosen.tolist(), census.ids
    inverse_k = 0.0
    for k in map(census.n_options.__getitem__, drawn):
        # An answer that is a free-form number cannot be guessed, so it counts as 0.
        inverse_k += 1 / k if k else 0.0
    drawn_ids = tuple(ids[i] for i in drawn)
    duplicates = [tuple(map(ids.__getitem__, group)) for group in census.duplicates]
    return Sample(
        ids=drawn_ids,
        indices=tuple(drawn),
        n_total=census.n_total,
        n_distinct=size,
        duplicates=tuple(duplicates),
        chance=inverse_k / len(drawn),
        seed=seed,
    )


def sampled_questions(benchmark: Source, sample: Sample) -> Iterator[Item]:
    """Yield the drawn questions in order.

    Parameters
    ----------
    benchmark : Source
        Benchmark whose questions are read.
    sample : Sample
        Result of `draw_sample` for this benchmark.

    Yields
    ------
    Item
        The questions.

    Raises
    ------
    BenchmarkError
        If the files differ from those that were sampled.
    """
    left = dict(zip(sample.indices, sample.ids, strict=True))
    for i, (where, question) in enumerate(benchmark.iter_located()):
        if i not in left:
            continue
        sampled = left.pop(i)
        if question.id != sampled:
            raise BenchmarkError(
                f"{where}: question {question.id!r} was read where {sampled!r} was sampled, so the "
                "benchmark has changed."
            )
        yield question
        if not left:
            return
    missing, *_ = left.values()
    raise BenchmarkError(
        f"{benchmark.name} ends before the sampled question {missing!r}, so the benchmark has "
        "changed."
    )


def take_census(benchmark: Source) -> Census:
    """Read every row of a benchmark once.

    Parameters
    ----------
    benchmark : Source
        Benchmark whose questions are read.

    Returns
    -------
    Census
        Ids, duplicates and the sampling frame.

    Raises
    ------
    BenchmarkError
        If there is no row, or if an id occurs twice. The message names both places.
    """
    ids: list[str] = []
    golds, sizes = array("d"), array("H")
    contents = array("Q")  # a 128-bit hash of each question, so that no text stays in memory
    repeated_options = 0
    for _, question in benchmark.iter_located():
        # The published order is hashed, because copies of a question may be shuffled differently.
        content = "\x1f".join(normalised(text) for text in (question.text, *question.published))
        digest = hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16)
        contents.frombytes(digest.digest())
        ids.append(question.id)
        golds.append(question.key if question.options else question.target or 0.0)
        sizes.append(len(question.options))
        repeated_options += len(set(question.options)) < len(question.options)
    if not ids:
        raise BenchmarkError(f"{benchmark.name} has no questions.")
    _check_unique(benchmark, ids)
    words = np.frombuffer(contents, dtype=np.uint64).reshape(-1, 2)
    _, first, which = np.unique(words, axis=0, return_index=True, return_inverse=True)
    # maps the first position of a repeated question to all its positions
    same: dict[int, list[int]] = {}
    for i in np.flatnonzero(np.bincount(which.ravel())[which.ravel()] > 1).tolist():
        same.setdefault(int(first[which.flat[i]]), []).append(i)
    conflicting = 0
    for group in same.values():
        conflicting += len({golds[i] for i in group}) > 1
    return Census(
        ids=tuple(ids),
        n_options=tuple(sizes),
        frame=np.sort(first).astype(np.int64),
        duplicates=tuple(map(tuple, same.values())),
        conflicting=conflicting,
        repeated_options=repeated_options,
        lowest_key=int(min(golds)) if question.options else 0,
    )


def _check_unique(benchmark: Source, ids: Sequence[str]) -> None:
    if len(set(ids)) == len(ids):
        return
    repeated, *_ = [id_ for id_, n in Counter(ids).items() if n > 1]
    first, second, *_ = (
        where for where, question in benchmark.iter_located() if question.id == repeated
    )
    raise BenchmarkError(
        f"{second}: id {repeated!r} was already used in {first}. Ids must be unique."
    )
