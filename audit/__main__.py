"""`audit COMMAND ...`, or `python -m audit COMMAND ...`; the table of all is `audit.commands`."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from audit.commands import COMMANDS, HEADINGS
from audit.errors import unknown_name
from audit.exits import OK, USAGE, refused, run_command


def help_text() -> str:
    lines = []
    for name, command in COMMANDS.items():
        lines += [f"\n{HEADINGS[name]}"] if name in HEADINGS else []
        lines.append(f"  {name:<11} {command.does}")
    return (
        "usage: audit COMMAND ...\n\nIs a benchmark score ability, or memory of the exam?\n"
        + "\n".join(lines)
        + "\n\naudit COMMAND --help says more. First: audit plan model=scripted, then audit sweep."
    )


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Hand over to the command; 2 where there is none of that name."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(help_text())
        return OK if words else USAGE
    if words[0] in ("--version", "-V", "version"):
        print(f"audit {version('benchmark-audit')} ({Path(__file__).parent}, Python {sys.version.split()[0]})")
        return OK
    if words[0] not in COMMANDS:
        refused(unknown_name("command", words[0], COMMANDS))
        return USAGE
    sys.argv = [f"audit {words[0]}", *words[1:]]
    return import_module(COMMANDS[words[0]].module).main()


def console() -> None:
    """The `audit` command."""
    if "_ARGCOMPLETE" in os.environ:  # the shell asks what may come next
        from audit.commands.completion import complete

        complete()
    run_command(main)


if __name__ == "__main__":
    console()
