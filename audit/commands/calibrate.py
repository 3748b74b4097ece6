"""Simulate how often an audit is wrong: `audit calibrate [audit=NAME] [OPTIONS]`.

NAME is sweep, perturb, memory, validity or suite. `suite` runs several audits on one simulated
model.
"""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from importlib import import_module
from typing import Any

from audit.commands.again import add_force, audit_named
from audit.commands.completion import offer
from audit.config.audits import every_audit, part_of
from audit.core.errors import ConfigError

OTHERS = {"suite": "audit.suite.calibrate"}  # calibrations that simulate several audits together


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the options of the named audit, or of the sweep if no argument names an audit."""
    from audit.judging import simulated

    named = parser.add_argument(
        "audit", nargs="?", type=_named, metavar="audit=NAME", help="default: audit=sweep"
    )
    offer(named, lambda typed: [f"audit={name}" for name in (*every_audit(), *OTHERS)])
    chosen, _ = audit_named(parser.get_default("typed"))
    parser.set_defaults(calibrated=_calibrated(chosen))
    simulated.add_arguments(parser, parser.get_default("calibrated"))
    add_force(parser)


def run(arguments: Namespace) -> int:
    """Simulate the error rates of one audit and print them.

    Returns
    -------
    int
        Exit code 0.
    """
    from audit.judging.simulated import run_calibration
    from audit.shards.files import check_new

    if arguments.out is not None:
        check_new(arguments.out, force=arguments.force)
    return run_calibration(arguments.calibrated, arguments)


def _named(word: str) -> str:
    if not word.startswith("audit="):
        raise ArgumentTypeError(f"Argument is {word!r}. Expected audit=NAME. Example: audit=memory")
    return word


def _calibrated(name: str) -> Any:
    """Return the module `calibrate` of an audit. Raises ConfigError if it has no such module."""
    try:
        return import_module(OTHERS[name]) if name in OTHERS else part_of(name, "calibrate")
    except ConfigError as error:
        raise ConfigError(f"{error} {', '.join(OTHERS)} can be calibrated too.") from None
