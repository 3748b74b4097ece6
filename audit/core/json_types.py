"""Convert any value of the program to JSON types."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any


def attributes(instance: object, *names: str) -> dict[str, Any]:
    """Return some attributes of an object as a dict.

    Returns
    -------
    dict
        The values, by name of the attribute.
    """
    return {name: getattr(instance, name) for name in names}


def plain(value: Any, digits: int | None = None) -> Any:
    """Convert a value to JSON types.

    Parameters
    ----------
    value : object
        Enums become their value, and dataclasses their `to_dict` or fields. Arrays become lists,
        and sets sorted lists. NaN and infinities become null.
    digits : int, optional
        The number of significant digits of floats; None keeps all digits.

    Returns
    -------
    object
        The value, made of JSON types only.

    Raises
    ------
    TypeError
        If a value has a type that JSON lacks.
    """
    if isinstance(value, Enum):
        return plain(value.value, digits)
    if isinstance(value, bool | int | str | None):
        return value
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item, digits) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        items = [plain(item, digits) for item in value]
        return sorted(items, key=lambda item: (type(item).__name__, item))
    if isinstance(value, list | tuple):
        return [plain(item, digits) for item in value]
    if hasattr(value, "tolist"):  # The value is a NumPy array or scalar.
        return plain(value.tolist(), digits)
    if isinstance(value, float):
        return _finite(value, digits)
    if hasattr(value, "to_dict"):
        return plain(value.to_dict(), digits)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name), digits) for field in fields(value)}
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"JSON cannot hold a {type(value).__name__}: {value!r}.")


def _finite(value: float, digits: int | None) -> float | None:
    if not math.isfinite(value):
        return None
    # Adding 0.0 turns -0.0 into 0.0.
    return value if digits is None else float(f"{value:.{digits}g}") + 0.0
