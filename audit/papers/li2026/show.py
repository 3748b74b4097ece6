"""`audit reanalyze li2026 [--out DIR]`: the shipped tables -> screen, json and csv. No engine; a second."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from audit.errors import AuditError
from audit.exits import refused
from audit.json_types import attributes
from audit.papers import write_all
from audit.papers.li2026.reanalysis import ANSWER_ONLY, BASELINES, N_SCORES, ORDER, Li2026, reanalyse_li2026
from audit.validity.status import GATE_COLUMNS, gate_columns
from audit.verdict.tables import csv_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TABLES = ("table6_cells.csv", "table3_buckets.csv", "table7_noop.csv", "appendix_j_trail.csv")


def shipped() -> Li2026:
    """The analysis of the tables that ship with the package (audit/data/li2026/README.md names the source)."""
    folder = resources.files("audit").joinpath("data", "li2026")
    table6, table3, table7, trail = (folder.joinpath(name).read_text("utf-8") for name in TABLES)
    return reanalyse_li2026(table6, table3, table7, trail)


def rows(result: Li2026) -> list[dict[str, Any]]:
    """One row a cell, as the csv and the json have them."""
    return [
        {
            **attributes(r.cell, "model", "benchmark", "score", "baseline", "z"),
            "k_format": r.counts[0],
            "k_semantic": r.counts[1],
            "k_attribute": r.counts[2],
            "csr": r.cell.csr(),
            "csr_printed": r.printed_csr,
            "csr_follows": r.csr_follows,
            "status": str(r.status.status),
            "step": r.status.step,
            "flags": " ".join(r.status.flags),
            "printed": r.printed_bucket,
            "follows": r.bucket_follows,
            "answer_only_status": str(other.status),
            **dict(zip(GATE_COLUMNS, gate_columns(r.cell, None, r.seed_cv_at_most), strict=True)),
        }
        for r, other in zip(result.cells, result.answer_only, strict=True)
    ]


def as_json(result: Li2026) -> dict[str, Any]:
    """The analysis as plain values; the same tables give the same bytes."""

    def named(counts: Sequence[int]) -> dict[str, int]:
        return {name: n for n, (name, _) in zip(counts, ORDER, strict=True)}

    return {
        "sentence": result.sentence,
        "counts": named(result.counts),
        "cells": rows(result),
        "sweep_g3": {f"{value:g}": named(counts) for value, counts in result.g3.items()},
        "sweep_g1": {f"{value:g}": named(counts) for value, counts in result.g1.items()},
        "floored_by_epsilon": {f"{value:g}": list(names) for value, names in result.epsilon.items()},
        "with_table7": named(result.with_table7),
        "answer_only": {"baselines": ANSWER_ONLY, "counts": named(result.answer_only_counts)},
        "statements_that_do_not_follow": [asdict(statement) for statement in result.statements],
    }


def show(result: Li2026, console: Console) -> None:
    """Print the cells, the sweeps and what does not follow."""
    table = Table(title="Table 6, recomputed", title_justify="left", box=SIMPLE)
    for name in ("model", "benchmark", "score", "z", f"fmt/sem/attr of {N_SCORES}", "CSR", "status", "flags"):
        # fold: on a narrow terminal a status goes over two lines, and is not cut
        table.add_column(name, justify="right" if name in ("score", "z", "CSR") else "left", overflow="fold")
    for r in result.cells:
        ratio = f"{r.cell.csr():.2f}" + ("" if r.csr_follows else f" (printed {r.printed_csr:.2f})")
        status = str(r.status.status) + ("" if r.bucket_follows else f" (printed {r.printed_bucket})")
        deltas = "/".join(map(str, r.counts))
        cells = (f"{r.cell.score:.3f}", f"{r.cell.z:.2f}", deltas, ratio, status, ", ".join(r.status.flags))
        table.add_row(r.cell.model, r.cell.benchmark, *cells)
    console.print(table)
    sweep = Table(title="Thresholds", title_justify="left", box=SIMPLE)
    sweep.add_column("threshold")
    for name, _ in ORDER:
        sweep.add_column(name, justify="right", overflow="fold")
    for label, found in (("G3", result.g3), ("G1 cap", result.g1)):
        for value, counts in found.items():
            sweep.add_row(f"{label} = {value:g}", *map(str, counts))
    sweep.add_row("G1 from Table 7, C", *map(str, result.with_table7))
    sweep.add_row("G2 above answer-only", *map(str, result.answer_only_counts))
    console.print(sweep)
    better = ", ".join(f"{name} {ANSWER_ONLY[name]:.3f}" for name in BASELINES if ANSWER_ONLY[name] != BASELINES[name])
    console.print(f"- Answer-only: the best rule that never reads the question ({better}).", highlight=False)
    for value, names in result.epsilon.items():
        console.print(f"- epsilon = {value:g} floors {len(names)} denominators.", highlight=False)
    console.print("Printed statements that do not follow:", highlight=False)
    for s in result.statements:
        line = f"- {s.name}: printed “{s.printed}”; {s.found}."
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(result.sentence, style="bold", highlight=False, markup=False, soft_wrap=True)


def main(argv: Sequence[str]) -> int:
    """0 done, 1 where the tables or the folder cannot be used."""
    parser = argparse.ArgumentParser(
        prog="audit reanalyze li2026", description="Statuses, ratios and sweeps from li2026's printed tables."
    )
    parser.add_argument("--out", type=Path, default=Path("outputs/reanalysis_li2026"), help="folder for json and csv")
    options = parser.parse_args(argv)
    try:
        result = shipped()
        paths = write(result, options.out)
    except AuditError as problem:
        return refused(problem)
    console = Console()
    show(result, console)
    console.print(f"Written: {', '.join(map(str, paths))}", highlight=False, soft_wrap=True)
    return 0


def figures(result: Li2026) -> dict[str, Figure]:
    """Figures 2 and 4 of the paper, from its Table 6."""
    from audit.validity.figures import Ratio, family_deltas, ratios

    cells = [(f"{r.cell.model} / {r.cell.benchmark}", r.cell, r) for r in result.cells]
    shown = [
        Ratio(name, str(r.status.status), r.status.step, r.printed_csr, cell.ci_low, cell.ci_high, cell.g3())
        for name, cell, r in cells
    ]
    changes = {name: (cell.delta_fmt, cell.delta_sem, cell.delta_attr) for name, cell, _ in cells}
    return {"figure2_ratios": ratios(shown), "figure4_deltas": family_deltas(changes)}


def write(result: Li2026, out: Path) -> list[Path]:
    """reanalysis.json, cells.csv and the figures under `out`."""
    cells = csv_text(list(rows(result)[0]), map(dict.values, rows(result)))
    return write_all(out, as_json(result), {"cells.csv": cells}, figures(result))
