"""Compose the configuration of a command, and refuse several jobs or a model that is named twice.

One command is one job. Its engines are loaded once, and one correction for multiple tests covers
all its models.
"""

import re
import sys
from collections.abc import Callable, Sequence
from string import Template
from typing import Any

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from audit.config.audits import AUDITS, name_of, part_of
from audit.config.base import CONF_DIR, check_keys, options_of
from audit.config.plain_words import check_words, nested, plain_message, quoted
from audit.config.project import with_project
from audit.config.short_forms import expand, need_model, with_twin
from audit.core.entry_points import added
from audit.core.errors import AuditError, ConfigError, unknown_name
from audit.core.exits import lines, refused, run_command, tell
from audit.shards.object_store import is_url
from audit.shards.redact import redact

NAMED_MODEL = AUDITS  # These commands need the name of a model.
# These keys may have several values in one job.
_LISTS = (
    "model",
    "arms",
    "references",
    "allow_convicted",
)
# Each of these keys selects an option of another group. Keys below it change the option
# (control_benchmark.path=...).
_GROUPS = {"control_benchmark": "benchmark", "worker": "model"}
# These options of Hydra change the folders in which Hydra looks for groups.
_HYDRAS_OWN = re.compile(r"hydra[./]|[+~]|-(?!-help$|h$)")
_R_LIST = re.compile(r"\A(\+{0,2}r)=([^\[\](){}'\"]*,[^\[\](){}'\"]*)\Z")
_PRICE = re.compile(r"\A(cost\.(?:prices|throughput)\.)")
_HELP = """audit $NAME key=value ...

Keys: $KEYS

Groups (group=option):
$APP_CONFIG_GROUPS
audit $NAME --cfg job prints everything that can be set."""
# argparse accepts an abbreviated option, such as --multi for --multirun.
_MULTIRUN = (
    "-m",
    *("--multirun"[:k] for k in range(len("--m"), len("--multirun") + 1)),
)


class _AddedConfigs(SearchPathPlugin):
    """Add the folders conf/ of the audits of other packages to Hydra's search path."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Append the folders conf/ of other packages to the search path. Hydra calls this
        method."""
        for name, entry in added("audits").items():
            search_path.append(name, f"pkg://{entry.value}.conf")


Plugins.instance().register(_AddedConfigs)


def start(schema: type, read: Callable[[DictConfig], Any], act: Callable[[Any], int]) -> None:
    """Compose conf/<audit>.yaml with the arguments of this process, and run the audit.

    The process ends with exit code 1 and the reason if the arguments are refused. This function
    itself composes plain key=value arguments, because `@hydra.main` would compose twice to
    recognize several jobs.

    Parameters
    ----------
    schema : type
        The dataclass of the audit's options.
    read : Callable
        Validates the composed configuration and returns the options.
    act : Callable
        Runs the audit with these options and returns the exit code.
    """
    name, typed = name_of(schema.__module__), None

    @hydra.main(version_base="1.3", config_path=str(CONF_DIR), config_name=name)
    def job(cfg: DictConfig) -> None:
        if "typed" in cfg:
            cfg.typed = typed
        run_command(lambda: ended(cfg))

    def ended(cfg: DictConfig) -> int:
        try:
            _check_composed()
            return act(read(cfg))
        except (AuditError, OmegaConfBaseException) as error:
            return refused(error, lines)

    words = sys.argv[1:]
    try:
        words, project = check_words(words, name), ""
        if name in NAMED_MODEL:
            words, project = with_project(words, name)
            need_model(words)
        typed = _without_secrets(words)
        words, notes = expand(words, name)
        sys.argv[1:] = words = _options_first(hydra_arguments(words, schema))
        if {"--help", "-h"} & set(words) and not any(map(_HYDRAS_OWN.match, words)):
            print(help_text(name, [word for word in words if word not in ("--help", "-h")]))
            return
        for note in filter(None, (project, *notes)):
            tell(note)
        if any(map(_needs_hydra, words)):
            job()
            return
        with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            composed = compose(name, overrides=words, return_hydra_config=True)
            HydraConfig.instance().set_config(composed)
            job(OmegaConf.masked_copy(composed, [key for key in composed if key != "hydra"]))
    except ConfigError as error:
        sys.exit(refused(error, lines))
    except (HydraException, YAMLError) as error:
        sys.exit(refused(plain_message(error, words, schema), lines))


def _needs_hydra(word: str) -> bool:
    """Return True if an argument is an option that only `@hydra.main` understands."""
    return word.startswith(("-", "hydra")) and not word.startswith("hydra.searchpath=")


def _options_first(words: Sequence[str]) -> list[str]:
    """Move options and their values before the key=value arguments.

    After `n=5 --config-dir DIR`, argparse would accept no further key=value. The value of an option
    has no equals sign.

    >>> _options_first(["n=5", "--config-dir", "mine", "r=1", "-m"])
    ['--config-dir', 'mine', '-m', 'n=5', 'r=1']
    """
    options: list[str] = []
    overrides: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        is_value = before.startswith("-") and not word.startswith("~") and "=" not in word
        if word.startswith("-") or is_value:
            options.append(word)
        else:
            overrides.append(word)
    return options + overrides


def _without_secrets(words: Sequence[str]) -> list[str] | None:
    """Return the arguments for storage with the run; None if an argument holds a secret."""
    parsed: list[Any] = []
    for word in words:
        override = _parsed(word)
        parsed.append(word if override is None else {override.key_or_group: override.value()})
    return None if redact(parsed) != parsed else list(words)


def help_text(name: str, overrides: Sequence[str]) -> str:
    """Return the text that Hydra prints for --help.

    Hydra would read every group twice, so this function saves a third of the time.

    Parameters
    ----------
    name : str
        The name of the audit, such as memory.
    overrides : Sequence[str]
        The other arguments of the command.

    Returns
    -------
    str
        The help text, with the groups and the keys.
    """
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        composed = compose(name, overrides=list(overrides), return_hydra_config=True)
    template = composed.hydra.help.template
    if "== Config ==" in template:  # Hydra's default template prints hundreds of lines.
        template = _HELP
    folders = sorted(path.name for path in CONF_DIR.iterdir() if path.is_dir())
    groups = "".join(f"{group}: {', '.join(options_of(group))}\n" for group in folders)
    keys = ", ".join(sorted(str(key) for key in composed if key != "hydra"))
    return Template(template).safe_substitute(APP_CONFIG_GROUPS=groups, NAME=name, KEYS=keys)


def hydra_arguments(arguments: Sequence[str], schema: type) -> list[str]:
    """Return the arguments in the form that Hydra reads.

    Parameters
    ----------
    arguments : Sequence[str]
        The arguments of the command, after `expand`.
    schema : type
        The dataclass of the audit's options.

    Returns
    -------
    list[str]
        The overrides. `worker=NAME`, for example, becomes a choice in the group model.

    Raises
    ------
    ConfigError
        If the arguments need several jobs, hold an interpolation, or have an unknown key.

    Examples
    --------
    >>> hydra_arguments(["n=20", "r=1,3,9"], SweepConfig)  # doctest: +SKIP
    ['n=20', 'r=[1,3,9]']
    """
    for word in arguments:
        if "${" in word:  # Hydra would write the value of `${oc.env:KEY}` into the run's files.
            raise ConfigError(
                f"{word!r} refers to another value by '${{...}}'. Expected the value itself."
            )
    arguments = with_twin(arguments)
    multirun = [word for word in arguments if word in _MULTIRUN]
    hydra_words = list(map(_as_hydra, arguments))
    overrides = list(filter(None, map(_parsed, hydra_words)))
    sweeps = list(filter(Override.is_sweep_override, overrides))
    if multirun or sweeps:
        raise _several_jobs(multirun[0] if multirun else str(sweeps[0].input_line), sweeps)
    # A configuration file of the user may define other keys.
    if not any(word.startswith(("-c", "--config")) for word in hydra_words):
        for override in overrides:
            _check_key(override, overrides, schema)
    return hydra_words


def _as_hydra(word: str) -> str:
    """Return an argument in the form that Hydra reads:

    - `r` becomes a list.
    - A model or benchmark becomes a choice in its group.
    - A model's price is added to the table of prices.
    - A URL is quoted, because it has characters that Hydra interprets.
    """
    word = _PRICE.sub(r"++\1", word)
    word = _R_LIST.sub(r"\1=[\2]", word)
    key, equals, value = word.lstrip("+").partition("=")
    if equals and key in _GROUPS and value not in ("", "null"):
        word = f"+{_GROUPS[key]}@{key}={value}"
    if word.startswith("run_dir=") and is_url(value) and "'" not in value:
        word = f"run_dir='{value}'"
    return quoted(word)


def compose_command(name: str, words: Sequence[str], schema: type) -> DictConfig:
    """Compose the configuration of a command, without a Hydra job.

    Parameters
    ----------
    name : str
        The name of the command, such as sweep.
    words : Sequence[str]
        The arguments after the command.
    schema : type
        The dataclass of its options.

    Returns
    -------
    DictConfig
        The composed configuration.

    Raises
    ------
    ConfigError
        If an argument is refused.
    """
    overrides = hydra_arguments(expand(check_words(words, name), name)[0], schema)
    try:
        with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            composed = compose(name, overrides=overrides)
            _check_models(name, overrides)
    except (HydraException, YAMLError) as error:
        raise ConfigError(f"{' '.join(words)}: {plain_message(error, words, schema)}") from error
    return composed


def configured(audit: str, words: Sequence[str]) -> Any:
    """Return the validated options of an audit.

    Parameters
    ----------
    audit : str
        The name of the audit, such as memory.
    words : Sequence[str]
        The arguments after its command.

    Returns
    -------
    object
        The options, an instance of the audit's dataclass.

    Raises
    ------
    ConfigError
        If an argument is refused or an option is invalid.
    """
    part = part_of(audit, "config")
    try:
        return part.from_hydra(
            compose_command(audit, words, getattr(part, f"{audit.capitalize()}Config"))
        )
    except OmegaConfBaseException as error:
        raise ConfigError(str(error)) from error


def _check_composed() -> None:
    """Raise ConfigError if this Hydra job is one of several, or if a model is named twice."""
    composed = HydraConfig.get()
    # A configuration file or hydra.mode can request several jobs.
    if composed.mode == RunMode.MULTIRUN:
        raise _several_jobs("hydra.mode=MULTIRUN", [])
    overrides = [*composed.overrides.hydra, *composed.overrides.task]
    _check_models(composed.job.config_name, overrides)


def _check_models(config_name: str, overrides: Sequence[str]) -> None:
    """Raise ConfigError if two models have one name, or an unknown model has a price or throughput.

    The composed configuration holds only one model of each name, so this function reads Hydra's
    list of defaults. Reading the list takes a quarter of the time of composing, and is skipped if
    the arguments name one model and no price.
    """
    if not _may_name_two(overrides):
        return
    loader = GlobalHydra.instance().config_loader()
    names_by_package: dict[str, list[str]] = {}
    for part in loader.compute_defaults_list(config_name, list(overrides), RunMode.RUN).defaults:
        group, _, name = (part.config_path or "").rpartition("/")
        if group == "model":
            names_by_package.setdefault(part.package or "", []).append(name)
    _check_rates(set(names_by_package), overrides)
    for package, names in names_by_package.items():
        if len(names) < 2:
            continue
        problem = f"{names[0]} is given {len(names)} times"
        if len(set(names)) > 1:
            problem = f"The files of {' and '.join(names)} have the same '# @package {package}'"
        raise ConfigError(
            f"{problem}. Expected each model once. Example: 'model=[llama3_8b,qwen3_8b]'. "
            "For repeated runs use replicates=2. For two settings of one model write two files with "
            "different '# @package model.<name>'."
        )


def _may_name_two(overrides: Sequence[str]) -> bool:
    """Return True if the arguments may name a model twice, or set a price of an unknown model.

    A configuration file of the user may contain the same mistakes.
    """
    models = 0
    for word in overrides:
        override = _parsed(word)
        if override is None or override.key_or_group.partition(".")[0] in ("cost", "hydra"):
            return True
        if override.key_or_group == "model":
            value = override.value()
            models += len(value) if isinstance(value, list) else 1
    return models > 1


def _check_rates(packages: set[str], overrides: Sequence[str]) -> None:
    """Raise ConfigError if an argument sets a throughput or price of an unknown model.

    No code would read such a value. Only a table in a file may have values of models that are not
    in the run.
    """
    options = GlobalHydra.instance().config_loader().get_group_options("model")
    known = {*options, *(package.removeprefix("model.") for package in packages)}
    for override in map(_parsed, overrides):
        if override is None or override.is_delete():
            continue
        cost = nested(override.key_or_group, override.value()).get("cost")
        if not isinstance(cost, dict):  # The value of cost=NAME is the name of a file.
            continue
        for table in ("throughput", "prices"):
            rates = cost.get(table)
            unknown = set(map(str, rates)) - known if isinstance(rates, dict) else set()
            if unknown:
                raise unknown_name(f"model of cost.{table}", min(unknown), known)


def _parsed(word: str) -> Override | None:
    try:
        return OverridesParser.create().parse_overrides([word])[0]
    except HydraException:
        # The arguments contain a mistake, which Hydra reports later with a better message.
        return None


def _check_key(override: Override, overrides: Sequence[Override], schema: type) -> None:
    """Raise ConfigError if an override has an unknown key, or no name for a group such as model.

    For an unknown key Hydra's message would advise a plus, which adds a key that no code reads.
    """
    key, dot, _ = override.key_or_group.partition(".")
    chosen = not override.is_delete() and (CONF_DIR / override.key_or_group).is_dir()
    if chosen and not isinstance(override.value(), str | list if key == "model" else str):
        raise ConfigError(
            f"{override.package or key} is {override.get_value_string()}. Expected a name: "
            f"{', '.join(options_of(key))}. To change a key below it: {key}.KEY=VALUE"
        )
    if override.type == OverrideType.CHANGE and "/" not in override.key_or_group and key != "hydra":
        check_keys(nested(override.key_or_group, None), schema)
    if key in _GROUPS and dot and key not in [other.package for other in overrides]:
        raise ConfigError(
            f"{override.input_line} has no {key} to change. Expected {key}=<name> before it."
        )


def _spelling(override: Override) -> str:
    """Return the argument to type in place of an override that Hydra would read as several jobs."""
    key, value = override.key_or_group, override.get_value_string()
    if override.package in _GROUPS:  # The argument worker=a,b became +model@worker=a,b.
        key = override.package
    if key == "r":
        return "r=1..9 or r=1,3,9"
    if key in _LISTS and "(" not in value:
        return f"'{key}=[{value}]'"
    return (
        f"the command once for each {key}; if the comma belongs to one value: '{key}=\"{value}\"'"
    )


def _several_jobs(word: str, sweeps: Sequence[Override]) -> ConfigError:
    spellings = "".join(f"\n  {_spelling(override)}" for override in sweeps)
    advice = "Leave it out: r=1,3,9 and 'model=[a,b]' are lists within one job."
    if spellings:
        advice = f"Expected:{spellings}"
    return ConfigError(f"{word} means several jobs, and one command is one job. {advice}")
