"""A configuration -> a resolved run, its fresh items checked against the benchmark's. Starts nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from audit.benchmarks.fresh import check_fresh
from audit.memory.audit import MEMORY
from audit.memory.config import MemoryConfig
from audit.memory.present import Orders
from audit.memory.reference import check_references
from audit.records import Question
from audit.references import reference_dirs
from audit.resolve import BenchmarkSample, ResolvedRun, resolve_run
from audit.shards.questions import QUESTIONS
from audit.shards.working_copy import where


def resolve_memory(config: MemoryConfig) -> ResolvedRun:
    """Everything that can go wrong before an engine loads. Writes nothing. Raises AuditError.

    ConfigError where the fresh set shares an item with the benchmark: what is in both is not fresh.
    """
    resolved = resolve_run(MEMORY, config)
    benchmark, *fresh = resolved.samples
    for one in fresh:
        check_fresh(_all(benchmark), _all(one), (benchmark.benchmark.name, one.benchmark.name))
    models = [name for name in config.model if name in config.references]
    check_references(reference_dirs(config), benchmark.benchmark.name, resolved.plain, models)
    own = Orders(
        where(resolved.path / QUESTIONS), config.seed, config.shard_items, config.orders, config.option_orders
    )  # fmt: skip
    return replace(resolved, own=own)


def _all(sample: BenchmarkSample) -> Iterator[Question]:
    return (question for _, question in sample.benchmark.iter_located())
