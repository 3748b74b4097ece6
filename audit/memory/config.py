"""Define the options of a memory audit and check them before an engine is loaded (schema of
conf/memory.yaml).
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

# These options determine the requests. A reference run must therefore have the same values.
SAME = ("seed", "n", "shard_items", "orders", "option_orders", "control_benchmark")

ALONE = (
    "Only the score against held-out items is measured. The likelihood of the text, the order of items and the order "
    "of options are not measured, so memory of the text is not excluded."
)


@dataclass
class MemoryConfig(ReferencedConfig):
    """Hold the options of a memory audit."""

    n: Any = "all"  # the order test needs every item
    shard_items: int = 5
    orders: int = 10
    option_orders: int = 5
    published_order: str | None = None  # file of the record that `audit publish` wrote


ConfigStore.instance().store(name="memory_schema", node=MemoryConfig)


def from_hydra(cfg: DictConfig) -> MemoryConfig:
    """Convert and check a composed configuration.

    Parameters
    ----------
    cfg : DictConfig
        The composed configuration.

    Returns
    -------
    MemoryConfig
        The options. Reference models are added to the models. If a model is an endpoint, only the
        published order is sent, because an endpoint returns no likelihoods.

    Raises
    ------
    ConfigError
        If an option is invalid.
    """
    config: MemoryConfig = from_composed(cfg, MemoryConfig)
    config = replace(config, model=with_references(config))
    if any(model.engine == "openai" for model in config.model.values()):
        config = replace(config, orders=0, option_orders=0)
    validate(config)
    return config


def validate(config: MemoryConfig) -> None:
    """Check the options as far as neither a model nor a benchmark must be loaded.

    Parameters
    ----------
    config : MemoryConfig
        Options of the run.

    Raises
    ------
    ConfigError
        If an option is invalid.
    """
    if score_alone(config) and config.control_benchmark is None:
        raise ConfigError(
            "control_benchmark is not set. An endpoint, or orders=0 option_orders=0, gives only the score, and the "
            "score needs held-out items. Expected control_data=FILE or control_benchmark=NAME, and 'references=[..]'. "
            "Example: control_data=unseen.csv 'references=[other-model,third-model]'"
        )
    design_of(config)
    MemoryThresholds.from_mapping(config.verdict)
    check_run(config)


def score_alone(config: MemoryConfig) -> bool:
    """Return whether the run measures only scores, without likelihoods.

    Parameters
    ----------
    config : MemoryConfig
        Options of the run.

    Returns
    -------
    bool
        True for an endpoint, which returns no likelihood of a given text.
    """
    return config.orders == config.option_orders == 0


def design_of(config: MemoryConfig) -> Design:
    """Return the design that the options describe.

    Parameters
    ----------
    config : MemoryConfig
        Options of the run.

    Returns
    -------
    Design
        The arms of the audit and their levels.
    """
    return make_design(
        config.shard_items, config.orders, config.option_orders, whole=sample_size(config) is None
    )
