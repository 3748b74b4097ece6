"""How often is the procedure itself wrong, in both directions? Simulated models of known truth, the real verdict.

    python -m audit.calibrate                                     designs and worlds that ship (`make calibrate`)
    python -m audit.calibrate --n 300 --routers 1..5 --draws nested --simulations 500
    python -m audit.calibrate --observed outputs/my_run           difficulties and sizes of a finished run

`audit.sweep.procedure` has the simulations; the result does not depend on --jobs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.errors import AuditError, ConfigError
from audit.sweep.design import Draws, parse_routers
from audit.sweep.thresholds import SweepThresholds
from audit.verdict.simulated import keep, make_parser

if TYPE_CHECKING:  # --help needs no statistics
    from audit.sweep.simulation import Design


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = make_parser(
        "sweep",
        __doc__,
        "Without --n and --observed, every design and world that ships is simulated (two hours or "
        "so on one core; the table that ships was made with --simulations 200).",
    )
    parser.add_argument("--n", help="questions, such as 100 or 100,500")
    parser.add_argument("--routers", default="1..9", help="router counts, such as 1..9 (default)")
    parser.add_argument("--draws", default="independent", choices=[d.value for d in Draws])
    parser.add_argument("--replicates", type=int, default=1, help="clean replicates (default 1)")
    parser.add_argument("--clean-accuracy", type=float, default=0.7)
    parser.add_argument(
        "--discordance", type=float, default=0.2, help="share of answers that differ, clean against clean"
    )
    parser.add_argument("--correlation", type=float, default=0.5, help="of nested draws over r (default 0.5)")
    parser.add_argument("--panel", type=int, default=1, help="models judged together (default 1)")
    parser.add_argument(
        "--observed", type=Path, metavar="RUN_DIR", help="take sizes and difficulties from a finished run"
    )
    parser.add_argument("--seed", type=int, default=42)
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1); the result does not depend on it")
    return parser.parse_args(arguments)


def _designs(options: argparse.Namespace) -> list[Design]:
    from audit.statistics.difficulty import beta_shape
    from audit.sweep.procedure import observed_design
    from audit.sweep.simulation import SHIPPED, Design

    if options.observed:
        return list(observed_design(options.observed))
    if not options.n:
        return list(SHIPPED)
    routers = parse_routers(options.routers)
    if routers != tuple(range(1, len(routers) + 1)):
        raise ConfigError(f"Invalid --routers {options.routers!r}: a calibration simulates r=1..R, such as 1..9.")
    beta_shape(options.clean_accuracy, options.discordance)  # raises where no model has these
    sizes = [_whole(part) for part in options.n.split(",")]
    return [
        Design(
            n=n,
            routers=len(routers),
            draws=options.draws,
            clean_replicates=options.replicates,
            clean_accuracy=options.clean_accuracy,
            discordance=options.discordance,
            correlation=options.correlation,
            panel=options.panel,
        )
        for n in sizes
    ]


def _whole(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 2:
        raise ConfigError(f"Invalid --n {text!r}: expected whole numbers of at least 2, such as 100 or 100,500.")
    return int(text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Simulate, print one line a design and world, and write the tables where asked."""
    options = _arguments(arguments)
    try:
        designs = _designs(options)
    except (AuditError, ValueError) as error:
        print(f"audit.calibrate: {error}", file=sys.stderr)
        return 1
    from audit.sweep.procedure import Effort, calibrate, markdown, outcomes, worlds_markdown
    from audit.sweep.simulation import SHIPPED, WORLDS

    total = options.simulations
    effort = Effort() if total is None else Effort(total, max(total // 2, 20), max(total // 2, 20))
    table: dict[str, Any] = {
        "seed": options.seed,
        "thresholds": SweepThresholds().to_dict(),
        "designs": [],
        "worlds": [],
    }
    with ProcessPoolExecutor(options.jobs) if options.jobs > 1 else _Serial() as pool:
        run = partial(pool.map)
        for design in designs:
            table["designs"].append(calibrate(design, effort=effort, seed=options.seed, run=run))
            keep(markdown(table["designs"]), options.out, table)
        for name, design, world in WORLDS if designs == list(SHIPPED) else ():
            count = max(effort.world // design.panel, 20)
            rates = outcomes(design, world, count, seed=options.seed, run=run)
            table["worlds"].append({"name": name, "design": asdict(design), "world": asdict(world), "rates": rates})
            keep(worlds_markdown(table["worlds"]), options.out, table)
    return 0


class _Serial:
    """A pool of one: this process."""

    map = staticmethod(map)

    def __enter__(self) -> _Serial:
        return self

    def __exit__(self, *_: object) -> None:
        return None
