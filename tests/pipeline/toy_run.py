"""The toy audit as a command would run it: composed, resolved, run."""

from __future__ import annotations

from pathlib import Path

from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from toy_audit import TOY, ToyConfig

from audit.config import CONF_DIR, check_run
from audit.resolve import resolve_run
from audit.runtime.progress import Display
from audit.runtime.run import RunResult, run_audit


def configured(*overrides: str) -> ToyConfig:
    """The sweep's configuration files serve any audit; of their keys a toy reads the shared ones."""
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF_DIR)):
        groups = ["+model=[scripted]", "+benchmark=elementary", "+protocol=song2026", "+cluster=local"]
        composed = compose(overrides=[*groups, *(f"++{word}" for word in overrides)])
    config = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(ToyConfig), composed))
    assert isinstance(config, ToyConfig)
    check_run(config, TOY.answering, TOY.templates)
    return config


def run_toy(run_dir: Path, *overrides: str) -> RunResult:
    config = configured(f"run_dir={run_dir}", "progress=false", *overrides)
    with Display(quiet=True) as display:
        return run_audit(resolve_run(TOY, config), {"seed": config.seed}, display)
