"""`audit export inspect|eee|hub RUN_DIR`, `audit export tasks KEY=VALUE ...`. Exit codes: 0 written; 1 refused; 2 wrong
usage."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from audit.exits import plainly
from audit.printable import one_line
from audit.shards.working_copy import local_folder


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="audit export", description="A run, or its items, for other people's tools.")
    formats = parser.add_subparsers(dest="format", required=True)
    for name, does in (
        ("inspect", "eval logs, for `inspect view` and whatever reads them"),
        ("eee", "Every Eval Ever: an aggregate and its samples, one pair a model and benchmark"),
        ("hub", "accuracies for a model's page on the hub: .eval_results/BENCHMARK.yaml"),
    ):
        one = formats.add_parser(name, help=does)
        one.add_argument("run_dir", type=local_folder)
        one.add_argument("--out", type=Path, help="a folder (default: in RUN_DIR, by the format's name)")
        if name == "eee":
            one.add_argument("--organization", default="not stated", help="who evaluated")
        if name == "hub":
            one.add_argument("--task-id", default="default", help="the task in the dataset's eval.yaml")
            one.add_argument("--source-url", default="", help="where the run can be read")
    return parser


@plainly
def main(arguments: Sequence[str] | None = None) -> int:
    """Write the logs of a run, or of every run of a suite or panel."""
    asked = parser().parse_args(arguments)
    from audit.export import eee, hub, inspect_log
    from audit.panel import panel_runs

    write, folder, after = {
        "inspect": (inspect_log.export_inspect, inspect_log.INSPECT, "Look at them: inspect view --log-dir {}"),
        "eee": (partial(eee.export_eee, organization=getattr(asked, "organization", "")), eee.FOLDER, ""),
        "hub": (
            partial(hub.export_hub, task_id=getattr(asked, "task_id", ""), source_url=getattr(asked, "source_url", "")),
            hub.FOLDER,
            "Put the folder .eval_results into the model's repository.",
        ),
    }[asked.format]
    out = asked.out or asked.run_dir / folder
    for run_dir in panel_runs(asked.run_dir) or [asked.run_dir]:
        for path, problem in write(run_dir, out):  # type: ignore[operator]
            print(one_line(f"written  {path}{f'  {problem}' if problem else ''}"))
    if after:
        print(after.format(out))
    return 0
