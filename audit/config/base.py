"""Define and validate the configuration that all audits share.

No engine is loaded before the configuration is valid. Hydra accepts any key after a plus
(`+key=value`), but no code would read it. So keys that are not in the schema are refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, field, is_dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from itertools import combinations
from operator import attrgetter
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from omegaconf import DictConfig, OmegaConf

from audit.benchmarks.config import BenchmarkConfig
from audit.benchmarks.registry import format_of
from audit.config.audits import audited_model
from audit.config.plan_cost import CostConfig, check_cost, check_priced
from audit.core.entry_points import added
from audit.core.errors import ConfigError, check_known, unknown_name
from audit.core.prompting import check_reading, load_protocol
from audit.core.records import Reading
from audit.engines.config import LIKELIHOODS, ModelConfig, SamplingConfig, check_model
from audit.scoring.sandbox import sandbox_python
from audit.shards.files import check_place
from audit.shards.object_store import is_url


def check_keys(values: Any, schema: Any, path: str = "") -> None:
    """Check that every key of a configuration is in its schema.

    Keys below `dict[str, Any]` or `Any` are not checked. Hydra has checked the items of lists.

    Parameters
    ----------
    values : object
        The values, as nested mappings.
    schema : object
        A dataclass, or the type of a field.
    path : str
        The dotted path above the values, such as "store.". The error message names it.

    Raises
    ------
    ConfigError
        If a key is not in the schema.
    """
    known = fields_of(schema) if is_dataclass(schema) else None
    if not isinstance(values, Mapping) or (known is None and get_origin(schema) is not dict):
        return
    for key, value in values.items():
        if known is not None and key not in known:
            raise _unknown(str(key), schema, path)
        check_keys(value, get_args(schema)[1] if known is None else known[key], f"{path}{key}.")


def fields_of(schema: Any) -> dict[str, Any]:
    """Map each field of a dataclass to its type. The type `X | None` becomes X."""
    types = {}
    for name, kind in get_type_hints(schema).items():
        alternatives = [kind for kind in get_args(kind) if kind is not NoneType]
        optional = len(alternatives) == 1 and NoneType in get_args(kind)
        types[name] = alternatives[0] if optional else kind
    return types


def _below(schema: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted keys of all fields of a dataclass, including the fields of nested
    dataclasses."""
    for name, kind in fields_of(schema).items():
        yield prefix + name
        if is_dataclass(kind):
            yield from _below(kind, f"{prefix}{name}.")


def _unknown(key: str, schema: Any, path: str) -> ConfigError:
    known = sorted(fields_of(schema))
    # A field of this name may exist below another key. Its dotted key is then suggested.
    same = [name for name in _below(schema) if name.rpartition(".")[2] == key]
    short = [] if path else get_close_matches(key, SHORT, n=1, cutoff=0.8)
    near = short or same or get_close_matches(key.lower(), known, n=1)
    hint = f" Did you mean {' or '.join(repr(path + name) for name in near)}?" if near else ""
    where = f"in {path.rstrip('.')}" if path else "at the top"
    short_forms = "" if path else f" Short forms: {', '.join(SHORT)}."
    return ConfigError(
        f"Unknown key: {path + key!r}.{hint} Known {where}: {', '.join(known)}.{short_forms}"
    )


# These arguments stand for keys of the configuration (audit.config.short_forms).
SHORT = ("endpoint", "model_id", "api_key_env", "data", "control_data", "preset", "fresh_after")


def _conf_dir() -> Path:
    """Return the folder conf/.

    In an installed package it is inside the package, and in a checkout beside the package.

    The folder inside the package is preferred, because a folder conf/ beside an installed package
    may belong to another package.
    """
    inside, beside = Path(__file__).parents[1] / "_conf", Path(__file__).parents[2] / "conf"
    return inside if inside.is_dir() else beside


CONF_DIR = _conf_dir()


@dataclass
class ClusterConfig:
    """Define the options of Ray.

    Attributes
    ----------
    address : str or None
        None starts a local Ray for this run; "auto" uses the cluster of this process.
    num_cpus, num_gpus : int or None
        Resources of a local Ray.
    dashboard : bool
        True starts Ray's dashboard.
    runtime_env : dict
        Runtime environment of Ray's workers, in Ray's form.
    autoscale : bool
        True allows requests for GPUs that an autoscaler has to start first.
    models_at_once : int or None
        Number of models of one job that run side by side. None runs as many as fit.
    chunks_in_flight : int
        Number of chunks of questions that the engines hold at once. Each replica has at least one.
    """

    address: str | None = None
    num_cpus: int | None = None
    num_gpus: int | None = None
    dashboard: bool = False
    runtime_env: dict[str, Any] = field(default_factory=dict)
    autoscale: bool = False
    models_at_once: int | None = None
    chunks_in_flight: int = 32


@dataclass
class StoreConfig:
    """Define the options of the shards.

    Attributes
    ----------
    format : str
        "arrow" or "parquet".
    rows_per_shard : int or None
        None chooses a number from the size of the run.
    retry_errors : bool
        True repeats the rows that failed.
    """

    format: str = "arrow"
    rows_per_shard: int | None = None
    retry_errors: bool = False


@dataclass
class RunConfig:
    """Define the options of every audit. The comments in conf/*.yaml explain each key."""

    model: dict[str, ModelConfig] = field(default_factory=dict)
    benchmark: BenchmarkConfig = field(default_factory=BenchmarkConfig)
    control_benchmark: BenchmarkConfig | None = None
    protocol: dict[str, Any] = field(default_factory=dict)
    verdict: dict[str, Any] = field(default_factory=dict)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    cost: CostConfig = field(default_factory=CostConfig)
    store: StoreConfig = field(default_factory=StoreConfig)
    n: Any = 100
    seed: int = 42
    reading: str | None = None  # If set, this reading replaces the reading of every model.
    # If set, a reply without an answer leads to a second call. It reads the likelihoods of the
    # letters (True) or of the options' texts ("option_text").
    reask: Any = True
    canary: bool = True  # A model stops if more than half of its first answers are unparsed.
    replicate_restart: bool = False  # If true, the engines are restarted for each replicate.
    run_dir: str | None = None
    report: bool = True
    gate: bool = False
    progress: bool = True
    # True prints the plan of the run and starts nothing; "json" prints the plan for programs.
    plan: Any = False
    # The program stores the arguments of the command here. A plan ends with a command that repeats
    # them.
    typed: list[str] | None = None
    # The registry of finished runs. None reads AUDIT_REGISTRY; without it no run is registered.
    registry: str | None = None


_DESCRIBED: ContextVar[dict[str, Mapping[str, Any]] | None] = ContextVar("_DESCRIBED", default=None)


def described_models() -> dict[str, Mapping[str, Any]]:
    """Return the configurations, by name, of the models that this call describes itself.

    Short forms and files of the user describe such models.

    A command is one call. In the Python API a call ends with the context `short_forms.one_call`.
    """
    models = _DESCRIBED.get()
    if models is None:
        models = {}
        _DESCRIBED.set(models)
    return models


def conf_of(audit: str) -> Path:
    """Return the folder of <audit>.yaml, in this program or in the package that adds the audit."""
    if (CONF_DIR / f"{audit}.yaml").is_file():
        return CONF_DIR
    return Path(str(files(added("audits")[audit].value) / "conf"))


def options_of(group: str) -> list[str]:
    """Return the names of the files in conf/<group>, sorted."""
    return sorted(path.stem for path in (CONF_DIR / group).glob("*.yaml"))


def known_models() -> list[str]:
    """Return the names of the models in conf/model."""
    return options_of("model")


def load_model_config(name: str) -> ModelConfig:
    """Return the configuration of a model, from conf/model/<name>.yaml or from a short form.

    Raises ConfigError if the model is unknown.
    """
    if name not in (*known_models(), *described_models()):
        raise unknown_name("model", name, known_models())
    if name in known_models():
        return deepcopy(_shipped_model(name))
    return _as_model(dict(described_models()[name]))


@cache
def _shipped_model(name: str) -> ModelConfig:
    return _as_model(load_group("model", name))


def _as_model(values: dict[str, Any]) -> ModelConfig:
    return from_composed(OmegaConf.create(values), ModelConfig)


def as_file(name: str, model: Mapping[str, Any]) -> str:
    """Return a described model as the text of a file in conf/model.

    Parameters
    ----------
    name : str
        The name of the model.
    model : Mapping
        The complete configuration of the model.

    Returns
    -------
    str
        YAML with the derived keys, and the keys that differ from the default.
    """
    defaults: Any = OmegaConf.to_container(OmegaConf.structured(ModelConfig)) or {}
    derived = described_models()[name]
    values = {k: v for k, v in model.items() if k in derived or defaults.get(k) != v}
    return f"# @package model.{name}\n{OmegaConf.to_yaml(OmegaConf.create(values))}"


def load_group(group: str, name: str) -> dict[str, Any]:
    """Return conf/<group>/<name>.yaml as a plain dict.

    Parameters
    ----------
    group : str
        The folder below conf/, such as benchmark.
    name : str
        The name of the file, without its suffix.

    Returns
    -------
    dict[str, Any]
        The values by key.

    Raises
    ------
    ConfigError
        If the file does not exist. The message lists the known names.
    """
    check_known(group, name, options_of(group))
    loaded: Any = OmegaConf.to_container(
        OmegaConf.load(CONF_DIR / group / f"{name}.yaml"), resolve=True
    )
    return {str(k): v for k, v in loaded.items()}


def from_composed(cfg: DictConfig, kind: type) -> Any:
    """Return a composed configuration as an object.

    Parameters
    ----------
    cfg : DictConfig
        The configuration as Hydra composed it.
    kind : type
        The dataclass of the object.

    Returns
    -------
    object
        An instance of `kind`.

    Raises
    ------
    ConfigError
        If a key is not a field of `kind`.
    """
    # Keys are checked before the merge, which would drop unknown keys.
    check_keys(OmegaConf.to_container(cfg), kind)
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), cfg))


_SAFE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def reading_of(config: RunConfig, model: ModelConfig) -> Reading:
    """Return how the answers of a model are read.

    The first of these that is set decides: the option `reading`, the benchmark's free-form reading,
    the model's configuration.

    Parameters
    ----------
    config : RunConfig
        The options of the run.
    model : ModelConfig
        The model that answers.

    Returns
    -------
    Reading
        The reading.

    Raises
    ------
    ConfigError
        If the reading is unknown or does not fit the benchmark.
    """
    free = format_of(config.benchmark.format).reading
    value = config.reading or free or model.reading
    check_known("reading", value, list(Reading))
    free_form = value if value in (Reading.NUMBER, Reading.CODE) else None
    if value != Reading.TEXT and free_form != free:
        reason = "whose items have options. Expected letter, letter_logprob or option_text."
        if free:
            reason = f"whose answers are read as {free}. Leave reading out."
        raise ConfigError(
            f"reading={value} does not fit benchmark {config.benchmark.name}, {reason}"
        )
    return Reading(value)


def reask_of(config: RunConfig, model: ModelConfig) -> Reading | None:
    """Return how a model's reply to a second call is read.

    The second call is made if the first reply has no answer.

    Parameters
    ----------
    config : RunConfig
        The options of the run.
    model : ModelConfig
        The model that answers.

    Returns
    -------
    Reading or None
        The reading of the second call. None if there is no second call, as with engines that do not
        return the likelihood of every option.

    Raises
    ------
    ConfigError
        If the option `reask` is invalid.
    """
    known = {True: Reading.LETTER_LOGPROB, "option_text": Reading.OPTION_TEXT, False: None}
    if not isinstance(config.reask, bool | str) or config.reask not in known:
        raise ConfigError(f"Invalid reask: {config.reask!r}. Expected true, false or option_text.")
    possible = reading_of(config, model) == Reading.LETTER and model.engine in LIKELIHOODS
    return known[config.reask] if possible else None


def sampling_of(reading: Reading, model: ModelConfig) -> SamplingConfig:
    """Return the sampling of the answers.

    Parameters
    ----------
    reading : Reading
        How the answers are read. Numbers and code need longer replies than letters.
    model : ModelConfig
        The model that answers.

    Returns
    -------
    SamplingConfig
        Sampling options, with the largest number of tokens of a reply.
    """
    return model.solver if reading in (Reading.NUMBER, Reading.CODE) else model.worker


def protocol_of(config: RunConfig, model: ModelConfig) -> dict[str, Any]:
    """Return the prompt templates of a model.

    Parameters
    ----------
    config : RunConfig
        The options of the run.
    model : ModelConfig
        The configuration of the model.

    Returns
    -------
    dict[str, Any]
        The protocol that the model's configuration names or, without one, the protocol of the run.
    """
    return config.protocol if model.protocol is None else load_group("protocol", model.protocol)


def sample_size(config: RunConfig) -> int | None:
    """Return the number of questions, or None for all questions.

    Raises ConfigError if n is invalid.
    """
    if config.n in (None, "all"):
        return None
    if isinstance(config.n, bool) or not isinstance(config.n, int) or config.n < 1:
        raise ConfigError(
            f"Invalid n: {config.n!r}. Expected a whole number of at least 1, or n=all."
        )
    return config.n


def check_run(
    config: RunConfig,
    answering: Callable[[Any, ModelConfig], ModelConfig] = audited_model,
    templates: Mapping[str, tuple[str, ...]] = {},
) -> None:
    """Check the shared options, without opening a model or a benchmark.

    Parameters
    ----------
    config : RunConfig
        The options of the run.
    answering, templates
        The functions and templates of the audit, as in `audit.config.audits.Audit`.

    Raises
    ------
    ConfigError
        If an option is invalid, or two options do not fit together.
    """
    if not config.model:
        raise ConfigError(
            "The model is missing. Expected model=<name> or 'model=[a,b]'. "
            f"Known: {', '.join(known_models())}."
        )
    sample_size(config)
    if config.plan not in (True, False, "json"):
        raise ConfigError(f"Invalid plan: {config.plan!r}. Expected true, false or json.")
    check_cost(config.cost)
    if config.run_dir and not is_url(config.run_dir):
        check_place(Path(config.run_dir))
    _check_different(config.model)
    for name, model in config.model.items():
        other = answering(config, model)
        _check_answering(config, name, model, other)
        reading = reading_of(config, other)
        check_reading(load_protocol(protocol_of(config, model), templates, reading), reading)
    if config.replicate_restart and config.cost.max is not None:
        raise ConfigError(
            "cost.max is set with replicate_restart=true, which runs one replicate after another. "
            "Expected only one of them."
        )
    if config.gate and not config.report:
        raise ConfigError("gate=true needs the verdict of the report. Expected report=true.")
    for key in ("cluster.chunks_in_flight", "cluster.models_at_once", "store.rows_per_shard"):
        value = attrgetter(key)(config)
        if value is not None and value < 1:
            raise ConfigError(f"Invalid {key}: {value}. Expected at least 1.")
    if config.store.format not in ("arrow", "parquet"):
        raise ConfigError(
            f"Invalid store.format: {config.store.format!r}. Expected arrow or parquet."
        )


def _check_answering(config: RunConfig, name: str, model: ModelConfig, other: ModelConfig) -> None:
    """Check a model and, if another model answers in its place, that model."""
    if not _SAFE_NAME.match(name):
        raise ConfigError(
            f"Invalid model name: {name!r}. Expected letters, digits, '.', '_' and '-'."
        )
    if reading_of(config, model) == Reading.TEXT:
        raise ConfigError(
            f"reading=text of model {model.name} reads no answer. "
            "Expected a reading that can be scored. Example: reading=letter"
        )
    if reading_of(config, model) == Reading.CODE:
        sandbox_python()
    if config.replicate_restart and model.engine == "openai":
        raise ConfigError(
            f"replicate_restart=true cannot restart the endpoint of {model.name}. "
            "Expected replicate_restart=false."
        )
    for key, checked in ((name, model), (other.name, other)):
        check_model(key, checked, reading_of(config, checked))
        check_priced(config.cost, checked)
    reask_of(config, other)


def _check_different(models: dict[str, ModelConfig]) -> None:
    """Raise ConfigError if two names have the same model.

    The statistics would treat one model as two models, and correct for two tests.
    """
    for (name, model), (other_name, other) in combinations(models.items(), 2):
        if replace(model, name="") == replace(other, name=""):
            raise ConfigError(
                f"Models {name} and {other_name} are the same model. Expected different models. "
                "For repeated runs of a model: replicates=2."
            )


def plain_config(config: RunConfig, answering: Mapping[str, ModelConfig]) -> dict[str, Any]:
    """Return the complete configuration as plain data.

    Parameters
    ----------
    config : RunConfig
        The options of the run.
    answering : Mapping[str, ModelConfig]
        The model that answers, by the name of the audited model.

    Returns
    -------
    dict[str, Any]
        The options, the prompts of every model, and the models that answer for others.
    """
    result: dict[str, Any] = dict(OmegaConf.to_container(OmegaConf.structured(config)))
    others = {}
    for other in answering.values():
        if other.name not in config.model:
            others[other.name] = OmegaConf.to_container(OmegaConf.structured(other))
    if others:
        result["answering"] = others
    result["protocols"] = {name: protocol_of(config, model) for name, model in config.model.items()}
    return result
