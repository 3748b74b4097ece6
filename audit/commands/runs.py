"""An index of the runs in a folder."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from audit.runtime.loading import entry_line, find_runs


def add_words(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("folder", nargs="?", default="outputs", help="default: outputs")
    add("--json", action="store_true", help="one JSON list")


def run(asked: Namespace) -> int:
    """Print a line a run; 1 where the folder does not exist."""
    entries = find_runs(asked.folder)
    if asked.json:
        told = ({**asdict(e), "path": str(e.path), "verdicts": e.verdicts} for e in entries)
        print(
            json.dumps(
                [{name: one[name] for name in one if name != "cells"} for one in told], indent=1
            )
        )
    else:
        print("\n".join(map(entry_line, entries)) or f"No run in {asked.folder}.")
    return 0
