"""Panels for the report's tests: shards of synthetic outcomes, and a verdict object with something in every field."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from outcome_tables import Outcome, outcomes_to_table, settings_of
from synthetic import Faults, synthetic_outcomes

from audit.report.build import write_report
from audit.shards.attempt import start_attempt
from audit.shards.files import file_sha256
from audit.shards.manifest import Manifest
from audit.shards.read import load_cells
from audit.shards.write import write_shard
from audit.sweep.audit import SCHEMA
from audit.sweep.design import SweepThresholds
from audit.sweep.drill import DrillDown, DrillRows, pack
from audit.sweep.page import page
from audit.sweep.paper import setting_rows
from audit.sweep.record import sweep_of
from audit.sweep.report import Behind, drawn_questions, read_run, read_texts
from audit.sweep.vocabulary import (
    Contrast,
    Decision,
    Effect,
    Hypothesis,
    NoiseFloor,
    RunVerdict,
    SelfTest,
    Slope,
    SweepResult,
    Verdict,
)
from audit.verdict.result import Calibration, Gate, Reason, Status

HOSTILE = (
    '<script>window.__ran = 1</script><img src="x" onerror="window.__ran = 2">'
    "</script><script>window.__ran = 3</script><!--<script> javascript:window.__ran=4 \u2028\u2029 ]]> &lt;b&gt; "
    '{{ 7*7 }} <a href="javascript:window.__ran=5">x</a>'
)


def outcomes_of(models: int, questions: int, routers: Sequence[int] = (1, 2, 3), **changes: Any) -> list[Outcome]:
    """A panel of `models` models with rising gains; the second one has faults."""
    out: list[Outcome] = []
    for k in range(models):
        out += synthetic_outcomes(
            questions, tuple(routers), rng=np.random.default_rng(k), gain=(k % 4 - 1) * 0.05, model=f"model-{k:02d}",
            clean_accuracy=0.45 + 0.03 * (k % 12),
            faults=Faults(unparsed=0.2, truncated=0.05, errors=0.02) if k == 1 else None, **changes,
        )  # fmt: skip
    return out


def hostile(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The same rows with markup in every text that comes from outside."""
    return [
        replace(
            o, model=o.model + HOSTILE, model_revision=HOSTILE, benchmark=o.benchmark + HOSTILE,
            question_id=o.question_id + HOSTILE, group=o.group + HOSTILE, question=o.question + HOSTILE,
            options=tuple(x + HOSTILE for x in o.options),
            router_messages=tuple(m + HOSTILE for m in o.router_messages), prompt=o.prompt + HOSTILE,
            response=o.response + HOSTILE,
        )
        for o in outcomes
    ]  # fmt: skip


def table_of(outcomes: Sequence[Outcome]) -> pa.Table:
    return outcomes_to_table(outcomes)


def packed(outcomes: Sequence[Outcome], **options: Any) -> DrillDown:
    """The drill-down of rows in memory."""
    rows = DrillRows()
    rows.add(table_of(outcomes))
    return pack(rows, **options)


def run_of(folder: Path, outcomes: Sequence[Outcome]) -> Path:
    """A run directory whose shards hold these outcomes; no manifest, as after a rebuild from shards alone."""
    (folder / "shards").mkdir(parents=True, exist_ok=True)
    attempt = start_attempt(folder)
    for model in sorted({o.model for o in outcomes}):
        write_shard(folder, table_of([o for o in outcomes if o.model == model]), SCHEMA, attempt=attempt)
    return folder


def manifest_of(folder: Path, asked: Sequence[Outcome], **also: Any) -> None:
    """The manifest of a run that is to hold the rows `asked`."""
    cells = {(o.model, o.benchmark): {p.question_id for p in asked if p.benchmark == o.benchmark} for o in asked}
    Manifest(
        fingerprint="f00",
        config={},
        models={model: {} for model, _ in cells},
        benchmark={benchmark: {"n": len(ids)} for (_, benchmark), ids in cells.items()},
        settings=settings_of(asked),
        shards=[{"file": p.name, "sha256": file_sha256(p)} for p in sorted((folder / "shards").glob("*.arrow"))],
        **also,
    ).save(folder)


def write(run: Path, out: Path, *, max_rows: int = 10**6, **options: Any) -> None:
    """The page over a verdict for tests of the page alone."""
    read = read_run(run)
    cells = read.outcomes.cells
    _, listed = read_texts([read], drawn_questions(cells, 1, max_rows))
    verdict = verdict_of([run], seed=1)
    write_report(out, verdict, page(verdict, Behind([run], cells, listed, 1, **options)))


def verdict_of(run_dirs: Sequence[Path], *, seed: int) -> RunVerdict:
    """A RunVerdict for tests of the page alone: every field filled, all six verdicts in turn. Not an analysis."""
    kinds = list(Verdict)
    cells = load_cells([*run_dirs], SCHEMA)
    results = []
    for k, cell in enumerate(cells):
        kind = kinds[(k + 5) % 6]
        failed = kind is Verdict.WITHHELD
        fails = {Verdict.WITHHELD: "parseability", Verdict.UNDERPOWERED: "enough_data"}.get(kind)
        gates = tuple(
            Gate(
                name=name, status=Status.FAIL if name == fails else Status.PASS, number=0.91, threshold=0.95,
                source="li2026, section 3", detail=f"{name}: 91.0 % of the replies could be read.",
                advice="Read the answer by likelihood." if failed else "",
                items=cell.question_ids[:7] if name == "parseability" else (),
                item_count=7 if name == "parseability" else 0, withholds=name != "enough_data",
            )
            for name in ("above_chance", "parseability", "clean_fidelity", "answer_leak", "exact_values", "enough_data")
        )  # fmt: skip
        gain = 0.02 * (k % 5) - 0.03
        results.append(
            SweepResult(
                model=cell.model,
                benchmark=cell.benchmark,
                decision=Decision(
                    kind,
                    (Reason("noise", said="The largest gain is within the noise floor."),),
                    (Reason("ask_more", said="Ask 400 questions instead of 100."), Reason("run", said="Run direct.")),
                ),
                headline="Noise did not raise the score by more than chance would.",
                effect=Effect(3, gain + 0.01, gain - 0.03, gain + 0.05, gain, gain - 0.02, gain + 0.02),
                p_value=0.2,
                p_adjusted=0.0004 if kind is Verdict.EXCESS else 0.61,
                run_sd=0.01,
                run_sd_df=8,
                noisy_run_sd=0.02,
                noisy_run_sd_df=6,
                unparsed_tipping=None,
                worst_case_gain=None,
                largest_compatible_gain=gain + 0.05,
                gates=gates,
                contrasts=(
                    Contrast("noisy_vs_clean", "noisy - clean", 1, cell.n, gain, gain - 0.05, gain + 0.05, 0.3, 0.6),
                    Contrast("noisy_vs_direct", "noisy - direct", None, 0, None, None, None, None, note="not run"),
                ),
                controls_missing=("No ensemble control.",),
                cannot_exclude=("That repetition alone explains a gain.",),
                slope=Slope(0.004, -0.001, 0.009, "model: noisy accuracy shows no clear trend."),
                noise_floor=NoiseFloor(True, 2, 1, 0.0, 0.01, "Clean against clean: 0 of 1 rejected."),
                calibration=None,
                score=0.45 + 0.03 * (k % 12),
                chance=0.25,
                share_beyond_gains=None if failed else max(0.0, 0.95 - 0.07 * (k % 9)),
                credibility=None if failed else max(0.0, 0.95 - 0.07 * (k % 9)),
                credibility_category="none" if failed else "high",
                n_questions=cell.n,
                routers=(1, 2, 3),
                reading=cell.reading,
                draws=cell.draws,
                sample_sizes={"noisy_rewrite r=1 #0": cell.n},
                states={"correct": 5, "wrong": 3},
            )
        )
    rows = [row for cell in cells for row in setting_rows(sweep_of(cell))]
    return RunVerdict(
        seed=seed,
        n_resamples=10_000,
        runs=({"fingerprint": "abc", "models": ["m"]},),
        thresholds=SweepThresholds().to_dict(),
        rows=(),
        cells=tuple(cells),
        results=tuple(results),
        paper={"model_summary": [], "router_summary": [], "cells": [asdict(row) for row in rows]},
        hypotheses=(Hypothesis("H1", 0.04, 0.02, "Some model gains under noise."),),
        calibration=Calibration({"n": 100, "routers": 3}, {"excess_fpr": 0.031}, "Wrong in 3.1 %."),
        self_test=(
            SelfTest("model-00", "synthetic", "labels_shifted", "above_chance", "caught", True, "Fell to 11 %."),
            SelfTest("model-00", "synthetic", "pairing_broken", "pairing", "missed", False, "It did not fail."),
        ),
    )
