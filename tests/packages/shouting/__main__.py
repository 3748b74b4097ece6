"""`audit shouting model=... benchmark=...`."""

from audit.command_line import start
from audit.conduct import Prepared, conduct
from audit.exits import run_command
from shouting.config import ShoutingConfig, ShoutingThresholds, from_hydra


def main() -> None:
    start(ShoutingConfig, from_hydra, shouting)


def shouting(config: ShoutingConfig) -> int:
    from shouting.plan import resolve

    thresholds = ShoutingThresholds.from_mapping(config.verdict)
    return conduct("shouting", config, "resolving", lambda: Prepared(resolve(config), thresholds, {}))


if __name__ == "__main__":
    run_command(main)
