"""Define the configuration of a construct-validity audit (conf/validity.yaml).

A configuration is checked before an engine loads.
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

# These scorers replace a reference scorer that allows no attribute edits.
_AUDITED = {"truthfulqa": "truthfulqa_lettered"}
# These scorers replace one that needs a masked language model.
_CAUSAL = {"crows_pairs": "crows_causal_full"}


@dataclass
class ValidityConfig(RunConfig):
    scorer: str | None = None  # null: the scorer of the benchmark
    judge: str | None = None  # XSTest: a model of conf/model that votes on whether a reply refuses
    judge_votes: int = 3
    labels: str | None = (
        None  # XSTest: labelled replies of this model's family, which validate the scorer
    )
    variants: str | None = (
        None  # library of paraphrases; null: the item's paraphrases, or neutral sentences around it
    )
    formats: list[str] = field(
        default_factory=list
    )  # names of format edits; empty: those of the benchmark
    edits_per_family: int = 3
    spare_edits: int = 1
    replays: int = 2
    template: str = "plain"  # a name of `templates`: the text around the scorer's prompt
    system: str = "none"  # a name of `systems`: the system prompt
    templates: dict[str, str] = field(default_factory=lambda: {"plain": PROMPT})
    systems: dict[str, str] = field(default_factory=lambda: {"none": ""})
    edits: str = (
        "run"  # run, or show (which prints ten items with all their edits, and starts no run)
    )
    chronology: str | None = (
        None  # the CHRONOLOGY.jsonl of a project, copied into the run's directory
    )
    false_alarms: float = 0.025  # tolerated rate in each direction; a plan prints thresholds for it
    misses: float = 0.2
    edits_sha256: str = ""  # hash of the edits, set by the run
    score: str | None = None  # a file of stored predictions, which is scored without a run


ConfigStore.instance().store(name="validity_schema", node=ValidityConfig)


def from_hydra(cfg: DictConfig) -> ValidityConfig:
    """Return the composed config as validated dataclasses.

    Parameters
    ----------
    cfg : DictConfig
        The configuration that Hydra composed.

    Returns
    -------
    ValidityConfig
        The configuration.

    Raises
    ------
    ConfigError
        If `validate` refuses a value.
    """
    config: ValidityConfig = from_composed(cfg, ValidityConfig)
    if config.score is not None:
        return config  # Scoring a file needs no model.
    validate(config)
    return replace(config, reading=_nominal(config))


def validate(config: ValidityConfig) -> None:
    """Check every option that can be checked without a model or a benchmark.

    Parameters
    ----------
    config : ValidityConfig
        The configuration.

    Raises
    ------
    ConfigError
        If a value is invalid.
    """
    design_of(config)
    check_known("value of edits", config.edits, ("run", "show"))
    for name in config.formats:
        check_known("format edit", name, FORMAT_EDITS)
    if config.control_benchmark is not None:
        raise ConfigError(
            "control_benchmark belongs to the sweep. Leave it out: here each edit is compared with "
            "its original."
        )
    if config.edits_sha256:
        raise ConfigError("edits_sha256 is set by the run. Leave it out.")
    _check_judge(config)
    _check_prompt(config)
    if config.chronology is not None:
        read_chronology(Path(config.chronology))
    scorer = scorer_of(config)
    if scorer.name == "truthfulqa_mc1":
        raise ConfigError(
            "scorer is truthfulqa_mc1, which never shows the options, so no question can ask for the "
            "false one. Example: scorer=truthfulqa_lettered."
        )
    for model in config.model.values():
        check_engine(scorer, model.engine)
    ValidityThresholds.from_mapping(config.verdict)
    check_run(replace(config, reading=_nominal(config)))


def _check_judge(config: ValidityConfig) -> None:
    """Raise AuditError if judge, scorer and labels do not fit, or the file of labels is invalid."""
    judged = scorer_of(config).name == JUDGED
    given = config.judge is not None or config.labels is not None
    if given and config.benchmark.format != "xstest":
        raise ConfigError(
            f"judge and labels are about refusals, which {config.benchmark.format} has none of. "
            "Expected benchmark=xstest, or leave them out."
        )
    if judged != (config.judge is not None):
        raise ConfigError(
            f"scorer={JUDGED} and judge=<model> go together, and judge=<model> alone asks for both."
        )
    if config.judge is not None:
        check_model(
            config.judge,
            config.model.get(config.judge) or load_model_config(config.judge),
            Reading.TEXT,
        )
        if config.judge_votes < 1:
            raise ConfigError(
                f"Invalid judge_votes: {config.judge_votes}. Expected 1 or more; odd, so as not to tie."
            )
    if config.labels is not None:
        if len(config.model) > 1:
            raise ConfigError(
                "labels are of one family of models: run one model at a time with them."
            )
        read_labels(Path(config.labels))


def _check_prompt(config: ValidityConfig) -> None:
    """Raise ConfigError if a template does not hold the prompt once, or does not fit the run."""
    check_known("template", config.template, config.templates)
    check_known("system prompt", config.system, config.systems)
    template, system = config.templates[config.template], config.systems[config.system]
    if template.count(PROMPT) != 1:
        raise ConfigError(
            f"templates.{config.template} is {template!r}. Expected {PROMPT} in it once."
        )
    if template == PROMPT and not system:
        return
    if config.benchmark.format == "crows_pairs":
        raise ConfigError(
            "CrowS-Pairs sends two sentences and no prompt. Expected template=plain system=none."
        )
    endpoints = chain.from_iterable(model.endpoints for model in config.model.values())
    if system and any(endpoint.infers for endpoint in endpoints):
        raise ConfigError("An endpoint at .../infer takes a prompt alone. Expected system=none.")


def design_of(config: ValidityConfig) -> Design:
    """Return the design that the configuration describes."""
    return make_design(config.edits_per_family, config.spare_edits, config.replays)


def scorer_of(config: ValidityConfig) -> ReferenceScorer:
    """Return the configured scorer, or the benchmark's.

    Parameters
    ----------
    config : ValidityConfig
        The configuration.

    Returns
    -------
    ReferenceScorer
        The scorer. A causal model scores CrowS-Pairs by the likelihood of the whole sentence,
        unlike the benchmark's authors.

    Raises
    ------
    ConfigError
        If the scorer belongs to another benchmark, or the benchmark has no scorer.
    """
    name = config.benchmark.format
    if name not in REFERENCE and config.scorer is None:
        raise ConfigError(
            f"No reference scorer reads {name}{' (data=FILE)' if name == 'mcq_file' else ''}. "
            f"Expected benchmark= one of {', '.join(REFERENCE)}."
        )
    default = JUDGED if config.judge and name == "xstest" else _AUDITED.get(name, name)
    if not any(Needs.MASKED_LM in GIVES.get(model.engine, ()) for model in config.model.values()):
        default = _CAUSAL.get(name, default)
    scorer = find_scorer(config.scorer or default)
    if scorer.benchmark != name:
        fits = REFERENCE.get(name, f"benchmark={scorer.benchmark}")
        raise ConfigError(
            f"Scorer {scorer.name} reads {scorer.benchmark}, not {name}. Expected {fits}."
        )
    return scorer


def _nominal(config: ValidityConfig) -> str | None:
    """Return the reading in the engines' configuration. The rows record how the scorer read
    replies."""
    if any(model.engine == "openai" for model in config.model.values()):
        return Reading.LETTER if scorer_of(config).needs == Needs.TEXT else Reading.LETTER_LOGPROB
    return Reading.OPTION_TEXT
