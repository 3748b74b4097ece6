"""Show the progress of a run or suite: rows, accuracy, unparsed share, pace, time left, money.

The table also shows one reply of the model.

example: audit watch outputs/my_run
"""

import json
import time
from argparse import ArgumentParser, Namespace
from contextlib import nullcontext

from audit.core.exits import FAILED, OK
from audit.shards.working_copy import local_folder

_EVERY_S = 3


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's arguments: the run and the output format."""
    add = parser.add_argument
    add("run_dir", type=local_folder, metavar="RUN_DIR", help="a run, or the folder of a suite")
    add("--once", action="store_true", help="print one table and end")
    add("--json", action="store_true", help="print the counts once as JSON, for programs")


def run(arguments: Namespace) -> int:
    """Print the table every three seconds until the run ends. A terminal shows only the latest
    table.

    Returns
    -------
    int
        Exit code 0, or 1 if the run cannot be read at the end.
    """
    from rich.console import Console
    from rich.live import Live

    from audit.report.build import goes_on
    from audit.runtime.watch import counted, look, runs_of
    from audit.shards.manifest import Manifest

    runs, console = runs_of(arguments.run_dir), Console(highlight=False)
    if runs == [arguments.run_dir]:
        Manifest.load(arguments.run_dir)  # This raises an error if there is no manifest.
    if arguments.json:
        print(json.dumps([counted(run_dir) for run_dir in runs], indent=1))
        return OK
    with (
        Live(console=console, auto_refresh=False) if console.is_terminal else nullcontext() as live
    ):
        while True:
            going = not arguments.once and any(map(goes_on, runs))
            shown, well = look(runs)
            if live is None:
                console.print(shown)
            else:
                live.update(shown, refresh=True)
            if not going:
                return OK if well else FAILED
            time.sleep(_EVERY_S)
