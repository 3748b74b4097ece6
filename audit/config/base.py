"""What every audit's configuration has, and its validation. No engine is loaded before it passed.

Hydra lets `+key=value` add anything, which nothing then reads: keys that the schema does not have
are refused."""

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
from audit.config.audits import itself
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
    """ConfigError for the first key in `values` (nested mappings) that `schema`, a dataclass or a
    field's type, has no field for. What is below `dict[str, Any]` or `Any` is free; the items of a
    list were checked by Hydra."""
    known = fields_of(schema) if is_dataclass(schema) else None
    if not isinstance(values, Mapping) or (known is None and get_origin(schema) is not dict):
        return
    for key, value in values.items():
        if known is not None and key not in known:
            raise _unknown(str(key), schema, path)
        check_keys(value, get_args(schema)[1] if known is None else known[key], f"{path}{key}.")


def fields_of(schema: Any) -> dict[str, Any]:
    """Name -> type of a dataclass's fields, `X | None` as X."""
    found = {}
    for name, kind in get_type_hints(schema).items():
        given = [one for one in get_args(kind) if one is not NoneType]
        found[name] = given[0] if len(given) == 1 and NoneType in get_args(kind) else kind
    return found


def _below(schema: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys of a dataclass and of the dataclasses in it."""
    for name, kind in fields_of(schema).items():
        yield prefix + name
        if is_dataclass(kind):
            yield from _below(kind, f"{prefix}{name}.")


def _unknown(key: str, schema: Any, path: str) -> ConfigError:
    known = sorted(fields_of(schema))
    # The right name below another key.
    same = [name for name in _below(schema) if name.rpartition(".")[2] == key]
    short = [] if path else get_close_matches(key, SHORT, n=1, cutoff=0.8)
    near = short or same or get_close_matches(key.lower(), known, n=1)
    hint = f" Did you mean {' or '.join(repr(path + name) for name in near)}?" if near else ""
    where = f"in {path.rstrip('.')}" if path else "at the top"
    also = "" if path else f" Short forms: {', '.join(SHORT)}."
    return ConfigError(
        f"Unknown key: {path + key!r}.{hint} Known {where}: {', '.join(known)}.{also}"
    )


# Words of a command that stand for keys of the configuration (audit.config.short_forms).
SHORT = ("endpoint", "model_id", "api_key_env", "data", "control_data", "preset", "fresh_after")

# In a wheel inside the package; in a checkout beside it (where, in a wheel, another package's conf/
# may lie).
CONF_DIR = next(
    path
    for path in (Path(__file__).parents[1] / "_conf", Path(__file__).parents[2] / "conf")
    if path.is_dir()
)


@dataclass
class ClusterConfig:
    """Where Ray runs."""

    address: str | None = (
        None  # null: a local Ray for this run; auto: the cluster this process is on
    )
    num_cpus: int | None = None
    num_gpus: int | None = None
    dashboard: bool = False
    runtime_env: dict[str, Any] = field(default_factory=dict)
    autoscale: bool = False  # true: GPUs may be requested that an autoscaler has yet to start
    models_at_once: int | None = (
        None  # models of one job that run side by side; null: as many as there is room for
    )
    chunks_in_flight: int = (
        32  # chunks of questions sent to the engines at once; each replica has at least one
    )


@dataclass
class StoreConfig:
    format: str = "arrow"
    rows_per_shard: int | None = None  # null: chosen from the size of the run
    retry_errors: bool = False


@dataclass
class RunConfig:
    """What every audit is asked for."""

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
    reading: str | None = None  # overrides the reading of every model
    # Ask generated replies without an answer once more by likelihood: true (of the letters) or
    # option_text.
    reask: Any = True
    canary: bool = True  # stop a model if more than half of its first answers are unparsed
    replicate_restart: bool = False  # start the engines anew for each replicate
    run_dir: str | None = None
    report: bool = True
    gate: bool = False
    progress: bool = True
    # True: print what the run would ask and could find, without starting it; json: the same for
    # programs.
    plan: Any = False
    typed: list[str] | None = (
        # Set by the program: the words of the command, for the command that a plan prints last.
        None
    )
    registry: str | None = (
        None  # where finished runs are registered; null: AUDIT_REGISTRY, or nowhere
    )


_DESCRIBED: ContextVar[dict[str, Mapping[str, Any]] | None] = ContextVar("_DESCRIBED", default=None)


def described_models() -> dict[str, Mapping[str, Any]]:
    """Return the models that the words of this call describe, by name: by a short form, or in a
    folder. A command is one call; `short_forms.one_call` bounds those of the Python API."""
    found = _DESCRIBED.get()
    if found is None:
        found = {}
        _DESCRIBED.set(found)
    return found


def conf_of(audit: str) -> Path:
    """The folder that has <audit>.yaml: ours, or that of the package which adds the audit."""
    ours = (CONF_DIR / f"{audit}.yaml").is_file()
    return CONF_DIR if ours else Path(str(files(added("audits")[audit].value) / "conf"))


def options_of(group: str) -> list[str]:
    """Names of the files in conf/<group>."""
    return sorted(path.stem for path in (CONF_DIR / group).glob("*.yaml"))


def known_models() -> list[str]:
    return options_of("model")


def load_model_config(name: str) -> ModelConfig:
    """The configuration of one model by name, as conf/model/<name>.yaml or a short form gives
    it."""
    if name not in (*known_models(), *described_models()):
        raise unknown_name("model", name, known_models())
    return (
        deepcopy(_shipped_model(name))
        if name in known_models()
        else _as_model(dict(described_models()[name]))
    )


@cache
def _shipped_model(name: str) -> ModelConfig:
    return _as_model(load_group("model", name))


def _as_model(own: dict[str, Any]) -> ModelConfig:
    return from_composed(OmegaConf.create(own), ModelConfig)


def as_file(name: str, model: Mapping[str, Any]) -> str:
    """A described model as a file of conf/model: what was derived, and what was changed of it."""
    usual = OmegaConf.to_container(OmegaConf.structured(ModelConfig))
    own = {
        k: v
        for k, v in model.items()
        if k in described_models()[name] or dict(usual or {}).get(k) != v
    }
    return f"# @package model.{name}\n{OmegaConf.to_yaml(OmegaConf.create(own))}"


def load_group(group: str, name: str) -> dict[str, Any]:
    """conf/<group>/<name>.yaml as a plain dict; ConfigError that lists the known names."""
    check_known(group, name, options_of(group))
    loaded: Any = OmegaConf.to_container(
        OmegaConf.load(CONF_DIR / group / f"{name}.yaml"), resolve=True
    )
    return {str(k): v for k, v in loaded.items()}


def from_composed(cfg: DictConfig, kind: type) -> Any:
    """A composed configuration as `kind`. ConfigError for a key that it does not have."""
    check_keys(OmegaConf.to_container(cfg), kind)  # The merge drops keys that it does not know.
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(kind), cfg))


_SAFE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")


def reading_of(config: RunConfig, model: ModelConfig) -> Reading:
    """How the answers of a model are read: `reading`, else as the benchmark's free-form ones are,
    else its own."""
    free = format_of(config.benchmark.format).reading
    value = config.reading or free or model.reading
    check_known("reading", value, list(Reading))
    if (
        value != Reading.TEXT
        and (value if value in (Reading.NUMBER, Reading.CODE) else None) != free
    ):
        then = "whose items have options. Expected letter, letter_logprob or option_text."
        if free:
            then = f"whose answers are read as {free}. Leave reading out."
        raise ConfigError(f"reading={value} does not fit benchmark {config.benchmark.name}, {then}")
    return Reading(value)


def reask_of(config: RunConfig, model: ModelConfig) -> Reading | None:
    """How a model is asked again where its reply holds no answer; None: not. Only of an engine that
    tells the likelihood of any option."""
    known = {True: Reading.LETTER_LOGPROB, "option_text": Reading.OPTION_TEXT, False: None}
    if not isinstance(config.reask, bool | str) or config.reask not in known:
        raise ConfigError(f"Invalid reask: {config.reask!r}. Expected true, false or option_text.")
    possible = reading_of(config, model) == Reading.LETTER and model.engine in LIKELIHOODS
    return known[config.reask] if possible else None


def sampling_of(reading: Reading, model: ModelConfig) -> SamplingConfig:
    """The limits of the replies that are read so: a number is worked out first, a letter is not."""
    return model.solver if reading in (Reading.NUMBER, Reading.CODE) else model.worker


def protocol_of(config: RunConfig, model: ModelConfig) -> dict[str, Any]:
    """The prompt templates for one model: its own protocol if it names one, else the run's."""
    return config.protocol if model.protocol is None else load_group("protocol", model.protocol)


def sample_size(config: RunConfig) -> int | None:
    """n as asked for; None for all questions."""
    if config.n in (None, "all"):
        return None
    if isinstance(config.n, bool) or not isinstance(config.n, int) or config.n < 1:
        raise ConfigError(
            f"Invalid n: {config.n!r}. Expected a whole number of at least 1, or n=all."
        )
    return config.n


def check_run(
    config: RunConfig,
    answering: Callable[[Any, ModelConfig], ModelConfig] = itself,
    templates: Mapping[str, tuple[str, ...]] = {},
) -> None:
    """Everything shared that can be refused without touching a model or a benchmark. Raises
    ConfigError. answering, templates: as in `audit.config.audits.Audit`."""
    if not config.model:
        raise ConfigError(
            f"No model. Expected model=<name> or 'model=[a,b]'. Known: {', '.join(known_models())}."
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
        raise ConfigError("replicate_restart=true asks replicate by replicate: leave out cost.max.")
    if config.gate and not config.report:
        raise ConfigError("gate=true needs the verdict, which the report holds: leave report=true.")
    for key in ("cluster.chunks_in_flight", "cluster.models_at_once", "store.rows_per_shard"):
        if (value := attrgetter(key)(config)) is not None and value < 1:
            raise ConfigError(f"Invalid {key}: {value}. Expected at least 1.")
    if config.store.format not in ("arrow", "parquet"):
        raise ConfigError(
            f"Invalid store.format: {config.store.format!r}. Expected arrow or parquet."
        )


def _check_answering(config: RunConfig, name: str, model: ModelConfig, other: ModelConfig) -> None:
    """A model, and the one that answers for it."""
    if not _SAFE_NAME.match(name):
        raise ConfigError(f"Invalid model name: {name!r}. Use letters, digits, '.', '_' and '-'.")
    if reading_of(config, model) == Reading.TEXT:
        raise ConfigError(
            f"reading=text of model {model.name} reads no answer, so there would be none to score."
        )
    if reading_of(config, model) == Reading.CODE:
        sandbox_python()
    if config.replicate_restart and model.engine == "openai":
        raise ConfigError(
            "replicate_restart=true starts engines anew, and an endpoint is started by others."
        )
    for key, one in ((name, model), (other.name, other)):
        check_model(key, one, reading_of(config, one))
        check_priced(config.cost, one)
    reask_of(config, other)


def _check_different(models: dict[str, ModelConfig]) -> None:
    """One model under two names would be counted, and corrected for, as two."""
    for (one, its), (other, theirs) in combinations(models.items(), 2):
        if replace(its, name="") == replace(theirs, name=""):
            raise ConfigError(
                f"Models {one} and {other} are the same model. Repeated runs of one are replicates=2."
            )


def plain_config(config: RunConfig, answering: Mapping[str, ModelConfig]) -> dict[str, Any]:
    """The whole configuration as plain data, with every model's prompts and the models that
    answer."""
    result: dict[str, Any] = dict(OmegaConf.to_container(OmegaConf.structured(config)))
    others = {other.name: other for other in answering.values() if other.name not in config.model}
    if others:
        result["answering"] = {
            k: OmegaConf.to_container(OmegaConf.structured(v)) for k, v in others.items()
        }
    result["protocols"] = {name: protocol_of(config, model) for name, model in config.model.items()}
    return result
