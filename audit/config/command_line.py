"""What a command that Hydra composes refuses before Hydra or a job runs: several jobs, a model
given twice.

One command is one job: engines are loaded once, and the tests of all its models are corrected
together."""

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
from audit.config.plain_words import check_words, nested, plainly_said, quoted
from audit.config.project import with_project
from audit.config.short_forms import expand, need_model, with_twin
from audit.core.entry_points import added
from audit.core.errors import AuditError, ConfigError, unknown_name
from audit.core.exits import lines, refused, run_command, tell
from audit.shards.object_store import is_url
from audit.shards.redact import redact

NAMED_MODEL = AUDITS  # commands that audit no model but a named one
# Keys that take several values within one job.
_LISTS = (
    "model",
    "arms",
    "references",
    "allow_convicted",
)
# Keys that take what a group takes: the option is put there, and may be changed by key
# (control_benchmark.path=...).
_GROUPS = {"control_benchmark": "benchmark", "worker": "model"}
# Hydra's own options that change where groups are found.
_HYDRAS_OWN = re.compile(r"hydra[./]|[+~]|-(?!-help$|h$)")
_R_LIST = re.compile(r"\A(\+{0,2}r)=([^\[\](){}'\"]*,[^\[\](){}'\"]*)\Z")
_PRICE = re.compile(r"\A(cost\.(?:prices|throughput)\.)")
_HELP = """audit $NAME key=value ...

Keys: $KEYS

Groups (group=option):
$APP_CONFIG_GROUPS
audit $NAME --cfg job prints everything that can be set."""
# argparse accepts the beginning of an option's name.
_MULTIRUN = (
    "-m",
    *("--multirun"[:k] for k in range(len("--m"), len("--multirun") + 1)),
)


class _AddedConfigs(SearchPathPlugin):
    """The folders conf/ of audits that other packages add."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for name, one in added("audits").items():
            search_path.append(name, f"pkg://{one.value}.conf")


Plugins.instance().register(_AddedConfigs)


def start(schema: type, read: Callable[[DictConfig], Any], act: Callable[[Any], int]) -> None:
    """Run conf/<audit>.yaml with this process's arguments; exit code 1 with the reason where they
    are refused.

    schema: the audit's dataclass. read: the composed configuration, validated. act: what is done
    with it, to an exit code. Plain overrides are composed here: `@hydra.main` does that twice, to
    learn whether several jobs are meant, and a refusal waits for both."""
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
        if any(
            word.startswith(("-", "hydra")) and not word.startswith("hydra.searchpath=")
            for word in words
        ):
            job()
            return
        with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            composed = compose(name, overrides=words, return_hydra_config=True)
            HydraConfig.instance().set_config(composed)
            job(OmegaConf.masked_copy(composed, [key for key in composed if key != "hydra"]))
    except ConfigError as error:
        sys.exit(refused(error, lines))
    except (HydraException, YAMLError) as error:
        sys.exit(refused(plainly_said(error, words, schema), lines))


def _options_first(words: Sequence[str]) -> list[str]:
    """After `n=5 --config-dir DIR`, argparse would take no further key=value. An option's value has
    no equals sign.

    >>> _options_first(["n=5", "--config-dir", "mine", "r=1", "-m"])
    ['--config-dir', 'mine', '-m', 'n=5', 'r=1']
    """
    options: list[str] = []
    overrides: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        valued = before.startswith("-") and not word.startswith("~")
        (options if word.startswith("-") or (valued and "=" not in word) else overrides).append(
            word
        )
    return options + overrides


def _without_secrets(words: Sequence[str]) -> list[str] | None:
    """The words, as they are kept beside the run; None where one of them holds a secret."""
    told = [{one.key_or_group: one.value()} if (one := _parsed(word)) else word for word in words]
    return None if redact(told) != told else list(words)


def help_text(name: str, overrides: Sequence[str]) -> str:
    """What Hydra prints for --help, in a third less time: it would read every group twice."""
    with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
        composed = compose(name, overrides=list(overrides), return_hydra_config=True)
    template = composed.hydra.help.template
    if "== Config ==" in template:  # This is Hydra's own template, which prints hundreds of lines.
        template = _HELP
    folders = sorted(path.name for path in CONF_DIR.iterdir() if path.is_dir())
    groups = "".join(f"{one}: {', '.join(options_of(one))}\n" for one in folders)
    keys = ", ".join(sorted(str(key) for key in composed if key != "hydra"))
    return Template(template).safe_substitute(APP_CONFIG_GROUPS=groups, NAME=name, KEYS=keys)


def hydra_arguments(arguments: Sequence[str], schema: type) -> list[str]:
    """The arguments as Hydra is to read them: `worker=NAME` as a choice in the group model.
    ConfigError where they ask for several jobs, or hold an interpolation.

    >>> hydra_arguments(["n=20", "r=1,3,9"], SweepConfig)  # doctest: +SKIP
    ['n=20', 'r=[1,3,9]']
    """
    for word in arguments:
        if "${" in word:  # Hydra would write the value of `${oc.env:KEY}` into the run's files.
            raise ConfigError(
                f"{word!r} asks for another value by '${{...}}'. Expected the value itself."
            )
    arguments = with_twin(arguments)
    multirun = [word for word in arguments if word in _MULTIRUN]
    ours = [_as_hydra(word) for word in arguments]
    overrides = [override for word in ours if (override := _parsed(word))]
    sweeps = [override for override in overrides if override.is_sweep_override()]
    if multirun or sweeps:
        raise _several_jobs(multirun[0] if multirun else str(sweeps[0].input_line), sweeps)
    # The user's own configuration file has its own keys.
    if not any(word.startswith(("-c", "--config")) for word in ours):
        for override in overrides:
            _check_key(override, overrides, schema)
    return ours


def _as_hydra(word: str) -> str:
    """`r` as a list, a model or benchmark in its group, a model's price as an addition to the
    table, and a URL, which has signs of Hydra's own, in quotes."""
    word = _PRICE.sub(r"++\1", word)
    word = _R_LIST.sub(r"\1=[\2]", word)
    key, found, value = word.lstrip("+").partition("=")
    if found and key in _GROUPS and value not in ("", "null"):
        word = f"+{_GROUPS[key]}@{key}={value}"
    if word.startswith("run_dir=") and is_url(value) and "'" not in value:
        word = f"run_dir='{value}'"
    return quoted(word)


def compose_command(name: str, words: Sequence[str], schema: type) -> DictConfig:
    """What a command would compose of these words, without a Hydra job. Raises ConfigError."""
    overrides = hydra_arguments(expand(check_words(words, name), name)[0], schema)
    try:
        with initialize_config_dir(str(CONF_DIR), version_base="1.3"):
            found = compose(name, overrides=overrides)
            _check_models(name, overrides)
    except (HydraException, YAMLError) as error:
        raise ConfigError(f"{' '.join(words)}: {plainly_said(error, words, schema)}") from error
    return found


def configured(audit: str, words: Sequence[str]) -> Any:
    """The configuration of an audit's command with these words, validated. Raises ConfigError."""
    part = part_of(audit, "config")
    try:
        return part.from_hydra(
            compose_command(audit, words, getattr(part, f"{audit.capitalize()}Config"))
        )
    except OmegaConfBaseException as error:
        raise ConfigError(str(error)) from error


def _check_composed() -> None:
    """Inside a Hydra job: ConfigError when it is one of several, or when a model was given more
    than once."""
    composed = HydraConfig.get()
    # A configuration file or hydra.mode asked for several jobs.
    if composed.mode == RunMode.MULTIRUN:
        raise _several_jobs("hydra.mode=MULTIRUN", [])
    overrides = [*composed.overrides.hydra, *composed.overrides.task]
    _check_models(composed.job.config_name, overrides)


def _check_models(config_name: str, overrides: Sequence[str]) -> None:
    """Two models under one name become one in the configuration, so Hydra's list of what it put
    together is read. It costs a quarter of composing, and is left out where the words name one
    model and no price."""
    if not _may_name_two(overrides):
        return
    loader = GlobalHydra.instance().config_loader()
    given: dict[str, list[str]] = {}
    for part in loader.compute_defaults_list(config_name, list(overrides), RunMode.RUN).defaults:
        group, _, name = (part.config_path or "").rpartition("/")
        if group == "model":
            given.setdefault(part.package or "", []).append(name)
    _check_rates(set(given), overrides)
    for package, names in given.items():
        if len(names) > 1:
            what = f"{names[0]} is given {len(names)} times"
            if len(set(names)) > 1:
                what = f"{' and '.join(names)} are one model to this run: their files say '# @package {package}'"
            raise ConfigError(
                f"{what}. Expected each model once, such as 'model=[llama3_8b,qwen3_8b]'. For repeated runs use "
                "replicates=2; one model in two settings has two files, each with its own '# @package model.<name>'."
            )


def _may_name_two(overrides: Sequence[str]) -> bool:
    """Return whether a model may be given twice, or a rate for a model that there is not. A
    configuration of one's own may hold both."""
    parsed = [_parsed(word) for word in overrides]
    models = [one for one in parsed if one and one.key_or_group == "model"]
    named = sum(len(one.value()) if isinstance(one.value(), list) else 1 for one in models)
    plain = all(
        one and one.key_or_group.partition(".")[0] not in ("cost", "hydra") for one in parsed
    )
    return named > 1 or not plain


def _check_rates(packages: set[str], overrides: Sequence[str]) -> None:
    """A rate or price that was typed for an unknown model would be read by nothing. A table in a
    file may well have more."""
    given = [
        nested(o.key_or_group, o.value())
        for o in map(_parsed, overrides)
        if o and not o.is_delete()
    ]
    # The value of cost=NAME is a text that chooses a file.
    costs = [one["cost"] for one in given if isinstance(one.get("cost"), dict)]
    tables = [
        (name, one[name]) for one in costs for name in ("throughput", "prices") if name in one
    ]
    options = GlobalHydra.instance().config_loader().get_group_options("model")
    known = {*options, *(package.removeprefix("model.") for package in packages)}
    for table, rates in tables:
        if isinstance(rates, dict) and (unknown := set(map(str, rates)) - known):
            raise unknown_name(f"model of cost.{table}", min(unknown), known)


def _parsed(word: str) -> Override | None:
    try:
        return OverridesParser.create().parse_overrides([word])[0]
    except HydraException:
        return None  # Hydra describes the mistake better.


def _check_key(override: Override, overrides: Sequence[Override], schema: type) -> None:
    """Of an override without a plus, for which Hydra's own message says to add one; and of what is
    not chosen."""
    key, dot, _ = override.key_or_group.partition(".")
    chosen = not override.is_delete() and (CONF_DIR / override.key_or_group).is_dir()
    if chosen and not isinstance(override.value(), str | list if key == "model" else str):
        raise ConfigError(
            f"{override.package or key} takes a name, and {override.get_value_string()} is none. Expected one of "
            f"{', '.join(options_of(key))}, or a key below it, such as {key}.KEY=VALUE."
        )
    if override.type == OverrideType.CHANGE and "/" not in override.key_or_group and key != "hydra":
        check_keys(nested(override.key_or_group, None), schema)
    if key in _GROUPS and dot and key not in [other.package for other in overrides]:
        raise ConfigError(
            f"{override.input_line} changes a {key} that is not named. Expected {key}=<name> before it."
        )


def _spelling(override: Override) -> str:
    """What to type for an override that Hydra would make into several jobs."""
    key, value = override.key_or_group, override.get_value_string()
    if override.package in _GROUPS:  # The user's worker=a,b was read as +model@worker=a,b.
        key = override.package
    if key == "r":
        return "r=1..9 or r=1,3,9"
    if key in _LISTS and "(" not in value:
        return f"'{key}=[{value}]'"
    return (
        f"the command once for each {key}; if the comma belongs to one value: '{key}=\"{value}\"'"
    )


def _several_jobs(asked: str, sweeps: Sequence[Override]) -> ConfigError:
    instead = "".join(f"\n  {_spelling(override)}" for override in sweeps)
    return ConfigError(
        f"{asked} asks for several jobs, and one command is one job. "
        + (
            f"Expected:{instead}"
            if instead
            else "Leave it out: lists such as r=1,3,9 and 'model=[a,b]' are one job."
        )
    )
