"""Read audit.yaml of the current folder: the model, endpoint, questions, references and registry
that every command of the folder is about.

The words of a command have the last say: a word that names the model replaces the file's model, and
so on."""

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
# Keys of the file by what they name. A command that names one of a subject has none of the file's
# others, but for the details of an endpoint.
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
# Commands that take a key of the file; any other key belongs to all.
_TAKEN_BY = {
    "references": ("perturb", "memory"),
    "control_data": ("memory",),
    "control_benchmark": ("memory",),
    "registry": ("sweep", "perturb", "memory", "validity", "suite", "registry"),
}
# A suite pins its model and questions itself, and a registry has no model. The gate, reviews and
# packs read no project file: whoever changes it must not change what they compare with.
_TAKE_REGISTRY_ALONE = ("suite", "registry")
_NAME = re.compile(r"[^\s,\[\]{}()'\"$\\]+")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXAMPLE = f"{PROJECT} with lines such as 'data: exam.csv'; audit init writes one"


def read_project(folder: Path) -> dict[str, str | list[str]]:
    """Return what the project file of a folder names.

    Parameters
    ----------
    folder : Path
        The folder.

    Returns
    -------
    dict of str to str or list of str
        Values by key; empty without a file.

    Raises
    ------
    ConfigError
        If the file is no regular file of at most 64 KiB, no YAML mapping, has an unknown key, or a value that a command
        does not take, such as a key in the place of a variable's name.
    """
    path = folder / PROJECT
    try:
        values = parse_yaml(read_text(path, _MAX_BYTES))
    except FileNotFoundError:
        return {}
    except (OSError, YAMLError, ValueError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{path} cannot be read: {why}. Expected {_EXAMPLE}.") from error
    return check_project({} if values is None else values, str(path))


def check_project(values: Any, place: str = PROJECT) -> dict[str, str | list[str]]:
    """Return the values of a project file, checked; those that are null or empty are left out.

    Parameters
    ----------
    values : object
        What the file holds.
    place : str
        The file, for messages.

    Returns
    -------
    dict of str to str or list of str
        Values by key.

    Raises
    ------
    ConfigError
        As `read_project`.
    """
    if not isinstance(values, Mapping):
        raise ConfigError(f"{place} holds a {type(values).__name__}. Expected {_EXAMPLE}.")
    found: dict[str, str | list[str]] = {}
    for key, value in values.items():
        if key not in KEYS:
            why = unknown_name(f"key of {place}", str(key), KEYS)
            raise ConfigError(
                f"{why} Never write a server's key into a file. "
                "Name the environment variable that holds it: api_key_env: NAME."
            )
        if value not in (None, "", []):
            found[key] = _checked(key, value, place)
    for subject, keys in _SUBJECTS.items():
        if len(both := [key for key in keys if key in found]) > 1:
            raise ConfigError(
                f"{place} names the {subject} twice: {' and '.join(both)}. Expected one of them."
            )
    if ("endpoint" in found) != ("model_id" in found):
        missing = "endpoint" if "model_id" in found else "model_id"
        raise ConfigError(
            f"{place} has no {missing}. Expected both of an endpoint. Example: endpoint: http://127.0.0.1:8000/v1 and "
            "model_id: my-model"
        )
    return found


def _checked(key: str, value: Any, place: str) -> str | list[str]:
    several = value if isinstance(value, list) and key in _LISTS else [value]
    for one in several:
        if not isinstance(one, str) or not one.isprintable() or "${" in one:
            raise ConfigError(
                f"{key} of {place} is {one!r}. Expected a text{' or a list of texts' * (key in _LISTS)}. "
                f"Example: {key}: {_like(key)}"
            )
        if REMOVED in redact({key: one}).values() or REMOVED in redact(one):
            raise ConfigError(
                f"{key} of {place} holds a secret. Never write one into a file. Expected the name of the environment "
                "variable that has it. Example: api_key_env: OPENAI_API_KEY"
            )
        form = _VARIABLE if key == "api_key_env" else _NAME
        if key not in ("data", "control_data", "registry") and not form.fullmatch(one):
            raise ConfigError(f"{key} of {place} is {one!r}. Expected such as {key}: {_like(key)}")
    return several if key == "references" or len(several) > 1 else str(several[0])


def _like(key: str) -> str:
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
    """Add to a command's words what the project file names and the words do not.

    Parameters
    ----------
    words : sequence of str
        Words of the command.
    command : str
        The audit, `variants` for the build of a library, `suite` or `registry`.
    folder : Path or None
        Folder of the file; None is the current one.

    Returns
    -------
    words : list of str
        The words, with the file's before them.
    note : str
        Where they come from; empty if the file adds nothing.

    Raises
    ------
    ConfigError
        As `read_project`.
    """
    own, note = project_words(words, command, folder)
    return [*own, *words], note


def project_words(
    words: Sequence[str], command: str, folder: Path | None = None
) -> tuple[list[str], str]:
    """Return what the project file names and a command's words do not.

    Parameters
    ----------
    words : sequence of str
        Words of the command.
    command : str
        As of `with_project`.
    folder : Path or None
        Folder of the file; None is the current one.

    Returns
    -------
    words : list of str
        The file's words.
    note : str
        Where they come from; empty if the file adds nothing.

    Raises
    ------
    ConfigError
        As `read_project`.
    """
    if {"--help", "-h"} & set(words):
        return [], ""
    given = {word.partition("=")[0].lstrip("+") for word in words}
    values = read_project(Path() if folder is None else folder)
    added = {key: value for key, value in values.items() if _adds(key, given, command)}
    own = [
        f"{key}={value if isinstance(value, str) else _listed(value)}"
        for key, value in added.items()
    ]
    return own, f"{PROJECT}: {' '.join(own)}" if own else ""


def _adds(key: str, given: set[str], command: str) -> bool:
    """Return whether a command takes a key of the file, and its words do not name the same."""
    if command not in _TAKEN_BY.get(key, (command,)):
        return False
    if command in _TAKE_REGISTRY_ALONE and key != "registry":
        return False
    subject = next((keys for keys in _SUBJECTS.values() if _DETAILS.get(key, key) in keys), ())
    rivals = {*subject, "fresh_after"} if key.startswith("control_") else {*subject}
    return key not in given and given.isdisjoint(rivals)


def _listed(values: Sequence[str]) -> str:
    return f"[{','.join(values)}]"


def project_text(values: Mapping[str, str | list[str]]) -> str:
    """Return the text of a project file.

    Parameters
    ----------
    values : mapping of str to str or list of str
        Values by key; without an entry a key stands in a comment, with an example.

    Returns
    -------
    str
        YAML.
    """
    about = {
        "model": "a name of conf/model or hf:ORG/NAME, in place of an endpoint",
        "endpoint": "an OpenAI-compatible server",
        "model_id": "the name of the model on that server",
        "api_key_env": "the environment variable that holds the key; never write the key itself into a file",
        "data": "your questions; or benchmark: NAME",
        "control_data": "questions that the model cannot have seen",
        "references": "models that answer the same questions, of two families or more",
        "registry": "a file or address where finished runs are registered",
    }
    lines = [
        "# What the commands of this folder are about. A word of a command has the last say: data=other.csv"
    ]
    for key in (*about, *(key for key in KEYS if key not in about and key in values)):
        value = values.get(key)
        shown = _like(key) if value is None else _quoted(value)
        lines += [f"# {about[key]}"] if key in about else []
        lines.append(f"{'# ' if value is None else ''}{key}: {shown}")
    return "\n".join(lines) + "\n"


def _quoted(value: str | list[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_quoted, value))}]"
    return "'" + value.replace("'", "''") + "'"
