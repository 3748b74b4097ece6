"""One pass over the shards of runs: paired outcomes, and how many rows there are of each model, benchmark and revision.

Summary, verdict and report all start from here, so that the shards are read once for their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from audit.shards.cells import cell_columns, pair_batches, pick, together
from audit.shards.complete import COUNTED, Seen, add_rows
from audit.shards.read import iter_columns
from audit.shards.schema import RowSchema
from audit.statistics.paired import CellOutcomes


@dataclass(frozen=True)
class Outcomes:
    """cells: one a model and benchmark, sorted. seen: rows as `complete.count_rows` counts them."""

    cells: list[CellOutcomes]
    seen: Seen


def read_outcomes(
    run_dir: Path,
    schema: RowSchema,
    *,
    answers: bool = False,
    also: Sequence[str] = (),
    each: Callable[[pa.RecordBatch], None] | None = None,
) -> Outcomes:
    """The outcomes of one run, in one pass.

    answers: see `cell_columns`. each: called with every batch, of the columns of pairing and those that `also` names.
    Raises ShardError when there are no shards, DataError when a key occurs twice.
    """
    paired = cell_columns(schema, answers=answers)
    seen = Seen()

    def batches() -> Iterator[pa.RecordBatch]:
        columns = tuple(dict.fromkeys((*paired, *COUNTED, *also)))
        for batch in together(iter_columns(run_dir, schema, columns, 1 << 14)):
            add_rows(seen, batch.select(COUNTED))
            if each is not None:
                each(batch)
            yield pick(batch, paired)

    cells = pair_batches(batches(), schema)
    pa.default_memory_pool().release_unused()  # of a million questions 110 MB, which what follows cannot use
    return Outcomes(cells, seen)
