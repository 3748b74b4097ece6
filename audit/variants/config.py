"""What `audit.variants build` is asked for: the schema of conf/variants.yaml, composed and checked without a model."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Optional

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from audit.benchmarks.config import BenchmarkConfig
from audit.config import CONF_DIR, ClusterConfig, StoreConfig, known_models, load_group
from audit.engines.config import ModelConfig
from audit.engines.embedder import DEFAULT_EMBEDDER
from audit.errors import ConfigError, check_seed, unknown_name
from audit.plain_words import plainly_said, quoted
from audit.variants.policy import Policy, policy_for

NO_JUDGE = "none"
BY_MODEL = "paraphrase_llm"
STRATEGIES = ("template", "file", BY_MODEL)


@dataclass
class FileConfig:
    path: list[str] = field(default_factory=list)
    align: str = "id"
    text_column: str = "text"
    id_column: str = "question_id"
    extract: Optional[str] = None  # noqa: UP045  # OmegaConf wants typing.Optional


@dataclass
class PolicyConfig:
    """Overrides of conf/rewording/policy.yaml; null: as declared there."""

    window: Optional[str] = None  # noqa: UP045
    changes: Optional[str] = None  # noqa: UP045
    context: Optional[str] = None  # noqa: UP045
    options: Optional[str] = None  # noqa: UP045
    nli_cut: Optional[float] = None  # noqa: UP045
    judge_votes: Optional[int] = None  # noqa: UP045
    judge_scope: Optional[str] = None  # noqa: UP045
    judge_controls: Optional[int] = None  # noqa: UP045
    unjudged: Optional[str] = None  # noqa: UP045


@dataclass
class EncoderConfig:
    """An embedder, or an NLI classifier. adapter: transformers (CPU) or vllm."""

    adapter: str = "transformers"
    model: Optional[str] = None  # noqa: UP045
    revision: Optional[str] = None  # noqa: UP045


@dataclass
class VariantsConfig:
    benchmark: BenchmarkConfig = field(default_factory=BenchmarkConfig)
    name: Optional[str] = None  # noqa: UP045
    strategy: str = "template"
    num_variants: int = 3
    max_attempts: int = 3
    seed: int = 42
    licence: str = ""
    out: str = "outputs/variants"
    file: FileConfig = field(default_factory=FileConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    embedder: EncoderConfig = field(default_factory=lambda: EncoderConfig(model=DEFAULT_EMBEDDER))
    nli: EncoderConfig = field(default_factory=EncoderConfig)
    model: dict[str, ModelConfig] = field(default_factory=dict)  # the paraphraser
    judge: Optional[str] = None  # noqa: UP045
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    progress: bool = True

    @property
    def library_name(self) -> str:
        return self.name or f"{self.benchmark.name}-{self.strategy}"


def compose_config(overrides: Sequence[str]) -> VariantsConfig:
    """conf/variants.yaml with `key=value` overrides, checked; ConfigError for what cannot be built."""
    ConfigStore.instance().store(name="variants_schema", node=VariantsConfig)
    try:
        with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            composed = compose("variants", overrides=list(map(quoted, overrides)))
        config: Any = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(VariantsConfig), composed))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(plainly_said(error, overrides, VariantsConfig)) from error
    validate(config)
    config.judge = None if config.judge == NO_JUDGE else config.judge
    return config  # narrowed by to_object


def validate(config: VariantsConfig) -> None:
    """Everything that can be refused without a benchmark or a model."""
    if config.strategy not in STRATEGIES:
        raise unknown_name("strategy", config.strategy, STRATEGIES)
    if config.strategy == "file" and not config.file.path:
        raise ConfigError("strategy=file needs the file: such as 'file.path=[my_variants.jsonl]'.")
    for name, value in (("num_variants", config.num_variants), ("max_attempts", config.max_attempts)):
        if value < 1:
            raise ConfigError(f"{name}={value}; expected at least 1, such as 3.")
    check_seed(config.seed)
    if config.model and config.strategy != BY_MODEL and list(config.model) != [config.judge]:
        raise ConfigError(f"strategy={config.strategy} asks no model for texts. Leave model out, or name it as judge=.")
    if config.strategy == BY_MODEL and config.judge is None:
        raise ConfigError(
            f"strategy={BY_MODEL} needs a judge: the distance window and the rules alone accept rewordings that no "
            f"longer ask the same (docs/variants.md). Name a model, such as judge=qwen3_8b, or say judge={NO_JUDGE}."
        )
    if config.judge not in {None, NO_JUDGE} and config.judge not in {*config.model, *known_models()}:
        raise unknown_name("judge model", config.judge, known_models())
    policy_of(config)


def policy_of(config: VariantsConfig) -> Policy:
    """The benchmark's policy with the overrides asked for."""
    return policy_for(config.benchmark.name, load_group("rewording", "policy"), asdict(config.policy))
