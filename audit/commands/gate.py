"""Turn the verdict of a finished run, or of a merged panel, into a decision and an exit code.

examples: audit gate outputs/my_run; audit gate outputs/panel --format junit. Exit codes: 0 pass; 1
the run failed or is incomplete, or its stored verdict differs from the recomputed one; 3 block (an
effect was found); 4 review (an effect was found, and another cause is not excluded); 5 no decision.
A panel has the code of its worst cell: 3, then 5, then 4, then 0. docs/do/governance.md lists the
verdicts."""

import os
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from audit.commands.again import add_decision_arguments, recomputed_verdict, registry_check
from audit.core.aliases import named
from audit.core.errors import UsageError
from audit.core.exits import lines
from audit.governance.formats import FORMATS, as_markdown
from audit.governance.ruling import home_of, ruling_with_decisions
from audit.judging.decision import shipped_alone
from audit.shards.working_copy import run_folder

SUMMARY = "GITHUB_STEP_SUMMARY"  # the file that GitHub shows on a job's page


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: run, output format, and rules of the decision."""
    add_decision_arguments(parser)
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
        help="form of the ruling; github: annotations, and a summary on the job's page",
    )
    add(
        "--json",
        action="store_const",
        const="json",
        dest="format",
        help="the same as --format json",
    )
    trust = "accept verdict.json without recomputing it from the answers: faster, but only safe if "
    trust += "no other program can write the file"
    add("--trust-report", action="store_true", help=trust)
    rule = (
        "which thresholds a verdict may have. own: those of the run; shipped: only those of this "
    )
    rule += "program (any other threshold gives exit code 1)"
    add("--rule", choices=("own", "shipped"), default="own", help=rule)
    seal = "the plan that was sealed before the run; each field that differs is printed "
    seal += "(default: RUN_DIR/seal.dsse.json)"
    add("--seal", type=Path, metavar="FILE", help=seal)


def run(arguments: Namespace, now: datetime | None = None) -> int:
    """Print the ruling on a run or a merged panel.

    Parameters
    ----------
    arguments : Namespace
        The arguments of the command line.
    now : datetime, optional
        The time, for decisions that expire. Without it the clock is read.

    Returns
    -------
    int
        The exit code of the ruling: 0, 1, 3, 4 or 5.

    Raises
    ------
    UsageError
        If --approvals is below 1.
    """
    if arguments.approvals < 1:
        raise UsageError(f"--approvals is {arguments.approvals}. Expected at least 1")
    from audit.governance.sealed import with_seals  # The help text does not need these modules.
    from audit.registry.tried import tries

    now = now or datetime.now(UTC)
    run_dir = run_folder(arguments.run_dir)
    recompute = None if arguments.trust_report else recomputed_verdict
    ruling = ruling_with_decisions(
        run_dir,
        arguments.keys,
        arguments.approvals,
        now,
        registry_check(arguments.registry),
        recompute,
    )
    ruling = with_seals(ruling, home_of(run_dir), arguments.seal, arguments.keys)
    if arguments.rule == "shipped":
        ruling = shipped_alone(ruling)
    if not ruling.problem:
        ruling = replace(ruling, tries=tries(run_dir, arguments.registry))
    print(FORMATS[arguments.format](ruling), end="", flush=True)
    if arguments.format == "github" and os.environ.get(SUMMARY):
        with Path(os.environ[SUMMARY]).open("a", encoding="utf-8") as summary:
            summary.write(as_markdown(ruling))
    if ruling.problem:
        print(lines(named(ruling.problem)), file=sys.stderr)
    return ruling.exit_code
