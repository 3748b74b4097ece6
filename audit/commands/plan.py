"""usage: audit plan [audit=sweep|perturb|memory|validity] [--json] [key=value ...]
       audit plan [audit=...] --seal [-o FILE] [--key FILE] [key=value ...]

Print the calls, tokens, hours and money of an audit, and the number of questions that it needs.
The command starts nothing. --seal signs design, thresholds and detectable effect before the run;
audit gate then prints each field in which the run differs.

audit plan model=scripted                            a sweep of the scripted model, embedded questions
audit plan audit=perturb model=llama3_8b n=1000
audit plan model=qwen3_8b cost.gpu_hour=2.5 --json   for programs; costs at 2.5 for an hour of a GPU
audit plan model=qwen3_8b cost.measured=RUN_DIR      hours at the pace of an earlier run

The keys are those of the audit: audit sweep --help, audit perturb --help, ...
"""

import argparse
import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from audit.commands.again import audit_named
from audit.config.audits import part_of
from audit.core.errors import UsageError
from audit.core.exits import plainly


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options that are not keys of an audit."""
    add = parser.add_argument
    add("--seal", action="store_true")
    add("--json", action="store_true")
    add("-o", "--out", type=Path)
    add("--key", type=Path)


@plainly
def main() -> int:
    """Print or seal the plan of the named audit, or of the sweep if no argument names an audit.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    UsageError
        If the audit has its own planning command, or an option of --seal is set without --seal.
    """
    words = sys.argv[1:]
    if {"--help", "-h"} & set(words):
        print((__doc__ or "").rstrip())
        return 0
    parser = argparse.ArgumentParser(prog="audit plan", add_help=False, allow_abbrev=False)
    add_arguments(parser)
    arguments, rest = parser.parse_known_args(words)
    audit, rest = audit_named(rest)
    if audit in ("suite", "plant"):
        command = shlex.join(["audit", audit, *rest, "plan=true"])
        raise UsageError(f"audit is {audit!r}. Expected its own command. Example: {command}")
    if arguments.seal:
        return _seal(audit, rest, arguments.out, arguments.key)
    if arguments.out or arguments.key:
        raise UsageError(
            "--seal is missing. Expected it with -o and --key. "
            "Example: audit plan model=scripted --seal --key alice.key"
        )
    sys.argv[1:] = ["plan=json" if arguments.json else "plan=true", *rest]
    part_of(audit, "__main__").main()
    return 0


def _seal(audit: str, words: Sequence[str], out: Path | None, key: Path | None) -> int:
    """Write a signed plan, and print its path."""
    from audit.config.command_line import NAMED_MODEL, configured
    from audit.config.project import with_project
    from audit.governance.keys import load_signer
    from audit.governance.sealed import write_seal

    words = with_project(words, audit)[0] if audit in NAMED_MODEL else words
    signer = load_signer(key)
    planned = part_of(audit, "plan").planned(configured(audit, words))
    print(f"sealed   {write_seal(planned, out, signer, datetime.now(UTC))}")
    print(f"run it   audit {audit} {shlex.join(words)}")
    return 0
