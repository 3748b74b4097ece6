"""The verdict as an exit code: `python -m audit.gate RUN_DIR`.

    0  no excess detected, or an excess explained by ensembling
    1  the run failed: there is no verdict to read
    3  excess
    4  withheld, gain uncontrolled, brittle or underpowered

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

from audit.verdict.result import RunVerdict, Verdict

NO_EXCESS, RUN_FAILED, EXCESS, NOT_CLEARED = 0, 1, 3, 4
_CODE = {
    Verdict.NO_EXCESS: NO_EXCESS,
    Verdict.EXCESS_EXPLAINED: NO_EXCESS,
    Verdict.EXCESS: EXCESS,
    Verdict.WITHHELD: NOT_CLEARED,
    Verdict.UNCONTROLLED: NOT_CLEARED,
    Verdict.BRITTLE: NOT_CLEARED,
    Verdict.UNDERPOWERED: NOT_CLEARED,
}
_WORST_FIRST = (EXCESS, NOT_CLEARED, NO_EXCESS)


def exit_code(verdict: RunVerdict | Mapping[str, Any]) -> int:
    """The exit code of a run's verdict (or of what verdict.json holds). Raises ValueError for an unknown verdict."""
    cells = verdict.cells if isinstance(verdict, RunVerdict) else verdict["cells"]
    found = {_CODE[Verdict(c["verdict"] if isinstance(c, Mapping) else c.verdict)] for c in cells}
    return next((code for code in _WORST_FIRST if code in found), RUN_FAILED)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the verdict of a finished run and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m audit.gate",
        description="Turn the verdict of a finished run into an exit code.",
        epilog="Exit codes: 0 no excess detected or explained by ensembling; 1 the run failed; 3 excess; "
        "4 withheld, gain uncontrolled, brittle or underpowered. A panel has the code of its worst cell: 3, 4, 0.",
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
    console = Console(highlight=False, soft_wrap=True)
    for cell in verdict["cells"]:
        console.print(Text(f"{str(cell['verdict']).replace('_', ' ').upper()}  {cell.get('headline', '')}"))
        for reason in cell.get("reasons", ()):
            console.print(Text(f"  - {reason}"))
        for control in cell.get("controls_missing", ()):
            console.print(Text(f"  not run: {control}"))
    if not verdict["cells"]:
        return _failed(f"{path} holds no cell: nothing was measured.")
    return code


def _failed(message: str) -> int:
    print(message, file=sys.stderr)
    return RUN_FAILED


if __name__ == "__main__":
    sys.exit(main())
