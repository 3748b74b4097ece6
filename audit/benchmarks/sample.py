"""The fixed sample: which questions a run asks, the same for every model and arm (song2026, section 4.1).

Pure, and streaming: a benchmark is read once for the census and once for the sample; what stays in memory is 48 bytes a
question, not the questions.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from audit.benchmarks.rows import normalised
from audit.errors import BenchmarkError, ConfigError, check_seed
from audit.records import Question

IntArray = NDArray[np.int64]


class Source(Protocol):
    """Where the questions of a run come from, at a fixed revision; `load.Benchmark` is one."""

    @property
    def name(self) -> str: ...

    @property
    def revision(self) -> str: ...

    @property
    def warnings(self) -> tuple[str, ...]: ...

    @property
    def census(self) -> Census: ...

    def iter_located(self) -> Iterator[tuple[str, Question]]: ...


@dataclass(frozen=True, slots=True)
class Census:
    """One pass over a benchmark of `n_total` questions.

    frame: positions (0-based) of the first occurrence of every distinct question, ascending. duplicates: groups of
    positions of the same question (text and options in published order, whitespace normalised), first occurrence first.
    conflicting: groups with more than one gold. repeated_options: questions with two equal option texts.
    """

    n_total: int
    frame: IntArray
    duplicates: tuple[tuple[int, ...], ...]
    conflicting: int
    repeated_options: int
    lowest_key: int  # position of an option that is right somewhere, the lowest; of numbers nothing


@dataclass(frozen=True, slots=True)
class Sample:
    """The drawn questions, in the benchmark's order.

    ids, indices: (n,) of the drawn questions; indices are positions in the benchmark. n_total: questions in the
    benchmark; n_distinct: in the sampling frame, which keeps only the first of exact duplicates. duplicates: groups of
    ids of the same question, in the whole benchmark. chance: mean of 1/k over the drawn questions (accuracy, 0-1); a
    free-form number counts 0.
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
        return len(self.ids)


def draw_sample(benchmark: Source, n: int | None = 100, seed: int = 42) -> Sample:
    """n distinct questions by simple random sampling without replacement; None: every distinct one.

    The result depends on the benchmark's content, n and seed alone. Raises ConfigError when n exceeds the
    distinct questions, BenchmarkError for an unusable row anywhere in the benchmark.
    """
    check_seed(seed)
    census = benchmark.census
    size = len(census.frame)
    if n is None:
        chosen = census.frame
    elif n > size:
        repeats = census.n_total - size
        also = f" ({census.n_total} rows, of which {repeats} repeat another exactly)" if repeats else ""
        raise ConfigError(
            f"n={n} is larger than {benchmark.name}, which has {size} distinct questions{also}. "
            f"Use n={size} or less, or n=all."
        )
    else:
        chosen = np.sort(np.random.default_rng(seed).choice(census.frame, size=n, replace=False))
    named = {i for group in census.duplicates for i in group}
    names: dict[int, str] = {}
    ids: list[str] = []
    inverse_k = 0.0
    drawn = frozenset(chosen.tolist())
    for i, (_, question) in enumerate(benchmark.iter_located()):
        if i in named:
            names[i] = question.id
        if i in drawn:
            ids.append(question.id)
            inverse_k += 1 / len(question.options) if question.options else 0.0  # a number is not guessed
    return Sample(
        ids=tuple(ids),
        indices=tuple(chosen.tolist()),
        n_total=census.n_total,
        n_distinct=size,
        duplicates=tuple(tuple(names[i] for i in group) for group in census.duplicates),
        chance=inverse_k / len(ids),
        seed=seed,
    )


def sampled_questions(benchmark: Source, sample: Sample) -> Iterator[Question]:
    """The drawn questions, streamed in order; BenchmarkError when the files are no longer those that were sampled."""
    left = dict(zip(sample.indices, sample.ids, strict=True))
    for i, (where, question) in enumerate(benchmark.iter_located()):
        if i not in left:
            continue
        if question.id != (id_ := left.pop(i)):
            raise BenchmarkError(f"{where}: question {question.id!r} where {id_!r} was sampled: the benchmark changed.")
        yield question
        if not left:
            return
    raise BenchmarkError(
        f"{benchmark.name} ends before sampled question {next(iter(left.values()))!r}: the benchmark changed."
    )


def take_census(benchmark: Source) -> Census:
    """Reads every row once. BenchmarkError when there is none, or when an id occurs twice (naming both places)."""
    ids, contents, golds = array("Q"), array("Q"), array("d")
    repeated_options = 0
    for _, question in benchmark.iter_located():
        # The published order: two copies of one question may have been shuffled differently.
        published = [option for _, option in sorted(zip(question.order, question.options, strict=True))]
        ids.frombytes(_digest(question.id))
        contents.frombytes(_digest("\x1f".join(normalised(text) for text in (question.text, *published))))
        golds.append(question.order[question.gold] if question.options else question.target or 0.0)
        repeated_options += len(set(question.options)) < len(question.options)
    if not golds:
        raise BenchmarkError(f"{benchmark.name} has no questions.")
    if twice := _repeats(ids):
        raise _duplicate_id(benchmark, twice[0])
    duplicates = _repeats(contents)
    later = [i for group in duplicates for i in group[1:]]
    return Census(
        n_total=len(golds),
        frame=np.delete(np.arange(len(golds), dtype=np.int64), later),
        duplicates=tuple(duplicates),
        conflicting=sum(len({golds[i] for i in group}) > 1 for group in duplicates),
        repeated_options=repeated_options,
        lowest_key=int(min(golds)) if question.options else 0,
    )


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _repeats(digests: array[int]) -> list[tuple[int, ...]]:
    """Groups of positions with the same 128-bit digest, each ascending, ordered by first position."""
    words = np.frombuffer(digests, dtype=np.uint64).reshape(-1, 2)
    _, which, times = np.unique(words, axis=0, return_inverse=True, return_counts=True)
    groups: dict[int, list[int]] = {}
    for i in np.flatnonzero(times[which.ravel()] > 1).tolist():
        groups.setdefault(int(which.flat[i]), []).append(i)
    return [tuple(group) for group in groups.values()]


def _duplicate_id(benchmark: Source, group: tuple[int, ...]) -> BenchmarkError:
    found = [(where, q.id) for i, (where, q) in enumerate(benchmark.iter_located()) if i in group[:2]]
    (first, id_), (second, _) = found
    return BenchmarkError(
        f"{second}: id {id_!r} was already used in {first}. Ids must be unique: they are what a run is resumed by."
    )
