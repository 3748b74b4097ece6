"""What changed from one run to another of the same questions: exact McNemar tests, paired.

example: audit compare outputs/v1 outputs/v2 --out changed.html
"""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from audit.commands.again import pair_of
from audit.core.exits import say
from audit.core.number_text import interval, percent, pvalue, signed_points
from audit.judging.result import json_ready
from audit.shards.working_copy import local_folder

if TYPE_CHECKING:
    from audit.registry.comparison import LastingChange


_REVISION = len("sha256:") + 12  # characters of a version that are printed


def add_arguments(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "before",
        type=local_folder,
        metavar="RUN_A",
        help="a run, or the folder of a suite or panel",
    )
    add("after", type=local_folder, metavar="RUN_B")
    add("--models", action="append", default=[], metavar="OLD=NEW", help="where their names differ")
    add(
        "--benchmarks",
        action="append",
        default=[],
        metavar="NAME",
        help="where a run has others too",
    )
    add("--out", type=Path, help="a page with the questions that changed")
    add("--json", action="store_true")


def run(asked: Namespace) -> int:
    """Print what changed; with --out a page with every question that did."""
    pairs = [
        pair_of("--models", text, "OLD=NEW, such as --models llama_v1=llama_v2")
        for text in asked.models
    ]
    from audit.registry.comparison import (
        LABELS,
        compare_runs,
        page,
        sentence,
        setting_name,
        verdicts,
    )

    changes = compare_runs(asked.before, asked.after, pairs, asked.benchmarks)
    if asked.out is not None:
        from audit.shards.files import write_file

        write_file(
            asked.out, page(changes, asked.before, asked.after).encode("utf-8", "backslashreplace")
        )
    if asked.json:
        print(json.dumps(json_ready(changes), indent=1))
        return 0
    for c in changes:
        a, b = c.before[0], c.after[0]
        versions = []
        for x in (a, b):
            revision = f" ({x.model_revision[:_REVISION]})" if x.model_revision else ""
            versions.append(f"{x.model}{revision}")
        say(f"{' -> '.join(versions)} on {a.benchmark} ({c.audit}). {sentence(c)}")
        for x, y in verdicts(c.before, c.after):
            say(f"  verdict  {x.context + ': ' if x.context else ''}{x.verdict} -> {y.verdict}")
        for s in c.settings:
            f, told = s.found, "nothing was answered in both"
            if f is not None:
                midp = "" if f.midp is None else f", mid-{pvalue(f.midp)}"
                told = (
                    f"{100 * f.before:5.1f} % -> {100 * f.after:5.1f} %  {signed_points(f.difference)} "
                    f"({interval(f.low, f.high)})  {f.improve} better, {f.degrade} worse of {f.n}  "
                    f"{pvalue(f.pvalue)}{midp}, Holm {pvalue(s.adjusted)}"
                )
            say(f"  {setting_name(s.setting):<28} {told}")
        for k in c.lasting:
            say(f"  {LABELS.get(k.condition, k.condition)}: {_lasting(k)}")
        print(f"  {c.changed} questions changed")
    print(
        "note: p and intervals count the chance of questions; a sampled run may shift as a whole, by 1 or 2 points"
    )
    if asked.out is not None:
        print(f"page     {asked.out}")
    return 0


def _lasting(one: LastingChange) -> str:
    from audit.registry.comparison import told_share

    f, share = one.found, told_share(one.found)
    part = (
        f", {percent(share[0])} of it ({percent(share[1])} to {percent(share[2])})" if share else ""
    )
    return (
        f"the score changes by {signed_points(f.there)} there, by {signed_points(f.lead)} at the baseline{part}; "
        f"lost {signed_points(f.lost)} ({interval(f.low, f.high)}), {pvalue(f.pvalue)}, "
        f"after Holm {pvalue(one.adjusted)}"
    )
