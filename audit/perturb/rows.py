"""Shards -> PerturbCell: originals and variants of the judged models, beside the reference models on the same items."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from audit.perturb.audit import SCHEMA
from audit.perturb.design import Arm
from audit.perturb.record import BrokenShare, PerturbCell, Wordings
from audit.shards.complete import Outcomes, read_outcomes
from audit.shards.keys import count_requests
from audit.statistics.paired import BoolArray, CellOutcomes, FloatArray
from audit.statistics.values import to_values
from audit.variants.record import Header, Review

_COLUMNS = ("model", "benchmark", "question_id", "arm", "variant", "asked", "request_sha256", "distance", "correct")
Cell = tuple[str, str]  # model, benchmark


@dataclass
class Requests:
    """Of one model and benchmark: hashes by question, and which variants were asked."""

    original: dict[str, set[str]] = field(default_factory=dict)
    variants: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    not_asked: set[tuple[str, int]] = field(default_factory=set)
    distances: list[float] = field(default_factory=list)  # of every variant with one; beside it
    reworded: list[str] = field(default_factory=list)  # its question, and
    correct: list[float] = field(default_factory=list)  # 1, 0, or NaN for no answer


@dataclass(frozen=True)
class Read:
    """One pass over a run's shards: its outcomes, and what was sent, by model and benchmark."""

    run_dir: Path
    outcomes: Outcomes
    requests: dict[Cell, Requests]


def read_run(run_dir: Path, models: Collection[str] | None = None) -> Read:
    """models: whose cells are kept; None: all. ShardError where there are no shards, DataError when a key occurs
    twice."""
    requests: dict[Cell, Requests] = {}
    outcomes = read_outcomes(run_dir, SCHEMA, also=_COLUMNS, each=lambda batch: _add(requests, batch))
    kept = [cell for cell in outcomes.cells if models is None or cell.model in models]
    return Read(run_dir, replace(outcomes, cells=kept), requests)


def perturb_cells(
    read: Read, judged: Sequence[str], references: Sequence[Read], header: Header, control: Header | None = None
) -> tuple[PerturbCell, ...]:
    """One cell for each judged model with rows, sorted. header: of the run's library; control: of its held-out items'.

    References are the other models of the run and every model of `references`; none is its own.
    """
    others = [
        (cell, run.requests[cell.model, cell.benchmark])
        for run in (read, *references)
        for cell in run.outcomes.cells
        if run is not read or cell.model not in judged
    ]
    cells = {
        library.benchmark: {
            cell.model: _cell(cell, read.requests[cell.model, cell.benchmark], others, library.review)
            for cell in read.outcomes.cells
            if cell.model in judged and cell.benchmark == library.benchmark
        }
        for library in (header, control)
        if library is not None
    }
    fresh = {}
    if control is not None:
        unlike = header.made_unlike(control)
        fresh = {model: replace(cell, unlike=unlike) for model, cell in cells[control.benchmark].items()}
    return tuple(replace(cell, control=fresh.get(model)) for model, cell in cells[header.benchmark].items())


def _cell(
    own: CellOutcomes, requests: Requests, others: Sequence[tuple[CellOutcomes, Requests]], review: Review | None
) -> PerturbCell:
    ids = own.question_ids
    references = [
        wordings(cell, theirs, ids)
        for cell, theirs in others
        if cell.benchmark == own.benchmark and cell.model != own.model and set(ids) & set(cell.question_ids)
    ]
    return PerturbCell(
        benchmark=own.benchmark,
        question_ids=ids,
        cluster=own.cluster,
        n_options=own.n_options,
        tested=wordings(own, requests, ids),
        references=tuple(references),
        broken=BrokenShare(review.n, review.broken) if review is not None and review.n else None,
        requests=count_requests(requests.original, requests.variants),
    )


def wordings(cell: CellOutcomes, requests: Requests, ids: Sequence[str]) -> Wordings:
    """One model's answers to the questions `ids`, in their order; NaN where it has none."""
    place = {id_: i for i, id_ in enumerate(cell.question_ids)}
    columns = np.array([place.get(id_, -1) for id_ in ids])

    def of(arm: Arm) -> FloatArray:
        rows = [to_values(cell.row(s))[columns] for s in cell.settings if s.arm == arm]
        found: FloatArray = np.array(rows, dtype=float).reshape(len(rows), len(ids))
        found[:, columns < 0] = np.nan
        return found

    levels = [s.level for s in cell.settings if s.arm == Arm.VARIANT]
    asked: BoolArray = np.array(
        [[(id_, level) not in requests.not_asked for id_ in ids] for level in levels], dtype=bool
    )
    asked = asked.reshape(len(levels), len(ids)) & (columns >= 0)  # a reference may have met fewer questions
    return Wordings(cell.model, of(Arm.ORIGINAL), of(Arm.VARIANT), None if asked.all() else asked)


def _add(found: dict[Cell, Requests], batch: pa.RecordBatch) -> None:
    """What a batch says of requests: hashes of those that were sent, variants that were not asked, distances."""
    columns = (batch.column(name).to_pylist() for name in _COLUMNS)
    for m, b, q, arm, level, asked, sha, distance, correct in zip(*columns, strict=True):
        one = found.setdefault((m, b), Requests())
        if arm == Arm.VARIANT and distance is not None:
            one.distances.append(distance)
            one.reworded.append(q)
            one.correct.append(np.nan if correct is None else float(correct))
        if not asked:
            one.not_asked.add((q, level))
        elif sha is None:
            continue  # an error row: no request was consumed
        elif arm == Arm.ORIGINAL:
            one.original.setdefault(q, set()).add(sha)
        else:
            one.variants.setdefault(q, []).append((level, sha))
