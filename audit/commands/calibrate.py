"""How often is an audit itself wrong? `audit calibrate [audit=sweep|perturb|memory|validity|suite]
[OPTIONS]`.

`suite` puts one simulated model through several audits.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from importlib import import_module
from typing import Any

from audit.commands.again import audit_named
from audit.commands.completion import offer
from audit.config.audits import every_audit, part_of
from audit.core.errors import ConfigError

OTHERS = {"suite": "audit.suite.calibrate"}  # calibrations that belong to no single audit


def add_words(parser: ArgumentParser) -> None:
    """The options of the audit that is named; the sweep's where none is."""
    from audit.judging import simulated

    named = parser.add_argument(
        "audit", nargs="?", type=_named, metavar="audit=NAME", help="default: audit=sweep"
    )
    offer(named, lambda typed: [f"audit={name}" for name in (*every_audit(), *OTHERS)])
    chosen, _ = audit_named(parser.get_default("typed"))
    parser.set_defaults(calibrated=_calibrated(chosen))
    simulated.add_words(parser, parser.get_default("calibrated"))


def run(asked: Namespace) -> int:
    """The calibration of one audit."""
    from audit.judging.simulated import run_calibration

    return run_calibration(asked.calibrated, asked)


def _named(word: str) -> str:
    if not word.startswith("audit="):
        raise ArgumentTypeError(f"{word}: expected audit=NAME")
    return word


def _calibrated(name: str) -> Any:
    """An audit's module `calibrate`. ConfigError where it has none."""
    try:
        return import_module(OTHERS[name]) if name in OTHERS else part_of(name, "calibrate")
    except ConfigError as error:
        raise ConfigError(f"{error} Besides: {', '.join(OTHERS)}.") from None
