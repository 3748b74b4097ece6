"""Recompute the tables printed in the paper li2026: `audit reanalyze li2026 [OPTIONS]`.

Statuses, ratios and threshold sweeps are computed. Printed statements that do not follow from the
tables are listed. The results are shown on the terminal and written as json and csv. The tables
ship with the package, and no engine is needed.

The paper prints each delta with three decimals. The exact value is k/600 for a whole number k,
since there are 200 items, three edits and binary scores. The gates use the exact values.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from audit.core.json_types import attributes
from audit.judging.tables import csv_text
from audit.papers import place, print_json, write_all
from audit.validity.status import (
    GATE_COLUMNS,
    PAPER,
    PaperCell,
    PaperStatus,
    PaperThresholds,
    Status,
    gate_columns,
    paper_status,
    raw_words,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_ITEMS, N_EDITS = 200, 3
N_SCORES = N_ITEMS * N_EDITS
CROWS, BBQ, TRUTHFULQA = "CrowS-Pairs", "BBQ", "TruthfulQA"
# Trivial baselines for G2, from the note of Table 6. The note gives no baseline for CrowS, because
# the cells of CrowS stop at step 1.
BASELINES = {TRUTHFULQA: 1 / 4, BBQ: 1 / 3, "ToxiGen": 0.5, "XSTest": 0.5, CROWS: 0.5}
# Accuracy of the best rule that answers without reading the question (audit.scoring.shortcuts),
# measured on the published files.
ANSWER_ONLY = BASELINES | {TRUTHFULQA: 0.503, BBQ: 0.5, "XSTest": 0.556}
UNINSTRUMENTED = {CROWS}  # benchmarks whose cells stop at step 1, as section 3 discloses
UNVALIDATED = {"ToxiGen", "XSTest"}  # benchmarks whose cells stop at step 3
MISALIGNED = {BBQ}  # benchmarks whose cells stop at step 4
ORDER = (
    ("ineligible", (Status.INELIGIBLE_F1, Status.INELIGIBLE_F5)),
    ("scorer-unvalidated", (Status.SCORER_UNVALIDATED,)),
    ("failed G2-G4", (Status.FAILED,)),
    ("exploratory", (Status.EXPLORATORY,)),
    ("confirmatory", (Status.SELECTIVE, Status.NON_SELECTIVE)),
)
G3_GRID, EPSILON_GRID, G1_GRID = (0.01, 0.02, 0.05, 0.1), (0.001, 0.01, 0.1), (0.05, 0.10, 0.20)
TABLES = ("table6_cells.csv", "table3_buckets.csv", "table7_noop.csv", "appendix_j_trail.csv")


@dataclass(frozen=True)
class CellResult:
    """Hold one row of Table 6: printed values, exact values of the deltas, and recomputed status.

    Attributes
    ----------
    cell : PaperCell
        The row with exact values of the deltas.
    status : PaperStatus
        Status that the paper's algorithm gives for these values.
    printed_csr, printed_bucket, raw_verdict : float, str, str
        Printed values.
    """

    cell: PaperCell
    status: PaperStatus
    printed_csr: float
    printed_bucket: str
    raw_verdict: str

    @property
    def name(self) -> str:
        """Return the name of the cell, "model x benchmark"."""
        return f"{self.cell.model} x {self.cell.benchmark}"

    @property
    def counts(self) -> tuple[int, ...]:
        """Return how many of 600 scores change under format, semantic and attribute edits."""
        deltas = (self.cell.delta_fmt, self.cell.delta_sem, self.cell.delta_attr)
        return tuple(round(delta * N_SCORES) for delta in deltas)

    @property
    def seed_cv_at_most(self) -> float | None:
        """Return the upper bound of App. F on the coefficient of variation over three seeds.

        The bound is 0.27 for every cell except Qwen x BBQ. The ratio of Qwen x BBQ is 0, so the
        bound does not exist and the result is None.
        """
        return None if self.cell.csr() == 0 else 0.27

    @property
    def csr_follows(self) -> bool:
        """Return True if the printed CSR equals the CSR recomputed from the printed table."""
        return round(self.cell.csr(), 2) == self.printed_csr

    @property
    def bucket_follows(self) -> bool:
        """Return True if the bucket in Table 3 and the printed raw verdict follow from the paper's
        algorithm.
        """
        status = self.status.status
        return self.printed_bucket == status and self.raw_verdict in raw_words(status)


@dataclass(frozen=True)
class Statement:
    """Hold a printed statement that the paper's own tables contradict.

    Attributes
    ----------
    name, printed, recomputed : str
        Place of the statement in the paper, the printed statement, and what the tables show
        instead.
    """

    name: str
    printed: str
    recomputed: str


@dataclass(frozen=True)
class Li2026:
    """Hold all results that are computed from the printed tables.

    Attributes
    ----------
    cells : tuple of CellResult
        Rows of Table 6.
    g3, g1 : mapping of float to tuple
        For the gates G3 and G1: map each threshold to the numbers of cells in the buckets (in the
        order of `ORDER`).
    epsilon : mapping of float to tuple
        Map each floor to the names of the cells whose denominator is replaced by this floor.
    with_table7 : tuple of int
        Number of cells in each bucket if G1 uses column C of Table 7.
    answer_only : tuple of PaperStatus
        Status of each cell if G2 uses the baselines `ANSWER_ONLY`.
    statements : tuple of Statement
        Printed statements that do not follow from the tables.
    """

    cells: tuple[CellResult, ...]
    g3: Mapping[float, tuple[int, ...]]
    g1: Mapping[float, tuple[int, ...]]
    epsilon: Mapping[float, tuple[str, ...]]
    with_table7: tuple[int, ...]
    answer_only: tuple[PaperStatus, ...]
    statements: tuple[Statement, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Return the number of cells in each bucket, in the order of `ORDER`."""
        return counts(result.status for result in self.cells)

    @property
    def answer_only_counts(self) -> tuple[int, ...]:
        """Return the number of cells in each bucket if G2 uses the baselines `ANSWER_ONLY`."""
        return counts(self.answer_only)

    @property
    def sentence(self) -> str:
        """Return the summary sentence for the terminal and the json."""
        buckets = ", ".join(f"{n} {name}" for name, n in by_bucket(self.counts).items())
        n_rows = sum(result.bucket_follows for result in self.cells)
        n_ratios = sum(result.csr_follows for result in self.cells)
        return (
            f"{buckets}: {n_rows} of {len(self.cells)} rows of Table 3 and {n_ratios} printed CSRs "
            f"follow; {len(self.statements)} printed statements do not."
        )


def shipped() -> Li2026:
    """Return the analysis of the shipped tables: Tables 6, 3 and 7, and the trail of Appendix J.

    Returns
    -------
    Li2026
        All results.

    Notes
    -----
    audit/data/li2026/README.md states the source of the tables.
    """
    table6, table3, table7, trail = map(_shipped_table, TABLES)
    buckets = {(row["model"], row["benchmark"]): row["bucket"] for row in table3}
    results = []
    for row in table6:
        cell = _cell(row)
        bucket = buckets[cell.model, cell.benchmark]
        results.append(
            CellResult(cell, paper_status(cell), float(row["csr"]), bucket, row["raw_verdict"])
        )
    noop = {row["benchmark"]: float(row["canonical"]) / 100 for row in table7 if row["canonical"]}
    printed, repaired, instrumented, answer_only = [], [], [], []
    for result in results:
        cell, benchmark = result.cell, result.cell.benchmark
        # Appendix E gives the rates after the repair. Only the rate of CrowS differs from 0.
        rate = noop[CROWS] if benchmark == CROWS else 0.0
        printed.append(cell)
        repaired.append(replace(cell, instrumented=True, noop=rate))
        instrumented.append(replace(cell, instrumented=True, noop=noop.get(benchmark)))
        answer_only.append(paper_status(replace(cell, baseline=ANSWER_ONLY[benchmark])))
    with_table7 = _swept(instrumented, PAPER)
    unfixed = Counter(row["status"] for row in trail)["unfixed"]
    return Li2026(
        cells=tuple(results),
        g3={value: _swept(printed, replace(PAPER, g3_denominator=value)) for value in G3_GRID},
        g1={value: _swept(repaired, replace(PAPER, g1_noop=value)) for value in G1_GRID},
        epsilon={value: tuple(_floored(results, value)) for value in EPSILON_GRID},
        with_table7=with_table7,
        answer_only=tuple(answer_only),
        statements=_statements(results, with_table7, unfixed),
    )


def _shipped_table(name: str) -> list[dict[str, str]]:
    text = resources.files("audit").joinpath("data", "li2026", name).read_text("utf-8")
    return list(csv.DictReader(text.splitlines()))


def _swept(cells: Iterable[PaperCell], thresholds: PaperThresholds) -> tuple[int, ...]:
    """Return the number of cells in each bucket with the given thresholds."""
    return counts(paper_status(cell, thresholds) for cell in cells)


def _floored(results: Iterable[CellResult], epsilon: float) -> list[str]:
    """Return the names of the cells whose denominator is below a floor."""
    return [result.name for result in results if result.cell.denominator < epsilon]


def counts(statuses: Iterable[PaperStatus]) -> tuple[int, ...]:
    """Return the number of cells in each of the paper's five buckets.

    Parameters
    ----------
    statuses : iterable of PaperStatus
        Status of each cell.

    Returns
    -------
    tuple of int
        Number of cells in each bucket, in the order of `ORDER`.
    """
    number = Counter(status.status for status in statuses)
    in_order = []
    for _, group in ORDER:
        in_order.append(sum(number[status] for status in group))
    return tuple(in_order)


def by_bucket(counts: Sequence[int]) -> dict[str, int]:
    """Map the name of each bucket to its number of cells, given counts in the order of `ORDER`."""
    return {name: n for (name, _), n in zip(ORDER, counts, strict=True)}


def _statements(
    cells: Sequence[CellResult], with_table7: tuple[int, ...], unfixed: int
) -> tuple[Statement, ...]:
    """Return the printed statements that do not follow from the tables."""
    truth: list[str] = []
    n_moved = n_changed = n_positive = 0
    for result in cells:
        cell, below = result.cell, result.cell.denominator < 0.1
        if cell.benchmark == TRUTHFULQA:
            truth.append(f"{result.name} {cell.denominator:.3f}")
            n_moved += below
        n_changed += below and cell.csr(0.1) != cell.csr(0.01)
        n_positive += cell.csr() > 0 and cell.benchmark != CROWS
    n_floored = len(_floored(cells, 0.1))
    n_dominated = len(_floored(cells, PAPER.g3_denominator))
    return (
        Statement(
            "Appendix E, G3 = 0.1",
            "would reclassify TruthfulQA's exploratory cells",
            f"{n_moved} of {len(truth)}: {', '.join(truth)}",
        ),
        Statement(
            "Appendix E, size of 0.1",
            "0.1 is up to half the 2 SE of 0.07 (p = .5, n = 200)",
            "0.1 is 1.4 times 2 SE = 0.0707",
        ),
        Statement(
            "Appendix E, epsilon",
            "shifts CSR on denominator-dominated cells only",
            f"at 0.1 it floors {n_floored} denominators and changes {n_changed} CSRs; "
            f"{n_dominated} cell(s) fail G3; between 0.001 and 0.01 it changes no CSR",
        ),
        Statement(
            "Table 7, column C",
            "with the canonical rates any cap up to 83 % leaves 3/3/2/2/0 (Appendix E)",
            f"as input of G1 it gives {'/'.join(map(str, with_table7))}; no table has the 0 % "
            "after the repair",
        ),
        Statement("Appendix J", "three items remain unfixed", f"{unfixed} entries are marked so"),
        Statement(
            "Appendix F, placebo",
            "8 cells with CSR above 0, both BBQ cells among them",
            "Qwen-2.5-7B x BBQ is exactly 0 in Table 6; "
            f"without CrowS {n_positive} cells are above 0",
        ),
        Statement(
            "Section 3, seeds",
            "single seed 42",
            "Appendix F reports CSR over the seeds 42, 123 and 2024",
        ),
        Statement(
            "Table 2, F3b",
            "MC1 fixes the order of the options",
            "MC1 lists the right option first in 817 of 817 items: only the shuffle fixes it",
        ),
    )


def _cell(row: Mapping[str, str]) -> PaperCell:
    """Return a row of Table 6 with deltas that are rounded to the nearest multiple of 1/600."""

    def restored(family: str) -> float:
        return round(float(row[f"delta_{family}"]) * N_SCORES) / N_SCORES

    benchmark = row["benchmark"]
    return PaperCell(
        model=row["model"],
        benchmark=benchmark,
        score=float(row["score_original"]),
        n=N_ITEMS,
        baseline=BASELINES[benchmark],
        delta_fmt=restored("format"),
        delta_sem=restored("semantic"),
        delta_attr=restored("attribute"),
        ci_low=float(row["ci_low"]),
        ci_high=float(row["ci_high"]),
        instrumented=benchmark not in UNINSTRUMENTED,
        scorer_validated=benchmark not in UNVALIDATED,
        archetype_aligned=benchmark not in MISALIGNED,
    )


def rows(result: Li2026) -> list[dict[str, Any]]:
    """Return the results of each cell as a row, for the csv and the json.

    Parameters
    ----------
    result : Li2026
        The analysis.

    Returns
    -------
    list of dict
        One row for each cell.
    """
    table = []
    for r, answer_only in zip(result.cells, result.answer_only, strict=True):
        gates = gate_columns(r.cell, None, r.seed_cv_at_most)
        row = {
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
            "answer_only_status": str(answer_only.status),
            **dict(zip(GATE_COLUMNS, gates, strict=True)),
        }
        table.append(row)
    return table


def as_json(result: Li2026) -> dict[str, Any]:
    """Return the analysis as JSON values. Equal tables give equal bytes.

    Parameters
    ----------
    result : Li2026
        The analysis.

    Returns
    -------
    dict
        Content of the json file.
    """

    def swept(sweep: Mapping[float, tuple[int, ...]]) -> dict[str, Any]:
        return {f"{value:g}": by_bucket(counts) for value, counts in sweep.items()}

    floored = {f"{value:g}": list(names) for value, names in result.epsilon.items()}
    answer_only = {"baselines": ANSWER_ONLY, "counts": by_bucket(result.answer_only_counts)}
    statements = []
    for s in result.statements:
        statements.append({"name": s.name, "printed": s.printed, "found": s.recomputed})
    return {
        "sentence": result.sentence,
        "counts": by_bucket(result.counts),
        "cells": rows(result),
        "sweep_g3": swept(result.g3),
        "sweep_g1": swept(result.g1),
        "floored_by_epsilon": floored,
        "with_table7": by_bucket(result.with_table7),
        "answer_only": answer_only,
        "statements_that_do_not_follow": statements,
    }


def show(result: Li2026, console: Console) -> None:
    """Print the cells, the threshold sweeps, and the printed statements that do not follow."""
    table = Table(title="Table 6, recomputed", title_justify="left", box=SIMPLE)
    for name in (
        "model",
        "benchmark",
        "score",
        "z",
        f"fmt/sem/attr of {N_SCORES}",
        "CSR",
        "status",
        "flags",
    ):
        # On a narrow terminal, "fold" prints a status on two lines instead of cutting it off.
        table.add_column(
            name, justify="right" if name in ("score", "z", "CSR") else "left", overflow="fold"
        )
    for r in result.cells:
        ratio, status = f"{r.cell.csr():.2f}", str(r.status.status)
        if not r.csr_follows:
            ratio += f" (printed {r.printed_csr:.2f})"
        if not r.bucket_follows:
            status += f" (printed {r.printed_bucket})"
        deltas = "/".join(map(str, r.counts))
        cells = (
            f"{r.cell.score:.3f}",
            f"{r.cell.z:.2f}",
            deltas,
            ratio,
            status,
            ", ".join(r.status.flags),
        )
        table.add_row(r.cell.model, r.cell.benchmark, *cells)
    console.print(table)
    sweep = Table(title="Thresholds", title_justify="left", box=SIMPLE)
    sweep.add_column("threshold")
    for name, _ in ORDER:
        sweep.add_column(name, justify="right", overflow="fold")
    for label, sweeps in (("G3", result.g3), ("G1 cap", result.g1)):
        for value, counts in sweeps.items():
            sweep.add_row(f"{label} = {value:g}", *map(str, counts))
    sweep.add_row("G1 from Table 7, C", *map(str, result.with_table7))
    sweep.add_row("G2 above answer-only", *map(str, result.answer_only_counts))
    console.print(sweep)
    better = []
    for name, accuracy in ANSWER_ONLY.items():
        if accuracy != BASELINES[name]:
            better.append(f"{name} {accuracy:.3f}")
    console.print(
        f"- Answer-only: the best rule that never reads the question ({', '.join(better)}).",
        highlight=False,
    )
    for value, names in result.epsilon.items():
        console.print(f"- epsilon = {value:g} floors {len(names)} denominators.", highlight=False)
    console.print("Printed statements that do not follow:", highlight=False)
    for s in result.statements:
        line = f"- {s.name}: printed “{s.printed}”; {s.recomputed}."
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print()
    console.print(result.sentence, style="bold", highlight=False, markup=False, soft_wrap=True)


DOES = "Recompute statuses, ratios and threshold sweeps from li2026's printed tables."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `audit reanalyze li2026` to its parser."""
    folder = "folder for json and csv files (default: outputs/reanalysis_li2026)"
    parser.add_argument("--out", type=Path, help=folder)
    parser.add_argument("--force", action="store_true", help="replace files that exist")
    parser.add_argument("--json", action="store_true", help="print the json instead of the tables")


def run(arguments: argparse.Namespace) -> int:
    """Analyse the tables, print the results, and write the files.

    Parameters
    ----------
    arguments : Namespace
        Arguments of the command.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    AuditError
        If the tables cannot be read, or the folder cannot be written.
    """
    out = place(arguments.out, "outputs/reanalysis_li2026", force=arguments.force)
    result = shipped()
    paths = write(result, out)
    if arguments.json:
        print_json(paths)
        return 0
    console = Console(width=None if sys.stdout.isatty() else 120)
    show(result, console)
    console.print(f"Written: {', '.join(map(str, paths))}", highlight=False, soft_wrap=True)
    return 0


def figures(result: Li2026) -> dict[str, Figure]:
    """Return Figures 2 and 4 of the paper, drawn from Table 6."""
    from audit.validity.figures import Ratio, family_deltas, ratios

    shown, deltas = [], {}
    for r in result.cells:
        cell, name = r.cell, f"{r.cell.model} / {r.cell.benchmark}"
        status, step = str(r.status.status), r.status.step
        shown.append(Ratio(name, status, step, r.printed_csr, cell.ci_low, cell.ci_high, cell.g3()))
        deltas[name] = (cell.delta_fmt, cell.delta_sem, cell.delta_attr)
    return {"figure2_ratios": ratios(shown), "figure4_deltas": family_deltas(deltas)}


def write(result: Li2026, out: Path) -> list[Path]:
    """Write reanalysis.json, cells.csv and the figures into a folder.

    Parameters
    ----------
    result : Li2026
        The analysis.
    out : Path
        Folder to write into.

    Returns
    -------
    list of Path
        Paths of the written files.
    """
    cells = csv_text(list(rows(result)[0]), map(dict.values, rows(result)))
    return write_all(out, as_json(result), {"cells.csv": cells}, figures(result))
