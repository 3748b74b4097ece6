"""The fixed sample: which questions a run asks, the same for every model and arm (song2026, section 4.1).

Pure, and streaming: a benchmark is read once for the census, and no question stays in memory.
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
from audit.errors import BenchmarkError, ConfigError, check_seed
from audit.records import Item

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

    def iter_located(self) -> Iterator[tuple[str, Item]]: ...


@dataclass(frozen=True, slots=True)
class Census:
    """One pass over a benchmark.

    ids, n_options: of each question, in order (0: a free answer). frame: positions (0-based) of the first occurrence of
    every distinct question, ascending. duplicates: groups of positions of the same question (text and options in
    published order, whitespace normalised), ascending.
    conflicting: groups with more than one gold. repeated_options: questions with two equal option texts.
    """

    ids: tuple[str, ...]
    n_options: tuple[int, ...]
    frame: IntArray
    duplicates: tuple[tuple[int, ...], ...]
    conflicting: int
    repeated_options: int
    lowest_key: int  # position of an option that is right somewhere, the lowest; of numbers nothing

    @property
    def n_total(self) -> int:
        return len(self.ids)


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
    chosen = census.frame
    if n is not None and n > size:
        repeats = census.n_total - size
        also = f" ({census.n_total} rows, of which {repeats} repeat another exactly)" if repeats else ""
        found = f"n={n} is larger than {benchmark.name}, which has {size} distinct questions{also}"
        raise ConfigError(f"{found}. Use n={size} or less, or n=all.")
    if n is not None:
        chosen = np.sort(np.random.default_rng(seed).choice(chosen, size=n, replace=False))
    drawn, ids = chosen.tolist(), census.ids
    inverse_k = 0.0
    for k in map(census.n_options.__getitem__, drawn):
        inverse_k += 1 / k if k else 0.0  # a number is not guessed
    return Sample(
        ids=tuple(ids[i] for i in drawn),
        indices=tuple(drawn),
        n_total=census.n_total,
        n_distinct=size,
        duplicates=tuple(tuple(ids[i] for i in group) for group in census.duplicates),
        chance=inverse_k / len(drawn),
        seed=seed,
    )


def sampled_questions(benchmark: Source, sample: Sample) -> Iterator[Item]:
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
    gone = next(iter(left.values()))
    raise BenchmarkError(f"{benchmark.name} ends before sampled question {gone!r}: the benchmark changed.")


def take_census(benchmark: Source) -> Census:
    """Reads every row once. BenchmarkError where there is none, or an id occurs twice (naming both places)."""
    ids: list[str] = []
    golds, sizes = array("d"), array("H")
    contents = array("Q")  # 128 bits of each question: its text is not kept
    repeated_options = 0
    for _, question in benchmark.iter_located():
        # The published order: two copies of one question may have been shuffled differently.
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
    same: dict[int, list[int]] = {}  # by first occurrence
    for i in np.flatnonzero(np.bincount(which.ravel())[which.ravel()] > 1).tolist():
        same.setdefault(int(first[which.flat[i]]), []).append(i)
    return Census(
        ids=tuple(ids),
        n_options=tuple(sizes),
        frame=np.sort(first).astype(np.int64),
        duplicates=tuple(map(tuple, same.values())),
        conflicting=sum(len({golds[i] for i in group}) > 1 for group in same.values()),
        repeated_options=repeated_options,
        lowest_key=int(min(golds)) if question.options else 0,
    )


def _check_unique(benchmark: Source, ids: Sequence[str]) -> None:
    if len(set(ids)) == len(ids):
        return
    twice = next(id_ for id_, n in Counter(ids).items() if n > 1)
    first, second, *_ = (where for where, question in benchmark.iter_located() if question.id == twice)
    raise BenchmarkError(f"{second}: id {twice!r} was already used in {first}. Ids must be unique.")
