"""Read and check the file of a suite (YAML or JSON)."""

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from audit.config.audits import every_audit
from audit.config.base import CONF_DIR, check_keys
from audit.core.errors import ConfigError, unknown_name
from audit.core.guarded_files import nearest, read_text
from audit.core.guarded_yaml import parse_yaml
from audit.shards.manifest import flatten
from audit.suite.schema import VERSION, WEIGHTS_VERSION, Suite, schema_text

SUITES = CONF_DIR / "suite"
_COMMIT = re.compile(r"[0-9a-f]{40}")
# Names that never pin a version, such as names of branches, because their content changes.
_MOVING = {
    "latest",
    "main",
    "master",
    "head",
    "trunk",
    "dev",
    "develop",
    "stable",
    "current",
    "newest",
    "nightly",
}
_MAIL = re.compile(r"[^@\s,;<>\"/?&=#]+@[^@\s,;<>\"/?&=#]+")
_MAX_BYTES = 1 << 20


def known_suites() -> list[str]:
    """Return the names of the suites that ship with the program."""
    return sorted(path.stem for path in SUITES.glob("*.yaml"))


def read_suite(name: str, changes: Sequence[str] = ()) -> Suite:
    """Read and check a suite.

    Parameters
    ----------
    name : str
        Path of a file, or name of a suite that ships with the program.
    changes : sequence of str
        Changes of fields, for example "dataset_config.sample_size=50".

    Returns
    -------
    Suite
        The checked suite.

    Raises
    ------
    ConfigError
        If the suite cannot be read or is invalid.
    """
    path = Path(name)
    if path.suffix not in (".yaml", ".yml", ".json"):
        if name not in known_suites():
            raise ConfigError(
                f"{unknown_name('suite', name, known_suites())} "
                "The path of a file is also possible: my_suite.yaml or my_suite.json."
            )
        path = SUITES / f"{name}.yaml"
    values = _load(path)
    for change in changes:
        _set(values, *_parsed(change))
    return suite_of(values)


def suite_of(values: Mapping[str, Any]) -> Suite:
    """Build and check a suite from a mapping of its fields.

    Parameters
    ----------
    values : mapping
        Values of the fields.

    Returns
    -------
    Suite
        The checked suite.

    Raises
    ------
    ConfigError
        If a field is unknown or has a wrong type, or if a version is a name whose meaning may
        change.
    """
    values = {**values}
    values.pop("$schema", None)
    check_keys(values, Suite)
    pin = values.get("model_config")
    if isinstance(pin, Mapping):
        version = str(pin.get("model_version", ""))
        has_endpoint = pin.get("endpoint") is not None
        if not re.match(VERSION if has_endpoint else WEIGHTS_VERSION, version):
            raise ConfigError(_mutable(version, str(pin.get("model_id")), has_endpoint))
    for key, value in flatten(values).items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{key} is not finite. Expected a finite number.")
    schema = json.loads(schema_text())
    schema["properties"]["audits"]["propertyNames"]["enum"] = every_audit()
    error = best_match(Draft202012Validator(schema).iter_errors(values))
    if error is not None:
        where = ".".join(map(str, error.absolute_path)) or "the suite"
        about = error.schema.get("description") if isinstance(error.schema, Mapping) else None
        raise ConfigError(f"{where}: {error.message}." + (f" ({about})" if about else ""))
    suite: Suite = _build(Suite, values)
    _check(suite)
    return suite


def _check(suite: Suite) -> None:
    version = suite.dataset_config.dataset_version
    if version is not None and version.lower() in _MOVING:
        raise ConfigError(
            f"dataset_config.dataset_version is {version!r}, which may refer to other questions "
            "later. Expected a commit of the data set (40 hexadecimal digits), or a version that "
            "never changes, such as 1.1.0. In both cases the revision that is read is recorded."
        )
    for address in suite.governance.notify_on_failure:
        if not _MAIL.fullmatch(address):
            raise ConfigError(
                f"governance.notify_on_failure is {address[:80]!r}. Expected an e-mail address. "
                "Example: team@example.org. Addresses of chats and webhooks are secrets; set them "
                "in AUDIT_NOTIFY."
            )
    if suite.gate == "source" and "perturb" not in suite.audits:
        raise ConfigError(
            "gate is source, which needs the perturbation audit. Expected perturb among the audits."
        )
    pin = suite.perturbation_config
    low, high = pin.min_semantic_distance, pin.max_semantic_distance
    if low is not None and high is not None and low >= high:
        raise ConfigError(
            f"perturbation_config.min_semantic_distance is {low:g}. "
            f"Expected less than max_semantic_distance, which is {high:g}. Example: 0.15 and 0.45."
        )


def _mutable(version: str, model_id: str, endpoint: bool) -> str:
    """Return the error message for a version that does not pin the model's weights."""
    problem = f"model_config.model_version is {version!r}, which is not an immutable reference. "
    if endpoint:
        return (
            f"{problem}An endpoint may later serve other weights under the same name. Expected the "
            "version that its operator states: the commit of the weights (40 hexadecimal digits), "
            "sha256:<digits>, or a dated snapshot. The version is recorded as claimed. "
            f"Example: {model_id}-2025-08-06"
        )
    return (
        f"{problem}A tag or branch may refer to other weights later. Expected a commit of the hub "
        f"(40 hexadecimal digits, such as `git ls-remote https://huggingface.co/{model_id} main` "
        "prints), or sha256:<digits> of a folder or package. The manifest of an earlier run "
        "states it under models."
    )


def commit_of(version: str | None) -> str | None:
    """Return the version if it is the id of a commit on the hub; otherwise return None."""
    return version if version is not None and _COMMIT.fullmatch(version) else None


def _load(path: Path) -> dict[str, Any]:
    try:
        text = read_text(path, _MAX_BYTES, follow=True)
    except (OSError, UnicodeDecodeError) as error:
        why = f"{error.strerror}, looked from {Path.cwd()}" if isinstance(error, OSError) else error
        raise ConfigError(
            f"{path} cannot be read as a suite ({why}).{nearest(path)} Expected a file, or one of: "
            f"{', '.join(known_suites())}."
        ) from error
    try:
        if path.suffix == ".json":
            values = json.loads(text, object_pairs_hook=_once)
        else:
            # parse_yaml is called only to reject files that would take too long to parse. The
            # values are read by OmegaConf, which parses numbers differently.
            parse_yaml(text)
            values = OmegaConf.to_container(OmegaConf.create(text))
    except (ValueError, RecursionError, YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"{path} is neither a YAML nor a JSON suite ({error}).") from error
    if not isinstance(values, dict):
        raise ConfigError(
            f"{path} contains no fields. Expected audit_suite_id, model_config, dataset_config, ..."
        )
    return {str(key): value for key, value in values.items()}


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the key-value pairs of a JSON object as a dict. Raise ValueError if a key occurs
    twice."""
    values = dict(pairs)
    if len(values) < len(pairs):
        name, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {name!r} occurs twice")
    return values


def _parsed(change: str) -> tuple[list[str], Any]:
    """Return the path and the value of a change `key=value`."""
    key, equals, value = change.partition("=")
    if not equals:
        raise ConfigError(
            f"The change is {change!r}. Expected key=value. Example: dataset_config.sample_size=50."
        )
    try:
        parsed: Any = OmegaConf.to_container(OmegaConf.create(f"value: {value}"))
    except (YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(
            f"The value of the change {change!r} cannot be read ({error})."
        ) from error
    return key.split("."), parsed["value"]


def _set(values: dict[str, Any], path: Sequence[str], value: Any) -> None:
    """Set the field at a path in place."""
    *above, last = path
    for name in above:
        below = values.setdefault(name, {})
        if not isinstance(below, dict):
            raise ConfigError(f"{'.'.join(path)}: {name} is a value. Expected a group of fields.")
        values = below
    values[last] = value


def _build(kind: Any, value: Any) -> Any:
    """Convert plain data that was checked to dataclasses."""
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        built = {}
        for field_ in fields(kind):
            if field_.name in value:
                built[field_.name] = _build(hints[field_.name], value[field_.name])
        return kind(**built)
    if get_origin(kind) is dict:
        _, kind_of_value = get_args(kind)
        return {key: _build(kind_of_value, item) for key, item in value.items()}
    return value
