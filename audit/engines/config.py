"""Define the configuration of a model: its engine, its settings, and how its answers are read."""

from dataclasses import dataclass, field
from typing import Any

from audit.core.errors import ConfigError, check_known
from audit.core.records import Reading
from audit.engines.openai_config import (
    CircuitConfig,
    EndpointConfig,
    RetryConfig,
    check_endpoints,
    check_number,
)
from audit.scoring.score import NORMALISATIONS

ENGINES = ("vllm", "openai", "scripted", "masked_lm")
WEIGHED = ("vllm", "masked_lm")  # these engines load weights themselves
LIKELIHOODS = ("vllm", "scripted")  # these engines return the likelihood of any option
EXECUTORS = ("mp", "ray")

# Each of these vLLM arguments has its own setting in this program. The text names the setting to
# use (`{m}` is model.<name>). An argument in `engine_args` would bypass the checks of the setting.
# For example, GPUs are reserved for `tensor_parallel_size`, every row records `revision`, and an
# access token would be written into the manifest.
_GPUS = "{m}.tensor_parallel_size=<GPUs> within a node"
_STAGES = "{m}.pipeline_parallel_size=<stages> and {m}.executor=ray, which may be on several nodes"
_WEIGHTS = "{m}.path=<hub id or local folder>, whose tokenizer and configuration are used"
DECIDED_ENGINE_ARGS: dict[str, str] = {
    **dict.fromkeys(("model", "model_weights", "tokenizer", "hf_config_path"), _WEIGHTS),
    **dict.fromkeys(("revision", "tokenizer_revision", "code_revision"), "{m}.revision=<commit>"),
    "trust_remote_code": "{m}.trust_remote_code=true",
    "hf_token": "HF_TOKEN in the environment, so that no file holds it",
    **dict.fromkeys(("tensor_parallel_size", "prefill_context_parallel_size", "device_ids"), _GPUS),
    "pipeline_parallel_size": _STAGES,
    "distributed_executor_backend": "{m}.executor=mp or {m}.executor=ray",
    **dict.fromkeys(("nnodes", "node_rank", "master_addr", "master_port"), "{m}.executor=ray"),
    "dtype": "{m}.dtype=<type>",
    "max_model_len": "{m}.max_model_len=<tokens>",
    "max_num_seqs": "{m}.max_num_seqs=<requests>",
    "gpu_memory_utilization": "{m}.gpu_memory_utilization=<share>",
    "seed": "seed=<number>, from which every request gets its own",
    "scheduling_policy": "nothing: requests have the priority of their questions, which are finished in order",
    "logprobs_mode": "nothing: options are scored by the model's own log-probabilities",
}


@dataclass
class SamplingConfig:
    """Define how replies are sampled, and how long they may be, for one role (kind of call)."""

    max_tokens: int = 512
    temperature: float = 0.0
    top_p: float = 1.0


@dataclass
class ScriptedConfig:
    """Configure the scripted engine, which simulates a model.

    Its answers are right with a fixed probability for each arm (condition). The engine is for
    tests, and for measurements of the program itself.
    """

    # This maps an arm (condition) to its accuracy. An arm that is not listed has accuracy 0.5.
    accuracy: dict[str, float] = field(default_factory=dict)
    # This maps an arm to a change of its accuracy. Every level after the first adds the change
    # once.
    gain_per_level: dict[str, float] = field(default_factory=dict)
    # This maps a request's label to its reply: echo, noise, or the text of the reply.
    replies: dict[str, str] = field(default_factory=dict)
    parse_failures: float = 0.0  # share of worker replies without an answer
    # This maps a request's label to the nats that are added to the logprob of each word of a given
    # text.
    likelihood: dict[str, float] = field(default_factory=dict)
    latency_s: float = 0.0
    load_s: float = 0.0
    fail_to_load: bool = False
    # If true, reserve tensor_parallel_size GPUs as vLLM would, to test a cluster's placement and
    # autoscaler.
    on_gpu: bool = False


@dataclass
class ModelConfig:
    """Configure a model: its engine, its settings, and how its answers are read."""

    name: str = ""
    engine: str = "vllm"
    # A hub id, a local folder, or package:<name> for a GGUF file in a Python package.
    path: str = ""
    revision: str | None = None
    reading: str = "letter"
    option_normalisation: str = "token"
    released: str | None = (
        None  # release date (2024, 2024-07 or 2024-07-23); the training data contain nothing newer
    )
    family: str | None = None  # name of a group of models that one maker trains alike, such as qwen
    # Number of GPUs that share each layer; these GPUs should be on one node.
    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = (
        1  # number of pipeline stages, which may be on several nodes (executor=ray)
    )
    # mp: the model's GPUs are on one node; ray: its GPUs may be on several nodes
    executor: str = "mp"
    # Share of one GPU for each replica; below 1, several small engines share a GPU.
    gpu_share: float = 1.0
    accelerator_type: str | None = None  # Ray's name of the GPU type, such as H100
    # on machines without GPUs: true allows CPUs, false refuses CPUs, null allows up to 4 GB of
    # weights
    on_cpus: bool | None = None
    replicas: int = 1
    dtype: str = "auto"
    max_model_len: int | None = None
    gpu_memory_utilization: float = 0.9
    max_num_seqs: int = 256
    trust_remote_code: bool = False
    # If true, vLLM gives the same answer whatever else is in the batch. Not every GPU supports
    # this.
    batch_invariant: bool = False
    chat_template_kwargs: dict[str, Any] = field(default_factory=dict)
    # Name of a protocol (set of prompts) for this model, in place of the run's protocol.
    protocol: str | None = None
    # `preparing` has the limits of calls before the answer, if an audit makes such calls.
    preparing: SamplingConfig = field(
        default_factory=lambda: SamplingConfig(max_tokens=512, temperature=0.7, top_p=0.95)
    )
    worker: SamplingConfig = field(default_factory=lambda: SamplingConfig(max_tokens=16))
    # Limits of replies that work out an answer step by step (reading=number).
    solver: SamplingConfig = field(default_factory=SamplingConfig)
    engine_args: dict[str, Any] = field(default_factory=dict)
    # If true, Ray's exporter also exports vLLM's metrics, as ray_vllm_*.
    engine_metrics: bool = False
    cpu_kv_cache_gib: int = 2
    load_timeout_s: int = 3600
    max_restarts: int = 1
    endpoints: list[EndpointConfig] = field(default_factory=list)
    retry: RetryConfig = field(default_factory=RetryConfig)
    circuit: CircuitConfig = field(default_factory=CircuitConfig)
    send_seed: bool = (
        True  # false for endpoints that refuse a seed; their answers are not reproducible
    )
    # These fields are merged into every request to an endpoint.
    extra_body: dict[str, Any] = field(default_factory=dict)
    scripted: ScriptedConfig = field(default_factory=ScriptedConfig)

    @property
    def gpus(self) -> float:
        """Return the number of GPUs that one replica uses."""
        return self.tensor_parallel_size * self.pipeline_parallel_size * self.gpu_share


def check_model(name: str, model: ModelConfig, reading: Reading) -> None:
    """Check the settings of a model before the model is loaded.

    Parameters
    ----------
    name : str
        The model's key in the configuration.
    model : ModelConfig
        Engine, weights and other settings of the model.
    reading : Reading
        How the model's answers are read.

    Raises
    ------
    ConfigError
        If a setting is invalid, or the engine cannot serve this reading.
    """
    for key, known in (
        ("engine", ENGINES),
        ("option_normalisation", NORMALISATIONS),
        ("executor", EXECUTORS),
    ):
        check_known(f"{key} of model {name}", getattr(model, key), known)
    if model.name != name:  # rows, weights and the worker are looked up by this name
        raise ConfigError(
            f"model.{name}.name is {model.name!r}. Expected the same name as the key. Example: model.{name}.name={name}"
        )
    if model.batch_invariant and model.engine != "vllm":
        raise ConfigError(
            f"batch_invariant of model {name} is true with engine={model.engine}. Expected "
            "engine=vllm, the only engine with this mode."
        )
    if model.engine in WEIGHED and not model.path:
        raise ConfigError(
            f"Model {name} has no path. Expected a hub id or a local folder. Example: Qwen/Qwen3-8B"
        )
    if model.engine == "openai":
        check_endpoints(model.endpoints, model.retry, model.circuit, model.extra_body, reading)
    for label in (
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "replicas",
        "max_num_seqs",
        "load_timeout_s",
    ):
        check_number(f"{label} of model {name}", getattr(model, label), at_least=1, whole=True)
    check_number(f"gpu_share of model {name}", model.gpu_share, at_most=1, positive=True)
    if model.gpu_share < 1 and model.tensor_parallel_size * model.pipeline_parallel_size > 1:
        raise ConfigError(
            f"gpu_share of model {name} is {model.gpu_share:g} with several GPUs. Expected a share of one GPU. "
            f"Example: model.{name}.tensor_parallel_size=1 model.{name}.gpu_share={model.gpu_share:g}"
        )
    check_number(f"max_restarts of model {name}", model.max_restarts, whole=True)
    for role in ("preparing", "worker", "solver"):
        sampling = getattr(model, role)
        check_number(
            f"{role}.max_tokens of model {name}", sampling.max_tokens, at_least=1, whole=True
        )
        check_number(f"{role}.temperature of model {name}", sampling.temperature)
        check_number(f"{role}.top_p of model {name}", sampling.top_p, at_most=1, positive=True)
    _check_engine_args(name, model)


def _check_engine_args(name: str, model: ModelConfig) -> None:
    for key in model.engine_args:
        copies = "{m}.replicas=<engines>" if key.startswith("data_parallel_") else None
        if instead := DECIDED_ENGINE_ARGS.get(key, copies):
            raise ConfigError(
                f"engine_args of model {name} may not hold {key}, which the model's configuration "
                "decides. "
                f"Set {instead.format(m=f'model.{name}')} instead."
            )
