"""`audit export inspect RUN_DIR [--out FOLDER]`. Exit codes: 0 written; 1 refused; 2 wrong usage."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from audit.exits import plainly
from audit.printable import one_line
from audit.shards.working_copy import local_folder


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="audit export", description="A run for other people's tools.")
    formats = parser.add_subparsers(dest="format", required=True)
    inspect = formats.add_parser("inspect", help="eval logs, for `inspect view` and whatever reads them")
    inspect.add_argument("run_dir", type=local_folder)
    inspect.add_argument("--out", type=Path, help="a folder (default: RUN_DIR/inspect)")
    return parser


@plainly
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the logs of a run, or of every run of a suite or panel."""
    asked = parser().parse_args(arguments)
    from audit.export import INSPECT, export_inspect
    from audit.panel import panel_runs

    out = asked.out or asked.run_dir / INSPECT
    for run_dir in panel_runs(asked.run_dir) or [asked.run_dir]:
        for path, problem in export_inspect(run_dir, out):
            print(one_line(f"written  {path}{f'  {problem}' if problem else ''}"))
    print(f"Look at them: inspect view --log-dir {out}")
    return 0
