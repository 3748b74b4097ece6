"""Rebuild verdict, figures, tables and page from shards alone; several runs become one panel, those
of several audits of one model one page with all their verdicts.

example: audit report outputs/llama outputs/qwen --out outputs/panel
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.config.audits import audit_of, part_of
from audit.core.aliases import named
from audit.core.errors import ConfigError, check_seed
from audit.judging.vocabulary import COMPLETE_IT
from audit.shards.manifest import MANIFEST
from audit.shards.object_store import is_url
from audit.shards.panel import panel_runs, write_panel
from audit.shards.working_copy import local_folder, run_folder

if TYPE_CHECKING:
    from audit.report.build import ReportPaths


FOLLOW_S = 15


def add_words(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "run_dirs",
        nargs="+",
        metavar="RUN_DIR",
        help="directory that holds shards/, or one s3:// URL",
    )
    where = (
        "where to write (default: RUN_DIR/report; of several runs joint-RUN_DIR beside the first)"
    )
    add("--out", type=local_folder, help=where)
    add("--seed", type=int, help="seed of the resamples (default: the run's)")
    add(
        "--control-benchmark",
        help="benchmark of held-out items in the same runs (default: the run's)",
    )
    add("--variants", help="of a perturbation run: its library as a person reviewed it since")
    again = f"of a run that goes on: build again so often (default: {FOLLOW_S}) until it ends; the page is marked "
    again += "incomplete and loads itself again"
    add("--json", action="store_true", help="print verdict.json in place of the sentences")
    add("--follow", type=int, nargs="?", const=FOLLOW_S, metavar="SECONDS", help=again)


def run(arguments: Namespace) -> int:
    """Exit code 0 when the report was written, whatever the verdict; 1 when it could not be."""
    asked = {
        "seed": arguments.seed,
        "control_benchmark": arguments.control_benchmark,
        "variants": arguments.variants,
    }
    check_seed(arguments.seed or 0)
    run_dirs = _folders(arguments.run_dirs, arguments.follow)
    audits = sorted({audit_of(run_dir).name for run_dir in run_dirs})
    if arguments.follow is None:  # A followed run that has only begun has no shards yet.
        from audit.shards.read import shard_files  # This import loads Arrow.

        shard_files(run_dirs)  # Missing shards are refused before the plotting library is loaded.
    first = run_dirs[0]
    # The report of several runs has its own folder: `audit gate` takes it, and the first run keeps
    # its report.
    out = arguments.out or (
        first / "report" if len(run_dirs) == 1 else first.parent / f"joint-{first.name}"
    )
    paths = _build(run_dirs, audits, out, asked, arguments.follow)
    if len(run_dirs) > 1 and not (out.parent / MANIFEST).is_file():
        write_panel(out, run_dirs)
    if arguments.json:
        print(paths.verdict.read_text(encoding="utf-8"), end="")
        return 0
    for rows in paths.incomplete:
        print(f"{rows.watermark.upper()}: {rows.model} on {rows.benchmark}. {COMPLETE_IT}")
    print(f"report   {named(paths.html)}\nverdict  {named(paths.verdict)}")
    for folder in dict.fromkeys(path.parent for path in (*paths.tables, *paths.figures)):
        print(f"{folder.name:<8} {named(folder)}")
    from audit.runtime.summary import print_end

    print_end(paths.content, run_dirs)
    return 0


def _folders(places: Sequence[str], every_s: int | None) -> list[Path]:
    """The runs to read, fetched where they are on object storage; ConfigError for what is only done
    with folders."""
    if any(map(is_url, places)) and (len(places) > 1 or every_s is not None):
        copied = "aws s3 sync s3://my-bucket/my_run outputs/my_run"
        raise ConfigError(
            f"A panel of several runs and --follow need the runs in folders. Copy them first: {copied}"
        )
    for place in places:
        if Path(place).is_dir() and (runs := panel_runs(Path(place))):
            raise ConfigError(
                f"{place} holds {len(runs)} runs together. Their suite's command, typed again, builds its page again; "
                f"without a suite: {shlex.join(['audit', 'report', *map(str, runs), '--out', f'{Path(place)}_2'])}"
            )
    return [run_folder(place) for place in places]


def _build(
    run_dirs: Sequence[Path],
    audits: Sequence[str],
    out: Path,
    asked: Mapping[str, Any],
    every_s: int | None,
) -> ReportPaths:
    """Once, or until the runs have ended. What draws is imported here: --help needs no
    matplotlib."""
    if len(audits) > 1:
        from audit.report.joint import joint_report as report
    else:
        report = part_of(audits[0], "report").report_runs
    if every_s is None:
        return report(run_dirs, out, asked)
    from audit.report.build import follow
    from audit.runtime.watch import as_text

    return follow(
        run_dirs, lambda: report(run_dirs, out, asked), every_s, so_far=lambda: as_text(run_dirs)
    )
