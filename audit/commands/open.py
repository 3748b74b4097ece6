"""A page of the runs in a folder: verdicts, scores, reports. Asks no network."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from audit.config.audits import part_of
from audit.core.exits import OK
from audit.governance.ruling import rule_run
from audit.judging.decision import SHOWN
from audit.judging.document import Cell, Interval
from audit.judging.ladder import Grade
from audit.judging.vocabulary import VerdictWord, word_of
from audit.report.page import render_page
from audit.runtime.loading import RunEntry, find_runs
from audit.shards.files import write_file
from audit.shards.manifest import MANIFEST
from audit.shards.panel import PANEL
from audit.shards.working_copy import local_folder


def add_words(parser: ArgumentParser) -> None:
    what = "of runs, or a run: its report (default: outputs)"
    add = parser.add_argument
    add("folder", type=local_folder, nargs="?", default="outputs", help=what)
    add("--no-browser", action="store_true", help="only print where the page is")


def run(asked: Namespace) -> int:
    """Print the page's path; 1 where the folder does not exist."""
    run, page = asked.folder / MANIFEST, asked.folder / "report" / "report.html"
    if not (run.is_file() and page.is_file()):
        page = write_overview(asked.folder)
    print(page)
    if not asked.no_browser:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return OK


PAGE = "index.html"
SHOWN_NAMES = 3  # names of models in a row; more are shown as a number


@dataclass(frozen=True)
class Line:
    """A run, a suite or panel with its decision, or a folder with the problem that it has.

    score, without: on the published items, and without memory, 0-1. href: of the report. cells: a
    line a verdict, if the run has several; tally: then how many have each verdict, worst first."""

    name: str
    audit: str = ""
    started: str = ""
    rows: str = ""
    model: str = ""
    benchmark: str = ""
    word: VerdictWord | None = None
    score: float | None = None
    without: Interval | None = None
    href: str = ""
    problem: str = ""
    cells: tuple[Line, ...] = ()
    tally: tuple[tuple[VerdictWord, int], ...] = ()


def write_overview(folder: Path) -> Path:
    """Write FOLDER/index.html; where it is. Raises ConfigError where there is no folder, ShardError
    from the disk."""
    runs, panels = find_runs(folder), [path.parent for path in sorted(folder.rglob(PANEL))]
    known = [*(run.path for run in runs), *panels, *(path / "report" for path in panels)]
    others = (
        one
        for one in sorted(folder.iterdir())
        if one.is_dir() and not any(p.is_relative_to(one) for p in known)
    )
    pages = ((one.name, _href(folder, one)) for one in others)
    lost, empty = "a page without its run", "no run of this program is in it"
    lines = [
        *(_of_panel(folder, path) for path in panels),
        *(_of_run(folder, run) for run in runs),
        *(Line(name, href=href, problem=lost if href else empty) for name, href in pages),
    ]
    text = render_page(
        "report/runs.html.j2", rows=(), title=f"Runs in {folder}", lines=lines, count=len(runs)
    )
    write_file(folder / PAGE, text.encode("utf-8", "backslashreplace"))
    return folder / PAGE


def _of_panel(folder: Path, path: Path) -> Line:
    ruling = rule_run(path)
    word = None if ruling.problem else SHOWN[ruling.decision]
    models = ", ".join(dict.fromkeys(cell.model for cell in ruling.cells))
    benchmarks = ", ".join(dict.fromkeys(cell.benchmark for cell in ruling.cells))
    about = Line(
        _name(folder, path), "suite or panel", model=models, benchmark=benchmarks, word=word
    )
    return replace(about, href=_href(folder, path), problem=ruling.problem)


def _of_run(folder: Path, run: RunEntry) -> Line:
    name, href = _name(folder, run.path), _href(folder, run.path)
    started = run.started[:16].replace("T", " ")
    if run.problem:
        return Line(name, problem=run.problem)
    rows = f"all {run.found:,}"
    if run.found != run.expected:
        rows = f"{run.found:,} of {'unknown' if run.expected is None else f'{run.expected:,}'}, {run.status}"
    about = Line(
        name,
        run.audit,
        started,
        rows,
        _few(run.models, "models"),
        _few(run.benchmarks, "sets"),
        href=href,
    )
    cells = tuple(_of_cell(about, cell) for cell in run.cells)
    if len(cells) == 1:
        return cells[0]
    if not cells and (run.path / "report" / "verdict.json").is_file():
        return replace(about, problem=run.reason)
    return replace(about, cells=cells, tally=_tally([one.word for one in cells if one.word]))


def _few(names: Sequence[str], what: str) -> str:
    return ", ".join(names) if len(names) <= SHOWN_NAMES else f"{len(names)} {what}"


def _tally(words: Sequence[VerdictWord]) -> tuple[tuple[VerdictWord, int], ...]:
    """Return each verdict once with its number, in the order of the grades."""
    by_name = {word.name: word for word in words}
    counts = Counter(word.name for word in words)
    order = sorted(counts, key=lambda name: (list(Grade).index(by_name[name].grade), -counts[name]))
    return tuple((by_name[name], counts[name]) for name in order)


def _of_cell(about: Line, cell: Cell) -> Line:
    told = part_of(about.audit, "vocabulary")
    figures = {one.name: one.estimate for one in told.INSTRUMENT.tracked(cell)}
    estimate = cell.without_memory.estimate if cell.without_memory else None
    return replace(
        about,
        model=cell.model,
        benchmark=f"{cell.benchmark} ({cell.context})" if cell.context else cell.benchmark,
        word=word_of(told.VERDICTS, cell),
        score=figures.get("score"),
        without=estimate.without if estimate else None,
    )


def _name(folder: Path, path: Path) -> str:
    return path.resolve().name if path == folder else os.path.relpath(path, folder)


def _href(folder: Path, path: Path) -> str:
    """The report's address from the page's folder; "" where there is none."""
    page = next(
        (one for one in (path / "report" / "report.html", path / "report.html") if one.is_file()),
        None,
    )
    return "" if page is None else quote(os.fsencode(os.path.relpath(page, folder)))
