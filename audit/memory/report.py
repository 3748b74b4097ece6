"""Build the report of a memory run from its shards."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from audit.benchmarks.fresh import families_of
from audit.config.references import recorded_references
from audit.core.package_data import shipped_table
from audit.judge.gates import checks_of
from audit.judge.record import Settings
from audit.judge.report import Report, head_of, only, with_reservations
from audit.memory.analyse import JUDGE, RunVerdict, analyse
from audit.memory.audit import SCHEMA, Orders
from audit.memory.cells import load_memory
from audit.memory.config import SAME
from audit.memory.design import MemoryThresholds
from audit.memory.gates import readable
from audit.report.sensitivity import load_sensitivity
from audit.shards.complete import cell_rows, count_rows
from audit.shards.manifest import Manifest
from audit.statistics.notice import Field
from audit.statistics.order_test import N_RESAMPLES


def judge(
    run_dirs: Sequence[Path], *, seed: int | None = None, n_resamples: int = N_RESAMPLES
) -> tuple[RunVerdict, Path]:
    """Judge one run with the analysis options that its manifest states.

    Parameters
    ----------
    run_dirs : sequence of Path
        The directory of one run.
    seed : int, optional
        Seed of the permutations; by default the seed of the run.
    n_resamples : int
        Number of permutations.

    Returns
    -------
    tuple of RunVerdict and Path
        The verdict and the run directory.
    """
    run_dir = only(run_dirs, "memory")
    manifest = Manifest.load(run_dir)
    analysis = manifest.analysis
    limits = MemoryThresholds.from_mapping(analysis["thresholds"])
    settings = Settings(
        limits,
        int(analysis["seed"]) if seed is None else seed,
        n_resamples,
        shipped_table(JUDGE.shipped),
    )
    seen = count_rows(run_dir, SCHEMA)
    rows = cell_rows(run_dir, seen)
    references = recorded_references(manifest, analysis["benchmark"], SAME)
    # The shards do not contain the orders. The orders are therefore computed again from the
    # questions and options.
    orders = {}
    for name in ("seed", "shard_items", "orders", "option_orders"):
        orders[name] = int(manifest.config[name])
    order_options = Orders(str(run_dir), **orders)
    loaded = load_memory(
        run_dir,
        analysis["judged"],
        references,
        analysis["benchmark"],
        analysis["fresh"],
        order_options,
    )
    drawn = bool(analysis.get("published_order"))
    undated = analysis.get("undated", analysis["judged"])
    missing = tuple(
        analysis.get("dates_missing", ("control_benchmark.date", "model.NAME.released"))
    )
    families = families_of(analysis.get("origins", {}))
    cells = []
    for cell in loaded:
        partial = analysis.get("partial", {}).get(cell.model, "")
        complete = replace(
            readable(cell, limits),
            recorded=drawn,
            undated=missing if cell.model in undated else (),
            families=families,
            log_checks=checks_of(analysis),
            partial=partial,
        )
        cells.append(complete)
    sensitivity = load_sensitivity(run_dir)
    results = []
    for cell, result in zip(cells, analyse(cells, settings), strict=True):
        field = Field(cell.published.n, cell.fresh.n if cell.fresh else 0, len(cell.references))
        # A sensitivity is quoted only for indicators that were judged.
        judged = set()
        for indicator in result.evidence.indicators:
            if indicator.judged:
                judged.add(indicator.name.value)
        results.append(with_reservations(result, "memory", analysis, sensitivity, field, judged))
    head = head_of(settings, [seen], rows)
    return RunVerdict(**head, orders=orders, cells=tuple(cells), results=tuple(results)), run_dir


REPORT = Report(judge)
