"""usage: audit plan [audit=sweep|perturb|memory|validity] [--json] [key=value ...]
       audit plan [audit=...] --seal [-o FILE] [--key FILE] [key=value ...]

What an audit would do, and what it could find: calls, tokens, hours, money, questions needed.
Starts nothing. --seal signs design, thresholds and detectable effect before the run; audit gate
prints where the run differs.

audit plan model=scripted                            the sweep of a scripted model on the embedded questions
audit plan audit=perturb model=llama3_8b n=1000
audit plan model=qwen3_8b cost.gpu_hour=2.5 --json   for programs; money at a price of your own
audit plan model=qwen3_8b cost.measured=RUN_DIR      hours at the pace of an earlier run

The keys are the audit's own: audit sweep --help, audit perturb --help, ...
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


def add_words(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--seal", action="store_true")
    add("--json", action="store_true")
    add("-o", "--out", type=Path)
    add("--key", type=Path)


@plainly
def main() -> int:
    """The plan of the audit that is named; the sweep's where none is. `--json` anywhere among the
    overrides."""
    words = sys.argv[1:]
    if {"--help", "-h"} & set(words):
        print((__doc__ or "").rstrip())
        return 0
    parser = argparse.ArgumentParser(prog="audit plan", add_help=False, allow_abbrev=False)
    add_words(parser)
    asked, rest = parser.parse_known_args(words)
    audit, rest = audit_named(rest)
    if audit in ("suite", "plant"):
        raise UsageError(
            f"{audit} plans by its own command. Write: {shlex.join(['audit', audit, *rest, 'plan=true'])}"
        )
    if asked.seal:
        return _seal(audit, rest, asked.out, asked.key)
    if asked.out or asked.key:
        raise UsageError(
            "-o and --key belong to --seal, such as: audit plan model=scripted --seal --key alice.key"
        )
    sys.argv[1:] = ["plan=json" if asked.json else "plan=true", *rest]
    part_of(audit, "__main__").main()
    return 0


def _seal(audit: str, words: Sequence[str], out: Path | None, key: Path | None) -> int:
    """Write a signed plan; its place is printed."""
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
