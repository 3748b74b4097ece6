"""Panels for the report's tests: shards of synthetic outcomes, and a verdict object with something
in every field."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from outcome_tables import Outcome, outcomes_to_table, settings_of
from synthetic import Faults, synthetic_outcomes

from audit.judging.result import Status
from audit.report.build import write_report
from audit.shards.attempt import start_attempt
from audit.shards.files import file_sha256
from audit.shards.manifest import Manifest
from audit.shards.write import write_shard
from audit.sweep.audit import SCHEMA
from audit.sweep.drill import DrillDown, DrillRows, pack
from audit.sweep.page import page
from audit.sweep.report import Behind, drawn_questions, judge, read_run, read_texts
from audit.sweep.vocabulary import RunVerdict, SweepResult, Verdict

HOSTILE = (
    '<script>window.__ran = 1</script><img src="x" onerror="window.__ran = 2">'
    "</script><script>window.__ran = 3</script><!--<script> javascript:window.__ran=4 \u2028\u2029 ]]> &lt;b&gt; "
    '{{ 7*7 }} <a href="javascript:window.__ran=5">x</a>'
)


def outcomes_of(
    models: int, questions: int, routers: Sequence[int] = (1, 2, 3), **changes: Any
) -> list[Outcome]:
    """A panel of `models` models with rising gains; the second one has faults."""
    out: list[Outcome] = []
    for k in range(models):
        out += synthetic_outcomes(
            questions,
            tuple(routers),
            rng=np.random.default_rng(k),
            gain=(k % 4 - 1) * 0.05,
            model=f"model-{k:02d}",
            clean_accuracy=0.45 + 0.03 * (k % 12),
            faults=Faults(unparsed=0.2, truncated=0.05, errors=0.02) if k == 1 else None,
            **changes,
        )
    return out


def hostile(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The same rows with markup in every text that comes from outside."""
    return [
        replace(
            o,
            model=o.model + HOSTILE,
            model_revision=HOSTILE,
            benchmark=o.benchmark + HOSTILE,
            question_id=o.question_id + HOSTILE,
            group=o.group + HOSTILE,
            question=o.question + HOSTILE,
            options=tuple(x + HOSTILE for x in o.options),
            router_messages=tuple(m + HOSTILE for m in o.router_messages),
            prompt=o.prompt + HOSTILE,
            response=o.response + HOSTILE,
        )
        for o in outcomes
    ]


def table_of(outcomes: Sequence[Outcome]) -> pa.Table:
    return outcomes_to_table(outcomes)


def packed(outcomes: Sequence[Outcome], **options: Any) -> DrillDown:
    """The drill-down of rows in memory."""
    rows = DrillRows()
    rows.add(table_of(outcomes))
    return pack(rows, **options)


def run_of(
    folder: Path, outcomes: Sequence[Outcome], planned: Sequence[Outcome] = (), **also: Any
) -> Path:
    """A run directory whose shards hold these outcomes. planned: as of `manifest_of`; none where
    nothing is, as after a rebuild from shards alone."""
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    attempt = start_attempt(folder)
    for model in sorted({o.model for o in outcomes}):
        write_shard(
            folder, table_of([o for o in outcomes if o.model == model]), SCHEMA, attempt=attempt
        )
    if planned:
        manifest_of(folder, planned, **also)
    return folder


def manifest_of(folder: Path, planned: Sequence[Outcome], **also: Any) -> None:
    """The manifest of a run that is to hold the rows `planned`."""
    cells = {
        (o.model, o.benchmark): {p.question_id for p in planned if p.benchmark == o.benchmark}
        for o in planned
    }
    Manifest(
        fingerprint="f00",
        config={},
        models={model: {} for model, _ in cells},
        benchmark={benchmark: {"n": len(ids)} for (_, benchmark), ids in cells.items()},
        settings=settings_of(planned),
        shards=[
            {"file": p.name, "sha256": file_sha256(p)}
            for p in sorted((folder / "shards").glob("*.arrow"))
        ],
        **also,
    ).save(folder)


def write(
    run: Path, out: Path, *, judged: Path | None = None, max_rows: int = 10**6, **options: Any
) -> None:
    """The page over a verdict for tests of the page alone. judged: a smaller run whose verdict is
    taken."""
    read = read_run(run)
    cells = read.outcomes.cells
    _, listed = read_texts([read], drawn_questions(cells, 1, max_rows))
    verdict = verdict_of([judged or run], seed=1)
    write_report(out, verdict, page(verdict, Behind([run], cells, listed, 1, **options)))


def verdict_of(run_dirs: Sequence[Path], *, seed: int) -> RunVerdict:
    """For tests of the page alone: the runs' own numbers under all six verdicts in turn."""
    judged, _ = judge(run_dirs, seed=seed, n_resamples=50)
    kinds = list(Verdict)
    pairs = zip(judged.results, judged.cells, strict=True)
    results = tuple(
        _told_as(member, cell.question_ids[:7], kinds[(k + 5) % 6])
        for k, (member, cell) in enumerate(pairs)
    )
    return replace(judged, results=results)


def _told_as(result: SweepResult, unread: Sequence[str], kind: Verdict) -> SweepResult:
    """The same numbers under another verdict; the check that brings it about fails alone."""
    fails = {Verdict.WITHHELD: "parseability", Verdict.UNDERPOWERED: "enough_data"}.get(kind)
    gates = []
    for gate in result.gates:
        items = tuple(unread) if gate.name == "parseability" else ()
        status = Status.FAIL if gate.name == fails else Status.PASS
        withholds = gate.name != "enough_data"
        gates.append(
            replace(gate, status=status, items=items, item_count=len(items), withholds=withholds)
        )
    return replace(result, decision=replace(result.decision, verdict=kind), gates=tuple(gates))
