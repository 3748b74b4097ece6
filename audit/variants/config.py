"""Define the configuration of `audit variants build` (conf/variants.yaml), composed and checked
without a model.

conf/rewording/policy.yaml defines what may change in a question, and how candidates are judged.
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

_WORDS = {  # the allowed values of a policy
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
        Window of cosine distances, both ends within.
    changes : str
        stem (the context stays as it is), or stem_and_context.
    context : str
        How the text is cut: "none" (all is stem), "last_line" (everything before it is context),
        "last_sentence".
    options : str
        "keep", or "permute" (another order for each variant, the key following).
    nli_cut : float
        Smallest probability of entailment in either direction.
    judge_votes : int
        Votes on each candidate.
    judge_scope : str
        Candidates that the judge sees: "routed" (with a rule finding), or "all".
    judge_controls : int
        Exchanged questions shown beside them, which the judge must not keep.
    unjudged : str
        A routed candidate without a judge: "accept" (with its findings), or "hold".

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
            problem = f"The distance window {self.low:g}..{self.high:g} is empty or outside 0..2"
            raise ConfigError(f"{problem}; expected such as 0.15..0.45.")
        if not 0 <= self.nli_cut <= 1:
            raise ConfigError(f"nli_cut={self.nli_cut:g}; expected a probability, such as 0.9.")
        check_counts(judge_votes=self.judge_votes)
        check_counts(0, judge_controls=self.judge_controls)
        for name, known in _WORDS.items():
            check_known(name, getattr(self, name), known)


class Parts(NamedTuple):
    """Hold a question's text cut in two; joined they are the text. `context` keeps the space after
    it."""

    context: str
    stem: str


def policy_for(
    benchmark: str, conf: Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> Policy:
    """Return the policy of a benchmark.

    Parameters
    ----------
    benchmark : str
        Name.
    conf : mapping
        Content of conf/rewording/policy.yaml: the benchmark's own entry, else the default.
    overrides : mapping or None
        Values that are not None replace the entry's; `window` names another one of `windows`.

    Returns
    -------
    Policy
        The policy; its window is that of the benchmark's domain.

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
    for key in entry:
        check_known(f"policy key of benchmark {benchmark}", key, {f.name for f in fields(Policy)})
    return Policy(**{"low": float(low), "high": float(high), **entry})


def split_text(text: str, policy: Policy) -> Parts:
    r"""Cut a question's text into what stays and what may be reworded.

    Parameters
    ----------
    text : str
        The text.
    policy : Policy
        Defines the cut.

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
        Files.
    align : str
        "id" (`id_column` names the question; several rows are several variants) or "row" (row i
        rewords question i, so there must be as many).
    text_column, id_column : str
        Columns.
    extract : str or None
        Regular expression whose group `text` is the variant, if a field holds more.
    """

    path: list[str] = field(default_factory=list)
    align: str = "id"
    text_column: str = "text"
    id_column: str = "question_id"
    extract: str | None = None


@dataclass
class PolicyConfig:
    """Override conf/rewording/policy.yaml; null keeps the declared value."""

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
    """Define an embedder, or an NLI classifier. adapter: transformers (CPU) or vllm."""

    adapter: str = "transformers"
    model: str | None = None
    revision: str | None = None


@dataclass
class VariantsConfig:
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
    # The paraphraser, and the judge if it is changed.
    model: dict[str, ModelConfig] = field(default_factory=dict)
    judge: str | None = None
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    cost: CostConfig = field(default_factory=CostConfig)
    plan: bool = False
    progress: bool = True

    @property
    def library_name(self) -> str:
        return self.name or f"{self.benchmark.name}-{self.strategy}"


def compose_config(overrides: Sequence[str]) -> VariantsConfig:
    """Compose conf/variants.yaml with `key=value` overrides, and check it.

    Parameters
    ----------
    overrides : sequence of str
        Overrides.

    Returns
    -------
    VariantsConfig
        The configuration.

    Raises
    ------
    ConfigError
        If it cannot be built.
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
    """Check what can be checked without a benchmark or a model.

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
        raise ConfigError("strategy=file needs the file: such as 'file.path=[my_variants.jsonl]'.")
    check_counts(num_variants=config.num_variants, max_attempts=config.max_attempts)
    check_seed(config.seed)
    if config.model and config.strategy != BY_MODEL and list(config.model) != [config.judge]:
        raise ConfigError(
            f"strategy={config.strategy} asks no model for texts. Leave model out, or "
            f"name it as judge=, or write strategy={BY_MODEL}."
        )
    if config.strategy == BY_MODEL and config.judge is None:
        raise ConfigError(
            f"strategy={BY_MODEL} needs a judge: the distance window and the rules alone accept rewordings that no "
            f"longer ask the same (docs/do/variants.md). Name a model, such as judge=qwen3_8b, or say judge={NO_JUDGE}."
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
            named = "text" in re.compile(file.extract).groupindex
        except re.error as error:
            raise ConfigError(
                f"extract={file.extract!r} is no regular expression ({error})."
            ) from error
        if not named:
            raise ConfigError(f"extract={file.extract!r} has no group (?P<text>...).")


def writer_and_judge(config: VariantsConfig) -> tuple[ModelConfig | None, ModelConfig | None]:
    """Return the models of a build.

    Parameters
    ----------
    config : VariantsConfig
        The configuration.

    Returns
    -------
    writer, judge : ModelConfig or None
        None if the build has no such model.

    Raises
    ------
    ConfigError
        If the strategy needs a writer, and more than one model is named.
    """
    judge = None
    if config.judge not in {None, NO_JUDGE}:
        judge = config.model.get(str(config.judge)) or load_model_config(str(config.judge))
    # A judge may be listed beside the writer, to have its configuration changed.
    names = [name for name in config.model if name != config.judge] or list(config.model)
    if config.strategy != BY_MODEL or not names:
        return None, judge
    if len(names) > 1:
        raise ConfigError(
            f"strategy={BY_MODEL} needs one model, such as model=llama3_8b; found {', '.join(names)}."
        )
    return config.model[names[0]], judge


def policy_of(config: VariantsConfig) -> Policy:
    """Return the benchmark's policy with the configured overrides."""
    return policy_for(
        config.benchmark.name, load_group("rewording", "policy"), asdict(config.policy)
    )
