"""Write a page of the runs in a folder, with their verdicts, scores and reports.

The page needs no network.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
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


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: the folder, and whether to open a browser."""
    folder = "a folder of runs, or one run, whose report is opened (default: outputs)"
    add = parser.add_argument
    add("folder", type=local_folder, nargs="?", default="outputs", help=folder)
    add("--no-browser", action="store_true", help="only print the path of the page")


def run(arguments: Namespace) -> int:
    """Print the path of the page, and open the page in the browser.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    ConfigError
        If the folder does not exist.
    """
    run, page = arguments.folder / MANIFEST, arguments.folder / "report" / "report.html"
    if not (run.is_file() and page.is_file()):
        page = write_overview(arguments.folder)
    print(page)
    if not arguments.no_browser:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return OK


PAGE = "index.html"
SHOWN_NAMES = 3  # If a row has more models, it shows their number, not their names.


@dataclass(frozen=True)
class Line:
    """Hold one line of the page: a run, a suite, a panel, or a folder that has a problem.

    Attributes
    ----------
    name : str
        The path below the folder.
    audit, started, rows, model, benchmark : str
        Text of the columns.
    word : VerdictWord or None
        The verdict, or the decision on a suite or panel.
    score : float or None
        Accuracy on the published items, between 0 and 1.
    without : Interval or None
        The score without memory.
    href : str
        The address of the report, or "".
    problem : str
        The reason why there is no verdict, or "".
    cells : tuple of Line
        A line for each verdict, if the run has several.
    tally : tuple
        The number of cells with each verdict, worst verdict first.
    """

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
    """Write the page of a folder's runs to FOLDER/index.html.

    Parameters
    ----------
    folder : Path
        The folder of the runs.

    Returns
    -------
    Path
        The path of the page.

    Raises
    ------
    ConfigError
        If the folder does not exist.
    ShardError
        If the page cannot be written.
    """
    runs = find_runs(folder)
    lines, known = [], []
    for file in sorted(folder.rglob(PANEL)):
        panel = file.parent
        lines.append(_panel_line(folder, panel))
        known += [panel, panel / "report"]
    for run in runs:
        lines.append(_run_line(folder, run))
        known.append(run.path)
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not any(run_dir.is_relative_to(path) for run_dir in known):
            href = _href(folder, path)
            problem = "a page without its run" if href else "no run of this program is in it"
            lines.append(Line(path.name, href=href, problem=problem))
    text = render_page(
        "report/runs.html.j2", rows=(), title=f"Runs in {folder}", lines=lines, count=len(runs)
    )
    write_file(folder / PAGE, text.encode("utf-8", "backslashreplace"))
    return folder / PAGE


def _panel_line(folder: Path, path: Path) -> Line:
    ruling = rule_run(path)
    word = None if ruling.problem else SHOWN[ruling.decision]
    models = ", ".join(dict.fromkeys(map(attrgetter("model"), ruling.cells)))
    benchmarks = ", ".join(dict.fromkeys(map(attrgetter("benchmark"), ruling.cells)))
    about = Line(
        _name(folder, path), "suite or panel", model=models, benchmark=benchmarks, word=word
    )
    return replace(about, href=_href(folder, path), problem=ruling.problem)


def _run_line(folder: Path, run: RunEntry) -> Line:
    name, href = _name(folder, run.path), _href(folder, run.path)
    started = run.started[:16].replace("T", " ")
    if run.problem:
        return Line(name, problem=run.problem)
    rows = f"all {run.found:,}"
    if run.found != run.expected:
        expected = "unknown" if run.expected is None else f"{run.expected:,}"
        rows = f"{run.found:,} of {expected}, {run.status}"
    about = Line(
        name,
        run.audit,
        started,
        rows,
        _few(run.models, "models"),
        _few(run.benchmarks, "sets"),
        href=href,
    )
    cells = tuple(_cell_line(about, cell) for cell in run.cells)
    if len(cells) == 1:
        return cells[0]
    if not cells and (run.path / "report" / "verdict.json").is_file():
        return replace(about, problem=run.reason)
    return replace(about, cells=cells, tally=_tally([line.word for line in cells if line.word]))


def _few(names: Sequence[str], plural: str) -> str:
    """Return the names as a text, or only their number if there are many."""
    return ", ".join(names) if len(names) <= SHOWN_NAMES else f"{len(names)} {plural}"


def _tally(words: Sequence[VerdictWord]) -> tuple[tuple[VerdictWord, int], ...]:
    """Return each verdict with the number of its cells, worst verdict first."""
    by_name, counts = {}, Counter[str]()
    for word in words:
        by_name[word.name] = word
        counts[word.name] += 1
    order = sorted(counts, key=lambda name: (list(Grade).index(by_name[name].grade), -counts[name]))
    return tuple((by_name[name], counts[name]) for name in order)


def _cell_line(about: Line, cell: Cell) -> Line:
    """Return a copy of a run's line that shows the numbers of one of the run's verdicts."""
    vocabulary = part_of(about.audit, "vocabulary")
    figures = {metric.name: metric.estimate for metric in vocabulary.INSTRUMENT.tracked(cell)}
    estimate = cell.without_memory.estimate if cell.without_memory else None
    return replace(
        about,
        model=cell.model,
        benchmark=f"{cell.benchmark} ({cell.context})" if cell.context else cell.benchmark,
        word=word_of(vocabulary.VERDICTS, cell),
        score=figures.get("score"),
        without=estimate.without if estimate else None,
    )


def _name(folder: Path, path: Path) -> str:
    return path.resolve().name if path == folder else os.path.relpath(path, folder)


def _href(folder: Path, path: Path) -> str:
    """Return the address of a run's report relative to the folder, or "" without a report."""
    for page in (path / "report" / "report.html", path / "report.html"):
        if page.is_file():
            return quote(os.fsencode(os.path.relpath(page, folder)))
    return ""
