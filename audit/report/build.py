"""What every audit's report is made of: where its files are, what a manifest says; `follow` builds that of a run that
goes on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.decision import verdict_of
from audit.errors import AuditError
from audit.exits import printable
from audit.guarded_files import read_json
from audit.records import CellRows
from audit.report.page import REFRESH_S, SO_FAR, RunFacts, words
from audit.shards.attempt import may_live
from audit.shards.files import make_folder, write_file
from audit.shards.manifest import MANIFEST, Manifest
from audit.verdict.result import json_text
from audit.verdict.run import JudgedRun
from audit.verdict.together import Document

if TYPE_CHECKING:  # commands that draw nothing load no matplotlib
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class ReportPaths:
    """Where the report's files are. content: the verdict, so that callers need not read it again."""

    html: Path
    verdict: Path
    tables: tuple[Path, ...]
    figures: tuple[Path, ...]
    incomplete: tuple[CellRows, ...]  # the models and benchmarks of which rows are missing
    content: Document


@dataclass(frozen=True)
class Page:
    """What a report is made of. tables: file name -> text, or its pieces. render: the figures as elements, by name ->
    the page."""

    tables: Mapping[str, str | Iterator[str]]
    figures: Mapping[str, Figure]
    render: Callable[[dict[str, str]], str]


def write_report(out: Path, verdict: JudgedRun[Any, Any], page: Page) -> ReportPaths:
    """Write tables, figures, report.html and, last, verdict.json into `out`."""
    tables, figures, inline = write_parts(out, page.tables, page.figures)
    html, path, plain = out / "report.html", out / "verdict.json", verdict.to_dict()
    write_file(html, _bytes(page.render(inline)))
    write_file(path, json_text(plain).encode("utf-8", "backslashreplace"))
    incomplete = tuple(rows for rows in verdict.rows if not rows.complete)
    return ReportPaths(html, path, tables, figures, incomplete, verdict_of(plain))


def write_parts(
    out: Path, tables: Mapping[str, str | Iterator[str]], drawn: Mapping[str, Figure]
) -> tuple[tuple[Path, ...], tuple[Path, ...], dict[str, str]]:
    """Write tables and figures (svg and png) into `out`: their files, and the figures as elements for the page, by
    name."""
    from markupsafe import escape

    from audit.report.canvas import inline_svg, png_bytes, svg_text

    for folder in (out, out / "tables", out / "figures"):
        make_folder(folder)
    for name, text in tables.items():
        write_file(out / "tables" / name, _bytes(text) if isinstance(text, str) else map(_bytes, text))
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


# Keys of the manifest and their titles; {}: one for each of its entries.
_FACTS = {
    "status": "Status", "started": "Started", "ended": "Ended", "attempts": "Attempts",
    "fingerprint": "Fingerprint of the configuration", "models": "Model {}", "models_failed": "Model {} failed",
    "benchmark": "Benchmark", "prompt_hashes": "Prompts, {}", "cost": "Cost, {}",
    "precision": "Precision of {}", "backends": "Backend versions of {}, calls", "packages": "Packages",
    "shards": "Shards",
}  # fmt: skip


def run_facts(run_dir: Path) -> RunFacts:
    """The facts of manifest.json for the page; a RunFacts without facts where there is none."""
    path = run_dir / MANIFEST
    if not path.exists():
        return RunFacts(run_dir.name)
    manifest = read_json(path)  # it was read before, to judge by
    main: list[tuple[str, str]] = []
    texts = {"cost": _cost, "shards": lambda shards: f"{len(shards)} files"}
    for key, title in _FACTS.items():
        value, text = manifest.get(key), texts.get(key, _one_line)
        if value not in (None, "", {}, []):
            entries = value.items() if "{}" in title else [("", value)]
            main += [(title.format(name), text(one)) for name, one in entries]
    config = dict(manifest.get("config") or {})
    main += [("Score that was read", text) for text in _scores_read(config)]
    prompts: dict[str, str] = {}  # each template once
    for one in (config.get("protocols") or {}).values():
        for name, text in one.get("templates", {}).items():
            prompts[f"{one['name']} {one['version']}, {words(name)}"] = text
    rest = {k: v for k, v in manifest.items() if k not in ("shards", "sampled_ids")}
    rest["config"] = {k: v for k, v in config.items() if k not in ("protocol", "protocols")}
    return RunFacts(f"Run {run_dir.name}", tuple(main), tuple(_flat(rest)), tuple(prompts.items()))


def _scores_read(config: Mapping[str, Any]) -> list[str]:
    """Return which score was read of imported logs, and what their readers have to know of it, each once."""
    logs = [one for one in config.get("logs") or () if isinstance(one, dict)]
    scores = [f"{one['score']} of {one['tool']}" for one in logs if one.get("score")]
    notes = [note for one in logs for note in one.get("notes", ())]
    unfinished = [f"{one['file']} is not finished: {one['unfinished']}" for one in logs if one.get("unfinished")]
    real = (
        ["a score far below guessing was said to be real"]
        if config.get("read_by", {}).get("below_chance_is_real")
        else []
    )
    return list(dict.fromkeys([*scores, *notes, *unfinished, *real]))


def _one_line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{k}: {_one_line(v)}" for k, v in value.items() if v not in (None, "", {}, []))
    if isinstance(value, list):
        more = f" and {len(value) - 12} more" if len(value) > 12 else ""
        return ", ".join(map(_one_line, value[:12])) + more
    return str(value)


def _cost(arms: Mapping[str, Mapping[str, Mapping[str, int]]]) -> str:
    """{arm: {role: {calls, ..}}} -> one line."""
    total = Counter[str]()
    for numbers in (one for roles in arms.values() for one in roles.values()):
        total.update(numbers)
    return ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in total.items())


def _flat(value: Any, prefix: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for k, v in value.items() for pair in _flat(v, f"{prefix}.{k}" if prefix else str(k))]
    return [(prefix, _one_line(value))]


SHORTEST_S = 2


def goes_on(run_dir: Path) -> bool:
    """The manifest says that the run is under way, and its driver is not known to be dead."""
    return (run_dir / MANIFEST).is_file() and Manifest.load(run_dir).status == "running" and may_live(run_dir)


def follow(
    run_dirs: Sequence[Path],
    build: Callable[[], ReportPaths],
    every_s: int,
    sleep: Callable[[float], object] = time.sleep,
    so_far: Callable[[], str] = str,
) -> ReportPaths:
    """Build every `every_s` seconds while a run goes on, and once more when all have ended; that report.

    so_far: how far the runs are, for the page. The page asks its reader's browser to load it again as often. What
    cannot be built yet is said and tried again; after the end it raises.
    """
    told = ""
    while True:
        going = any(map(goes_on, run_dirs))
        asked = REFRESH_S.set(max(every_s, SHORTEST_S) if going else 0)
        shown = SO_FAR.set(so_far() if going else "")
        try:
            paths = build()
        except AuditError as error:
            if not going:
                raise
            if str(error) != told:
                print(f"not yet: {error}", flush=True)
            told = str(error)
        else:
            if not going:
                return paths
            rows = ", ".join(f"{r.model} on {r.benchmark} {r.found:,} of {r.expected:,}" for r in paths.incomplete)
            print(f"built    {paths.html}  {rows or 'all answers are there'}", flush=True)
        finally:
            REFRESH_S.reset(asked)
            SO_FAR.reset(shown)
        sleep(max(every_s, SHORTEST_S))
