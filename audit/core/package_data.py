"""Read the measured tables that ship with the package."""

import json
from importlib.resources import files
from typing import Any


def shipped_table(name: str) -> Any:
    """Return a table of `audit/data`, such as "calibration.json"; None if its file is not
    installed.
    """
    path = files("audit") / "data" / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
