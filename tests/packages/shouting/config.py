"""What can be set: the schema of conf/shouting.yaml."""

from dataclasses import dataclass

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.config.base import RunConfig, check_run, from_composed
from audit.core.errors import ConfigError
from audit.core.records import Design, Part
from audit.judging.thresholds import Thresholds


@dataclass
class ShoutingConfig(RunConfig):
    volumes: int = 2


ConfigStore.instance().store(name="shouting_schema", node=ShoutingConfig)


def from_hydra(cfg: DictConfig) -> ShoutingConfig:
    config = from_composed(cfg, ShoutingConfig)
    if config.volumes < 1:
        raise ConfigError(f"volumes is {config.volumes}. Expected 1 or more. Example: volumes=2")
    Thresholds.from_mapping(config.verdict)
    check_run(config)
    return config


def design_of(config: ShoutingConfig) -> Design:
    """The question as it is, and once at each volume; its own part each, so that each is run again
    alone."""
    return Design(
        (Part("original", (0,)), *(Part("variant", (k,)) for k in range(1, config.volumes + 1)))
    )
