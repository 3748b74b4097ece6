"""Read the measured tables that ship with the package."""

import json
from importlib.resources import files
from typing import Any


def shipped_table(name: str) -> Any:
    """Return a table that ships with the package.

    Parameters
    ----------
    name : str
        Name of a file in `audit/data`, such as "calibration.json".

    Returns
    -------
    object
        The parsed table; None if it is not installed.
    """
    path = files("audit") / "data" / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
