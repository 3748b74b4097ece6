"""A run's shards -> RUN_DIR/report: report.html, verdict.json, tables/*.csv, figures/*.{png,svg}.

Everything is rebuilt from the run directory alone. Files are written whole, verdict.json last.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from audit.errors import ConfigError, DataError
from audit.memory.analyse import analyse
from audit.memory.calibrated import SHIPPED
from audit.memory.cells import load_memory
from audit.memory.columns import SCHEMA
from audit.memory.present import Orders
from audit.memory.reference import check_references
from audit.memory.thresholds import MemoryThresholds
from audit.memory.verdict import RunVerdict
from audit.report.build import ReportPaths, run_facts
from audit.shards.complete import cell_rows, contents, count_rows
from audit.shards.files import write_file
from audit.shards.manifest import Manifest
from audit.statistics.order_test import N_RESAMPLES
from audit.verdict.result import json_text
from audit.verdict.sensitivity import load_sensitivity, quote
from audit.verdict.shipped import shipped_table


def report_runs(run_dirs: Sequence[Path], out: Path, asked: Mapping[str, Any]) -> ReportPaths:
    """`audit.report` of runs of this audit: judged as the manifest says, but for what is asked."""
    for name, value in asked.items():
        if name != "seed" and value is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} does not belong to the memory audit: its fresh items are those of the run."
            )
    return build_report(run_dirs, out, seed=asked.get("seed"))


def build_report(
    run_dirs: Sequence[Path], out: Path, *, seed: int | None = None, n_resamples: int = N_RESAMPLES
) -> ReportPaths:
    """Write the report of one run into `out`. seed: of the permutations; by default the run's own.

    Thresholds, the judged models and reference runs come from the manifest. Raises DataError for several runs.
    """
    if len(run_dirs) != 1:
        raise DataError(
            f"{len(run_dirs)} runs of the memory audit were given. Expected one: to judge several models together, run "
            "them in one job, such as 'model=[llama3_8b,qwen3_8b]'."
        )
    run_dir = Path(run_dirs[0])
    verdict = judge(run_dir, seed=seed, n_resamples=n_resamples)
    from audit.memory.page import write_page  # here: figures need matplotlib

    html, tables, figures = write_page(run_dir, out, verdict, run_facts(run_dir))
    path, plain = out / "verdict.json", verdict.to_dict()
    write_file(path, json_text(plain).encode())
    incomplete = tuple(rows for rows in verdict.rows if not rows.complete)
    return ReportPaths(html, path, tables, figures, incomplete, plain)


def judge(run_dir: Path, *, seed: int | None = None, n_resamples: int = N_RESAMPLES) -> RunVerdict:
    """The verdict of a run directory, as its manifest asks for it."""
    manifest = Manifest.load(run_dir)
    analysis, config = manifest.analysis, manifest.config
    thresholds = MemoryThresholds.from_mapping(analysis["thresholds"])
    seed = int(analysis["seed"]) if seed is None else seed
    seen = count_rows(run_dir, SCHEMA)
    rows = cell_rows(run_dir, seen)
    references = [Path(one) for one in analysis["references"]]
    models = [name for name in manifest.models if name not in analysis["judged"]]
    check_references(references, analysis["benchmark"], config, models)
    own = orders_of_run(run_dir, manifest)
    cells = load_memory(run_dir, analysis["judged"], references, analysis["benchmark"], analysis["fresh"], own)
    sensitivity = load_sensitivity(run_dir)
    results = tuple(
        replace(result, sensitivity=quote(sensitivity, "memory", result.model, result.benchmark))
        for result in analyse(cells, thresholds, seed=seed, n_resamples=n_resamples, table=shipped_table(SHIPPED))
    )
    return RunVerdict(
        seed=seed,
        n_resamples=n_resamples,
        thresholds=thresholds.to_dict(),
        orders={name: getattr(own, name) for name in ("seed", "shard_items", "orders", "option_orders")},
        runs=({"models": contents(seen)},),
        rows=rows,
        cells=cells,
        results=results,
    )


def orders_of_run(run_dir: Path, manifest: Manifest) -> Orders:
    """The orders that a run asked, from its manifest: they are made again from its questions."""
    config = manifest.config
    return Orders(
        str(run_dir),
        int(config["seed"]),
        int(config["shard_items"]),
        int(config["orders"]),
        int(config["option_orders"]),
    )
