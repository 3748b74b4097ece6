"""`audit runs [FOLDER]`: the runs that lie in a folder, latest first, with how far they came and their verdicts."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from audit.exits import plainly
from audit.loading import entry_line, find_runs


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="audit runs", description="An index of the runs in a folder.")
    parser.add_argument("folder", nargs="?", default="outputs", help="default: outputs")
    parser.add_argument("--json", action="store_true", help="one JSON list")
    return parser


@plainly
def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line a run; 1 where the folder does not exist."""
    asked = parser().parse_args(arguments)
    entries = find_runs(asked.folder)
    if asked.json:
        told = ({**asdict(e), "path": str(e.path), "verdicts": e.verdicts} for e in entries)
        print(json.dumps([{name: one[name] for name in one if name != "cells"} for one in told], indent=1))
    else:
        print("\n".join(map(entry_line, entries)) or f"No run in {asked.folder}.")
    return 0
