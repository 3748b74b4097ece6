"""`audit shouting model=... benchmark=...`."""

from __future__ import annotations

from collections.abc import Callable

from omegaconf import DictConfig

from audit.command_line import run_composed, start
from audit.exits import run_command
from shouting.config import ShoutingConfig, ShoutingThresholds, from_hydra, register

register()


def main() -> None:
    start(run_config, ShoutingConfig)


def run_config(cfg: DictConfig, check: Callable[[], None] = lambda: None) -> int:
    return run_composed(cfg, check, from_hydra, shouting)


def shouting(config: ShoutingConfig) -> int:
    from shouting.plan import resolve, show

    if config.plan:
        return show(config)
    from audit.registry.finish import hooks
    from audit.runtime.progress import Display
    from audit.runtime.run import run_audit
    from audit.summary import conclude
    from shouting.report import build_report

    thresholds = ShoutingThresholds.from_mapping(config.verdict).to_dict()
    with Display(quiet=not config.progress) as display:
        asked = {"seed": config.seed, "thresholds": thresholds}
        result = run_audit(resolve(config), asked, display, hooks=hooks(config.registry))
    paths = build_report([result.run_dir], result.run_dir / "report") if config.report and result.rows else None
    return conclude(config, result.run_dir, result.failed, paths)


if __name__ == "__main__":
    run_command(main)
