"""`python -m audit.plan <the sweep's overrides>`: what a sweep would do, and whether it could find anything.

Prints the number of calls, an estimate of tokens, the run directory and the minimum detectable gain. Starts nothing.
"""

from __future__ import annotations

import sys

import hydra
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from audit.command_line import check_composed, start
from audit.config import CONF_DIR
from audit.errors import AuditError
from audit.sweep.__main__ import print_plan
from audit.sweep.config import SweepConfig, from_hydra, register

register()


@hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name="sweep")
def _composed(cfg: DictConfig) -> None:
    """Hydra's entry."""
    try:
        check_composed()
        sys.exit(print_plan(from_hydra(cfg)))
    except (AuditError, OmegaConfBaseException) as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)


def main() -> None:
    """The command: what it refuses, then Hydra, then the plan."""
    start(_composed, SweepConfig)


if __name__ == "__main__":
    main()
