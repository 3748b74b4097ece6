"""Any value of the program as JSON can hold it."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any


def attributes(one: object, *names: str) -> dict[str, Any]:
    """{name: value} of these attributes."""
    return {name: getattr(one, name) for name in names}


def plain(value: Any, digits: int | None = None) -> Any:
    """JSON types only: enums by value, dataclasses by `to_dict` or content, arrays by content, sets as sorted lists,
    NaN and infinities as null. digits: significant digits of floats. TypeError for any other type."""
    if isinstance(value, Enum):
        return plain(value.value, digits)
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item, digits) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(item, digits) for item in value), key=lambda one: (type(one).__name__, one))
    if isinstance(value, list | tuple):
        return [plain(item, digits) for item in value]
    if hasattr(value, "tolist"):  # an array, or a number of one
        return plain(value.tolist(), digits)
    if isinstance(value, float):
        return _finite(value, digits)
    if hasattr(value, "to_dict"):
        return plain(value.to_dict(), digits)
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name), digits) for one in fields(value)}
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"JSON cannot hold a {type(value).__name__}: {value!r}.")


def _finite(value: float, digits: int | None) -> float | None:
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}") + 0.0  # no negative zero
