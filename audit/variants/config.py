"""Define, compose and check the configuration of `audit variants build` (conf/variants.yaml).

No model is loaded. The policies in conf/rewording/policy.yaml define which parts of a question may
change, and how candidates are judged.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from hydra.core.config_store import ConfigStore
from omegaconf.errors import OmegaConfBaseException

from audit.benchmarks.config import BenchmarkConfig
from audit.config.base import (
    ClusterConfig,
    StoreConfig,
    described_models,
    from_composed,
    known_models,
    load_group,
    load_model_config,
)
from audit.config.command_line import compose_command
from audit.config.plan_cost import CostConfig, check_cost, check_priced
from audit.core.errors import ConfigError, check_counts, check_known, check_seed, unknown_name
from audit.engines.config import ModelConfig
from audit.engines.embedder import DEFAULT_EMBEDDER

_WORDS = {  # These values are allowed in a policy.
    "changes": ("stem", "stem_and_context"),
    "context": ("none", "last_line", "last_sentence"),
    "options": ("keep", "permute"),
    "judge_scope": ("routed", "all"),
    "unjudged": ("accept", "hold"),
}
_SENTENCE_END = re.compile(r"[.!?][\"'”’)]*\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class Policy:
    """Define how the candidates of one benchmark are made and judged.

    Attributes
    ----------
    low, high : float
        Smallest and largest accepted cosine distance.
    changes : str
        The parts of a question that may change: "stem" (only the stem), or "stem_and_context".
    context : str
        How the text is cut into context (unchanged) and stem (reworded). With "none", the whole
        text is stem. With "last_line" or "last_sentence", the text before the last line or sentence
        is context.
    options : str
        "keep", or "permute" (each variant has another order of the options).
    nli_cut : float
        Smallest accepted probability of entailment in either direction.
    judge_votes : int
        Number of votes on each candidate.
    judge_scope : str
        Which candidates the judge votes on: "routed" (candidates in which a rule detected a
        change), or "all".
    judge_controls : int
        Number of control pairs (a question with the text of another question), which the judge must
        reject.
    unjudged : str
        What happens to a routed candidate if the build has no judge: "accept" accepts the candidate
        and stores its findings, "hold" rejects the candidate for now.

    Raises
    ------
    ConfigError
        If a value is invalid.
    """

    low: float = 0.15
    high: float = 0.45
    changes: str = "stem"
    context: str = "none"
    options: str = "keep"
    nli_cut: float = 0.9
    judge_votes: int = 3
    judge_scope: str = "routed"
    judge_controls: int = 20
    unjudged: str = "accept"

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 2:
            raise ConfigError(
                f"The distance window is {self.low:g}..{self.high:g}. "
                "Expected 0 <= low < high <= 2. Example: 0.15..0.45"
            )
        if not 0 <= self.nli_cut <= 1:
            raise ConfigError(
                f"nli_cut is {self.nli_cut:g}. Expected a probability. Example: nli_cut=0.9"
            )
        check_counts(judge_votes=self.judge_votes)
        check_counts(0, judge_controls=self.judge_controls)
        for name, known in _WORDS.items():
            check_known(name, getattr(self, name), known)


class Parts(NamedTuple):
    """Hold the context and the stem of a question's text.

    `context` also holds the white space between the two parts.
    """

    context: str
    stem: str


def policy_for(
    benchmark: str, conf: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> Policy:
    """Return the policy of a benchmark.

    Parameters
    ----------
    benchmark : str
        The name of the benchmark.
    conf : mapping
        The content of conf/rewording/policy.yaml. Without an entry for the benchmark the defaults
        of `Policy` are used.
    overrides : mapping or None
        Values that replace values of the entry; None keeps the value of the entry. The value of
        `window` is a name in the section `windows` of the file.

    Returns
    -------
    Policy
        The policy. Unless an override states a distance window, the policy has the window of the
        benchmark's domain.

    Raises
    ------
    ConfigError
        If a window or key is unknown.
    """
    windows: Mapping[str, Any] = conf["windows"]
    entry = dict(conf["benchmarks"].get(benchmark, {}))
    entry.update({key: value for key, value in (overrides or {}).items() if value is not None})
    domain = entry.pop("domain", "general")
    window = entry.pop("window", domain)
    check_known("distance window", str(window), windows)
    low, high = windows[window]
    known = {field.name for field in fields(Policy)}
    for key in entry:
        check_known(f"policy key of benchmark {benchmark}", key, known)
    return Policy(**{"low": float(low), "high": float(high), **entry})


def split_text(text: str, policy: Policy) -> Parts:
    r"""Cut a question's text into context (unchanged) and stem (reworded).

    Parameters
    ----------
    text : str
        The text.
    policy : Policy
        The policy, which defines the cut.

    Returns
    -------
    Parts
        Context and stem.

    Examples
    --------
    >>> split_text("Ann met Bob.\nWho was met?", Policy(context="last_line"))
    Parts(context='Ann met Bob.\n', stem='Who was met?')
    """
    cut = 0
    if policy.changes == "stem" and policy.context == "last_line":
        cut = text.rstrip().rfind("\n") + 1
    elif policy.changes == "stem" and policy.context == "last_sentence":
        ends = [match.end() for match in _SENTENCE_END.finditer(text)]
        cut = ends[-1] if ends else 0
    return Parts(text[:cut], text[cut:])


NO_JUDGE = "none"
BY_MODEL = "paraphrase_llm"
STRATEGIES = ("template", "file", BY_MODEL)
ALIGNMENTS = ("id", "row")


@dataclass
class FileConfig:
    """Define how the rows of a variants file are read.

    Attributes
    ----------
    path : list of str
        The files.
    align : str
        How rows are assigned to questions. With "id", `id_column` names the question, and a
        question may have several rows. With "row", row i rewords question i, so the file must have
        as many rows as there are questions.
    text_column, id_column : str
        The columns of the text and of the question's id.
    extract : str or None
        A regular expression for fields that contain more than the variant. Its group `text` matches
        the variant.
    """

    path: list[str] = field(default_factory=list)
    align: str = "id"
    text_column: str = "text"
    id_column: str = "question_id"
    extract: str | None = None


@dataclass
class PolicyConfig:
    """Define replacements for values of conf/rewording/policy.yaml. None keeps a value."""

    window: str | None = None
    changes: str | None = None
    context: str | None = None
    options: str | None = None
    nli_cut: float | None = None
    judge_votes: int | None = None
    judge_scope: str | None = None
    judge_controls: int | None = None
    unjudged: str | None = None


@dataclass
class EncoderConfig:
    """Define an embedder or an NLI classifier. `adapter` is transformers (on the CPU) or vllm."""

    adapter: str = "transformers"
    model: str | None = None
    revision: str | None = None


@dataclass
class VariantsConfig:
    """Define the options of `audit variants build`. conf/variants.yaml explains each key."""

    benchmark: BenchmarkConfig = field(default_factory=BenchmarkConfig)
    name: str | None = None
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
    # The paraphraser. The judge is listed here too if its configuration is changed.
    model: dict[str, ModelConfig] = field(default_factory=dict)
    judge: str | None = None
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    cost: CostConfig = field(default_factory=CostConfig)
    plan: bool = False
    progress: bool = True

    @property
    def library_name(self) -> str:
        """Return the name of the library. By default it is made of the benchmark and the
        strategy.
        """
        return self.name or f"{self.benchmark.name}-{self.strategy}"


def compose_config(overrides: Sequence[str]) -> VariantsConfig:
    """Compose conf/variants.yaml with `key=value` overrides, and check it.

    Parameters
    ----------
    overrides : sequence of str
        The overrides.

    Returns
    -------
    VariantsConfig
        The configuration.

    Raises
    ------
    ConfigError
        If a key or a value is invalid.
    """
    ConfigStore.instance().store(name="variants_schema", node=VariantsConfig)
    composed = compose_command("variants", overrides, VariantsConfig)
    try:
        config: VariantsConfig = from_composed(composed, VariantsConfig)
    except OmegaConfBaseException as error:
        raise ConfigError(str(error)) from error
    validate(config)
    config.judge = None if config.judge == NO_JUDGE else config.judge
    return config


def validate(config: VariantsConfig) -> None:
    """Check a configuration, without opening a benchmark or a model.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.

    Raises
    ------
    ConfigError
        If a value is invalid.
    """
    check_known("strategy", config.strategy, STRATEGIES)
    if config.strategy == "file" and not config.file.path:
        raise ConfigError("strategy=file needs the file. Example: 'file.path=[my_variants.jsonl]'")
    check_counts(num_variants=config.num_variants, max_attempts=config.max_attempts)
    check_seed(config.seed)
    if config.model and config.strategy != BY_MODEL and list(config.model) != [config.judge]:
        raise ConfigError(
            f"strategy={config.strategy} asks no model for texts. Expected no model, or the model "
            f"as judge=, or strategy={BY_MODEL}."
        )
    if config.strategy == BY_MODEL and config.judge is None:
        raise ConfigError(
            f"strategy={BY_MODEL} needs a judge, because the distance window and the rules also "
            "accept rewordings with another meaning (docs/do/variants.md). Expected a model or "
            f"judge={NO_JUDGE}. Example: judge=qwen3_8b"
        )
    if config.judge not in {None, NO_JUDGE, *config.model, *known_models(), *described_models()}:
        raise unknown_name("judge model", str(config.judge), known_models())
    check_cost(config.cost)
    for model in writer_and_judge(config):
        if model is not None:
            check_priced(config.cost, model)
    policy_of(config)
    file = config.file
    check_known("align", file.align, ALIGNMENTS)
    if file.extract is not None:
        try:
            has_group = "text" in re.compile(file.extract).groupindex
        except re.error as error:
            raise ConfigError(
                f"extract={file.extract!r} is not a regular expression ({error})."
            ) from error
        if not has_group:
            raise ConfigError(f"extract={file.extract!r} has no group. Expected (?P<text>...).")


def writer_and_judge(config: VariantsConfig) -> tuple[ModelConfig | None, ModelConfig | None]:
    """Return the models of a build.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.

    Returns
    -------
    writer, judge : ModelConfig or None
        The model that writes candidates, and the model that votes. Each is None if the build has no
        such model.

    Raises
    ------
    ConfigError
        If the strategy needs exactly one writer, and several models are named.
    """
    judge = None
    if config.judge not in {None, NO_JUDGE}:
        judge = config.model.get(str(config.judge)) or load_model_config(str(config.judge))
    # The judge is in `model` too if its configuration is changed.
    names = [name for name in config.model if name != config.judge] or list(config.model)
    if config.strategy != BY_MODEL or not names:
        return None, judge
    if len(names) > 1:
        raise ConfigError(
            f"Models are {', '.join(names)}. Expected one for strategy={BY_MODEL}. "
            "Example: model=llama3_8b"
        )
    return config.model[names[0]], judge


def policy_of(config: VariantsConfig) -> Policy:
    """Return the policy of the benchmark with the configured overrides."""
    policies = load_group("rewording", "policy")
    return policy_for(config.benchmark.name, policies, asdict(config.policy))
