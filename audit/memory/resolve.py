"""A configuration -> a resolved run, its fresh items checked against the benchmark's. Starts nothing."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace

from audit.errors import ConfigError
from audit.memory.audit import MEMORY
from audit.memory.config import MemoryConfig
from audit.memory.present import Orders
from audit.memory.reference import check_references
from audit.records import Question
from audit.references import reference_dirs
from audit.resolve import BenchmarkSample, ResolvedRun, resolve_run

_NOT_WORD = re.compile(r"[\W_]+")


def resolve_memory(config: MemoryConfig) -> ResolvedRun:
    """Everything that can go wrong before an engine loads. Writes nothing. Raises AuditError.

    ConfigError where the fresh set shares an item with the benchmark: what is in both is not fresh.
    """
    resolved = resolve_run(MEMORY, config)
    benchmark, *fresh = resolved.samples
    for one in fresh:
        # The whole benchmark, not the sample: what the model may have seen is all of it.
        shared = shared_items(_all(benchmark), _all(one))
        if shared:
            ours, theirs = shared[0]
            raise ConfigError(
                f"{len(shared)} items of {one.benchmark.name} have the same text as one of {benchmark.benchmark.name}, "
                f"such as {theirs} and {ours}: they are not fresh. Take them out of control_benchmark."
            )
    models = [name for name in config.model if name in config.references]
    check_references(reference_dirs(config), benchmark.benchmark.name, resolved.plain, models)
    own = Orders(
        str(resolved.path.resolve()), config.seed, config.shard_items, config.orders, config.option_orders
    )  # fmt: skip
    return replace(resolved, own=own)


def _all(sample: BenchmarkSample) -> Iterator[Question]:
    return (question for _, question in sample.benchmark.iter_located())


def shared_items(benchmark: Iterable[Question], fresh: Iterable[Question]) -> list[tuple[str, str]]:
    """(id of the benchmark, id of the fresh set) of items with one text, whatever their case, marks and blanks.

    The question decides; where the benchmark asks one question of several lists of options (passages apart), these too.
    """
    known: dict[str, list[Question]] = {}
    for question in benchmark:
        known.setdefault(normalised(question.text), []).append(question)
    found = []
    for question in fresh:
        same = known.get(normalised(question.text), [])
        if len(same) > 1:
            same = [one for one in same if _options(one) == _options(question)]
        if same:
            found.append((same[0].id, question.id))
    return found


def normalised(text: str) -> str:
    """Words alone: case, marks, blanks and compatible forms of characters do not count."""
    return _NOT_WORD.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


def _options(question: Question) -> frozenset[str]:
    return frozenset(map(normalised, question.options))
