"""What can be set of a perturbation audit (the schema of conf/perturb.yaml), validated before an engine is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from audit.config import RunConfig, as_object, check_run, known_models, load_model_config
from audit.config_keys import check_keys
from audit.engines.config import ModelConfig
from audit.errors import ConfigError, unknown_name
from audit.perturb.design import make_design
from audit.perturb.thresholds import PerturbThresholds
from audit.records import Design
from audit.shards.manifest import MANIFEST
from audit.variants.select import SHORT


@dataclass
class PerturbConfig(RunConfig):
    variants: str | None = None  # a library's hash, path or name; null: the one named as the benchmark
    num_variants: int = 3
    short: str = "keep"
    original_replicates: int = 2
    references: list[str] = field(default_factory=list)
    plan: bool = False


def register() -> None:
    """Register the schema with Hydra's ConfigStore; conf/perturb.yaml is validated against it."""
    ConfigStore.instance().store(name="perturb_schema", node=PerturbConfig)


def from_hydra(cfg: DictConfig) -> PerturbConfig:
    """The composed config as dataclasses, validated, with the reference models among its models."""
    check_keys(OmegaConf.to_container(cfg), PerturbConfig)  # before the merge, which drops what it does not know
    config: PerturbConfig = as_object(OmegaConf.merge(OmegaConf.structured(PerturbConfig), cfg), PerturbConfig)
    config = replace(config, model=_with_references(config))
    validate(config)
    return config


def validate(config: PerturbConfig) -> None:
    """Everything that can be refused without touching a model, a benchmark or a library. Raises ConfigError."""
    design_of(config)
    if config.short not in SHORT:
        raise unknown_name("value of short", config.short, SHORT)
    if config.control_benchmark is not None:
        raise ConfigError(
            "control_benchmark belongs to the sweep. Here reference models show whether the variants are harder: such "
            "as 'references=[llama3_8b,qwen3_8b]'."
        )
    if config.model and not judged(config):
        raise ConfigError("Every model is a reference: none is judged. Expected model=<name> beside references=[..].")
    PerturbThresholds.from_mapping(config.verdict)
    check_run(config, _itself, {})


def design_of(config: PerturbConfig) -> Design:
    return make_design(config.num_variants, config.original_replicates)


def judged(config: PerturbConfig) -> list[str]:
    """The models that are judged; the others of the run are references."""
    return [name for name in config.model if name not in config.references]


def reference_dirs(config: PerturbConfig) -> list[Path]:
    """References that are earlier runs, as absolute paths."""
    return [Path(one).resolve() for one in config.references if _is_run(one)]


def _is_run(reference: str) -> bool:
    return (Path(reference) / MANIFEST).is_file()


def _with_references(config: PerturbConfig) -> dict[str, ModelConfig]:
    models = dict(config.model)
    for one in config.references:
        if one in models or _is_run(one):
            continue
        if one not in known_models():
            raise unknown_name("reference (a model, or the directory of a run)", one, {*config.model, *known_models()})
        models[one] = load_model_config(one)
    return models


def _itself(config: PerturbConfig, model: ModelConfig) -> ModelConfig:
    return model
