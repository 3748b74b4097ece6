"""`audit shouting model=... benchmark=...`."""

from audit.command_line import start
from audit.conduct import conduct_answers
from audit.exits import run_command
from shouting.config import ShoutingConfig, ShoutingThresholds, from_hydra


def main() -> None:
    start(ShoutingConfig, from_hydra, shouting)


def shouting(config: ShoutingConfig) -> int:
    return conduct_answers("shouting", config, ShoutingThresholds)


if __name__ == "__main__":
    run_command(main)
