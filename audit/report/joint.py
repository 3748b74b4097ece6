"""Runs of one model and benchmark by different audits on one page: verdicts side by side, and what they say together.

Each audit's own report is built beside it and linked. verdict.json holds all of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from audit.audits import audit_of, part_of
from audit.errors import ConfigError
from audit.records import CellRows
from audit.report.build import ReportPaths
from audit.report.page import render_page
from audit.shards.files import make_folder, write_file
from audit.verdict import forms
from audit.verdict.instrument import KINDS, Finding, finding, synthesis
from audit.verdict.result import json_ready, json_text
from audit.verdict.shipped import shipped_table
from audit.verdict.vocabulary import word_of

SCHEMA = "joint verdict"
SCHEMA_VERSION = "2.0"
SUITE_TABLE = "calibration_suite.json"


def joint_report(
    run_dirs: Sequence[Path],
    out: Path,
    asked: Mapping[str, Any],
    suite: Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, Any]] | None = None,
    homes: Mapping[str, Path] | None = None,
) -> ReportPaths:
    """Build every audit's report, and the page of all of them into `out`.

    suite: what a suite says of the verdicts by audit, for verdict.json and the page; its audits need have no model and
    benchmark in common. homes: where each audit's own report goes; `out`/<audit> by default.
    Raises ConfigError where no model and benchmark was seen by two audits, or in two revisions.
    """
    by_audit: dict[str, list[Path]] = {}
    for run_dir in run_dirs:
        by_audit.setdefault(audit_of(run_dir).name, []).append(run_dir)
    if own := sorted(name for name, value in asked.items() if name != "seed" and value is not None):
        raise ConfigError(f"--{own[0].replace('_', '-')} belongs to one audit. Build that run's own report with it.")
    homes = homes or {audit: out / audit for audit in by_audit}
    made = {
        audit: part_of(audit, "report").report_runs(dirs, homes[audit], {"seed": asked.get("seed")})
        for audit, dirs in by_audit.items()
    }
    verdicts = {audit: paths.content for audit, paths in made.items()}
    plain = content(verdicts, suite(verdicts) if suite else None)
    make_folder(out)
    html = out / "report.html"
    links = {audit: Path(os.path.relpath(paths.html, out)).as_posix() for audit, paths in made.items()}
    write_file(html, page(plain, links).encode("utf-8", "backslashreplace"))
    write_file(out / "verdict.json", json_text(plain).encode())
    incomplete = tuple(rows for paths in made.values() for rows in paths.incomplete)
    tables, figures = ([p for paths in made.values() for p in getattr(paths, kind)] for kind in ("tables", "figures"))
    return ReportPaths(html, out / "verdict.json", tuple(tables), tuple(figures), incomplete, plain)


def content(verdicts: Mapping[str, Mapping[str, Any]], suite: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What verdict.json holds: every audit's own verdict, and for each model and benchmark the table and the sentences.

    verdicts: by audit, what its verdict.json holds. suite: what a suite says of them.
    """
    seen: dict[tuple[str, str], list[Finding]] = {}
    for audit, verdict in verdicts.items():
        instrument, words = part_of(audit, "instrument").INSTRUMENT, part_of(audit, "vocabulary").VERDICTS
        for cell in verdict["cells"]:
            one = finding(instrument, cell, word_of(words, cell))
            seen.setdefault((cell["model"], cell["benchmark"]), []).append(one)
    _check(verdicts, seen, apart=suite is not None)
    joint = []
    for (model, benchmark), some in sorted(seen.items()):
        scope = forms.scope(_judged(some, verdicts, model, benchmark), shipped_table(SUITE_TABLE))
        said = (
            *_without_memory(verdicts, model, benchmark),
            *synthesis(some),
            *(forms.sentences(scope) if scope else ()),
        )
        joint.append({"model": model, "benchmark": benchmark, "instruments": some, "together": said, "forms": scope})
    own = {} if suite is None else {"suite": dict(suite)}
    plain: dict[str, Any] = json_ready(
        {"schema": SCHEMA, "schema_version": SCHEMA_VERSION, **own, "joint": joint, "audits": dict(verdicts)}
    )
    return plain


def _without_memory(verdicts: Mapping[str, Mapping[str, Any]], model: str, benchmark: str) -> list[str]:
    """The line of the audit that says what the score would be without memory: what the page begins with."""
    cells = [cell for verdict in verdicts.values() for cell in verdict["cells"]]
    same = [cell for cell in cells if (cell["model"], cell["benchmark"]) == (model, benchmark)]
    return [cell["without_memory"]["sentence"] for cell in same if cell.get("without_memory")]


def _judged(
    found: Sequence[Finding], verdicts: Mapping[str, Mapping[str, Any]], model: str, benchmark: str
) -> list[forms.Judged]:
    """What each audit says of one model and benchmark, as `forms.scope` takes it."""
    return [
        forms.Judged(f.audit, cell, f.outcome, frozenset(f.sees), verdicts[f.audit].get("thresholds", {}))
        for f in found
        for cell in verdicts[f.audit]["cells"]
        if (cell["model"], cell["benchmark"]) == (model, benchmark) and f.audit in forms.AUDITS
    ]


def _check(
    verdicts: Mapping[str, Mapping[str, Any]], seen: Mapping[tuple[str, str], Sequence[Finding]], *, apart: bool
) -> None:
    """apart: no two audits need have seen the same model and benchmark."""
    if not apart and not any(len({f.audit for f in found}) > 1 for found in seen.values()):
        each = "; ".join(
            f"{audit}: {', '.join(sorted({c['model'] + ' on ' + c['benchmark'] for c in v['cells']})) or 'nothing'}"
            for audit, v in verdicts.items()
        )
        raise ConfigError(f"These runs share no model and benchmark ({each}). Report them one by one.")
    revisions: dict[tuple[str, str], set[str]] = {}
    for verdict in verdicts.values():
        for one in (model for run in verdict["runs"] for model in run["models"]):
            revisions.setdefault((one["model"], one["benchmark"]), set()).add(one["revision"])
    for (model, benchmark), found in sorted(revisions.items()):
        if len(found) > 1:
            raise ConfigError(
                f"{model} on {benchmark} was run in {len(found)} revisions: {', '.join(sorted(found))}. Expected one: "
                "what two audits say together is of one and the same model."
            )


def page(plain: Mapping[str, Any], links: Mapping[str, str] | None = None) -> str:
    """The page as text, from what verdict.json holds. links: audit -> its own page; in a folder of its name."""
    cells = {
        (audit, cell["model"], cell["benchmark"], str(cell.get("context") or "")): cell
        for audit, verdict in plain["audits"].items()
        for cell in verdict["cells"]
    }
    rows = [CellRows(**row) for verdict in plain["audits"].values() for row in verdict["rows"]]
    models = sorted({one["model"] for one in plain["joint"]})
    return render_page(
        "report/joint.html.j2",
        rows=rows,
        title=f"What do the audits say together? {models[0] if len(models) == 1 else f'{len(models)} models'}",
        joint=plain["joint"],
        cells=cells,
        kinds=KINDS,
        suite=plain.get("suite"),
        links=links or {audit: f"{audit}/report.html" for audit in plain["audits"]},
    )
