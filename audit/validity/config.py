"""Define the options of a validity audit, and check them before an engine is loaded.

This is the schema of conf/validity.yaml.
"""

from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

from audit.config.base import RunConfig, check_run, from_composed, load_model_config
from audit.core.errors import ConfigError, check_known
from audit.core.records import Design, Reading
from audit.engines.config import check_model
from audit.governance.chronology import read_chronology
from audit.scoring.reference import (
    GIVES,
    JUDGED,
    REFERENCE,
    ReferenceScorer,
    check_engine,
    find_scorer,
)
from audit.scoring.scored import Needs
from audit.validity.design import ValidityThresholds, make_design
from audit.validity.edits.record import PROMPT
from audit.validity.edits.surface import FORMATS as FORMAT_EDITS
from audit.validity.labels import read_labels

# Scorers that are used in place of a reference scorer that allows no edits of the content.
_AUDITED = {"truthfulqa": "truthfulqa_lettered"}
# Scorers that are used in place of a reference scorer that needs a masked language model.
_CAUSAL = {"crows_pairs": "crows_causal_full"}


@dataclass
class ValidityConfig(RunConfig):
    """Hold the options of a validity audit."""

    scorer: str | None = None  # null means the scorer of the benchmark
    judge: str | None = None  # XSTest: a model of conf/model that votes on whether a reply refuses
    judge_votes: int = 3
    # XSTest: file of labelled replies of this model's family, which validate the scorer
    labels: str | None = None
    # library of paraphrases; null means paraphrases of the benchmark, or neutral sentences
    variants: str | None = None
    formats: list[str] = field(default_factory=list)  # empty means those of the benchmark
    edits_per_family: int = 3
    spare_edits: int = 1
    replays: int = 2
    template: str = "plain"  # a name of `templates`: the text around the scorer's prompt
    system: str = "none"  # a name of `systems`: the system prompt
    templates: dict[str, str] = field(default_factory=lambda: {"plain": PROMPT})
    systems: dict[str, str] = field(default_factory=lambda: {"none": ""})
    edits: str = "run"  # "show" prints ten items with all their edits and starts no run
    chronology: str | None = None  # CHRONOLOGY.jsonl of a project, copied into the run directory
    false_alarms: float = 0.025  # tolerated rate of false positives in each direction, for a plan
    misses: float = 0.2
    edits_sha256: str = ""  # hash of the edits, which the run sets
    score: str | None = None  # file of stored predictions, which is scored without a run


ConfigStore.instance().store(name="validity_schema", node=ValidityConfig)


def from_hydra(cfg: DictConfig) -> ValidityConfig:
    """Convert and check a composed configuration.

    Parameters
    ----------
    cfg : DictConfig
        The composed configuration.

    Returns
    -------
    ValidityConfig
        The options.

    Raises
    ------
    ConfigError
        If an option is invalid.
    """
    config: ValidityConfig = from_composed(cfg, ValidityConfig)
    if config.score is not None:
        return config  # Scoring a file needs no model.
    validate(config)
    return replace(config, reading=_nominal(config))


def validate(config: ValidityConfig) -> None:
    """Check the options as far as this is possible without a model or a benchmark.

    Parameters
    ----------
    config : ValidityConfig
        The options.

    Raises
    ------
    ConfigError
        If an option is invalid.
    """
    design_of(config)
    check_known("value of edits", config.edits, ("run", "show"))
    for name in config.formats:
        check_known("format edit", name, FORMAT_EDITS)
    if config.control_benchmark is not None:
        raise ConfigError(
            "control_benchmark is set, and a validity audit compares each edit with its original. Expected no "
            "control_benchmark, which belongs to other audits."
        )
    if config.edits_sha256:
        raise ConfigError(
            "edits_sha256 is set. Expected no value, since the run computes this hash."
        )
    _check_judge(config)
    _check_prompt(config)
    if config.chronology is not None:
        read_chronology(Path(config.chronology))
    scorer = scorer_of(config)
    if scorer.name == "truthfulqa_mc1":
        raise ConfigError(
            "scorer is truthfulqa_mc1, which never shows the options, so no edit can ask for the false one. Expected "
            "a scorer that shows them. Example: scorer=truthfulqa_lettered"
        )
    for model in config.model.values():
        check_engine(scorer, model.engine)
    ValidityThresholds.from_mapping(config.verdict)
    check_run(replace(config, reading=_nominal(config)))


def _check_judge(config: ValidityConfig) -> None:
    """Raise AuditError if judge, scorer and labels cannot be combined, or if the file of labels is
    invalid.
    """
    judged = scorer_of(config).name == JUDGED
    given = config.judge is not None or config.labels is not None
    if given and config.benchmark.format != "xstest":
        raise ConfigError(
            f"judge or labels is set, and {config.benchmark.format} has no refusals to judge. "
            "Expected benchmark=xstest, or neither judge nor labels."
        )
    if judged != (config.judge is not None):
        raise ConfigError(
            f"scorer={JUDGED} and judge are not used together. Expected both or "
            "neither. Example: judge=<model>, which also sets the scorer."
        )
    if config.judge is not None:
        check_model(
            config.judge,
            config.model.get(config.judge) or load_model_config(config.judge),
            Reading.TEXT,
        )
        if config.judge_votes < 1:
            raise ConfigError(
                f"judge_votes is {config.judge_votes}. Expected an odd number of 1 or more, to avoid ties. "
                "Example: judge_votes=3"
            )
    if config.labels is not None:
        if len(config.model) > 1:
            raise ConfigError(
                f"labels is set for {len(config.model)} models. Expected one model, since labels are valid for one "
                "family of models."
            )
        read_labels(Path(config.labels))


def _check_prompt(config: ValidityConfig) -> None:
    """Raise ConfigError if a template or system prompt cannot be used.

    A template must contain the placeholder of the prompt exactly once, and the run must be able
    to send it.
    """
    check_known("template", config.template, config.templates)
    check_known("system prompt", config.system, config.systems)
    template, system = config.templates[config.template], config.systems[config.system]
    if template.count(PROMPT) != 1:
        raise ConfigError(
            f"templates.{config.template} is {template!r}. Expected a text that contains {PROMPT} once."
        )
    if template == PROMPT and not system:
        return
    if config.benchmark.format == "crows_pairs":
        raise ConfigError(
            "template or system is set, and CrowS-Pairs sends two sentences without a prompt. "
            "Expected template=plain system=none."
        )
    endpoints = chain.from_iterable(model.endpoints for model in config.model.values())
    if system and any(endpoint.infers for endpoint in endpoints):
        raise ConfigError(
            f"system is {config.system}, and an endpoint at .../infer accepts no system prompt. Expected system=none."
        )


def design_of(config: ValidityConfig) -> Design:
    """Return the design that the configuration describes."""
    return make_design(config.edits_per_family, config.spare_edits, config.replays)


def scorer_of(config: ValidityConfig) -> ReferenceScorer:
    """Return the scorer that the options name. By default it is the scorer of the benchmark.

    Parameters
    ----------
    config : ValidityConfig
        The options.

    Returns
    -------
    ReferenceScorer
        The scorer. A causal model scores CrowS-Pairs by the likelihood of the whole sentence, which
        differs from the authors' method.

    Raises
    ------
    ConfigError
        If the scorer belongs to another benchmark, or the benchmark has no scorer.
    """
    name = config.benchmark.format
    if name not in REFERENCE and config.scorer is None:
        raise ConfigError(
            f"benchmark is {name}{' (data=FILE)' if name == 'mcq_file' else ''}, which has no reference scorer. "
            f"Expected one of {', '.join(REFERENCE)}."
        )
    default = JUDGED if config.judge and name == "xstest" else _AUDITED.get(name, name)
    if not any(Needs.MASKED_LM in GIVES.get(model.engine, ()) for model in config.model.values()):
        default = _CAUSAL.get(name, default)
    scorer = find_scorer(config.scorer or default)
    if scorer.benchmark != name:
        fits = REFERENCE.get(name, f"benchmark={scorer.benchmark}")
        raise ConfigError(
            f"scorer is {scorer.name}, which reads {scorer.benchmark} and not {name}. Expected {fits}."
        )
    return scorer


def _nominal(config: ValidityConfig) -> str | None:
    """Return the reading of replies that the configuration of the engines states.

    The scorer may read replies in another way. Each row states how its reply was read.
    """
    if any(model.engine == "openai" for model in config.model.values()):
        return Reading.LETTER if scorer_of(config).needs == Needs.TEXT else Reading.LETTER_LOGPROB
    return Reading.OPTION_TEXT
