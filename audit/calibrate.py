"""How often is an audit itself wrong? `python -m audit.calibrate [audit=sweep|perturb|memory|validity] [OPTIONS]`.

Each audit simulates models of known truth and puts them through its own verdict; `--help` lists its options.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from audit.audits import AUDITS, part_of
from audit.errors import AuditError
from audit.exits import run_command


def main(arguments: Sequence[str] | None = None) -> int:
    """The calibration of the audit that is named; the sweep's where none is."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    named = [word for word in words if word.startswith("audit=")]
    try:
        calibrate = part_of(named[-1].removeprefix("audit=") if named else AUDITS[0], "calibrate")
    except AuditError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    code: int = calibrate.main([word for word in words if word not in named])
    return code


if __name__ == "__main__":
    run_command(main)
