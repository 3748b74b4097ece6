"""What a report holds in memory for each row of a run: numbers, and no text."""

import csv
import io
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from validity_runs import contrast_items, write_run

from audit.shards.files import write_file
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
from audit.validity.as_paper import no_op_rates
from audit.validity.audit import SCHEMA
from audit.validity.cells import item_rows, load_validity, read_table
from audit.validity.page import items_csv, top_items
from audit.validity.report import judge
from audit.validity.vocabulary import ValidityResult

WORDS = 90  # of a question, some 400 bytes; an item's own text is kept once, a 13th of that a row


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run, and one of three times as many items; both of more than one shard and one batch of
    edits."""
    folder = tmp_path_factory.mktemp("memory")
    return tuple(  # type: ignore[return-value]
        write_run(folder / str(n), contrast_items(n, WORDS), "contrast_letters") for n in (120, 360)
    )


@pytest.fixture(scope="module")
def results(runs: tuple[Path, Path]) -> tuple[ValidityResult, ...]:
    return judge([runs[0]], n_resamples=10)[0].results


def bytes_a_row(runs: tuple[Path, Path], work: Callable[[Path], object]) -> float:
    """By how much the peak grows with each row more."""
    work(runs[0])  # imports and caches
    arrow = pa.total_allocated_bytes()
    peaks, rows = [], []
    for run in runs:
        tracemalloc.start()
        result = work(run)
        peaks.append(tracemalloc.get_traced_memory()[1] + pa.total_allocated_bytes() - arrow)
        tracemalloc.stop()
        del result
        rows.append(sum(int(shard["rows"]) for shard in Manifest.load(run).shards))
    return (peaks[1] - peaks[0]) / (rows[1] - rows[0])


@pytest.mark.long
def test_cells_are_read_without_keeping_the_rows(runs: tuple[Path, Path]) -> None:
    assert (
        bytes_a_row(runs, load_validity) < 1000
    )  # 350, with an item's texts and ids; 3,620 with every row kept


@pytest.mark.long
def test_items_are_shown_and_written_without_keeping_the_rows(
    runs: tuple[Path, Path], results: tuple[ValidityResult, ...], tmp_path: Path
) -> None:
    def work(run: Path) -> object:
        rows = item_rows([run], [read_table(run)])
        write_file(tmp_path / "items.csv", map(str.encode, items_csv(rows)))
        return rows, no_op_rates(rows), top_items(rows, results, limit=8)

    assert bytes_a_row(runs, work) < 400  # 64; 3,130 with every row kept


def test_items_csv_and_the_page_s_items_are_what_whole_rows_say(
    runs: tuple[Path, Path], results: tuple[ValidityResult, ...]
) -> None:
    """Against every row in memory, ordered and counted here."""
    by_item: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for batch in iter_columns(runs[0], SCHEMA, SCHEMA.columns.names):
        for row in batch.to_pylist():
            key = (row["model"], row["benchmark"], row["context"], row["question_id"])
            by_item.setdefault(key, []).append(row)
    arms = ("original", "format", "semantic", "attribute", "placebo")
    expected, broken = [], {}
    for key in sorted(by_item):
        ordered = sorted(
            by_item[key], key=lambda row: (arms.index(row["arm"]), row["variant"], row["replicate"])
        )
        responses = [
            None if row["answer"] is None else row["option_order"][row["answer"]] for row in ordered
        ]
        moved = [
            response is not None and responses[0] is not None and response != responses[0]
            for response in responses
        ]
        expected += [
            (
                *key,
                row["arm"],
                str(row["variant"]),
                str(row["replicate"]),
                row["edit"] or "",
                str(row["key_after"]),
                *("" if value is None else str(value) for value in (responses[0], response)),
                "" if row["correct"] is None else str(int(row["correct"])),
                row["error"] or row["unread_why"],
            )
            for row, response in zip(ordered, responses, strict=True)
        ]
        # A directional contract is followed by a move to the new key; every other one by no move.
        broken[key] = sum(
            (not (moves and row["correct"])) if row["contract"] == "directional" else moves
            for row, moves, response in zip(ordered, moved, responses, strict=True)
            if row["asked"]
            and row["arm"] != "original"
            and response is not None
            and responses[0] is not None
        )
    rows = item_rows([runs[0]], [read_table(runs[0])])
    assert len(rows) == len(expected) and rows.items == len(by_item)
    columns = (
        "model",
        "benchmark",
        "context",
        "question_id",
        "family",
        "level",
        "replicate",
        "edit",
        "key_after",
        "response_before",
        "response_after",
        "right",
        "why_unread",
    )
    written = csv.DictReader(io.StringIO("".join(items_csv(rows))))
    assert [tuple(line[name] for name in columns) for line in written] == expected
    shown = top_items(rows, results, limit=10)
    for r in results:
        own_keys = [key for key in broken if key[:3] == (r.model, r.benchmark, r.context)]
        first = sorted(own_keys, key=lambda key: (-broken[key], key))[: 10 // len(results)]
        cell = f"{r.model} on {r.benchmark} ({r.context})"
        assert [item.question_id for item in shown if item.cell == cell] == [
            key[3] for key in first
        ]
    assert shown[0].rows[0].prompt.startswith("Answer. ") and shown[0].title.startswith(
        "Which of the pets"
    )
