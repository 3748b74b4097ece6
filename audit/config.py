"""The configuration schema (registered with Hydra) and its validation. No engine is loaded before `validate` passed.

`python -m audit.sweep model=llama3_70b r=1..9` composes conf/sweep.yaml with these dataclasses as its schema, so a
misspelt key or a value of the wrong type is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from audit.benchmarks.config import BenchmarkConfig
from audit.design import Design, make_design, parse_routers
from audit.engines.config import ModelConfig, check_model
from audit.errors import ConfigError, unknown_name
from audit.prompting.templates import check_reading as check_reading_of_protocol
from audit.prompting.templates import load_protocol
from audit.records import Arm, Draws, Reading

CONF_DIR = next(
    path for path in (Path(__file__).parent.parent / "conf", Path(__file__).parent / "_conf") if path.is_dir()
)


@dataclass
class ClusterConfig:
    """Where Ray runs. address null: a local Ray for this run; auto: the cluster this process is on."""

    address: str | None = None
    num_cpus: int | None = None
    num_gpus: int | None = None
    dashboard: bool = False
    runtime_env: dict[str, Any] = field(default_factory=dict)
    chunks_in_flight: int = 32  # chunks of router sets that may wait on the engines at once


@dataclass
class StoreConfig:
    format: str = "arrow"
    rows_per_shard: int | None = None  # null: chosen from the size of the run
    retry_errors: bool = False


@dataclass
class SweepConfig:
    model: dict[str, ModelConfig] = field(default_factory=dict)
    benchmark: BenchmarkConfig = field(default_factory=BenchmarkConfig)
    control_benchmark: str | None = None
    protocol: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    worker: str | None = None  # another model's name: it answers in place of the router's model
    r: Any = "1..9"
    n: Any = 100
    seed: int = 42
    arms: list[str] = field(default_factory=lambda: [str(a) for a in Arm])
    draws: str = "independent"
    replicates: int = 1
    clean_replicates: int = 1
    ensemble_control: bool = False
    reading: str | None = None  # overrides every model's own
    run_dir: str | None = None
    report: bool = True
    gate: bool = False
    progress: bool = True


def register() -> None:
    """Register the schemas with Hydra's ConfigStore; conf/*.yaml are validated against them."""
    store = ConfigStore.instance()
    store.store(name="sweep_schema", node=SweepConfig)


def known_models() -> list[str]:
    return sorted(path.stem for path in (CONF_DIR / "model").glob("*.yaml"))


def load_model_config(name: str) -> ModelConfig:
    """The configuration of one model by name, as conf/model/<name>.yaml gives it."""
    if name not in known_models():
        raise unknown_name("model", name, known_models())
    loaded = OmegaConf.merge(OmegaConf.structured(ModelConfig), OmegaConf.load(CONF_DIR / "model" / f"{name}.yaml"))
    return _as_object(loaded, ModelConfig)


def load_group(group: str, name: str) -> dict[str, Any]:
    """conf/<group>/<name>.yaml as a plain dict; ConfigError that lists the known names."""
    known = [path.stem for path in (CONF_DIR / group).glob("*.yaml")]
    if name not in known:
        raise unknown_name(group, name, known)
    loaded = OmegaConf.to_container(OmegaConf.load(CONF_DIR / group / f"{name}.yaml"), resolve=True)
    assert isinstance(loaded, dict)  # noqa: S101  (a yaml mapping)
    return {str(k): v for k, v in loaded.items()}


def _as_object(node: Any, kind: type) -> Any:
    result = OmegaConf.to_object(node)
    if not isinstance(result, kind):
        raise ConfigError(f"Expected a {kind.__name__}, got {type(result).__name__}.")
    return result


def from_hydra(cfg: DictConfig) -> SweepConfig:
    """The composed config as dataclasses, validated."""
    config: SweepConfig = _as_object(OmegaConf.merge(OmegaConf.structured(SweepConfig), cfg), SweepConfig)
    validate(config)
    return config


_SAFE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def validate(config: SweepConfig) -> None:
    """Everything that can be refused without touching a model or a benchmark. Raises ConfigError."""
    if not config.model:
        raise ConfigError(f"No model. Expected model=<name> or model=[a,b]. Known: {', '.join(known_models())}.")
    if config.worker is not None and config.worker not in {*config.model, *known_models()}:
        raise unknown_name("worker model", config.worker, known_models())
    design_of(config)
    sample_size(config)
    for name, model in config.model.items():
        if not _SAFE_NAME.match(name):
            raise ConfigError(f"Invalid model name: {name!r}. Use letters, digits, '.', '_' and '-'.")
        check_model(name, model, reading_of(config, model))
        answering = worker_of(config, model)
        check_reading_of_protocol(load_protocol(protocol_of(config, model)), reading_of(config, answering))
    if config.worker is not None:
        worker = worker_of(config, next(iter(config.model.values())))
        check_model(config.worker, worker, reading_of(config, worker))
    if config.gate and not config.report:
        raise ConfigError("gate=true needs the verdict, which the report holds: leave report=true.")
    if config.cluster.chunks_in_flight < 1:
        raise ConfigError(f"Invalid cluster.chunks_in_flight: {config.cluster.chunks_in_flight}. Expected at least 1.")
    if config.store.format not in ("arrow", "parquet"):
        raise ConfigError(f"Invalid store.format: {config.store.format!r}. Expected arrow or parquet.")
    if config.store.rows_per_shard is not None and config.store.rows_per_shard < 1:
        raise ConfigError(f"Invalid store.rows_per_shard: {config.store.rows_per_shard}. Expected at least 1.")


def reading_of(config: SweepConfig, model: ModelConfig) -> Reading:
    value = config.reading or model.reading
    if value not in set(Reading):
        raise unknown_name("reading", value, list(Reading))
    return Reading(value)


def worker_of(config: SweepConfig, model: ModelConfig) -> ModelConfig:
    """The model that answers: the router's own unless `worker` names another."""
    if config.worker is None or config.worker == model.name:
        return model
    return config.model.get(config.worker) or load_model_config(config.worker)


def protocol_of(config: SweepConfig, model: ModelConfig) -> dict[str, Any]:
    """The prompt templates for one model: its own protocol if it names one, else the sweep's."""
    return config.protocol if model.protocol is None else load_group("protocol", model.protocol)


def sample_size(config: SweepConfig) -> int | None:
    """n as asked for; None for all questions."""
    if config.n in (None, "all"):
        return None
    if isinstance(config.n, bool) or not isinstance(config.n, int) or config.n < 1:
        raise ConfigError(f"Invalid n: {config.n!r}. Expected a whole number of at least 1, or n=all.")
    return config.n


def design_of(config: SweepConfig) -> Design:
    arms = []
    for arm in config.arms:
        if arm not in set(Arm):
            raise unknown_name("arm", arm, list(Arm))
        arms.append(Arm(arm))
    if config.draws not in set(Draws):
        raise unknown_name("draws", config.draws, list(Draws))
    stochastic = any(worker_of(config, m).worker.temperature > 0 for m in config.model.values())
    return make_design(
        parse_routers(config.r),
        arms=arms,
        draws=Draws(config.draws),
        replicates=config.replicates,
        clean_replicates=config.clean_replicates,
        ensemble_control=config.ensemble_control,
        # A greedy worker gives the same answer to the same question: repeating it would count one item twice.
        direct_replicates=config.replicates if stochastic else 1,
    )


def plain_config(config: SweepConfig) -> dict[str, Any]:
    """The whole configuration as plain data, with every model's prompts and the answering model spelt out.

    `audit.shards.manifest.fingerprint` decides which of its keys decide results.
    """
    plain = OmegaConf.to_container(OmegaConf.structured(config))
    if not isinstance(plain, dict):
        raise ConfigError(f"Expected a mapping, got {type(plain).__name__}.")
    result: dict[str, Any] = {str(key): value for key, value in plain.items()}
    if config.worker is not None and config.worker not in config.model:
        result["worker_model"] = OmegaConf.to_container(OmegaConf.structured(load_model_config(config.worker)))
    result["protocols"] = {name: protocol_of(config, model) for name, model in config.model.items()}
    return result
