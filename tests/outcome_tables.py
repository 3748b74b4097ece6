"""The sweep's rows as objects, and back, paired and judged; the program itself writes and reads
columns."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, make_dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from audit.core.records import Reading, Setting
from audit.shards.attempt import start_attempt
from audit.shards.cells import cell_columns, pair_batches, pick
from audit.shards.keys import Digests, clean_text, column_array, digests_of_table, rows_to_table
from audit.shards.manifest import Manifest
from audit.shards.read import iter_columns
from audit.shards.write import write_shard
from audit.statistics.paired import CellOutcomes
from audit.sweep.analyse import analyse
from audit.sweep.audit import SCHEMA
from audit.sweep.design import Aggregator, Arm, Draws
from audit.sweep.messages import MeasuredTexts, TextRow, measure_texts
from audit.sweep.record import Sweep
from audit.sweep.self_test import MAX_TEXT_QUESTIONS
from audit.sweep.vocabulary import RunVerdict


class OutcomeKey(NamedTuple):
    """What makes a row unique."""

    model: str
    benchmark: str
    question_id: str
    arm: str
    level: int
    replicate: int


def digests_of_keys(keys: Iterable[OutcomeKey]) -> Digests:
    """Digests (n, 2) of keys, in order."""
    columns = list(zip(*keys, strict=True)) or [()] * 6
    table = {
        name: [clean_text(str(v)) for v in values]
        for name, values in zip(SCHEMA.key, columns, strict=True)
    }
    return digests_of_table(pa.table(table), SCHEMA)


NAMES = SCHEMA.columns.names
_OFTEN = {
    "error": None,
    "options_shown": True,
    "reasked": False,
    "request_sha256": None,
    "router_calls": 0,
    "answer_number": None,
    "target": None,  # never in a sweep, whose items have options
}


class _Row:
    """What a row has beside its columns; `SCHEMA` documents these. correct: None when unparsed or
    error."""

    aggregator: ClassVar[Aggregator] = Aggregator.CONCATENATE

    @property
    def key(self) -> OutcomeKey:
        return OutcomeKey(
            self.model, self.benchmark, self.question_id, self.arm, self.routers, self.replicate
        )


# One row of the sweep: one question under one setting by one model.
Outcome = make_dataclass(
    "Outcome",
    [(name, Any, field(default=_OFTEN[name])) if name in _OFTEN else (name, Any) for name in NAMES],
    bases=(_Row,),
    frozen=True,
    kw_only=True,
)
_MAKE = {"arm": Arm, "draws": Draws, "reading": Reading} | {
    column.name: tuple for column in SCHEMA.columns if pa.types.is_list(column.type)
}


def outcomes_to_table(outcomes: Sequence[Outcome]) -> pa.Table:
    return rows_to_table([vars(o) for o in outcomes], SCHEMA)


def table_to_outcomes(table: pa.Table | pa.RecordBatch) -> list[Outcome]:
    columns = [
        map(_MAKE.get(name, lambda value: value), table.column(name).to_pylist()) for name in NAMES
    ]
    return [Outcome(**dict(zip(NAMES, row, strict=True))) for row in zip(*columns, strict=True)]


def settings_of(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """As a manifest has them."""
    return [asdict(s) for s in sorted({Setting(o.arm, o.routers, o.replicate) for o in outcomes})]


def finished_run(folder: Path, outcomes: Sequence[Outcome], **facts: Any) -> Path:
    """A finished run of these rows without a report. facts: what its manifest says beside or
    instead."""
    (folder / "shards").mkdir(parents=True)
    info = write_shard(folder, outcomes_to_table(outcomes), SCHEMA, attempt=start_attempt(folder))
    stated = {
        "fingerprint": "f" * 64,
        "config": {},
        "audit": "sweep",
        "schema_version": SCHEMA.version,
        "status": "finished",
        "started": "2026-11-01T08:00:00+00:00",
        "ended": "2026-11-01T09:00:00+00:00",
        "run_by": ["carol"],
        "settings": settings_of(outcomes),
        "shards": [info.record()],
    }
    Manifest(**{**stated, **facts}).save(folder)
    return folder


def iter_outcomes(run_dirs: Path | str | Sequence[Path | str]) -> Iterator[Outcome]:
    for batch in iter_columns(run_dirs, SCHEMA, SCHEMA.columns.names):
        yield from table_to_outcomes(batch)


def pair(outcomes: Sequence[Outcome], *, answers: bool = False) -> list[CellOutcomes]:
    """The cells of rows in memory."""
    columns = cell_columns(SCHEMA, answers=answers)
    fields = [column for column in SCHEMA.columns if column.name in {"options", *columns}]
    arrays = [column_array([getattr(o, field.name) for o in outcomes], field) for field in fields]
    batches = pa.Table.from_arrays(arrays, schema=pa.schema(fields)).to_batches(max_chunksize=1024)
    return pair_batches((pick(batch, columns) for batch in batches), SCHEMA)


def cell_of(
    states: Mapping[Setting, Any],
    cluster: Any = None,
    *,
    model: str = "m",
    benchmark: str = "b",
    draws: str = "nested",
    reading: str = "letter",
) -> CellOutcomes:
    """A cell of the states (n,) under each setting; every question is a group of its own unless
    clusters are given."""
    settings, n = tuple(sorted(states)), len(next(iter(states.values())))
    groups = np.arange(n) if cluster is None else np.asarray(cluster)
    ids, state = (
        tuple(f"q{i:04d}" for i in range(n)),
        np.array([states[s] for s in settings], dtype=np.int8),
    )
    return CellOutcomes(
        model, benchmark, draws, reading, ids, groups, np.full(n, 4), settings, state
    )


def sweep_with(
    clean: Any, noisy: Any, cluster: Any = None, ids: Sequence[str] = (), **facts: Any
) -> Sweep:
    """Of values (n,) and (R, n), r = 1..R; every question is a cluster of its own unless clusters
    are given."""
    clean, noisy = np.asarray(clean, float), np.atleast_2d(np.asarray(noisy, float))
    n, groups = clean.size, cluster if cluster is not None else np.arange(clean.size)
    about = {"model": "m", "benchmark": "b", "routers": tuple(range(1, len(noisy) + 1))} | facts
    names = tuple(ids or (f"q{i:04d}" for i in range(n)))
    return Sweep(**about, question_ids=names, clean=clean, noisy=noisy, cluster=np.asarray(groups))


def texts_of(outcomes: Sequence[Outcome], cells: Sequence[CellOutcomes] = ()) -> MeasuredTexts:
    """The measures of rows in memory, with those of the self-test for `cells`."""
    probed = {(c.model, c.benchmark): c.question_ids[:MAX_TEXT_QUESTIONS] for c in cells}
    return measure_texts(text_rows(outcomes), None, probed)


def text_rows(outcomes: Iterable[Outcome]) -> list[TextRow]:
    return [TextRow(*(getattr(o, name) for name in TextRow._fields)) for o in outcomes]


def analyse_outcomes(outcomes: Sequence[Outcome], **options: Any) -> RunVerdict:
    """`analyse` of rows in memory, texts and answers included."""
    cells = pair(outcomes, answers=True)
    return analyse(cells, texts_of(outcomes, cells), **options)


def honest(cell: CellOutcomes) -> CellOutcomes:
    """Another model that answered from the same messages, and whom the damage neither helps nor
    hurts."""
    clean = cell.row(Setting("forward_full", 1))
    return replace(
        cell,
        model="another",
        state=np.stack([clean for _ in cell.settings]),
        answer=None,
        gold=None,
    )


def honest_of(cells: Sequence[CellOutcomes]) -> dict[tuple[str, str], CellOutcomes]:
    """Such a model for every cell that has a clean arm."""
    base = Setting("forward_full", 1)
    return {(c.model, c.benchmark): honest(c) for c in cells if base in c.settings}
