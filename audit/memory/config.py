"""What can be set of a memory audit (the schema of conf/memory.yaml), validated before an engine is loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.config import check_run, from_composed, sample_size
from audit.errors import ConfigError
from audit.memory.design import make_design
from audit.memory.thresholds import MemoryThresholds
from audit.records import Design
from audit.references import ReferencedConfig, with_references

# of what is asked: a reference run must have been run with the same
SAME = ("seed", "n", "shard_items", "orders", "option_orders", "control_benchmark")


@dataclass
class MemoryConfig(ReferencedConfig):
    n: Any = "all"  # the order test needs every item
    shard_items: int = 5
    orders: int = 10
    option_orders: int = 5
    published_order: str | None = None  # the record that `audit publish` wrote


def register() -> None:
    """Register the schema with Hydra's ConfigStore; conf/memory.yaml is validated against it."""
    ConfigStore.instance().store(name="memory_schema", node=MemoryConfig)


def from_hydra(cfg: DictConfig) -> MemoryConfig:
    """The composed config as dataclasses, validated, with the reference models among its models."""
    config: MemoryConfig = from_composed(cfg, MemoryConfig)
    config = replace(config, model=with_references(config))
    validate(config)
    return config


def validate(config: MemoryConfig) -> None:
    """Everything that can be refused without touching a model or a benchmark. Raises ConfigError."""
    design_of(config)
    for name, model in config.model.items():
        if model.engine == "openai":
            raise ConfigError(
                f"Model {name} is an endpoint of chat completions, which does not tell the log-likelihood of a given "
                "text, and this audit reads it. Expected a model with engine vllm: the weights themselves. Of an "
                "endpoint, audit sweep can compare the score with held-out items (control_benchmark)."
            )
    MemoryThresholds.from_mapping(config.verdict)
    check_run(config)


def design_of(config: MemoryConfig) -> Design:
    return make_design(
        config.shard_items, config.orders, config.option_orders, whole=sample_size(config) is None
    )  # fmt: skip
