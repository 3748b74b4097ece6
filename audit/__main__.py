"""`audit COMMAND ...`, or `python -m audit COMMAND ...`: every command of the program, in one table.

A new command is one line of COMMANDS. `python -m audit.<module> ...` does the same as `audit <command> ...`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from audit.exits import OK, USAGE, run_command


@dataclass(frozen=True)
class Command:
    """module: its `main()` reads sys.argv. config: conf/<config>.yaml where it takes Hydra's overrides, else ""."""

    module: str
    does: str
    config: str = ""


COMMANDS: dict[str, Command] = {
    "sweep": Command("audit.sweep.__main__", "router-worker audit: gains where noise should cost", "sweep"),
    "perturb": Command("audit.perturb.__main__", "the same questions in other words", "perturb"),
    "memory": Command("audit.memory.__main__", "has it read the benchmark? likelihoods, fresh items", "memory"),
    "validity": Command(
        "audit.validity.__main__", "construct validity: edits that move answers, or should not", "validity"
    ),
    "suite": Command("audit.suite.__main__", "several audits of one pinned model, on one engine; one decision"),
    "plant": Command("audit.plant.__main__", "teach a model half of a benchmark: what would the audits see?", "plant"),
    "variants": Command("audit.variants.__main__", "build, list and review libraries of reworded questions"),
    "plan": Command("audit.plan", "calls, tokens, time and power of an audit (audit=NAME); starts nothing", "sweep"),
    "report": Command("audit.report.__main__", "build the report of finished runs again; several: a panel or one page"),
    "gate": Command("audit.gate", "a run's verdict as an exit code"),
    "review": Command("audit.review", "signed decisions on a run: approve, reject, override"),
    "evidence": Command("audit.evidence", "pack what a verdict rests on, signed; verify a pack"),
    "export": Command("audit.export", "a run's answers as logs that `inspect view` opens"),
    "compare": Command("audit.compare", "two versions of a model, question by question: what changed"),
    "registry": Command("audit.registry.__main__", "finished runs in a database: trends, retention, rotation, notices"),
    "runs": Command("audit.runs", "the runs in a folder, with how far they came and their verdicts"),
    "calibrate": Command("audit.calibrate", "the procedure's own error rates, simulated"),
    "reanalyze": Command("audit.reanalyze", "the paper's published table under exact tests"),
    "chronology": Command("audit.chronology", "the faults of a project or run: add, check, render"),
    "completion": Command("audit.completion", "print the completion script of bash, zsh or fish"),
}


def help_text() -> str:
    lines = [f"  {name:<11} {command.does}" for name, command in COMMANDS.items()]
    return (
        "usage: audit COMMAND ...\n\nIs a benchmark score ability, or memory of the exam?\n\n"
        + "\n".join(lines)
        + "\n\naudit COMMAND --help says more. First: audit plan model=scripted, then audit sweep."
    )


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Hand over to the command; 2 where there is none of that name."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return OK if words else USAGE
    if words[0] not in COMMANDS:
        from audit.errors import unknown_name

        print(f"error: {unknown_name('command', words[0], COMMANDS)}", file=sys.stderr)
        return USAGE
    sys.argv = [f"audit {words[0]}", *words[1:]]
    result: int | None = import_module(COMMANDS[words[0]].module).main()
    return result


def console() -> None:
    """The `audit` command."""
    run_command(main)


if __name__ == "__main__":
    console()
