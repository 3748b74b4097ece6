"""What can be set of a perturbation audit (the schema of conf/perturb.yaml), validated before an engine is loaded."""

from dataclasses import dataclass, replace
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.config import check_run, from_composed
from audit.errors import ConfigError, check_known
from audit.perturb.design import PerturbThresholds, make_design
from audit.records import Design
from audit.references import ReferencedConfig, with_references
from audit.variants.select import SHORT

SAME = ("variants",)  # of what is asked: a reference run must have been run with the same


@dataclass
class PerturbConfig(ReferencedConfig):
    variants: str | None = None  # a library's hash, path or name; null: the one named as the benchmark
    control_variants: str | None = None  # the same of the held-out items, control_benchmark
    n: Any = None  # as many questions as the plan needs, at most all
    num_variants: int = 3
    short: str = "keep"
    original_replicates: int = 2


ConfigStore.instance().store(name="perturb_schema", node=PerturbConfig)


def from_hydra(cfg: DictConfig) -> PerturbConfig:
    """The composed config as dataclasses, validated, with the reference models among its models."""
    config: PerturbConfig = from_composed(cfg, PerturbConfig)
    config = replace(config, model=with_references(config))
    validate(config)
    return config


def validate(config: PerturbConfig) -> None:
    """Everything that can be refused without touching a model, a benchmark or a library. Raises ConfigError."""
    design_of(config)
    check_known("value of short", config.short, SHORT)
    if config.control_variants is not None and config.control_benchmark is None:
        raise ConfigError(
            f"control_variants={config.control_variants} rewords held-out items, and none are named. Expected such as "
            "control_benchmark=mcq_file control_benchmark.path=fresh.jsonl control_benchmark.name=fresh beside it."
        )
    PerturbThresholds.from_mapping(config.verdict)
    check_run(config)


def design_of(config: PerturbConfig) -> Design:
    return make_design(config.num_variants, config.original_replicates)
