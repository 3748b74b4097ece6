"""`audit runs [FOLDER]`: the runs that lie in a folder, latest first, with how far they came and their verdicts."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from audit.errors import AuditError
from audit.exits import run_command
from audit.loading import entry_line, find_runs
from audit.printable import one_line


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line a run; 1 where the folder does not exist."""
    parser = argparse.ArgumentParser(prog="audit runs", description="An index of the runs in a folder.")
    parser.add_argument("folder", nargs="?", default="outputs", help="default: outputs")
    parser.add_argument("--json", action="store_true", help="one JSON list")
    asked = parser.parse_args(arguments)
    try:
        entries = find_runs(asked.folder)
    except AuditError as error:
        print(f"error: {one_line(error)}", file=sys.stderr)
        return 1
    if asked.json:
        print(json.dumps([{**asdict(e), "path": str(e.path)} for e in entries], indent=1))
    else:
        print("\n".join(map(entry_line, entries)) or f"No run in {asked.folder}.")
    return 0


if __name__ == "__main__":
    run_command(main)
