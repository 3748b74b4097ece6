"""Define and check the configuration of planted contamination (conf/plant.yaml).

All values are checked before the training starts.
"""

from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.config.base import RunConfig, check_run, from_composed
from audit.core.errors import ConfigError, check_counts, check_known
from audit.engines.config import ModelConfig
from audit.plant.texts import Form, Method, parse_doses, parse_forms
from audit.sweep.config import TEMPLATES
from audit.sweep.design import parse_routers

AUDITS = ("memory", "perturb", "sweep")
# Values that vLLM allows for max_lora_rank. vLLM also serves adapters of a smaller rank.
SERVED_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)
# Default learning rates. LoRA needs about ten times the rate of full fine-tuning.
_LR = {Method.LORA: 1e-3, Method.FULL: 1e-4}


@dataclass
class TrainConfig:
    method: str = "lora"
    lr: float | None = None
    batch: int = 8
    rank: int = 16
    modules: Any = "all-linear"
    max_tokens: int = 1024
    items_per_sequence: int = 8
    # Path of a text file; null uses the topics of Python's manual, which come with Python.
    other_text: str | None = None
    dilution: int = 3


@dataclass
class PlantConfig(RunConfig):
    n: Any = "all"
    forms: list[str] = field(default_factory=lambda: ["qa", "raw"])
    doses: list[int] = field(default_factory=lambda: [0, 1, 2, 4, 8])
    train: TrainConfig = field(default_factory=TrainConfig)
    audits: list[str] = field(default_factory=lambda: ["memory", "perturb"])
    variants: str | None = None
    num_variants: int = 3
    shard_items: int = 5
    orders: int = 2
    option_orders: int = 1
    r: Any = 1
    alpha: float = 0.05


ConfigStore.instance().store(name="plant_schema", node=PlantConfig)


def from_hydra(cfg: DictConfig) -> PlantConfig:
    """Convert the configuration composed by Hydra to validated dataclasses.

    Parameters
    ----------
    cfg : DictConfig
        Configuration as Hydra composed it.

    Returns
    -------
    PlantConfig
        The converted configuration, with valid values.

    Raises
    ------
    ConfigError
        If a value is invalid (see `validate`).
    """
    config: PlantConfig = from_composed(cfg, PlantConfig)
    validate(config)
    return config


def validate(config: PlantConfig) -> None:
    """Check all options that can be checked without loading a model or a benchmark.

    Parameters
    ----------
    config : PlantConfig
        Configuration of the experiment.

    Raises
    ------
    ConfigError
        If a value is invalid.
    """
    parse_doses(config.doses)
    _check_training(config)
    if not 0 < config.alpha < 1:
        raise ConfigError(f"alpha is {config.alpha}. Expected 0 < alpha < 1. Example: alpha=0.05.")
    for name in config.audits:
        check_known("audit", name, AUDITS)
    if not config.audits:
        raise ConfigError(
            f"audits is empty. Expected some of {', '.join(AUDITS)}. Example: 'audits=[memory]'."
        )
    parse_routers(config.r)
    if config.control_benchmark is not None:
        raise ConfigError(
            "control_benchmark is set, but the control is the half of the benchmark that is never "
            "shown. Leave control_benchmark out."
        )
    check_run(config, templates=TEMPLATES if "sweep" in config.audits else {})
    model_of(config)
    if config.train.method == Method.LORA and find_spec("peft") is None:
        raise ConfigError(
            "train.method is lora, but its package peft is not installed. Run 'make install', or "
            "train all weights. Example: train.method=full."
        )


def _check_training(config: PlantConfig) -> None:
    forms, train = parse_forms(config.forms), config.train
    check_known("train.method", train.method, list(Method))
    sizes = ("batch", "rank", "max_tokens", "items_per_sequence", "dilution")
    check_counts(**{f"train.{name}": getattr(train, name) for name in sizes})
    if train.rank > SERVED_RANKS[-1]:
        raise ConfigError(
            f"train.rank is {train.rank}. Expected {SERVED_RANKS[-1]} or less, "
            "the largest rank that vLLM serves. Example: train.rank=16."
        )
    if train.modules != "all-linear" and not isinstance(train.modules, list):
        raise ConfigError(
            f"train.modules is {train.modules!r}. Expected all-linear or a list of modules. "
            "Example: 'train.modules=[q_proj,v_proj]'."
        )
    if not 0 < learning_rate(config) < 1:
        raise ConfigError(
            f"train.lr is {train.lr}. Expected a number between 0 and 1. Example: 1e-4."
        )
    if Form.MIX in forms and train.other_text is not None and not Path(train.other_text).is_file():
        raise ConfigError(
            f"train.other_text is {train.other_text}, which is not a file. Expected a text file. "
            "Example: train.other_text=novel.txt."
        )


def model_of(config: PlantConfig) -> ModelConfig:
    """Return the model that is to be trained.

    Parameters
    ----------
    config : PlantConfig
        Configuration of the experiment.

    Returns
    -------
    ModelConfig
        Settings of the model to train.

    Raises
    ------
    ConfigError
        If several models are configured, or if the model's weights are not available for training.
    """
    if len(config.model) != 1:
        raise ConfigError(
            f"model is {', '.join(config.model)}. Expected one model, since an experiment trains "
            "one model. Run the command once for each model."
        )
    (model,) = config.model.values()
    if model.engine != "vllm":
        kind = "an endpoint" if model.engine == "openai" else f"of engine {model.engine}"
        raise ConfigError(
            f"Model {model.name} is {kind}, so there is no copy of its weights to train. Expected "
            "engine vllm with path=<hub id or folder>, such as the most similar open model. State "
            "in the report that it is another model."
        )
    return model


def learning_rate(config: PlantConfig) -> float:
    """Return the configured learning rate; the default depends on the training method."""
    return _LR[Method(config.train.method)] if config.train.lr is None else config.train.lr
