"""`audit.report --follow`: the report of a run that goes on, built again until it ends."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from audit.errors import AuditError
from audit.report.build import ReportPaths
from audit.report.page import REFRESH_S, SO_FAR
from audit.shards.attempt import may_live
from audit.shards.manifest import MANIFEST, Manifest

SHORTEST_S = 2


def goes_on(run_dir: Path) -> bool:
    """The manifest says that the run is under way, and its driver is not known to be dead."""
    return (run_dir / MANIFEST).is_file() and Manifest.load(run_dir).status == "running" and may_live(run_dir)


def follow(
    run_dirs: Sequence[Path],
    build: Callable[[], ReportPaths],
    every_s: int,
    sleep: Callable[[float], object] = time.sleep,
    so_far: Callable[[], str] = str,
) -> ReportPaths:
    """Build every `every_s` seconds while a run goes on, and once more when all have ended; that report.

    so_far: how far the runs are, as `audit watch` shows it: stands on the page until they end.

    Until then the page asks its reader's browser to load it again as often. What cannot be built yet (no rows, no
    finished arm) is said and tried again; after the end it raises.
    """
    told = ""
    while True:
        going = any(map(goes_on, run_dirs))
        asked, shown = REFRESH_S.set(max(every_s, SHORTEST_S) if going else 0), SO_FAR.set(so_far() if going else "")
        try:
            paths = build()
        except AuditError as error:
            if not going:
                raise
            if str(error) != told:
                print(f"not yet: {error}", flush=True)
            told = str(error)
        else:
            if not going:
                return paths
            rows = ", ".join(f"{r.model} on {r.benchmark} {r.found:,} of {r.expected:,}" for r in paths.incomplete)
            print(f"built    {paths.html}  {rows or 'all answers are there'}", flush=True)
        finally:
            REFRESH_S.reset(asked)
            SO_FAR.reset(shown)
        sleep(max(every_s, SHORTEST_S))
