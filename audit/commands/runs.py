"""List the runs in a folder, with their progress and their verdicts."""

import json
from argparse import ArgumentParser, Namespace
from dataclasses import asdict

from audit.runtime.loading import entry_line, find_runs


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: the folder of runs and the output format."""
    add = parser.add_argument
    add("folder", nargs="?", default="outputs", help="a folder of runs (default: outputs)")
    add("--json", action="store_true", help="print one JSON list, for programs")


def run(arguments: Namespace) -> int:
    """Print a line for each run, with its progress and its verdicts.

    Returns
    -------
    int
        Exit code 0.

    Raises
    ------
    ConfigError
        If the folder does not exist.
    """
    entries = find_runs(arguments.folder)
    if not arguments.json:
        print("\n".join(map(entry_line, entries)) or f"{arguments.folder} holds no run.")
        return 0
    rows = []
    for entry in entries:
        row = {**asdict(entry), "path": str(entry.path), "verdicts": entry.verdicts}
        del row["cells"]
        rows.append(row)
    print(json.dumps(rows, indent=1))
    return 0
