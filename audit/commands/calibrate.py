"""How often is an audit itself wrong? `audit calibrate [audit=sweep|perturb|memory|validity|suite|early] [OPTIONS]`.

`suite` puts one simulated model through several audits, `early` stops sweeps before their last question.
"""

import sys
from importlib import import_module

from audit.audits import part_of
from audit.commands import Words
from audit.commands.again import audit_named
from audit.errors import ConfigError
from audit.exits import plainly

OTHERS = {"suite": "audit.suite.calibrate", "early": "audit.sweep.calibrate_early"}  # that are no audit's own


@plainly
def main(words: Words = None) -> int:
    """The calibration of the audit that is named; the sweep's where none is."""
    name, rest = audit_named(sys.argv[1:] if words is None else words)
    from audit.verdict.simulated import run_calibration

    try:
        simulated = import_module(OTHERS[name]) if name in OTHERS else part_of(name, "calibrate")
    except ConfigError as error:
        raise ConfigError(f"{error} Besides: {', '.join(OTHERS)}.") from None
    return run_calibration(simulated, rest, f"audit calibrate audit={name}")
