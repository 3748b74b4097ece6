"""What a report holds in memory for each row of a run: numbers, and no text."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from validity_runs import contrast_items, write_run

from audit.shards.manifest import Manifest
from audit.validity.cells import load_validity

WORDS = 120  # a question, and so in its prompt. An item's own text may be kept once, a 13th of that a row


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run, and one of three times as many items; both of more than one shard and one batch of edits."""
    folder = tmp_path_factory.mktemp("memory")
    return tuple(  # type: ignore[return-value]
        write_run(folder / str(n), contrast_items(n, WORDS), "contrast_letters") for n in (120, 360)
    )


def bytes_a_row(runs: tuple[Path, Path], work: Callable[[Path], object]) -> float:
    """By how much the peak grows with each row more."""
    work(runs[0])  # imports and caches
    peaks, rows = [], []
    for run in runs:
        tracemalloc.start()
        kept = work(run)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        del kept
        rows.append(sum(int(one["rows"]) for one in Manifest.load(run).shards))
    return (peaks[1] - peaks[0]) / (rows[1] - rows[0])


def test_cells_are_read_without_keeping_the_rows(runs: tuple[Path, Path]) -> None:
    """359 when this was written, of which 270 are the text of the item as published; 9,850 with every row kept."""
    assert bytes_a_row(runs, load_validity) < 1000
