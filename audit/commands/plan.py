"""`audit plan [audit=sweep|perturb|memory|validity] <its overrides>`: what it would do, and what it could find.

Prints the calls, an estimate of tokens, hours and money (`conf/cost`), the run directory, and what the design can
detect; with `--json` for programs. Starts nothing: it is the audit's own command with `plan=true`.
"""

from __future__ import annotations

import sys

from audit.audits import AUDITS, part_of
from audit.exits import plainly

HELP = """usage: audit plan [audit=sweep|perturb|memory|validity] [--json] [key=value ...]

What an audit would do, and what it could find: calls, tokens, hours, money, questions needed. Starts nothing.

audit plan model=scripted                            the sweep of a scripted model on the embedded questions
audit plan audit=perturb model=llama3_8b n=1000
audit plan model=qwen3_8b cost.gpu_hour=2.5 --json   for programs; money at a price of your own
audit plan model=qwen3_8b cost.measured=RUN_DIR      hours at the pace of an earlier run

The keys are the audit's own: audit sweep --help, audit perturb --help, ..."""


@plainly
def main() -> int:
    """The plan of the audit that is named; the sweep's where none is. `--json` anywhere among the overrides."""
    words = sys.argv[1:]
    if {"--help", "-h"} & set(words):
        print(HELP)
        return 0
    named = [word for word in words if word.startswith("audit=")]
    command = part_of(named[-1].removeprefix("audit=") if named else AUDITS[0], "__main__")
    rest = [word for word in words if word != "--json" and word not in named]
    sys.argv[1:] = [*rest, "plan=json" if "--json" in words else "plan=true"]
    command.main()
    return 0
