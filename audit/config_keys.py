"""Keys that the configuration's schema does not have are refused, with the nearest that it has (pure).

Hydra lets `+key=value` add anything, which nothing then reads: a misspelt key would run another audit than the one
meant.
"""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from difflib import get_close_matches
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from audit.errors import ConfigError


def check_keys(values: Any, schema: Any, path: str = "") -> None:
    """ConfigError for the first key in `values` (nested mappings) that `schema` has no field for.

    schema: a dataclass, or the type of one of its fields. What is below `dict[str, Any]` or `Any` is free; the items of
    a list were checked by Hydra, whose lists are typed.
    """
    if isinstance(values, Mapping) and is_dataclass(schema):
        for key, value in values.items():
            known = fields_of(schema)
            if key not in known:
                raise _unknown(str(key), schema, path)
            check_keys(value, known[key], f"{path}{key}.")
    elif isinstance(values, Mapping) and get_origin(schema) is dict:
        for key, value in values.items():
            check_keys(value, get_args(schema)[1], f"{path}{key}.")


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
    same = [name for name in _below(schema) if name.rpartition(".")[2] == key]  # right name, wrong place
    near = same or get_close_matches(key, known, n=1)
    hint = f" Did you mean {' or '.join(repr(path + name) for name in near)}?" if near else ""
    where = f"in {path.rstrip('.')}" if path else "at the top"
    return ConfigError(f"Unknown key: {path + key!r}.{hint} Known {where}: {', '.join(known)}.")
