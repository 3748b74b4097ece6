"""Read audit.yaml: the model, questions, references and registry of the commands in a folder.

The arguments of a command take precedence over the file. For example, an argument that names the
model replaces the model of the file.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from yaml import YAMLError

from audit.core.errors import ConfigError, unknown_name
from audit.core.guarded_files import read_text
from audit.core.guarded_yaml import parse_yaml
from audit.shards.redact import REMOVED, redact

PROJECT = "audit.yaml"
_MAX_BYTES = 1 << 16
# These are the keys of the file by subject. If a command sets a key, the file's keys of the same
# subject are ignored. The details of an endpoint belong to no subject: if a command sets model_id,
# the file's endpoint is still read.
_SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "model": ("model", "endpoint"),
    "questions": ("data", "benchmark"),
    "held-out items": ("control_data", "control_benchmark"),
    "references": ("references",),
    "registry": ("registry",),
}
_DETAILS = {"model_id": "endpoint", "api_key_env": "endpoint"}
KEYS = (*(key for keys in _SUBJECTS.values() for key in keys), *_DETAILS)
_LISTS = ("model", "references")
# Only these commands read these keys. All commands read the other keys.
_READ_BY = {
    "references": ("perturb", "memory"),
    "control_data": ("memory",),
    "control_benchmark": ("memory",),
    "registry": ("sweep", "perturb", "memory", "validity", "suite", "registry"),
}
# A suite pins its model and questions, and a registry has no model. The gate, reviews and packs
# read no project file, because a change of the file must not change their result.
_READ_REGISTRY_ONLY = ("suite", "registry")
_NAME = re.compile(r"[^\s,\[\]{}()'\"$\\]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = f"{PROJECT} with lines such as 'data: exam.csv'. To write it: audit init"


def read_project(folder: Path) -> dict[str, str | list[str]]:
    """Return the values in the project file of a folder.

    Parameters
    ----------
    folder : Path
        The folder in which the file is searched.

    Returns
    -------
    dict of str to str or list of str
        Values by key. The dict is empty without a file.

    Raises
    ------
    ConfigError
        If the file is not a YAML mapping of at most 64 KiB, or if a key or a value is invalid. For
        example, api_key_env must be the name of a variable, not a server's key.
    """
    path = folder / PROJECT
    try:
        values = parse_yaml(read_text(path, _MAX_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path} cannot be read: {reason}. Expected {_EXAMPLE}.") from error
    return check_project({} if values is None else values, str(path))


def check_project(values: Any, place: str = PROJECT) -> dict[str, str | list[str]]:
    """Check the values of a project file, and return those that are not empty.

    Parameters
    ----------
    values : object
        The parsed content of the file.
    place : str
        The path of the file, for messages.

    Returns
    -------
    dict of str to str or list of str
        Values by key.

    Raises
    ------
    ConfigError
        If a key is unknown, a value is invalid, or a subject is named twice.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{place} holds a {type(values).__name__}. Expected {_EXAMPLE}.")
    checked: dict[str, str | list[str]] = {}
    for key, value in values.items():
        if key not in KEYS:
            problem = unknown_name(f"key of {place}", str(key), KEYS)
            raise ConfigError(
                f"{problem} Never write a server's key into a file. "
                "Name the environment variable that holds it: api_key_env: NAME."
            )
        if value not in (None, "", []):
            checked[key] = _checked(key, value, place)
    for subject, keys in _SUBJECTS.items():
        both = [key for key in keys if key in checked]
        if len(both) > 1:
            raise ConfigError(
                f"{place} names the {subject} twice: {' and '.join(both)}. Expected one of them."
            )
    if ("endpoint" in checked) != ("model_id" in checked):
        missing = "endpoint" if "model_id" in checked else "model_id"
        raise ConfigError(
            f"{place} has no {missing}. Expected an endpoint with a model_id. "
            "Example: endpoint: http://127.0.0.1:8000/v1 and model_id: my-model"
        )
    return checked


def _checked(key: str, value: Any, place: str) -> str | list[str]:
    """Return the checked value of a key.

    Raises ConfigError if the value is invalid or holds a secret.
    """
    texts = value if isinstance(value, list) and key in _LISTS else [value]
    for text in texts:
        if not isinstance(text, str) or not text.isprintable() or "${" in text:
            kind = "a text or a list of texts" if key in _LISTS else "a text"
            raise ConfigError(
                f"{key} of {place} is {text!r}. Expected {kind}. Example: {key}: {_example(key)}"
            )
        if REMOVED in redact({key: text}).values() or REMOVED in redact(text):
            raise ConfigError(
                f"{key} of {place} holds a secret. Expected the name of the environment variable "
                "that holds it. Example: api_key_env: OPENAI_API_KEY"
            )
        form = _VARIABLE if key == "api_key_env" else _NAME
        if key not in ("data", "control_data", "registry") and not form.fullmatch(text):
            raise ConfigError(
                f"{key} of {place} is {text!r}. Expected a name. Example: {key}: {_example(key)}"
            )
    return texts if key == "references" or len(texts) > 1 else str(texts[0])


def _example(key: str) -> str:
    examples = {
        "model": "qwen3_8b",
        "endpoint": "http://127.0.0.1:8000/v1",
        "model_id": "my-model",
        "api_key_env": "OPENAI_API_KEY",
        "data": "exam.csv",
        "benchmark": "mmlu",
        "control_data": "unseen.csv",
        "control_benchmark": "gsm1k",
        "references": "[llama-70b, qwen-72b, mistral-large]",
        "registry": "outputs/audits.db",
    }
    return examples[key]


def with_project(
    words: Sequence[str], command: str, folder: Path | None = None
) -> tuple[list[str], str]:
    """Add the settings of the project file that the arguments of a command do not state.

    Parameters
    ----------
    words : sequence of str
        The arguments of the command.
    command : str
        The command: an audit, `variants` (when it builds a library), `suite` or `registry`.
    folder : Path or None
        The folder of the file. None means the current folder.

    Returns
    -------
    words : list of str
        The settings of the file as arguments, followed by the arguments of the command.
    note : str
        A line that names the added arguments, or "".

    Raises
    ------
    ConfigError
        If the file is invalid.
    """
    added, note = project_words(words, command, folder)
    return [*added, *words], note


def project_words(
    words: Sequence[str], command: str, folder: Path | None = None
) -> tuple[list[str], str]:
    """Return the settings of the project file that the arguments of a command do not state.

    Parameters
    ----------
    words : sequence of str
        The arguments of the command.
    command : str
        The command: an audit, `variants`, `suite` or `registry`.
    folder : Path or None
        The folder of the file. None means the current folder.

    Returns
    -------
    words : list of str
        The settings of the file as arguments.
    note : str
        A line that names these arguments, or "".

    Raises
    ------
    ConfigError
        If the file is invalid.
    """
    if {"--help", "-h"} & set(words):
        return [], ""
    given = {word.partition("=")[0].lstrip("+") for word in words}
    values = read_project(Path() if folder is None else folder)
    added = []
    for key, value in values.items():
        if _adds(key, given, command):
            text = value if isinstance(value, str) else f"[{','.join(value)}]"
            added.append(f"{key}={text}")
    return added, f"{PROJECT}: {' '.join(added)}" if added else ""


def _adds(key: str, given: set[str], command: str) -> bool:
    """Return True if a command reads a key of the file, and no argument sets the same subject."""
    if command not in _READ_BY.get(key, (command,)):
        return False
    if command in _READ_REGISTRY_ONLY and key != "registry":
        return False
    rivals = set[str]()
    for keys in _SUBJECTS.values():
        if _DETAILS.get(key, key) in keys:
            rivals.update(keys)
    if key.startswith("control_"):
        rivals.add("fresh_after")
    return key not in given and given.isdisjoint(rivals)


def project_text(values: Mapping[str, str | list[str]]) -> str:
    """Return the text of a project file.

    Parameters
    ----------
    values : mapping of str to str or list of str
        Values by key. A key without a value becomes a comment with an example.

    Returns
    -------
    str
        The text, as YAML.
    """
    comments = {
        "model": "a name of conf/model or hf:ORG/NAME, in place of an endpoint",
        "endpoint": "an OpenAI-compatible server",
        "model_id": "the name of the model on that server",
        "api_key_env": "the environment variable that holds the key; never write the key here",
        "data": "your questions; or benchmark: NAME",
        "control_data": "questions that the model cannot have seen",
        "references": "models that answer the same questions, of two families or more",
        "registry": "a file or address where finished runs are registered",
    }
    lines = [
        "# The settings of all commands in this folder. Words of a command take precedence: "
        "data=other.csv"
    ]
    keys = [*comments, *(key for key in KEYS if key not in comments and key in values)]
    for key in keys:
        value = values.get(key)
        if key in comments:
            lines.append(f"# {comments[key]}")
        lines.append(f"# {key}: {_example(key)}" if value is None else f"{key}: {_quoted(value)}")
    return "\n".join(lines) + "\n"


def _quoted(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    return "'" + value.replace("'", "''") + "'"
