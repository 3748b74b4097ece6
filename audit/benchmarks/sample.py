"""Draw the fixed sample of questions that a run asks of every model and arm (song2026, section
4.1).

It is pure and streaming: a benchmark is read once for the census, and no question stays in memory.
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
    """Supply the questions of a run at a fixed revision; `load.Benchmark` does."""

    @property
    def name(self) -> str:
        """Return the benchmark's name."""

    @property
    def revision(self) -> str:
        """Return the commit or content hash."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return what readers of a result must know about the data."""

    @property
    def census(self) -> Census:
        """Return counts and duplicates."""

    def iter_located(self) -> Iterator[tuple[str, Item]]:
        """Yield every item with its place."""


@dataclass(frozen=True, slots=True)
class Census:
    """Hold the result of one pass over a benchmark.

    Parameters
    ----------
    ids, n_options : tuple
        Of each question, in order; 0 options for a free answer.
    frame : array of int
        Positions (from 0) of the first occurrence of every distinct question, ascending.
    duplicates : tuple of tuple of int
        Positions of equal questions (text and options in published order, whitespace normalised).
    conflicting : int
        Groups of duplicates with more than one gold.
    repeated_options : int
        Questions with two equal option texts.
    lowest_key : int
        The lowest position of a right option; meaningless for numbers.
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
    """Hold the drawn questions, in the benchmark's order.

    Parameters
    ----------
    ids, indices : tuple
        The drawn questions; indices are positions in the benchmark.
    n_total : int
        Questions in the benchmark.
    n_distinct : int
        Questions in the sampling frame, which keeps only the first of exact duplicates.
    duplicates : tuple of tuple of str
        Ids of equal questions in the whole benchmark.
    chance : float
        The mean of 1/k over the drawn questions (accuracy, 0-1); a free-form number counts 0.
    seed : int
        The seed of the draw.
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
        The benchmark.
    n : int or None
        How many; None draws every distinct question.
    seed : int
        The result depends on it, on n and on the benchmark's content alone.

    Returns
    -------
    Sample
        The drawn questions.

    Raises
    ------
    ConfigError
        If n exceeds the number of distinct questions.
    BenchmarkError
        If any row of the benchmark is unusable.
    """
    check_seed(seed)
    census = benchmark.census
    size = len(census.frame)
    chosen = census.frame
    if n is not None and n > size:
        repeats = census.n_total - size
        also = (
            f" ({census.n_total} rows, of which {repeats} repeat another exactly)"
            if repeats
            else ""
        )
        raise ConfigError(
            f"n={n} is larger than {benchmark.name}, which has {size} distinct questions{also}. "
            f"Use n={size} or less, or n=all."
        )
    if n is not None:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, size=n, replace=False))
    drawn, ids = chosen.tolist(), census.ids
    inverse_k = 0.0
    for k in map(census.n_options.__getitem__, drawn):
        inverse_k += 1 / k if k else 0.0  # A free-form number cannot be guessed.
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
        The benchmark.
    sample : Sample
        The drawn questions.

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
                f"{where}: question {question.id!r} where {sampled!r} was sampled: the benchmark changed."
            )
        yield question
        if not left:
            return
    missing, *_ = left.values()
    raise BenchmarkError(
        f"{benchmark.name} ends before sampled question {missing!r}: the benchmark changed."
    )


def take_census(benchmark: Source) -> Census:
    """Read every row of a benchmark once.

    Parameters
    ----------
    benchmark : Source
        The benchmark.

    Returns
    -------
    Census
        Ids, duplicates and the sampling frame.

    Raises
    ------
    BenchmarkError
        If there is no row, or an id occurs twice; the message names both places.
    """
    ids: list[str] = []
    golds, sizes = array("d"), array("H")
    contents = array("Q")  # a 128-bit hash of each question, since texts are not kept
    repeated_options = 0
    for _, question in benchmark.iter_located():
        # The published order is hashed, since copies of a question may be shuffled differently.
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
    same: dict[int, list[int]] = {}  # places of equal questions, by their first occurrence
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
