"""Every command of the program, in one table; a module here reads its words and hands over to the rooms below.

A new command is one line of _DOES.
"""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from audit.entry_points import added


@dataclass(frozen=True)
class Command:
    """module: its `main()` reads sys.argv. config: conf/<config>.yaml where it takes Hydra's overrides, else ""."""

    module: str
    does: str
    config: str = ""


Words = Sequence[str] | None  # of a command; None: those of sys.argv


def parser_of(name: str, doc: str | None, **more: Any) -> ArgumentParser:
    """A command's parser: its help begins with the first paragraph of a docstring, and ends with the others."""
    does, _, epilog = (doc or "").partition("\n\n")
    return ArgumentParser(prog=f"audit {name}", description=does, epilog=epilog, **more)


_DOES = {
    "demo": "a model before and after it read the exam: two verdicts in half a minute",
    "plan": "calls, tokens, time and power of an audit (audit=NAME); starts nothing",
    "sweep": "router-worker audit: gains where noise should cost",
    "perturb": "the same questions in other words",
    "memory": "has it read the benchmark? likelihoods, held-out items",
    "validity": "construct validity: edits that move answers, or should not",
    "suite": "several audits of one pinned model, on one engine; one decision",
    "watch": "how far a run is: rows, accuracy, time left, money, one reply",
    "import": "finished evaluations of other tools, as a run; their held-out gap",
    "data": "show how a question file is read, and the options that read it",
    "references": "sets of other models' answers, to compare with",
    "inventory": "which benchmarks a model could have read",
    "variants": "build, list and review libraries of reworded questions",
    "publish": "a benchmark's items and options in a random order that is recorded",
    "runs": "the runs in a folder, with how far they came and their verdicts",
    "open": "a page of all runs in a folder, in the browser",
    "report": "build the report of finished runs again; several: a panel or one page",
    "compare": "two versions of a model, question by question: what changed",
    "export": "a run's answers, or an audit's items, in the formats of other tools",
    "gate": "a run's verdict as an exit code",
    "review": "signed decisions on a run: approve, reject, override",
    "evidence": "pack what a verdict rests on, signed; verify a pack",
    "registry": "finished runs in a database: trends, retention, rotation, notices",
    "calibrate": "the procedure's own error rates, simulated",
    "plant": "teach a model half of a benchmark: what would the audits see?",
    "reanalyze": "the paper's published table under exact tests",
    "chronology": "the faults of a project or run: add, check, render",
    "completion": "print the completion script of bash, zsh or fish",
}
_APART = ("sweep", "perturb", "memory", "validity", "plant")  # a folder of their own, and conf/NAME.yaml
COMMANDS = {
    name: Command(f"audit.{name}.__main__", does, name) if name in _APART else Command(f"audit.commands.{name}", does)
    for name, does in _DOES.items()
}
COMMANDS["plan"] = Command("audit.commands.plan", _DOES["plan"], "sweep")
COMMANDS["import"] = Command("audit.commands.import_logs", _DOES["import"])  # a keyword is no name of a module
# A name of ours keeps its meaning.
_ADDED = {
    name: Command(f"{one.value}.__main__", f"an audit of the package {one.value}", name)
    for name, one in added("audits").items()
    if name not in COMMANDS
}
COMMANDS |= _ADDED
# The first command of each group -> its heading in `audit --help`.
HEADINGS = {"demo": "run", "data": "prepare", "runs": "read", "gate": "decide", "calibrate": "calibrate and set up"}
HEADINGS |= dict.fromkeys(list(_ADDED)[:1], "of other packages")
