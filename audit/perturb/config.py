"""Define the options of a perturbation audit and check them before an engine is loaded (schema of
conf/perturb.yaml).
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

SAME = ("variants",)  # A reference run must have the same values of these options.


@dataclass
class PerturbConfig(ReferencedConfig):
    """Hold the options of a perturbation audit."""

    # hash, path or name of a library; null means the library with the name of the benchmark
    variants: str | None = None
    control_variants: str | None = None  # library of the held-out items (control_benchmark)
    n: Any = None  # null means as many questions as the plan needs, at most all
    num_variants: int = 3
    short: str = "keep"
    original_replicates: int = 2


ConfigStore.instance().store(name="perturb_schema", node=PerturbConfig)


def from_hydra(cfg: DictConfig) -> PerturbConfig:
    """Convert and check a composed configuration.

    Parameters
    ----------
    cfg : DictConfig
        The composed configuration.

    Returns
    -------
    PerturbConfig
        The options. The reference models are added to the models.

    Raises
    ------
    ConfigError
        If an option is invalid.
    """
    config: PerturbConfig = from_composed(cfg, PerturbConfig)
    config = replace(config, model=with_references(config))
    validate(config)
    return config


def validate(config: PerturbConfig) -> None:
    """Check the options as far as no model, benchmark or library must be loaded.

    Parameters
    ----------
    config : PerturbConfig
        Options of the run.

    Raises
    ------
    ConfigError
        If an option is invalid.
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
    """Return the design that the options describe."""
    return make_design(config.num_variants, config.original_replicates)
