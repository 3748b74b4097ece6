"""`audit shouting model=... benchmark=...`."""

from audit.config.command_line import start
from audit.core.exits import run_command
from audit.judging.thresholds import Thresholds
from audit.runtime.conduct import conduct_answers
from shouting.config import ShoutingConfig, from_hydra


def main() -> None:
    start(ShoutingConfig, from_hydra, shouting)


def shouting(config: ShoutingConfig) -> int:
    return conduct_answers("shouting", config, Thresholds)


if __name__ == "__main__":
    run_command(main)
