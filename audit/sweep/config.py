"""Define the options of a sweep (conf/sweep.yaml), and check them before an engine loads."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.benchmarks.registry import format_of
from audit.config.base import RunConfig, check_run, from_composed, load_model_config
from audit.core.errors import ConfigError, check_known
from audit.core.prompting import OF_READING
from audit.core.records import Design
from audit.engines.config import ModelConfig
from audit.sweep.design import (
    DELETED,
    Aggregator,
    Arm,
    Draws,
    SweepThresholds,
    make_design,
    parse_doses,
    parse_routers,
)

# Maps a template to its placeholders, for each template that the sweep adds to the shared
# templates.
TEMPLATES: dict[str, tuple[str, ...]] = {
    "router_forward_full": ("question",),
    "router_noisy_rewrite": ("question",),
    "router_summary": ("messages",),  # used with aggregator=summary
    "message": ("index", "text"),  # one router message in the worker's prompt; index starts at 1
    "worker_letter": ("letters", "messages"),
    "worker_option_text": ("messages",),
}
# For free-form answers, these templates replace the templates of the same names without the suffix
# of a reading.
for _reading in OF_READING:
    TEMPLATES[f"router_forward_full_{_reading}"] = ("question",)
    TEMPLATES[f"router_noisy_rewrite_{_reading}"] = ("question",)
    TEMPLATES[f"worker_{_reading}"] = ("messages",)


@dataclass
class SweepConfig(RunConfig):
    """Hold the options of a sweep, with their defaults."""

    worker: ModelConfig | None = None  # model of the worker; None: the router's model answers
    r: Any = "1..9"
    arms: list[str] = field(default_factory=lambda: [str(a) for a in Arm])
    n: Any = None  # number of questions; null: as many as the plan needs
    draws: str = "nested"
    aggregator: str = "concatenate"
    replicates: int = 1
    clean_replicates: int = 3
    noisy_replicates: int = 2
    messages_from: str | None = None  # path of a run whose stored router messages are used
    # Name of the model in messages_from, if that run has several models.
    messages_of: str | None = None
    # Paths of runs in which other models answered from the messages of this run.
    hint_reference: Any = None
    ensemble_control: bool = True
    dose: Any = None


ConfigStore.instance().store(name="sweep_schema", node=SweepConfig)


def from_hydra(cfg: DictConfig) -> SweepConfig:
    """Convert and validate a composed configuration.

    Parameters
    ----------
    cfg : DictConfig
        The configuration as Hydra composed it.

    Returns
    -------
    SweepConfig
        The options.

    Raises
    ------
    ConfigError
        For the first option that is invalid.
    """
    config: SweepConfig = from_composed(cfg, SweepConfig)
    validate(config)
    return config


def validate(config: SweepConfig) -> None:
    """Check every option that can be checked without a model or a benchmark.

    Parameters
    ----------
    config : SweepConfig
        The options.

    Raises
    ------
    ConfigError
        For the first option that is invalid.
    """
    check_known("aggregator", config.aggregator, list(Aggregator))
    plain = (config.aggregator, config.dose) == ("concatenate", None)
    if format_of(config.benchmark.format).reading is not None and not plain:
        raise ConfigError(
            f"The benchmark {config.benchmark.name} has free-form answers. Expected a benchmark with options, since "
            "aggregator=summary, aggregator=vote and dose need options. Example: benchmark=arc_easy."
        )
    design_of(config)
    # Scripted accuracies may name arms of any audit.
    known = sorted({*Arm, DELETED, *load_model_config("scripted").scripted.accuracy})
    for name, model in config.model.items():
        for arm in model.scripted.accuracy:
            check_known(f"arm in scripted.accuracy of model {name}", arm, known)
    SweepThresholds.from_mapping(config.verdict)
    check_run(config, worker_of, TEMPLATES)


def hint_references(config: SweepConfig) -> list[str]:
    """Return the run directories of `hint_reference`.

    Parameters
    ----------
    config : SweepConfig
        The options.

    Returns
    -------
    list of str
        Absolute paths; empty if the option is not set.
    """
    run_dirs = config.hint_reference or []
    if isinstance(run_dirs, str):
        run_dirs = [run_dirs]
    return [str(Path(run_dir).resolve()) for run_dir in run_dirs]


def worker_of(config: SweepConfig, model: ModelConfig) -> ModelConfig:
    """Return the configuration of the worker, which is the model that answers.

    Parameters
    ----------
    config : SweepConfig
        The options, which name the worker if another model answers.
    model : ModelConfig
        The router's model.

    Returns
    -------
    ModelConfig
        The worker. It is the router's model unless the option `worker` names another model.
    """
    if config.worker is None or config.worker.name == model.name:
        return model
    return config.model.get(config.worker.name, config.worker)


def design_of(config: SweepConfig) -> Design:
    """Return the design that the options define.

    Parameters
    ----------
    config : SweepConfig
        The options.

    Returns
    -------
    Design
        The settings and router sets.

    Raises
    ------
    ConfigError
        If an arm, the draws, r, a dose or a number of replicates is invalid.
    """
    for arm in config.arms:
        check_known("arm", arm, list(Arm))
    check_known("draws", config.draws, list(Draws))
    stochastic = any(worker_of(config, m).worker.temperature > 0 for m in config.model.values())
    return make_design(
        parse_routers(config.r),
        arms=list(map(Arm, config.arms)),
        draws=Draws(config.draws),
        replicates=config.replicates,
        clean_replicates=config.clean_replicates,
        noisy_replicates=config.noisy_replicates,
        ensemble_control=config.ensemble_control,
        doses=parse_doses(config.dose),
        # At temperature 0, a second run of a worker repeats the answers of the first run, so every
        # item would count twice.
        direct_replicates=config.replicates if stochastic else 1,
    )
