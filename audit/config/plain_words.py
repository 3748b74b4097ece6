"""Check arguments as a person types them, and reword the errors of Hydra and OmegaConf."""

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

# These are the beginnings of Hydra's options.
_HYDRAS = r"help|hydra|cfg|resolve|package|run\b|multirun|config|info|shell|experimental|version"
_OPTION = re.compile(rf"(?:^|(?<= ))--(?!{_HYDRAS})([\w.]+)[ =]([^-\s]\S*)")
# The pattern excludes -c and other short options, because they are options of Hydra.
_SHORT = re.compile(
    r"(?:^|(?<= ))-(?!(?:[chimp]|sc|c[pnd])[ =])([a-z]\w*)[ =]([^-\s=][^\s=]*)(?= |$)"
)
_NO_PACKAGE = re.compile(r"In '((?:\w+/)+)([^']+)': ValidationError.*\n.* is not a subclass of ")
_IN_FILE = re.compile(
    r"In '([^']+)': \w+ raised while composing config:\n(.*)(?:\n +full_key: (\S+))?"
)
_PLAIN = re.compile(r"[\w./-]+(?: [\w./-]+)*", re.ASCII)  # text that Hydra reads without quotes
_KINDS = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def check_words(words: Sequence[str], command: str) -> list[str]:
    """Check the arguments after a command.

    Parameters
    ----------
    words : Sequence[str]
        The arguments as a person typed them.
    command : str
        The command, such as sweep. Messages name it.

    Returns
    -------
    list[str]
        The arguments, with `--help` in place of `help`.

    Raises
    ------
    UsageError
        If an argument is an option, a command, or a file in place of a name. The message states the
        line to type.
    ConfigError
        If a folder of hydra.searchpath does not exist.
    """
    if words[:1] == ["help"]:
        return ["--help"]
    words = with_config_dir(words)
    line = " ".join(words)
    corrected = _SHORT.sub(r"\1=\2", _OPTION.sub(r"\1=\2", line))
    if corrected != line:
        raise UsageError(f"Keys are written without dashes. Example: audit {command} {corrected}")
    for i, word in enumerate(words):
        key, is_key, value = word.partition("=")
        is_value = words[max(i - 1, 0)].startswith("-")
        if not is_key and not is_value and not word.startswith(("-", "~")):
            example = "model=scripted n=20"
            if word == "plan":
                example = " ".join(
                    ["audit", "plan", f"audit={command}", *words[:i], *words[i + 1 :]]
                )
            raise UsageError(
                f"Argument is {word!r}. Expected key=value. Example: {example}\n"
                f"All keys: audit {command} help"
            )
        if key in ("benchmark", "control_benchmark") and value.lower().endswith(SUFFIXES):
            example = shlex.quote(f"data={value}")
            if key == "control_benchmark":
                example = f"{key}=mcq_file {key}.path={value}"
            raise UsageError(
                f"{key} is the file {value}. Expected a name. Example: {example}\n"
                f"To see how its columns are read: audit data show {shlex.quote(value)}"
            )
        if key == "hydra.searchpath":
            _check_searchpath(value)
        if key == "model.openai_compatible.name":
            raise UsageError(
                f"{key} is {value}. Expected the name of the served model. "
                f"Example: endpoint=URL model_id={value}"
            )
    return list(words)


def with_config_dir(words: Sequence[str]) -> list[str]:
    """Replace Hydra's option --config-dir by the equivalent key hydra.searchpath.

    >>> with_config_dir(["n=5", "--config-dir", "my conf"])
    ['n=5', "hydra.searchpath=['my conf']"]
    """
    line = "\n".join(words)
    if not line:
        return []
    option = r"(?m)^(?:--config-dir|-cd)[\n=](.+)$"
    return re.sub(option, r"hydra.searchpath=['\1']", line).split("\n")


def folders_of(searchpath: str) -> list[Path]:
    """Return the folders in a value of hydra.searchpath. Entries of packages (pkg://) are left
    out."""
    folders = []
    for place in searchpath.strip("'\"[]").split(","):
        path = place.strip(" '\"").removeprefix("file://")
        if "://" not in path:
            folders.append(Path(path))
    return folders


def _check_searchpath(value: str) -> None:
    """Raise ConfigError if a folder of hydra.searchpath does not exist.

    Hydra would only print a warning.
    """
    for folder in folders_of(value):
        if not folder.is_dir():
            raise ConfigError(
                f"Folder {folder} of hydra.searchpath does not exist. Expected a folder that holds "
                f"model/ or benchmark/. Example: {Path.cwd() / 'conf'}"
            )


def quoted(word: str) -> str:
    """Return a word key=value with quotes around the value if Hydra needs them.

    Hydra needs quotes around a path with a space, for example.

    >>> quoted("benchmark.path=/data/my exam ü.jsonl")
    "benchmark.path='/data/my exam ü.jsonl'"
    """
    key, is_key, value = word.partition("=")
    if not is_key or not value or value[0] in "'\"[{" or word.startswith("-"):
        return word
    text = value.replace("'", "\\'")
    in_quotes = f"{key}='{text}'"
    return in_quotes if not _parses(word) and _parses(in_quotes) else word


def benchmark_words(config: BenchmarkConfig) -> list[str]:
    """Return the arguments that select a benchmark and its settings, quoted for a shell."""
    if config.format != "mcq_file":
        path = [shlex.quote(f"benchmark.path={config.path}")] if config.path else []
        return [f"benchmark={config.name}", *path]
    defaults = asdict(BenchmarkConfig(format=config.format))
    settings = {key: value for key, value in asdict(config).items() if value != defaults[key]}
    return ["benchmark=mcq_file", *map(shlex.quote, words({"benchmark": settings}, _as_text))]


def words(
    options: Mapping[str, Any], text: Callable[[str], str] = str, above: str = ""
) -> Iterator[str]:
    """Yield options as arguments that Hydra reads.

    Parameters
    ----------
    options : Mapping
        The values by key. A value may be a mapping of keys below it.
    text : Callable
        Function that writes a value as text. The default function adds no quotes.
    above : str
        The dotted path above the keys, such as "benchmark.".

    Yields
    ------
    str
        A word such as `n=20`.

    Examples
    --------
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
    """Quote text with characters that Hydra interprets."""
    escaped = text.replace('"', '\\"')
    return text if _PLAIN.fullmatch(text) else f'"{escaped}"'


def _parses(word: str) -> bool:
    try:
        OverridesParser.create().parse_overrides([word])
    except HydraException:
        return False
    return True


def plain_message(error: Exception, words: Sequence[str], schema: type) -> str:
    """Return an error of Hydra or OmegaConf in plain words.

    Parameters
    ----------
    error : Exception
        The error that Hydra or OmegaConf raised.
    words : Sequence[str]
        The arguments of the command.
    schema : type
        The dataclass that the configuration must fit.

    Returns
    -------
    str
        The message, with the expected form.
    """
    if isinstance(error, MissingConfigException) and error.options:
        return _missing(error)
    if isinstance(error, MarkedYAMLError) and error.problem_mark:
        mark = error.problem_mark
        place = f"{mark.name}, line {mark.line + 1}"
        return f"{place}: {error.problem}. Expected YAML. Example: name: value"
    without_package = _NO_PACKAGE.search(str(error))
    if without_package:
        file = f"{without_package[1]}{without_package[2]}"
        line = f"# @package {file.replace('/', '.')}"
        return f"The package of {file}.yaml is missing. Expected as the first line: {line}"
    if isinstance(error, OverrideParseException):
        examples = "n=20, 'model=[a,b]', \"key='a text, with signs'\""
        return f"{error.override!r} cannot be read. Expected key=value. Examples: {examples}"
    in_file = _IN_FILE.search(str(error))
    if in_file:
        return f"{in_file[1]}.yaml: {_file_problem(schema, in_file[3] or '', in_file[2])}"
    return _word_problem(error, words, schema)


def _missing(error: MissingConfigException) -> str:
    group, _, name = (error.missing_cfg_file or "").rpartition("/")
    if group.startswith("model/"):
        path = f"{group.removeprefix('model/')}/{name}"
        return f"model is {path}, which is not a file. For a model of the hub: model=hf:{path}"
    return (
        f"{unknown_name(group, name, error.options or ())} To use your own file "
        f"FOLDER/{group}/{name}.yaml: 'hydra.searchpath=[FOLDER]'"
    )


def _word_problem(error: Exception, words: Sequence[str], schema: type) -> str:
    """Return the problem of the argument that caused an error."""
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
    word = next((word for word in words if word in str(error)), "")
    reason = str(cause or error).splitlines()[0]
    return f"{word} does not fit: {reason}" if word else reason


def _references(words: Sequence[str]) -> list[str]:
    """Return the references of a command that run as models of the same job."""
    (*_, value) = ["", *(word for word in words if word.startswith("references="))]
    names = [name.partition("@")[0] for name in re.findall(r"[^\[\],'\" ]+", value)[1:]]
    served = [re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_-") for name in names]
    return [name for name in served if name in described_models()]


def _file_problem(schema: type, key: str, reason: str) -> str:
    """Return the problem if a key in a configuration file caused the error."""
    try:
        check_keys(nested(key, None) if key else {}, schema)
    except ConfigError as unknown:
        return str(unknown)
    if not key:
        return reason
    kind = _kind(schema, key, "")
    return f"{key}: {reason}. Expected {kind}." if kind else f"{key}: {reason}"


def nested(key: str, value: Any) -> dict[str, Any]:
    """Return nested dicts for a dotted key: {"a": {"b": value}} for a.b."""
    for part in reversed(key.split(".")):
        value = {part: value}
    return dict(value)


def _kind(schema: Any, key: str, value: str) -> str:
    """Return the expected kind of a key's value; "" if the schema does not state this kind."""
    if key.endswith(".choices_column"):
        return f"one column. For several: '{key.removesuffix('s_column')}_columns={value}'"
    if key.endswith(".endpoints"):
        return f"a list, such as \"{key}=[{{url: '{value}', model: NAME}}]\""
    for part in key.split("."):
        known = fields_of(schema) if hasattr(schema, "__dataclass_fields__") else {}
        schema = get_args(schema)[1] if get_origin(schema) is dict else known.get(part)
    if is_dataclass(schema):
        return f"keys below it, such as {key}.{next(iter(fields_of(schema)))}=..."
    if get_origin(schema) is list:
        return f"a list, such as '{key}=[a,b]'"
    return _KINDS.get(schema, "")
