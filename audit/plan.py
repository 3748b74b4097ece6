"""`audit plan <the sweep's overrides>`: what a sweep would do, and whether it could find anything.

Prints the number of calls, an estimate of tokens, hours and money (`conf/cost`), the run directory, the minimum
detectable gain and the questions that the effect of interest needs; with `--json` for programs. Starts nothing.
"""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from audit.command_line import check_composed, start
from audit.config import CONF_DIR
from audit.errors import AuditError
from audit.exits import run_command
from audit.sweep.__main__ import print_plan
from audit.sweep.config import SweepConfig, from_hydra, register

register()


def main() -> None:
    """The command: what it refuses, then Hydra, then the plan. `--json` anywhere among the overrides."""
    as_json = "--json" in sys.argv[1:]
    sys.argv[1:] = [word for word in sys.argv[1:] if word != "--json"]

    @hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="sweep")
    def composed(cfg: DictConfig) -> None:
        """Hydra's entry."""
        run_command(lambda: run_config(cfg, as_json))

    start(composed, SweepConfig)


def run_config(cfg: DictConfig, as_json: bool) -> int:
    """Check and print. Errors that teach go to stderr without a traceback."""
    try:
        check_composed()
        return print_plan(from_hydra(cfg), as_json)
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        return 1


if __name__ == "__main__":
    run_command(main)
