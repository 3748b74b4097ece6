"""What an audit was measured to notice of planted contamination (`audit.plant`), as one sentence beside a verdict."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from audit.errors import DataError

FILE = "sensitivity.json"


def load_sensitivity(run_dir: Path | None = None) -> dict[str, Any] | None:
    """The measurement that lies in a run's directory, else the one that ships with the package; None without any.

    DataError for a file that is none of `audit.plant`.
    """
    own = None if run_dir is None else run_dir / FILE
    shipped = files("audit") / "data" / FILE
    path = own if own is not None and own.is_file() else shipped
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}. Expected the {FILE} that audit.plant writes.") from error
    if not isinstance(found, dict) or found.get("schema") != "sensitivity":
        raise DataError(f"{path} is no measurement of audit.plant. Expected its {FILE}, or no such file.")
    return found


def quote(found: Mapping[str, Any] | None, audit: str, model: str, benchmark: str) -> str | None:
    """How likely this audit was to notice each plant, and whose property that is; None where it was not measured."""
    if found is None:
        return None
    said = []
    for plant in found["plants"]:
        result = plant["audits"].get(audit)
        if not plant["passes"] or result is None:
            continue
        n = result["notice"]
        times = "1 pass" if plant["passes"] == 1 else f"{plant['passes']} passes"
        said.append(f"{plant['form']}, {times}: {n['estimate']:.2f} ({n['low']:.2f} to {n['high']:.2f})")
    if not said:
        return None
    same = found["model"] == model and found["benchmark"] == benchmark
    whose = "this model and benchmark" if same else "that model and benchmark, not of this run's"
    return (
        f"Measured sensitivity: of {found['model']}, taught {found['learnt_items']} items of {found['benchmark']}, "
        f"this audit would have noticed with probability (95 % interval) {'; '.join(said)}. A property of {whose}, and "
        "of planted memory (docs/sensitivity.md)."
    )
