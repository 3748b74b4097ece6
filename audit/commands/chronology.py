"""Record, check and render the faults of a project or run, with their effects."""

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from audit.core.exits import refused
from audit.governance.chronology import NAME, append, missing_tests, read_chronology, render


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the subcommands add, check and render."""
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="append one entry")
    adding.add_argument("entry", help="a JSON file, or - for standard input")
    checking = commands.add_parser(
        "check", help="check that every entry is complete and that its test exists"
    )
    rendering = commands.add_parser("render", help="print the entries as markdown")
    checking.add_argument("--json", action="store_true")
    for command in (adding, checking, rendering):
        command.add_argument(
            "path",
            nargs="?",
            type=Path,
            default=Path(),
            help=f"a file, or a folder with {NAME} or docs/{NAME}",
        )


def run(arguments: Namespace) -> int:
    """Add an entry, check the entries, or print them as markdown.

    Returns
    -------
    int
        Exit code 1 if a test is missing, or if the file or the entry cannot be used. Otherwise 0.
    """
    try:
        if arguments.command == "add":
            text = (
                sys.stdin.read()
                if arguments.entry == "-"
                else Path(arguments.entry).read_text(encoding="utf-8")
            )
            print(f"added {append(arguments.path, json.loads(text)).id}")
            return 0
        chronology = read_chronology(arguments.path)
    except (OSError, ValueError) as problem:
        return refused(problem)
    if arguments.command == "render":
        print(render(chronology), end="")
        return 0
    folder = arguments.path if arguments.path.is_dir() else arguments.path.parent
    tests = folder / "tests"
    absent = missing_tests(chronology, tests) if tests.is_dir() else []
    for name in absent:
        refused(f"Test {name} is missing in {tests}. Expected a test that guards the fix.")
    if arguments.json:
        print(json.dumps({"sentence": chronology.sentence, "missing_tests": absent}, indent=1))
    else:
        print(chronology.sentence)
    return 1 if absent else 0
