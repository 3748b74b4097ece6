"""Define the options of a perturbation audit (the schema of conf/perturb.yaml), validated before an
engine is loaded.
"""

from dataclasses import dataclass, replace
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.config.base import check_run, from_composed
from audit.config.references import ReferencedConfig, with_references
from audit.core.errors import ConfigError, check_known
from audit.core.records import Design
from audit.perturb.design import PerturbThresholds, make_design
from audit.variants.select import SHORT

SAME = ("variants",)  # options whose values must be equal in a reference run


@dataclass
class PerturbConfig(ReferencedConfig):
    variants: str | None = (
        None  # a library's hash, path or name; null takes the library named as the benchmark
    )
    control_variants: str | None = None  # library of the held-out items (control_benchmark)
    n: Any = None  # null takes as many questions as the plan needs, at most all
    num_variants: int = 3
    short: str = "keep"
    original_replicates: int = 2


ConfigStore.instance().store(name="perturb_schema", node=PerturbConfig)


def from_hydra(cfg: DictConfig) -> PerturbConfig:
    """Convert and validate a composed configuration, with the reference models among its models.

    Parameters
    ----------
    cfg : DictConfig
        The composed configuration.

    Returns
    -------
    PerturbConfig
        The validated options.

    Raises
    ------
    ConfigError
        For the first invalid option.
    """
    config: PerturbConfig = from_composed(cfg, PerturbConfig)
    config = replace(config, model=with_references(config))
    validate(config)
    return config


def validate(config: PerturbConfig) -> None:
    """Check everything that needs neither a model nor a benchmark nor a library.

    Parameters
    ----------
    config : PerturbConfig
        The options.

    Raises
    ------
    ConfigError
        For the first option that is invalid.
    """
    design_of(config)
    check_known("value of short", config.short, SHORT)
    if config.control_variants is not None and config.control_benchmark is None:
        raise ConfigError(
            f"control_variants is {config.control_variants}, and control_benchmark is not set. Expected both. Example: "
            "control_benchmark=mcq_file control_benchmark.path=fresh.jsonl control_benchmark.name=fresh"
        )
    PerturbThresholds.from_mapping(config.verdict)
    check_run(config)


def design_of(config: PerturbConfig) -> Design:
    """Return the design of the options."""
    return make_design(config.num_variants, config.original_replicates)
