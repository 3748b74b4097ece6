"""Check arguments as a person types them, and state what Hydra and OmegaConf refuse in this
program's words (pure)."""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException
from yaml import MarkedYAMLError

from audit.benchmarks.config import SUFFIXES, BenchmarkConfig
from audit.config.base import check_keys, described_models, fields_of
from audit.core.errors import ConfigError, UsageError, unknown_name

# Beginnings of Hydra's own options.
_HYDRAS = r"help|hydra|cfg|resolve|package|run\b|multirun|config|info|shell|experimental|version"
_OPTION = re.compile(rf"(?:^|(?<= ))--(?!{_HYDRAS})([\w.]+)[ =]([^-\s]\S*)")
# -c and the other excluded options are Hydra's.
_SHORT = re.compile(
    r"(?:^|(?<= ))-(?!(?:[chimp]|sc|c[pnd])[ =])([a-z]\w*)[ =]([^-\s=][^\s=]*)(?= |$)"
)
_NO_PACKAGE = re.compile(r"In '((?:\w+/)+)([^']+)': ValidationError.*\n.* is not a subclass of ")
_IN_FILE = re.compile(
    r"In '([^']+)': \w+ raised while composing config:\n(.*)(?:\n +full_key: (\S+))?"
)
_PLAIN = re.compile(r"[\w./-]+(?: [\w./-]+)*", re.ASCII)  # what Hydra reads without quotes
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def check_words(words: Sequence[str], command: str) -> list[str]:
    """Return the arguments, with `help` as `--help`. command: of the audit, such as sweep.

    Raises UsageError, with the line to type, for options, for a command among the keys, and for a
    file in place of a name.
    """
    if words[:1] == ["help"]:
        return ["--help"]
    words = with_config_dir(words)
    if (meant := _SHORT.sub(r"\1=\2", _OPTION.sub(r"\1=\2", " ".join(words)))) != " ".join(words):
        raise UsageError(f"Keys are written without dashes. Write: audit {command} {meant}")
    for i, word in enumerate(words):
        key, is_key, value = word.partition("=")
        if (
            not is_key
            and not word.startswith(("-", "~"))
            and not words[max(i - 1, 0)].startswith("-")
        ):
            line = f"plan audit={command} {' '.join(words[:i])} {' '.join(words[i + 1 :])}".split()
            meant = f"audit {' '.join(line)}" if word == "plan" else "model=scripted n=20"
            raise UsageError(
                f"Expected key=value, found {word!r}. Write such as: {meant}\nAll keys: audit {command} help"
            )
        if key in ("benchmark", "control_benchmark") and value.lower().endswith(SUFFIXES):
            raise UsageError(
                f"{key} takes a name, and {value} is a file. Write: "
                + (
                    shlex.quote(f"data={value}")
                    if key == "benchmark"
                    else f"{key}=mcq_file {key}.path={value}"
                )
                + f"\nHow its columns are read: audit data show {shlex.quote(value)}"
            )
        if key == "hydra.searchpath":
            _check_searchpath(value)
        if key == "model.openai_compatible.name":
            raise UsageError(
                f"An endpoint goes by the name of its model. Write: endpoint=URL model_id={value}"
            )
    return list(words)


def with_config_dir(words: Sequence[str]) -> list[str]:
    """Replace Hydra's option for the user's folder by the key that means the same.

    >>> with_config_dir(["n=5", "--config-dir", "my conf"])
    ['n=5', "hydra.searchpath=['my conf']"]
    """
    line = "\n".join(words)
    return (
        re.sub(r"(?m)^(?:--config-dir|-cd)[\n=](.+)$", r"hydra.searchpath=['\1']", line).split("\n")
        if line
        else []
    )


def folders_of(searchpath: str) -> list[Path]:
    """Return the folders in a value of hydra.searchpath, without those of packages (pkg://)."""
    places = (
        place.strip(" '\"").removeprefix("file://")
        for place in searchpath.strip("'\"[]").split(",")
    )
    return [Path(place) for place in places if "://" not in place]


def _check_searchpath(value: str) -> None:
    """Raise UsageError for a missing folder, of which Hydra only warns."""
    for folder in folders_of(value):
        if not folder.is_dir():
            holds = f"Expected one that holds model/ or benchmark/, such as {Path.cwd() / 'conf'}."
            raise ConfigError(f"hydra.searchpath: there is no folder {folder}. {holds}")


def quoted(word: str) -> str:
    """Return key=value with quotes around what Hydra cannot read without them, such as a path with
    a space.

    >>> quoted("benchmark.path=/data/my exam ü.jsonl")
    "benchmark.path='/data/my exam ü.jsonl'"
    """
    key, is_key, value = word.partition("=")
    if not is_key or not value or value[0] in "'\"[{" or word.startswith("-"):
        return word
    text = value.replace("'", "\\'")
    return next(filter(_parses, (word, f"{key}='{text}'")), word)


def benchmark_words(config: BenchmarkConfig) -> list[str]:
    """Return the benchmark and every key that is not the default, as they are typed in a shell."""
    if config.format != "mcq_file":
        return [
            f"benchmark={config.name}",
            *([shlex.quote(f"benchmark.path={config.path}")] if config.path else []),
        ]
    plain = asdict(BenchmarkConfig(format=config.format))
    own = {key: value for key, value in asdict(config).items() if value != plain[key]}
    return ["benchmark=mcq_file", *map(shlex.quote, words({"benchmark": own}, _as_text))]


def words(
    options: Mapping[str, Any], text: Callable[[str], str] = str, above: str = ""
) -> Iterator[str]:
    """Return options as Hydra reads them.

    text: how one is written. The default writes it as a command reads it.

    >>> list(words({"n": 20, "gate": True, "references": ["a", "b"], "benchmark": {"path": "x.csv"}, "seed": None}))
    ['n=20', 'gate=true', 'references=[a,b]', 'benchmark.path=x.csv', 'seed=null']
    """

    def typed(value: Any) -> str:
        if isinstance(value, list | tuple):
            return f"[{','.join(map(typed, value))}]"
        if value is None or isinstance(value, bool):
            return "null" if value is None else str(value).lower()
        return text(str(value))

    for key, value in options.items():
        if isinstance(value, Mapping):
            yield from words(value, text, f"{above}{key}.")
        else:
            yield f"{above}{key}={typed(value)}"


def _as_text(text: str) -> str:
    """Quote text in which Hydra would read its own signs."""
    escaped = text.replace('"', '\\"')
    return text if _PLAIN.fullmatch(text) else f'"{escaped}"'


def _parses(word: str) -> bool:
    try:
        OverridesParser.create().parse_overrides([word])
    except HydraException:
        return False
    return True


def plainly_said(error: Exception, words: Sequence[str], schema: type) -> str:
    """State what Hydra or OmegaConf refuses of these arguments. schema: the dataclass that the
    configuration must fit."""
    if isinstance(error, MissingConfigException) and error.options:
        return _missing(error)
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark):
        return f"{mark.name}, line {mark.line + 1}: {error.problem}. Expected lines such as name: value."
    if found := _NO_PACKAGE.search(str(error)):
        file = f"{found[1]}{found[2]}"
        return f"{file}.yaml has no package. Expected as its first line: # @package {file.replace('/', '.')}"
    if isinstance(error, OverrideParseException):
        example = "n=20, 'model=[a,b]' or \"key='a text, with signs'\""
        return f"{error.override!r} cannot be read. Expected such as {example}."
    if found := _IN_FILE.search(str(error)):
        return f"{found[1]}.yaml: {_unfit(schema, found[3] or '', found[2])}"
    return _ill_fitting(error, words, schema)


def _missing(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if group.startswith("model/"):
        return f"model={group[6:]}/{name} is no file. Of the hub: model=hf:{group[6:]}/{name}"
    return (
        f"{unknown_name(group, name, error.options or ())} One of your own, in FOLDER/{group}/{name}.yaml: "
        "'hydra.searchpath=[FOLDER]'"
    )


def _ill_fitting(error: Exception, words: Sequence[str], schema: type) -> str:
    cause = error if isinstance(error, OmegaConfBaseException) else error.__cause__
    key = str(getattr(cause, "full_key", "") or "")
    typed = next((word for word in words if key and word.lstrip("+").startswith(f"{key}=")), "")
    kind = _kind(schema, key, typed.partition("=")[2]) if typed else ""
    parent = getattr(cause, "parent_node", None)
    if isinstance(cause, ConfigKeyError | ConfigAttributeError) and isinstance(parent, DictConfig):
        above = f"{key.rpartition('.')[0]}.".lstrip(".")
        listed = _references(words) if above == "model." else []
        unknown = unknown_name("key", key, [f"{above}{name}" for name in (*parent, *listed)])
        neither = f" {key[len(above) :]} is neither model_id nor in references=." if listed else ""
        return f"{unknown}{neither}"
    if kind:
        return f"{typed} does not fit. Expected {kind}."
    meant = next((word for word in words if word in str(error)), "")
    why = str(cause or error).splitlines()[0]
    return f"{meant} does not fit: {why}" if meant else why


def _references(words: Sequence[str]) -> list[str]:
    """Return the references of a command that are models of this run."""
    (*_, value) = ["", *(word for word in words if word.startswith("references="))]
    names = [name.partition("@")[0] for name in re.findall(r"[^\[\],'\" ]+", value)[1:]]
    served = [re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-") for name in names]
    return [name for name in served if name in described_models()]


def _unfit(schema: type, key: str, why: str) -> str:
    """State what is wrong with a key of a file."""
    try:
        check_keys(nested(key, None) if key else {}, schema)
    except ConfigError as unknown:
        return str(unknown)
    kind = _kind(schema, key, "") if key else ""
    return f"{key}: {why}. Expected {kind}." if kind else f"{key}: {why}".removeprefix(": ")


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return {"a": {"b": value}} for the key a.b."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def _kind(schema: Any, key: str, value: str) -> str:
    """State what a key takes in place of a value of another kind; "" if the schema does not tell."""
    if key.endswith(".choices_column"):
        return f"one column; several are '{key.removesuffix('s_column')}_columns={value}'"
    if key.endswith(".endpoints"):
        return f"a list, such as \"{key}=[{{url: '{value}', model: NAME}}]\""
    for part in key.split("."):
        known = fields_of(schema) if hasattr(schema, "__dataclass_fields__") else {}
        schema = get_args(schema)[1] if get_origin(schema) is dict else known.get(part)
    if is_dataclass(schema):
        return f"keys below it, such as {key}.{next(iter(fields_of(schema)))}=..."
    return (
        f"a list, such as '{key}=[a,b]'" if get_origin(schema) is list else _KINDS.get(schema, "")
    )
