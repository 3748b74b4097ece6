"""Define the options of a memory audit (the schema of conf/memory.yaml), validated before an engine
is loaded.
"""

from dataclasses import dataclass, replace
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.config.base import check_run, from_composed, sample_size
from audit.config.references import ReferencedConfig, with_references
from audit.core.errors import ConfigError
from audit.core.records import Design
from audit.memory.design import MemoryThresholds, make_design

# A reference run must have equal values of these options, which decide what is sent.
SAME = ("seed", "n", "shard_items", "orders", "option_orders", "control_benchmark")

ALONE = (
    "Only the score is measured, against held-out items. Left out: the likelihood of the text, the order of items and "
    "that of options. So memory of the text is not cleared."
)


@dataclass
class MemoryConfig(ReferencedConfig):
    n: Any = "all"  # the order test needs every item
    shard_items: int = 5
    orders: int = 10
    option_orders: int = 5
    published_order: str | None = None  # file of the record that `audit publish` wrote


ConfigStore.instance().store(name="memory_schema", node=MemoryConfig)


def from_hydra(cfg: DictConfig) -> MemoryConfig:
    """Convert and validate a composed configuration, with the reference models among its models.

    Parameters
    ----------
    cfg : DictConfig
        The composed configuration.

    Returns
    -------
    MemoryConfig
        Without orders if a model is an endpoint, which gives no likelihoods.

    Raises
    ------
    ConfigError
        For the first invalid option.
    """
    config: MemoryConfig = from_composed(cfg, MemoryConfig)
    config = replace(config, model=with_references(config))
    if any(model.engine == "openai" for model in config.model.values()):
        config = replace(config, orders=0, option_orders=0)
    validate(config)
    return config


def validate(config: MemoryConfig) -> None:
    """Check everything that needs neither a model nor a benchmark.

    Parameters
    ----------
    config : MemoryConfig
        The options.

    Raises
    ------
    ConfigError
        For the first option that is invalid.
    """
    if score_alone(config) and config.control_benchmark is None:
        raise ConfigError(
            "control_benchmark is not set. An endpoint (and orders=0 option_orders=0) gives the score alone, which "
            "needs held-out items. Expected control_data=FILE or control_benchmark=NAME, and 'references=[..]'. "
            "Example: control_data=unseen.csv 'references=[other-model,third-model]'"
        )
    design_of(config)
    MemoryThresholds.from_mapping(config.verdict)
    check_run(config)


def score_alone(config: MemoryConfig) -> bool:
    """Return whether no likelihoods are read; an endpoint gives no likelihood of a given text."""
    return config.orders == config.option_orders == 0


def design_of(config: MemoryConfig) -> Design:
    """Return the design of the options.

    Parameters
    ----------
    config : MemoryConfig
        The options.

    Returns
    -------
    Design
        Its arms and levels.
    """
    return make_design(
        config.shard_items, config.orders, config.option_orders, whole=sample_size(config) is None
    )
