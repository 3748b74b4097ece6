"""Shards -> RUN_DIR/report: report.html, verdict.json, tables/*.csv, figures/*.{png,svg}.

Everything is rebuilt from shards alone; manifest.json adds facts about the run where it is there. Several runs are
merged into one panel. Files are written beside and renamed, verdict.json last.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import escape
from matplotlib.figure import Figure

from audit.calibrate import load_calibration
from audit.errors import DataError
from audit.records import CellRows
from audit.report import paper_figures, tables
from audit.report.accuracy import (
    breadths,
    labels,
    model_scores,
    pooled_rows,
    router_points,
    setting_accuracies,
)
from audit.report.canvas import inline_svg, png_bytes, svg_text
from audit.report.drill import COLUMNS, MAX_TEXT_BYTES, pack
from audit.report.forest import GainRow, forest
from audit.report.page import RunFacts, render
from audit.report.rows import ShardRows
from audit.shards.complete import cell_rows, contents, count_rows
from audit.shards.files import make_folder, write_file
from audit.shards.read import iter_columns, read_columns
from audit.statistics.paired import CellOutcomes, pair_outcomes
from audit.statistics.paper import SettingRow
from audit.sweep.columns import SCHEMA
from audit.verdict.analysis import N_RESAMPLES, analyse
from audit.verdict.result import RunVerdict
from audit.verdict.thresholds import Thresholds
from audit.verdict.watermark import watermarked

MAX_ROWS_ON_PAGE = 200_000  # outcomes in the drill-down; beyond it whole questions are left out, drawn by seed
MANIFEST = "manifest.json"
ANALYSIS_COLUMNS = (
    "model", "benchmark", "draws", "reading", "question_id", "group", "n_options", "arm", "routers", "replicate",
    "correct", "parsed", "finish_reason", "error", "answer", "gold",
)  # fmt: skip


@dataclass(frozen=True)
class ReportPaths:
    """Where the report's files are."""

    html: Path
    verdict: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    incomplete: tuple[CellRows, ...] = ()  # the models and benchmarks of which rows are missing


def build_report(
    run_dirs: Sequence[Path],
    out_dir: Path,
    *,
    seed: int = 42,
    n_resamples: int = N_RESAMPLES,
    thresholds: Thresholds | None = None,
    control_benchmark: str | None = None,
    calibration: Mapping[str, Any] | None = None,
    max_text_bytes: int = MAX_TEXT_BYTES,
    max_rows: int = MAX_ROWS_ON_PAGE,
) -> ReportPaths:
    """Write the report of one run, or of several as one panel, into `out_dir`.

    seed: of the resamples and of the draw where not all texts fit. n_resamples, thresholds, control_benchmark and
    calibration go to `audit.verdict.analysis.analyse`; calibration is by default the one that ships with the package.
    max_text_bytes, max_rows: of the drill-down; every number is over all rows whatever they are.
    Raises ShardError when a run has no shards, DataError when two runs cannot be one panel.
    """
    dirs = [Path(d) for d in run_dirs]
    if not dirs:
        raise DataError("No run directory given. Expected at least one, such as outputs/my_run.")
    runs, rows = check_panel(dirs)
    columns = read_columns(dirs, SCHEMA, ANALYSIS_COLUMNS)
    cells = pair_outcomes(columns)
    analysed = analyse(
        columns,
        ShardRows(tuple(dirs)),
        thresholds=thresholds,
        seed=seed,
        n_resamples=n_resamples,
        runs=runs,
        control_benchmark=control_benchmark,
        calibration=calibration if calibration is not None else load_calibration(),
    )
    verdict = watermarked(analysed, rows)
    return write_report(
        dirs, Path(out_dir), verdict, cells, seed=seed, max_text_bytes=max_text_bytes, max_rows=max_rows
    )


def write_report(
    run_dirs: Sequence[Path],
    out: Path,
    verdict: RunVerdict,
    cells: list[CellOutcomes],
    *,
    seed: int,
    max_text_bytes: int = MAX_TEXT_BYTES,
    max_rows: int = MAX_ROWS_ON_PAGE,
) -> ReportPaths:
    """Write figures, tables, page and verdict.json of a verdict that was already reached over `cells` of the runs."""
    dirs = run_dirs
    partial = {(r.model, r.benchmark) for r in verdict.rows if not r.complete}
    names = {cell: f"{name} (incomplete)" if cell in partial else name for cell, name in labels(cells).items()}
    rows = [SettingRow(**row) for row in verdict.paper["cells"]]  # the verdict's own: nothing is computed twice
    accuracies = [a for cell in cells for a in setting_accuracies(cell)]
    drawn = _figures(cells, verdict, names)
    inline = {
        name: inline_svg(svg, name.split("_")[0], str(escape(name.replace("_", " "))))
        for name, (svg, _) in drawn.items()
    }
    table, total = _outcomes(dirs, seed, max_rows)
    page = render(
        verdict,
        figures=inline,
        accuracies=accuracies,
        paper_rows=rows,
        names=names,
        replicated=any(s.replicate > 0 for c in cells for s in c.settings),
        clustered=any(len(set(c.cluster.tolist())) < c.n for c in cells),
        drill=pack(table, seed=seed, max_text_bytes=max_text_bytes),
        total_rows=total,
        facts=[run_facts(d) for d in dirs],
        shards=", ".join(f"{d.name}/shards" for d in dirs),
    )
    documents = {
        "table1_models.csv": tables.table1(rows),
        "table2_models_by_router.csv": tables.table2(rows),
        "table3_routers.csv": tables.table3(rows),
        "settings.csv": tables.settings(accuracies),
        "verdicts.csv": tables.verdicts(verdict),
        "gates.csv": tables.gates(verdict),
        "contrasts.csv": tables.contrasts(verdict),
    }
    for folder in (out, out / "tables", out / "figures"):
        make_folder(folder)
    written: dict[str, list[Path]] = {"tables": [], "figures": []}
    for name, text in documents.items():
        written["tables"].append(_write(out / "tables" / name, text.encode()))
    for name, (svg, png) in drawn.items():
        written["figures"].append(_write(out / "figures" / f"{name}.svg", svg.encode()))
        written["figures"].append(_write(out / "figures" / f"{name}.png", png))
    html = _write(out / "report.html", page.encode("utf-8", "backslashreplace"))
    json_path = _write(out / "verdict.json", verdict.to_json().encode())
    incomplete = tuple(rows for rows in verdict.rows if not rows.complete)
    return ReportPaths(html, json_path, tuple(written["tables"]), tuple(written["figures"]), incomplete)


def check_panel(run_dirs: Sequence[Path]) -> tuple[list[dict[str, Any]], list[CellRows]]:
    """What each run holds, for verdict.json (no paths, no times), and the rows found and expected of all of them.

    DataError when a model x benchmark comes from two runs or in two revisions: then they are no panel.
    """
    revisions: dict[tuple[str, str], dict[str, Path]] = {}
    homes: dict[tuple[str, str], list[Path]] = {}
    runs: list[dict[str, Any]] = []
    rows: list[CellRows] = []
    for run_dir in run_dirs:
        seen = count_rows(run_dir, SCHEMA)
        rows += cell_rows(run_dir, seen)
        runs.append({"models": contents(seen)})
        for model, benchmark, revision in sorted(seen):
            revisions.setdefault((model, benchmark), {}).setdefault(revision, run_dir)
            homes.setdefault((model, benchmark), []).append(run_dir)
    for (model, benchmark), found in sorted(revisions.items()):
        if len(found) > 1:
            listed = "; ".join(f"{revision} in {where}" for revision, where in sorted(found.items()))
            raise DataError(
                f"{model} on {benchmark} was run in {len(found)} revisions: {listed}. Expected one; report them apart, "
                f"or give one of the runs another model name, such as model.{model}.name={model}_new."
            )
        if len(homes[model, benchmark]) > 1:
            raise DataError(
                f"{model} on {benchmark} is in several runs: {', '.join(map(str, sorted(homes[model, benchmark])))}. "
                "Expected each model and benchmark in one run only, so that no question is counted twice."
            )
    # A model that failed in one run may have been run in another.
    return runs, [r for r in rows if r.found or (r.model, r.benchmark) not in homes]


def run_facts(run_dir: Path) -> RunFacts:
    """The facts of manifest.json for the page; a RunFacts without facts where there is none."""
    path = run_dir / MANIFEST
    if not path.exists():
        return RunFacts(run_dir.name)
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}). Restore it, or remove it: shards are enough.") from error
    main: list[tuple[str, str]] = []
    for key, title in (
        ("status", "Status"), ("started", "Started"), ("ended", "Ended"), ("attempts", "Attempts"),
        ("fingerprint", "Fingerprint of the configuration"),
    ):  # fmt: skip
        if manifest.get(key) not in (None, "", {}, []):
            main.append((title, str(manifest[key])))
    for name, facts in (manifest.get("models") or {}).items():
        main.append((f"Model {name}", _one_line(facts)))
    for name, failure in (manifest.get("models_failed") or {}).items():
        main.append((f"Model {name} failed", str(failure)))
    if manifest.get("benchmark"):
        main.append(("Benchmark", _one_line(manifest["benchmark"])))
    for name, value in (manifest.get("prompt_hashes") or {}).items():
        main.append((f"Prompts, {name}", str(value)))
    for model, arms in (manifest.get("cost") or {}).items():
        main.append((f"Cost, {model}", _cost(arms)))
    if manifest.get("packages"):
        main.append(("Packages", _one_line(manifest["packages"])))
    if manifest.get("shards"):
        main.append(("Shards", f"{len(manifest['shards'])} files"))
    rest = {k: v for k, v in manifest.items() if k not in ("shards", "sampled_ids")}
    return RunFacts(f"Run {run_dir.name}", tuple(main), tuple(_flat(rest)))


def _outcomes(run_dirs: Sequence[Path], seed: int, max_rows: int) -> tuple[pa.Table, int]:
    """(rows for the drill-down, rows in the shards); beyond max_rows only those of drawn questions are read."""
    per_question: Counter[tuple[str, str]] = Counter()
    for batch in iter_columns(run_dirs, SCHEMA, ("benchmark", "question_id"), batch_size=1 << 16):
        grouped = pa.Table.from_batches([batch]).group_by(batch.schema.names).aggregate([([], "count_all")])
        for row in grouped.to_pylist():
            per_question[row["benchmark"], row["question_id"]] += row["count_all"]
    total = sum(per_question.values())
    wanted: set[str] | None = None
    if total > max_rows:
        drawn = sorted(per_question, key=lambda k: hashlib.sha256(f"{seed}\0{k[0]}\0{k[1]}".encode()).digest())
        wanted, used = set(), 0
        for key in drawn:
            used += per_question[key]
            if used > max_rows:
                break
            wanted.add(f"{key[0]}\0{key[1]}")
    batches = []
    for batch in iter_columns(run_dirs, SCHEMA, COLUMNS, batch_size=1 << 14):
        if wanted is not None:
            keys = pc.binary_join_element_wise(batch.column("benchmark"), batch.column("question_id"), "\0")
            batch = batch.filter(pc.is_in(keys, value_set=pa.array(sorted(wanted), pa.string())))
        batches.append(batch)
    return pa.Table.from_batches(batches), total


def _figures(
    cells: list[CellOutcomes], verdict: RunVerdict, names: dict[tuple[str, str], str]
) -> dict[str, tuple[str, bytes]]:
    """name -> (svg, png) of every figure that these cells can carry.

    All are over every replicate, as the verdict is: a figure of one run of each setting could say the opposite.
    """
    out: dict[str, Figure] = {}
    gains = [
        GainRow(
            label=names[c.model, c.benchmark],
            verdict=c.verdict,
            routers=c.effect.routers,
            gain=c.effect.gain,
            low=c.effect.ci_low,
            high=c.effect.ci_high,
            mean=c.effect.mean_gain,
            mean_low=c.effect.mean_ci_low,
            mean_high=c.effect.mean_ci_high,
            noise=c.noise_floor.mean_absolute_gain if c.noise_floor.available else None,
        )
        for c in verdict.cells
        if c.effect is not None
    ]
    if gains:
        out["evidence"] = forest(gains, verdict.thresholds["effect_of_interest"])
    rows = [row for cell in cells for row in pooled_rows(cell)]
    if rows:
        scores = [model_scores(c, names[c.model, c.benchmark]) for c in cells]
        by_router = router_points(rows)
        out["figure2_violation_pattern"] = paper_figures.violation_pattern(by_router)
        out["figure3_noisy_against_clean"] = paper_figures.small_multiples([m for m in scores if m.noisy])
        out["figure4_transitions"] = paper_figures.transitions(by_router)
        out["figure5_violation_breadth"] = paper_figures.breadth(breadths(rows, names))
    return {name: (svg_text(figure), png_bytes(figure)) for name, figure in out.items()}


def _write(path: Path, data: bytes) -> Path:
    write_file(path, data)
    return path


def _one_line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_one_line(v)}" for k, v in value.items() if v not in (None, "", {}, []))
    if isinstance(value, list):
        return ", ".join(_one_line(v) for v in value[:12]) + (f" and {len(value) - 12} more" if len(value) > 12 else "")
    return str(value)


def _cost(arms: Any) -> str:
    """{arm: {role: {calls, ..}}} -> one line."""
    total: Counter[str] = Counter()
    for roles in arms.values() if isinstance(arms, dict) else ():
        for numbers in roles.values() if isinstance(roles, dict) else ():
            if isinstance(numbers, dict):
                total.update({k: int(v) for k, v in numbers.items() if isinstance(v, int | float)})
    return ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in total.items())


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for k, v in value.items() for pair in _flat(v, f"{prefix}.{k}" if prefix else str(k))]
    return [(prefix, _one_line(value))]
