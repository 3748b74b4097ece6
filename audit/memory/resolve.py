"""A configuration -> a resolved run, its held-out items checked against the benchmark's. Starts nothing."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from audit.benchmarks.fresh import check_fresh
from audit.convictions import settle_references
from audit.memory.audit import MEMORY, Orders
from audit.memory.config import SAME, MemoryConfig
from audit.memory.items import check_record
from audit.records import Question
from audit.resolve import BenchmarkSample, ResolvedRun, resolve_run
from audit.shards.questions import QUESTIONS
from audit.shards.working_copy import where


def resolve_memory(config: MemoryConfig) -> ResolvedRun:
    """Everything that can go wrong before an engine loads. Writes nothing. Raises AuditError.

    ConfigError where the held-out set shares an item with the benchmark: what is in both is not fresh.
    """
    resolved = resolve_run(MEMORY, config)
    benchmark, *fresh = resolved.samples
    for one in fresh:
        check_fresh(_all(benchmark), _all(one), (benchmark.benchmark.name, one.benchmark.name))
    resolved = settle_references(config, resolved, SAME)
    if config.published_order:
        record = check_record(config.published_order, _all(benchmark))
        resolved = replace(resolved, analysis={**resolved.analysis, "published_order": record})
    return replace(resolved, own=lambda place: orders_of(config, place))


def orders_of(config: MemoryConfig, place: Path) -> Orders:
    """place: the folder with the questions that are asked."""
    return Orders(where(place / QUESTIONS), config.seed, config.shard_items, config.orders, config.option_orders)


def _all(sample: BenchmarkSample) -> Iterator[Question]:
    return (question for _, question in sample.benchmark.iter_located())
