"""How often is an audit itself wrong? `audit calibrate [audit=sweep|perturb|memory|validity|suite|early] [OPTIONS]`.

`suite` puts one simulated model through several audits, `early` stops sweeps before their last question.
"""

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from audit.audits import part_of
from audit.commands.again import audit_named
from audit.errors import ConfigError
from audit.exits import plainly

OTHERS = {"suite": "audit.suite.calibrate", "early": "audit.sweep.calibrate_early"}  # that are no audit's own


@plainly
def main(arguments: Sequence[str] | None = None) -> int:
    """The calibration of the audit that is named; the sweep's where none is."""
    name, rest = audit_named(sys.argv[1:] if arguments is None else arguments)
    from audit.verdict.simulated import run_calibration

    return run_calibration(_simulated(name), rest, f"audit calibrate audit={name}")


def _simulated(name: str) -> Any:
    """The module with the `procedures` of that name; loaded here, since each takes a while."""
    if name in OTHERS:
        return import_module(OTHERS[name])
    try:
        return part_of(name, "calibrate")
    except ConfigError as error:
        raise ConfigError(f"{error} Besides: {', '.join(OTHERS)}.") from None
