"""`audit open [FOLDER]`: write the index page of a folder of runs, and open it in the browser where there is one."""

import argparse
from collections.abc import Sequence

from audit.exits import OK, plainly
from audit.shards.working_copy import local_folder


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="audit open", description="A page of the runs in a folder: verdicts, scores, reports. Asks no network."
    )
    parser.add_argument("folder", type=local_folder, nargs="?", default="outputs", help="default: outputs")
    parser.add_argument("--no-browser", action="store_true", help="only print where the page is")
    return parser


@plainly
def main(arguments: Sequence[str] | None = None) -> int:
    """Print the page's path; 1 where the folder does not exist."""
    asked = parser().parse_args(arguments)
    from audit.overview import write_overview

    page = write_overview(asked.folder)
    print(page)
    if not asked.no_browser:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())
    return OK
