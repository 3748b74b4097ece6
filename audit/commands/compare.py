"""Compare two runs of the same questions by exact, paired McNemar tests.

example: audit compare outputs/v1 outputs/v2 --out changed.html
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from audit.commands.again import add_force, pair_of
from audit.core.exits import say
from audit.core.number_text import interval, percent, pvalue, signed_points
from audit.judging.result import json_ready
from audit.shards.working_copy import local_folder

if TYPE_CHECKING:
    from audit.registry.comparison import LastingChange, SettingChange


_REVISION = len("sha256:") + 12  # number of characters of a version that are printed


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: two runs, models and benchmarks to compare, and a page."""
    add = parser.add_argument
    folder = "a run, or the folder of a suite or panel"
    add("before", type=local_folder, metavar="RUN_A", help=folder)
    add("after", type=local_folder, metavar="RUN_B", help="the later run, suite or panel")
    models = "models to compare if their names differ; may be repeated"
    add("--models", action="append", default=[], metavar="OLD=NEW", help=models)
    benchmarks = "a benchmark to compare (default: all); may be repeated"
    add("--benchmarks", action="append", default=[], metavar="NAME", help=benchmarks)
    add("--out", type=Path, help="write a page with the questions that changed")
    add("--json", action="store_true", help="print JSON, for programs")
    add_force(parser)


def run(arguments: Namespace) -> int:
    """Print the changes from one run to another. With --out, write a page of changed questions.

    Returns
    -------
    int
        Exit code 0.
    """
    form = "OLD=NEW. Example: --models llama_v1=llama_v2"
    pairs = [pair_of("--models", text, form) for text in arguments.models]
    from audit.registry.comparison import (
        LABELS,
        compare_runs,
        page,
        sentence,
        setting_name,
        verdicts,
    )
    from audit.shards.files import check_new, write_file

    if arguments.out is not None:
        check_new(arguments.out, force=arguments.force)
    changes = compare_runs(arguments.before, arguments.after, pairs, arguments.benchmarks)
    if arguments.out is not None:
        html = page(changes, arguments.before, arguments.after)
        write_file(arguments.out, html.encode("utf-8", "backslashreplace"))
    if arguments.json:
        print(json.dumps(json_ready(changes), indent=1))
        return 0
    for change in changes:
        versions = []
        for cell in (change.before[0], change.after[0]):
            revision = f" ({cell.model_revision[:_REVISION]})" if cell.model_revision else ""
            versions.append(f"{cell.model}{revision}")
        benchmark = change.before[0].benchmark
        say(f"{' -> '.join(versions)} on {benchmark} ({change.audit}). {sentence(change)}")
        for before, after in verdicts(change.before, change.after):
            context = f"{before.context}: " if before.context else ""
            say(f"  verdict  {context}{before.verdict} -> {after.verdict}")
        for setting in change.settings:
            say(f"  {setting_name(setting.setting):<28} {_setting(setting)}")
        for lasting in change.lasting:
            say(f"  {LABELS.get(lasting.condition, lasting.condition)}: {_lasting(lasting)}")
        print(f"  {change.changed} questions changed")
    print(
        "note: p-values and intervals count only the random choice of questions. The accuracy of a"
    )
    print("  sampled run may also shift as a whole, by 1 or 2 points.")
    if arguments.out is not None:
        print(f"page     {arguments.out}")
    return 0


def _setting(setting: SettingChange) -> str:
    """Return a line with the change of the accuracy under one setting."""
    f = setting.found
    if f is None:
        return "no question was answered in both runs"
    midp = "" if f.midp is None else f", mid-{pvalue(f.midp)}"
    accuracies = f"{100 * f.before:5.1f} % -> {100 * f.after:5.1f} %"
    difference = f"{signed_points(f.difference)} ({interval(f.low, f.high)})"
    counts = f"{f.improve} better, {f.degrade} worse of {f.n}"
    p_values = f"{pvalue(f.pvalue)}{midp}, Holm {pvalue(setting.adjusted)}"
    return f"{accuracies}  {difference}  {counts}  {p_values}"


def _lasting(change: LastingChange) -> str:
    """Return a line with the change of the score under one condition and at the baseline."""
    from audit.registry.comparison import remaining_share

    f, share = change.found, remaining_share(change.found)
    part = ""
    if share:
        part = f", {percent(share[0])} of it ({percent(share[1])} to {percent(share[2])})"
    return (
        f"the score changes by {signed_points(f.there)} in this condition, by "
        f"{signed_points(f.lead)} at the baseline{part}; lost {signed_points(f.lost)} "
        f"({interval(f.low, f.high)}), {pvalue(f.pvalue)}, after Holm {pvalue(change.adjusted)}"
    )
