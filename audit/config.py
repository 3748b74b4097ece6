"""The configuration schema (registered with Hydra) and its validation. No engine is loaded before `validate` passed.

`python -m audit.sweep model=llama3_70b r=1..9` composes conf/sweep.yaml with these dataclasses as its schema, so a
misspelt key or a value of the wrong type is refused by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from audit.benchmarks.config import BenchmarkConfig
from audit.config_keys import check_keys
from audit.design import Design, make_design, parse_routers
from audit.errors import ConfigError, unknown_name
from audit.prompting.templates import check_reading as check_reading_of_protocol
from audit.prompting.templates import load_protocol
from audit.records import Arm, Draws, Reading
from audit.runtime.engines.openai_config import (
    CircuitConfig,
    EndpointConfig,
    OpenAIConfig,
    RetryConfig,
    check_config,
    check_reading,
)
from audit.scoring.options import NORMALISATIONS
from audit.verdict.thresholds import Thresholds

CONF_DIR = next(
    path for path in (Path(__file__).parent.parent / "conf", Path(__file__).parent / "_conf") if path.is_dir()
)
ENGINES = ("vllm", "openai", "scripted")
EXECUTORS = ("mp", "ray")

# vLLM arguments that this configuration decides, with what to set instead (`{m}` is model.<name>). In `engine_args`
# they would pass by what is checked, reserved, pinned or recorded: GPUs are reserved for `tensor_parallel_size`, rows
# carry `revision`, and a token would be written into the manifest.
_GPUS = "{m}.tensor_parallel_size=<GPUs> (with {m}.executor=ray to span nodes)"
_COPIES = "{m}.replicas=<engines>"
_WEIGHTS = "{m}.path=<hub id or local folder>, whose tokenizer and configuration are used"
_REVISION = "{m}.revision=<commit>"
DECIDED_ENGINE_ARGS: dict[str, str] = {
    **dict.fromkeys(("model", "model_weights", "tokenizer", "hf_config_path"), _WEIGHTS),
    **dict.fromkeys(("revision", "tokenizer_revision", "code_revision"), _REVISION),
    "trust_remote_code": "{m}.trust_remote_code=true",
    "hf_token": "HF_TOKEN in the environment, so that no file holds it",
    **dict.fromkeys(
        ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size", "device_ids"), _GPUS
    ),
    "distributed_executor_backend": "{m}.executor=mp or {m}.executor=ray",
    **dict.fromkeys(("nnodes", "node_rank", "master_addr", "master_port"), "{m}.executor=ray"),
    "dtype": "{m}.dtype=<type>",
    "max_model_len": "{m}.max_model_len=<tokens>",
    "max_num_seqs": "{m}.max_num_seqs=<requests>",
    "gpu_memory_utilization": "{m}.gpu_memory_utilization=<share>",
    "seed": "seed=<number>, from which every request gets its own",
    "logprobs_mode": "nothing: options are scored by the model's own log-probabilities",
}
_DECIDED_PREFIXES = {"data_parallel_": _COPIES}


@dataclass
class SamplingConfig:
    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0


@dataclass
class ScriptedConfig:
    """The scripted engine: answers are right with a fixed probability per arm. For tests and for measuring."""

    accuracy: dict[str, float] = field(
        default_factory=lambda: {"direct": 0.70, "forward_full": 0.68, "noisy_rewrite": 0.60}
    )
    gain_per_router: float = 0.0  # added to the noisy arm's accuracy for every router after the first
    parse_failures: float = 0.0  # share of worker replies without an answer
    latency_s: float = 0.0
    fail_to_load: bool = False


@dataclass
class ModelConfig:
    """One model: which engine serves it, with what, and how its answers are read."""

    name: str = ""
    engine: str = "vllm"
    path: str = ""  # hub id, local folder, or package:<name> (a GGUF shipped in a Python package)
    revision: str | None = None
    reading: str = "letter"
    option_normalisation: str = "token"
    tensor_parallel_size: int = 1
    executor: str = "mp"  # mp: the model's GPUs are on one node; ray: they may be spread over nodes
    replicas: int = 1
    dtype: str = "auto"
    max_model_len: int | None = None
    gpu_memory_utilization: float = 0.9
    max_num_seqs: int = 256
    trust_remote_code: bool = False
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    protocol: str | None = None  # prompts that suit this model better than the sweep's protocol
    router: SamplingConfig = field(default_factory=lambda: SamplingConfig(max_tokens=512, temperature=0.7, top_p=0.95))
    worker: SamplingConfig = field(default_factory=lambda: SamplingConfig(max_tokens=16))
    engine_args: dict[str, Any] = field(default_factory=dict)
    cpu_kv_cache_gib: int = 2
    load_timeout_s: int = 3600
    max_restarts: int = 1
    endpoints: list[EndpointConfig] = field(default_factory=list)
    retry: RetryConfig = field(default_factory=RetryConfig)
    circuit: CircuitConfig = field(default_factory=CircuitConfig)
    send_seed: bool = True
    send_temperature: bool = True
    max_tokens_field: str = "max_tokens"
    top_logprobs: int = 20
    extra_body: dict[str, Any] = field(default_factory=dict)
    scripted: ScriptedConfig = field(default_factory=ScriptedConfig)


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
    """The composed config as dataclasses, validated. ConfigError for a key that the schema does not have."""
    check_keys(OmegaConf.to_container(cfg), SweepConfig)  # before the merge, which drops what it does not know
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
    Thresholds.from_mapping(config.verdict)
    _check_different(config.model)
    for name, model in config.model.items():
        if not _SAFE_NAME.match(name):
            raise ConfigError(f"Invalid model name: {name!r}. Use letters, digits, '.', '_' and '-'.")
        _validate_model(name, model, reading_of(config, model))
        answering = worker_of(config, model)
        check_reading_of_protocol(load_protocol(protocol_of(config, model)), reading_of(config, answering))
    if config.worker is not None:
        worker = worker_of(config, next(iter(config.model.values())))
        _validate_model(config.worker, worker, reading_of(config, worker))
    if config.gate and not config.report:
        raise ConfigError("gate=true needs the verdict, which the report holds: leave report=true.")
    if config.cluster.chunks_in_flight < 1:
        raise ConfigError(f"Invalid cluster.chunks_in_flight: {config.cluster.chunks_in_flight}. Expected at least 1.")
    if config.store.format not in ("arrow", "parquet"):
        raise ConfigError(f"Invalid store.format: {config.store.format!r}. Expected arrow or parquet.")
    if config.store.rows_per_shard is not None and config.store.rows_per_shard < 1:
        raise ConfigError(f"Invalid store.rows_per_shard: {config.store.rows_per_shard}. Expected at least 1.")


def _check_different(models: dict[str, ModelConfig]) -> None:
    """One model under two names would be counted, and corrected for, as two."""
    names = list(models)
    for k, name in enumerate(names):
        for other in names[:k]:
            if replace(models[name], name="") == replace(models[other], name=""):
                raise ConfigError(
                    f"Models {other} and {name} are the same model: only the names differ. Expected each model once; "
                    "for repeated runs of one model use replicates=2."
                )


def _validate_model(name: str, model: ModelConfig, reading: Reading) -> None:
    if model.engine not in ENGINES:
        raise unknown_name(f"engine of model {name}", model.engine, ENGINES)
    if model.option_normalisation not in NORMALISATIONS:
        raise unknown_name(f"option_normalisation of model {name}", model.option_normalisation, NORMALISATIONS)
    for arm in model.scripted.accuracy:
        if arm not in set(Arm):
            raise unknown_name(f"arm in scripted.accuracy of model {name}", arm, list(Arm))
    if model.name != name:  # rows, weights and the worker are found by it
        raise ConfigError(f"Model {name} is named {model.name!r}. Expected model.{name}.name={name}.")
    if model.executor not in EXECUTORS:
        raise unknown_name(f"executor of model {name}", model.executor, EXECUTORS)
    if model.engine == "vllm" and not model.path:
        raise ConfigError(f"Model {name} has no path. Expected a hub id such as Qwen/Qwen3-8B or a local folder.")
    if model.engine == "openai":
        check_config(openai_config(model))
        check_reading(reading)
    for label, value in (
        ("tensor_parallel_size", model.tensor_parallel_size),
        ("replicas", model.replicas),
        ("router.max_tokens", model.router.max_tokens),
        ("worker.max_tokens", model.worker.max_tokens),
        ("max_num_seqs", model.max_num_seqs),
        ("load_timeout_s", model.load_timeout_s),
    ):
        if value < 1:
            raise ConfigError(f"Invalid {label} of model {name}: {value}. Expected at least 1.")
    for key in model.engine_args:
        prefixed = (option for prefix, option in _DECIDED_PREFIXES.items() if key.startswith(prefix))
        instead = DECIDED_ENGINE_ARGS.get(key) or next(prefixed, None)
        if instead is not None:
            raise ConfigError(
                f"engine_args of model {name} may not hold {key}: it is decided by the model's configuration. "
                f"Set {instead.format(m=f'model.{name}')} instead."
            )
    if model.max_restarts < 0:
        raise ConfigError(f"Invalid max_restarts of model {name}: {model.max_restarts}. Expected 0 or more.")
    for role, sampling in (("router", model.router), ("worker", model.worker)):
        if sampling.temperature < 0:
            raise ConfigError(
                f"Invalid {role}.temperature of model {name}: {sampling.temperature:g}. Expected 0 (greedy) or more, "
                "such as 0.7."
            )
        if not 0 < sampling.top_p <= 1:
            raise ConfigError(
                f"Invalid {role}.top_p of model {name}: {sampling.top_p:g}. Expected a number above 0 and up to 1."
            )


def openai_config(model: ModelConfig) -> OpenAIConfig:
    """The part of a model's configuration that the `openai` engine reads."""
    return OpenAIConfig(**{f.name: getattr(model, f.name) for f in fields(OpenAIConfig)})


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
