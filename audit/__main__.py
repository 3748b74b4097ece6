"""Run `audit COMMAND ...` or `python -m audit COMMAND ...`; `audit.commands` lists all commands."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from audit.commands import COMMANDS, run, tree
from audit.core.errors import unknown_name
from audit.core.exits import OK, QUIET, USAGE, refused, run_command


def main(arguments: Sequence[str] | None = None) -> int | None:
    """Run the named command. Return its exit code, or 2 if no command has this name."""
    typed = list(sys.argv[1:] if arguments is None else arguments)
    words = [word for word in typed if word != "--quiet"]
    token = QUIET.set(len(words) < len(typed))
    try:
        return _hand_over(words)
    finally:
        QUIET.reset(token)


def _hand_over(words: Sequence[str]) -> int | None:
    if not words or words[0] in ("-h", "--help", "help"):
        tree(()).print_help()
        return OK if words else USAGE
    if words[0] in ("--version", "-V", "version"):
        print(
            f"audit {version('benchmark-audit')} ({Path(__file__).parent}, Python {sys.version.split()[0]})"
        )
        return OK
    if words[0] not in COMMANDS:
        refused(unknown_name("command", words[0], COMMANDS))
        return USAGE
    if COMMANDS[words[0]].hydra:
        sys.argv = [f"audit {words[0]}", *words[1:]]
        return import_module(COMMANDS[words[0]].module).main()
    return run(words)


def console() -> None:
    """Run the `audit` command, and exit with its code."""
    if "_ARGCOMPLETE" in os.environ:  # The shell sets this variable when it asks for completions.
        from audit.commands.completion import complete

        complete(tree)
    run_command(main)


if __name__ == "__main__":
    console()
