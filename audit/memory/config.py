"""What can be set of a memory audit (the schema of conf/memory.yaml), validated before an engine is loaded."""

from dataclasses import dataclass, replace
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.config import check_run, from_composed, sample_size
from audit.errors import ConfigError
from audit.memory.design import MemoryThresholds, make_design
from audit.records import Design
from audit.references import ReferencedConfig, with_references

# of what is asked: a reference run must have been run with the same
SAME = ("seed", "n", "shard_items", "orders", "option_orders", "control_benchmark")

ALONE = (
    "The score alone is asked, against held-out items. Left out: the likelihood of the text, the order of items and "
    "that of options. So no model is cleared."
)


@dataclass
class MemoryConfig(ReferencedConfig):
    n: Any = "all"  # the order test needs every item
    shard_items: int = 5
    orders: int = 10
    option_orders: int = 5
    published_order: str | None = None  # the record that `audit publish` wrote


ConfigStore.instance().store(name="memory_schema", node=MemoryConfig)


def from_hydra(cfg: DictConfig) -> MemoryConfig:
    """The composed config as dataclasses, validated, with the reference models among its models."""
    config: MemoryConfig = from_composed(cfg, MemoryConfig)
    config = replace(config, model=with_references(config))
    if any(model.engine == "openai" for model in config.model.values()):
        config = replace(config, orders=0, option_orders=0)
    validate(config)
    return config


def validate(config: MemoryConfig) -> None:
    """Everything that can be refused without touching a model or a benchmark. Raises ConfigError."""
    if score_alone(config) and config.control_benchmark is None:
        raise ConfigError(
            "An endpoint (and orders=0 option_orders=0) gives the score alone, which tells nothing of memory without "
            "held-out items. Expected control_data=FILE or control_benchmark=NAME, and 'references=[..]'. "
            "Example: control_data=unseen.csv 'references=[other-model,third-model]'"
        )
    design_of(config)
    MemoryThresholds.from_mapping(config.verdict)
    check_run(config)


def score_alone(config: MemoryConfig) -> bool:
    """Whether no likelihood is asked: an endpoint tells none of a given text."""
    return config.orders == config.option_orders == 0


def design_of(config: MemoryConfig) -> Design:
    return make_design(config.shard_items, config.orders, config.option_orders, whole=sample_size(config) is None)
