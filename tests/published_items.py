"""Benchmarks of items opened in one line, and the answers to one of them that were published with
it."""

import json
from pathlib import Path
from typing import Any

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.load import Benchmark, open_benchmark
from audit.core.records import Item


def opened(name: str, path: Path | None = None, **config: Any) -> Benchmark:
    return open_benchmark(
        BenchmarkConfig(name=name, format=name, path=path and str(path), **config)
    )


def items_of(name: str, path: Path | None = None, **config: Any) -> tuple[Item, ...]:
    return opened(name, path, **config).read_items().items


def unifiedqa(shared_data: Path) -> tuple[tuple[Item, ...], dict[str, dict[str, Any]]]:
    """BBQ's file on sexual orientation and UnifiedQA's stored answers to it, by id."""
    bbq = shared_data / "bbq"
    items = items_of("bbq", bbq / "data", subjects=["Sexual_orientation"])
    lines = (
        (bbq / "results" / "UnifiedQA" / "preds_Sexual_orientation.jsonl").read_text().splitlines()
    )
    return items, {
        f"bbq/{row['category']}/{row['example_id']}": row for row in map(json.loads, lines)
    }
