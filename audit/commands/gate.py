"""Turn the verdict of a finished run, or of a merged panel, into a decision and an exit code.

examples: audit gate outputs/my_run; audit gate outputs/panel --format junit. Exit codes: 0 pass; 1
the run failed or is incomplete, or its verdict is not what its answers give; 3 block (something was
found); 4 review (found, and another cause is not excluded); 5 no decision. A panel has the code of
its worst cell: 3, then 5, then 4, then 0. docs/do/governance.md has the verdicts."""

import os
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from audit.commands.again import add_deciders, known_to, verdict_again
from audit.core.aliases import named
from audit.core.errors import UsageError
from audit.core.exits import lines
from audit.governance.formats import FORMATS, as_markdown
from audit.governance.ruling import home_of, ruling_with_decisions
from audit.judging.decision import shipped_alone
from audit.shards.working_copy import run_folder

SUMMARY = "GITHUB_STEP_SUMMARY"  # the file that GitHub shows on a job's page


def add_words(parser: ArgumentParser) -> None:
    add_deciders(parser)
    add = parser.add_argument
    add(
        "run_dir",
        metavar="RUN_DIR",
        help="a run or its s3:// URL, or the folder of a panel (audit report --out)",
    )
    add(
        "--format",
        choices=FORMATS,
        default="text",
        help="github: annotations, and a summary where the job has a page",
    )
    add(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )
    trust = "take verdict.json's word in place of computing it again from the answers: faster, and safe only where "
    add("--trust-report", action="store_true", help=trust + "nobody but the program can write it")
    rule = "with which thresholds a verdict may pass: those that ship (exit code 1 with others), or the run's own"
    add("--rule", choices=("own", "shipped"), default="own", help=rule)
    seal = "what was sealed before the run (default: RUN_DIR/seal.dsse.json); each field that differs is printed"
    add("--seal", type=Path, metavar="FILE", help=seal)


def run(asked: Namespace, now: datetime | None = None) -> int:
    """Print the ruling on a run or a merged panel, and return its exit code. now: the clock's by
    default."""
    if asked.approvals < 1:
        raise UsageError(f"--approvals {asked.approvals}: expected at least 1")
    from audit.governance.sealed import with_seals  # The help text does not need these modules.
    from audit.registry.tried import tries

    now = now or datetime.now(UTC)
    run_dir = run_folder(asked.run_dir)
    again = None if asked.trust_report else verdict_again
    ruling = ruling_with_decisions(
        run_dir, asked.keys, asked.approvals, now, known_to(asked.registry), again
    )
    ruling = with_seals(ruling, home_of(run_dir), asked.seal, asked.keys)
    if asked.rule == "shipped":
        ruling = shipped_alone(ruling)
    if not ruling.problem:
        ruling = replace(ruling, tries=tries(run_dir, asked.registry))
    print(FORMATS[asked.format](ruling), end="", flush=True)
    if asked.format == "github" and os.environ.get(SUMMARY):
        with Path(os.environ[SUMMARY]).open("a", encoding="utf-8") as summary:
            summary.write(as_markdown(ruling))
    if ruling.problem:
        print(lines(named(ruling.problem)), file=sys.stderr)
    return ruling.exit_code
