"""Commands as functions of their words: `gate(["outputs/my_run"])` is `audit gate outputs/my_run`,
in this process."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from audit.commands import run
from audit.judging.simulated import add_arguments


def _command(name: str) -> Callable[..., int]:
    def command(words: Sequence[str], *now: datetime) -> int:
        return run([name, *words], *now)

    return command


def options_of(audit: Any, words: Sequence[str]) -> Namespace:
    """Of a calibration, as its command reads them."""
    parser = ArgumentParser()
    add_arguments(parser, audit)
    return parser.parse_args(words)


calibrate, chronology, compare, data, demo, evidence, export, gate, inventory = map(
    _command,
    (
        "calibrate",
        "chronology",
        "compare",
        "data",
        "demo",
        "evidence",
        "export",
        "gate",
        "inventory",
    ),
)
import_logs, overview, publish, reanalyze, references, registry = map(
    _command, ("import", "open", "publish", "reanalyze", "references", "registry")
)
leaderboard, init = _command("leaderboard"), _command("init")
report, review, runs, suite, variants, watch = map(
    _command, ("report", "review", "runs", "suite", "variants", "watch")
)
