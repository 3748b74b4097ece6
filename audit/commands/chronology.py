"""Add, check and render the faults of a project or run, with their effects."""

import json
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from audit.core.exits import refused
from audit.governance.chronology import NAME, append, missing_tests, read_chronology, render


def add_words(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True)
    adding = commands.add_parser("add", help="append one entry")
    adding.add_argument("entry", help="a JSON file, or - for standard input")
    checking = commands.add_parser("check", help="every entry is whole, and its test exists")
    rendering = commands.add_parser("render", help="markdown")
    checking.add_argument("--json", action="store_true")
    for command in (adding, checking, rendering):
        command.add_argument(
            "path",
            nargs="?",
            type=Path,
            default=Path(),
            help=f"a file, or a folder with {NAME} or docs/{NAME}",
        )


def run(options: Namespace) -> int:
    """Return 0, or 1 if a named test is missing or the file or entry cannot be used."""
    try:
        if options.command == "add":
            text = (
                sys.stdin.read()
                if options.entry == "-"
                else Path(options.entry).read_text(encoding="utf-8")
            )
            print(f"added {append(options.path, json.loads(text)).id}")
            return 0
        chronology = read_chronology(options.path)
    except (OSError, ValueError) as problem:
        return refused(problem)
    if options.command == "render":
        print(render(chronology), end="")
        return 0
    folder = options.path if options.path.is_dir() else options.path.parent
    tests = folder / "tests"
    absent = missing_tests(chronology, tests) if tests.is_dir() else []
    for name in absent:
        refused(f"no test {name} below {tests}: the fix is not guarded.")
    if options.json:
        print(json.dumps({"sentence": chronology.sentence, "missing_tests": absent}, indent=1))
    else:
        print(chronology.sentence)
    return 1 if absent else 0
