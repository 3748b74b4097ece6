"""The verdict as an exit code: `python -m audit.gate RUN_DIR`.

    0  no excess detected, or an excess explained by ensembling; of the perturbation audit: no drop detected;
       of the memory audit: nothing seen by this instrument
    1  the run failed or is incomplete: there is no verdict to read, or it is over a part of what was asked for
    3  excess; drop beyond reference; memory of the text seen, gap to fresh items
    4  withheld, gain uncontrolled, brittle (cause unknown) or underpowered

A panel has the code of its worst cell, in the order 3, 4, 0: an excess anywhere is reported even where another cell was
withheld. A run without a single cell has failed. (2 is left to the command line's own usage errors.)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from audit.audits import audit_of
from audit.errors import AuditError
from audit.memory.vocabulary import VERDICTS as MEMORY_VERDICTS
from audit.perturb.vocabulary import VERDICTS as PERTURB_VERDICTS
from audit.records import CellRows
from audit.shards.complete import cell_rows, contents, count_rows
from audit.shards.files import SHARDS
from audit.shards.manifest import MANIFEST
from audit.verdict.result import RunVerdict
from audit.verdict.vocabulary import VERDICTS

NO_EXCESS, RUN_FAILED, EXCESS, NOT_CLEARED = 0, 1, 3, 4
_CODE: dict[str, int] = {  # by the word that verdict.json has, of every audit
    **{verdict: word.exit_code for verdict, word in VERDICTS.items()},
    **{verdict: word.exit_code for verdict, word in PERTURB_VERDICTS.items()},
    **{verdict: word.exit_code for verdict, word in MEMORY_VERDICTS.items()},
}
_WORST_FIRST = (EXCESS, NOT_CLEARED, NO_EXCESS)


def exit_code(verdict: RunVerdict | Mapping[str, Any]) -> int:
    """The exit code of a run's verdict (or of what verdict.json holds). Raises ValueError for an unknown verdict."""
    cells = verdict.cells if isinstance(verdict, RunVerdict) else verdict["cells"]
    found = {_code(c["verdict"] if isinstance(c, Mapping) else c.verdict) for c in cells}
    if not all(rows.complete for rows in _rows(verdict)):
        return RUN_FAILED
    return next((code for code in _WORST_FIRST if code in found), RUN_FAILED)


def _code(verdict: str) -> int:
    if verdict not in _CODE:
        raise ValueError(f"unknown verdict {verdict!r}; expected one of {', '.join(map(str, _CODE))}")
    return _CODE[verdict]


def _rows(verdict: RunVerdict | Mapping[str, Any]) -> Sequence[CellRows]:
    return verdict.rows if isinstance(verdict, RunVerdict) else [CellRows(**rows) for rows in verdict["rows"]]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict of a finished run and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m audit.gate",
        description="Turn the verdict of a finished run into an exit code.",
        epilog="Exit codes: 0 no excess detected or explained by ensembling, no drop detected, nothing seen by the "
        "memory audit; 1 the run failed or is incomplete; 3 excess, drop beyond reference, memory of the text seen, "
        "gap to fresh items; 4 withheld, gain uncontrolled, brittle (cause unknown) or "
        "underpowered. A panel has the code of its worst cell: "
        "3, then 4, then 0.",
    )
    parser.add_argument("run_dir", type=Path, help="a run directory, such as outputs/my_run")
    code = print_verdict(parser.parse_args(arguments).run_dir)
    if code != RUN_FAILED:
        print(f"exit code {code}")
    return code


def print_verdict(run_dir: Path) -> int:
    """Print each cell's verdict with its reasons; the exit code that it stands for."""
    path = run_dir / "report" / "verdict.json"
    try:
        verdict = json.loads(path.read_text(encoding="utf-8"))
        code = exit_code(verdict)
        stale = _not_of_these_shards(run_dir, verdict)
    except FileNotFoundError:
        return _failed(
            f"{path} is missing: the run did not finish, or its report was not built (audit.report {run_dir})."
        )
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        return _failed(f"{path} is not JSON ({error}). Build it again: python -m audit.report {run_dir}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        return _failed(
            f"{path} is not a verdict of this program ({error!r}). Expected the keys of verdict.schema.json."
        )
    if stale:
        return _failed(stale)
    console = Console(highlight=False, soft_wrap=True)
    for rows in _rows(verdict):
        if not rows.complete:
            console.print(Text(f"{rows.watermark.upper()}: {rows.model} on {rows.benchmark}"))
    for cell in verdict["cells"]:
        console.print(Text(f"{str(cell['verdict']).replace('_', ' ').upper()}  {cell.get('headline', '')}"))
        for reason in cell.get("reasons", ()):
            console.print(Text(f"  - {reason}"))
        for control in cell.get("controls_missing", ()):
            console.print(Text(f"  not run: {control}"))
    if not verdict["cells"]:
        return _failed(f"{path} holds no cell: nothing was measured.")
    return code


def _not_of_these_shards(run_dir: Path, verdict: Mapping[str, Any]) -> str:
    """Why the verdict is not on the shards that lie beside it now; empty when it is, or when there are none to read."""
    if not (run_dir / SHARDS).exists() and not (run_dir / MANIFEST).exists():
        return ""  # the report alone was copied, or it is a panel's
    try:
        seen = count_rows(run_dir, audit_of(run_dir).schema)
        rows = cell_rows(run_dir, seen)
    except AuditError as error:
        return str(error)
    if any(run["models"] == contents(seen) for run in verdict["runs"]):
        return ""
    missing = "".join(f"{r.watermark.upper()}: {r.model} on {r.benchmark}.\n" for r in rows if not r.complete)
    return (
        f"{missing}The verdict of {run_dir} was not made from the {sum(seen.values()):,} answers that its shards hold "
        f"now. Build it again: python -m audit.report {run_dir}"
    )


def _failed(message: str) -> int:
    print(message, file=sys.stderr)
    return RUN_FAILED


if __name__ == "__main__":
    sys.exit(main())
