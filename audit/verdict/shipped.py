"""The measured tables that ship with the package."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any


def shipped_table(name: str) -> dict[str, Any] | None:
    """A table of `audit/data`, such as "calibration.json"; None where it was not built in."""
    path = files("audit") / "data" / name
    if not path.is_file():
        return None
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table
