"""Write the files of an audit's report. For a run in progress, rebuild the report regularly."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.core.errors import AuditError
from audit.core.exits import printable
from audit.core.guarded_files import read_json
from audit.core.records import CellRows
from audit.judging.decision import verdict_of
from audit.judging.result import json_text
from audit.judging.run import JudgedRun
from audit.judging.together import Document
from audit.report.page import REFRESH_S, SO_FAR, RunFacts, words
from audit.shards.attempt import may_live
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import MANIFEST, Manifest

if TYPE_CHECKING:  # commands that draw nothing must not load matplotlib
    from matplotlib.figure import Figure

PARTS = ("report.html", "tables", "figures")  # what a report's folder holds beside verdict.json


@dataclass(frozen=True)
class ReportPaths:
    """Hold the paths of a report's files, and the content of its verdict.json.

    With the content, callers need not read verdict.json.
    """

    html: Path
    verdict: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    incomplete: tuple[CellRows, ...]  # the cells (model and benchmark) that lack rows
    content: Document


@dataclass(frozen=True)
class Page:
    """Hold the parts of a report: tables, figures, and the function that writes its page.

    Parameters
    ----------
    tables : mapping
        Maps file names to tables. A table is a text, or an iterator over pieces of a text.
    figures : mapping
        Maps names to figures.
    render : callable
        Returns the page as HTML. Its argument maps the name of each figure to an HTML element.
    """

    tables: Mapping[str, str | Iterator[str]]
    figures: Mapping[str, Figure]
    render: Callable[[dict[str, str]], str]


def write_report(out: Path, verdict: JudgedRun[Any, Any], page: Page) -> ReportPaths:
    """Write the files of a report: tables, figures and report.html, and finally verdict.json.

    Parameters
    ----------
    out : Path
        Folder of the report.
    verdict : JudgedRun
        The verdict to write.
    page : Page
        The tables, the figures and the page of this verdict.

    Returns
    -------
    ReportPaths
        The paths of the files, and the verdict.
    """
    tables, figures, inline = write_parts(out, page.tables, page.figures)
    html = out / "report.html"
    path = out / "verdict.json"
    plain = verdict.to_dict()
    write_file(html, _bytes(page.render(inline)))
    write_file(path, json_text(plain).encode("utf-8", "backslashreplace"))
    incomplete = tuple(rows for rows in verdict.rows if not rows.complete)
    return ReportPaths(html, path, tables, figures, incomplete, verdict_of(plain))


def write_parts(
    out: Path, tables: Mapping[str, str | Iterator[str]], drawn: Mapping[str, Figure]
) -> tuple[tuple[Path, ...], tuple[Path, ...], dict[str, str]]:
    """Write the tables of a report, and its figures as svg and png files.

    Parameters
    ----------
    out : Path
        Folder of the report, in which the folders `tables` and `figures` are created.
    tables : mapping
        Maps file names to tables. A table is a text, or an iterator over pieces of a text.
    drawn : mapping
        Maps names to figures.

    Returns
    -------
    tuple of tuple, tuple and dict
        The paths of the tables, the paths of the figures, and a mapping from the name of each
        figure to an HTML element.
    """
    from markupsafe import escape

    from audit.report.canvas import inline_svg, png_bytes, svg_text

    for folder in (out, out / "tables", out / "figures"):
        make_folder(folder)
    for name, text in tables.items():
        write_file(
            out / "tables" / name, _bytes(text) if isinstance(text, str) else map(_bytes, text)
        )
    inline: dict[str, str] = {}
    figures: list[Path] = []
    for name, figure in drawn.items():
        svg = svg_text(figure)
        for suffix, data in ((".svg", svg.encode()), (".png", png_bytes(figure))):
            figures.append(out / "figures" / f"{name}{suffix}")
            write_file(figures[-1], data)
        inline[name] = inline_svg(svg, f"f{len(inline)}", str(escape(name.replace("_", " "))))
    return tuple(out / "tables" / name for name in tables), tuple(figures), inline


def _bytes(text: str) -> bytes:
    return printable(text).encode("utf-8", "backslashreplace")


# Keys of the manifest that the page shows, and their titles. If a title contains {}, it is shown
# once for each entry of the key's value.
_FACTS = {
    "status": "Status",
    "started": "Started",
    "ended": "Ended",
    "attempts": "Attempts",
    "fingerprint": "Fingerprint of the configuration",
    "models": "Model {}",
    "models_failed": "Model {} failed",
    "benchmark": "Benchmark",
    "prompt_hashes": "Prompts, {}",
    "cost": "Cost, {}",
    "precision": "Precision of {}",
    "backends": "Backend versions of {}, calls",
    "packages": "Packages",
    "shards": "Shards",
}


def run_facts(run_dir: Path) -> RunFacts:
    """Return the facts from a run's manifest that the page shows.

    Without a manifest, the result holds no facts.
    """
    path = run_dir / MANIFEST
    if not path.exists():
        return RunFacts(run_dir.name)
    manifest = read_json(path)  # the manifest was read and checked before, when the run was judged
    main: list[tuple[str, str]] = []
    texts = {"cost": _cost, "shards": lambda shards: f"{len(shards)} files"}
    for key, title in _FACTS.items():
        value, text = manifest.get(key), texts.get(key, _one_line)
        if value not in (None, "", {}, []):
            entries = value.items() if "{}" in title else [("", value)]
            main += [(title.format(name), text(entry)) for name, entry in entries]
    config = dict(manifest.get("config") or {})
    main += [("Score that was read", text) for text in _scores_read(config)]
    prompts: dict[str, str] = {}  # several models may have the same prompts
    for protocol in (config.get("protocols") or {}).values():
        for name, text in protocol.get("templates", {}).items():
            prompts[f"{protocol['name']} {protocol['version']}, {words(name)}"] = text
    rest = {k: v for k, v in manifest.items() if k not in ("shards", "sampled_ids")}
    rest["config"] = {k: v for k, v in config.items() if k not in ("protocol", "protocols")}
    return RunFacts(f"Run {run_dir.name}", tuple(main), tuple(_flat(rest)), tuple(prompts.items()))


def _scores_read(config: Mapping[str, Any]) -> list[str]:
    """Describe imported logs and the scores that were read from them.

    Equal descriptions are returned once.
    """
    logs = [log for log in config.get("logs") or () if isinstance(log, dict)]
    scores = [f"{log['score']} of {log['tool']}" for log in logs if log.get("score")]
    notes: list[str] = []
    for log in logs:
        notes += log.get("notes", ())
    sentences = [*scores, *notes]
    for log in logs:
        if log.get("unfinished"):
            sentences.append(f"{log['file']} is not finished: {log['unfinished']}")
    if config.get("read_by", {}).get("below_chance_is_real"):
        sentences.append("a score far below guessing was declared to be real")
    return list(dict.fromkeys(sentences))


def _one_line(value: Any) -> str:
    if isinstance(value, dict):
        entries = []
        for key, entry in value.items():
            if entry not in (None, "", {}, []):
                entries.append(f"{key}: {_one_line(entry)}")
        return ", ".join(entries)
    if isinstance(value, list):
        more = f" and {len(value) - 12} more" if len(value) > 12 else ""
        return ", ".join(map(_one_line, value[:12])) + more
    return str(value)


def _cost(arms: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """Return a line with the total numbers of calls and tokens over all arms and roles."""
    total = Counter[str]()
    for roles in arms.values():
        for numbers in roles.values():
            total.update(numbers)
    return ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in total.items())


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if not isinstance(value, dict) or not value:
        return [(prefix, _one_line(value))]
    pairs = []
    for key, entry in value.items():
        pairs += _flat(entry, f"{prefix}.{key}" if prefix else str(key))
    return pairs


SHORTEST_S = 2


def goes_on(run_dir: Path) -> bool:
    """Return whether a run is in progress.

    This is the case if its manifest states "running", and its driver process may be alive.
    """
    return (
        (run_dir / MANIFEST).is_file()
        and Manifest.load(run_dir).status == "running"
        and may_live(run_dir)
    )


def follow(
    run_dirs: Sequence[Path],
    build: Callable[[], ReportPaths],
    every_s: int,
    sleep: Callable[[float], object] = time.sleep,
    so_far: Callable[[], str] = str,
) -> ReportPaths:
    """Build a report repeatedly while runs are in progress, and once more when all runs have ended.

    Parameters
    ----------
    run_dirs : sequence of Path
        Directories of the runs.
    build : callable
        Builds the report.
    every_s : int
        Seconds between two reports. The page reloads itself at the same interval.
    sleep : callable
        Waits for a number of seconds.
    so_far : callable
        Returns a text for the page on the progress of the runs.

    Returns
    -------
    ReportPaths
        Paths of the last report's files.

    Raises
    ------
    AuditError
        If the report cannot be built after all runs have ended. While a run is in progress, an
        error is only printed, and the report is built again later.
    """
    reported = ""
    while True:
        going = any(map(goes_on, run_dirs))
        refresh = REFRESH_S.set(max(every_s, SHORTEST_S) if going else 0)
        shown = SO_FAR.set(so_far() if going else "")
        try:
            paths = build()
        except AuditError as error:
            if not going:
                raise
            if str(error) != reported:
                print(f"not yet: {error}", flush=True)
            reported = str(error)
        else:
            if not going:
                return paths
            missing = []
            for rows in paths.incomplete:
                counts = f"{rows.found:,} of {rows.expected:,}"
                missing.append(f"{rows.model} on {rows.benchmark} {counts}")
            state = ", ".join(missing) or "all answers are stored"
            print(f"built    {paths.html}  {state}", flush=True)
        finally:
            REFRESH_S.reset(refresh)
            SO_FAR.reset(shown)
        sleep(max(every_s, SHORTEST_S))
