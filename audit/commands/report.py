"""Rebuild verdict, figures, tables and page of a finished run from its shards.

Several runs of one audit become one panel. Runs of several audits of one model become one page with
all their verdicts.

example: audit report outputs/llama outputs/qwen --out outputs/panel
"""

from __future__ import annotations

import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.commands.again import add_force
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


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments.

    They name the runs, the folder to write, and settings that replace the settings of the run.
    """
    add = parser.add_argument
    run_dirs = "directories that hold shards/, or one s3:// URL"
    add("run_dirs", nargs="+", metavar="RUN_DIR", help=run_dirs)
    out = "the folder to write (default: RUN_DIR/report; for several runs joint-RUN_DIR beside the "
    out += "first run)"
    add("--out", type=local_folder, help=out)
    add("--seed", type=int, help="seed of the resamples (default: the run's)")
    control = "benchmark of held-out items in the same runs (default: the run's)"
    add("--control-benchmark", help=control)
    variants = "for a perturbation run: its library after a person reviewed it"
    add("--variants", help=variants)
    add_force(parser)
    follow = (
        f"for a running audit: rebuild the page at this interval (default: {FOLLOW_S}) until the "
    )
    follow += "audit ends; the page is marked incomplete and reloads itself"
    add("--json", action="store_true", help="print verdict.json in place of the sentences")
    add("--follow", type=int, nargs="?", const=FOLLOW_S, metavar="SECONDS", help=follow)


def run(arguments: Namespace) -> int:
    """Build the report of one or several runs, and print its paths.

    Returns
    -------
    int
        Exit code 0 if the report was written, whatever the verdict.
    """
    options = {
        "seed": arguments.seed,
        "control_benchmark": arguments.control_benchmark,
        "variants": arguments.variants,
    }
    check_seed(arguments.seed or 0)
    run_dirs = _folders(arguments.run_dirs, arguments.follow)
    audits = sorted({audit_of(run_dir).name for run_dir in run_dirs})
    if arguments.follow is None:  # A followed run that has only begun has no shards yet.
        from audit.shards.read import shard_files  # This import loads Arrow.

        shard_files(run_dirs)  # Refuse missing shards before the plotting library is loaded.
    first = run_dirs[0]
    # The report of several runs has its own folder, so that the first run keeps its report.
    # `audit gate` accepts this folder.
    default = first / "report" if len(run_dirs) == 1 else first.parent / f"joint-{first.name}"
    out = arguments.out or default
    if out != first / "report" and not arguments.force:
        _check_same_runs(out, run_dirs)
    paths = _build(run_dirs, audits, out, options, arguments.follow)
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
    """Return the folders of the runs. A run on object storage is downloaded.

    Raises ConfigError if several runs or --follow are combined with a URL, or if a folder holds the
    report of several runs.
    """
    if any(map(is_url, places)) and (len(places) > 1 or every_s is not None):
        copied = "aws s3 sync s3://my-bucket/my_run outputs/my_run"
        raise ConfigError(
            "RUN_DIR is a URL. Expected folders for a panel of several runs and for --follow. "
            f"Example: {copied}"
        )
    for place in places:
        runs = panel_runs(Path(place)) if Path(place).is_dir() else []
        if runs:
            command = shlex.join(["audit", "report", *map(str, runs), "--out", f"{Path(place)}_2"])
            raise ConfigError(
                f"{place} holds the report of {len(runs)} runs. Expected run directories. For a "
                f"suite, repeat the suite's command. Example for a panel: {command}"
            )
    return [run_folder(place) for place in places]


def _check_same_runs(out: Path, run_dirs: Sequence[Path]) -> None:
    """Raise ConfigError if a folder holds a report, unless it is the joint report of these runs."""
    from audit.report.build import PARTS
    from audit.shards.files import check_new

    stored = {run.resolve() for run in panel_runs(out) or ()}
    same = stored == {run.resolve() for run in run_dirs}
    check_new(out / "verdict.json", out, PARTS, force=same)


def _build(
    run_dirs: Sequence[Path],
    audits: Sequence[str],
    out: Path,
    options: Mapping[str, Any],
    every_s: int | None,
) -> ReportPaths:
    """Build the report once, or repeatedly until the runs have ended.

    The imports are here because --help does not need matplotlib.
    """
    if len(audits) > 1:
        from audit.report.joint import joint_report as report
    else:
        report = part_of(audits[0], "report").REPORT.of_runs
    if every_s is None:
        return report(run_dirs, out, options)
    from audit.report.build import follow
    from audit.runtime.watch import as_text

    return follow(
        run_dirs, lambda: report(run_dirs, out, options), every_s, so_far=lambda: as_text(run_dirs)
    )
