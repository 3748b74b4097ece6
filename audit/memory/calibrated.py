"""The calibrated design nearest to a run, and what was measured there (`audit.memory.calibrate` makes the table)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from math import log
from typing import Any

from audit.verdict.result import Calibration


def load_table() -> dict[str, Any] | None:
    """The table that ships with the package; None where it was not built in."""
    path = files("audit") / "data" / "calibration_memory.json"
    if not path.is_file():
        return None
    table: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return table


def nearest(table: Mapping[str, Any] | None, *, n: int, fresh: int, references: int) -> Calibration | None:
    """The design with the smallest |log n| + |log fresh| + |log(1 + R)|, fresh items or none alike. None without one.

    fresh: how many fresh items; 0 for none. A run with fresh items and no reference is compared with one of neither.
    """
    if not fresh or not references:
        fresh = references = 0
    designs = [d for d in (table or {}).get("designs", ()) if bool(d["design"]["fresh"]) == bool(fresh)]
    if not designs:
        return None

    def distance(entry: Mapping[str, Any]) -> float:
        d = entry["design"]
        far = abs(log(max(n, 1) / d["n"])) + abs(log((1 + references) / (1 + d["references"])))
        return far + abs(log(max(fresh, 1) / max(d["fresh"], 1)))

    found = min(designs, key=distance)
    return Calibration(design=dict(found["design"]), rates=dict(found["rates"]), sentence=sentence(found))


def sentence(entry: Mapping[str, Any]) -> str:
    """The rates of one design in words."""
    d, r = entry["design"], entry["rates"]
    with_fresh = f"{d['fresh']} fresh ones, {d['references']} references" if d["fresh"] else "no fresh ones"
    text = (
        f"Nearest calibrated design: {d['n']} items, {with_fresh}. Of simulated models without memory this procedure "
        f"finds memory in {_rate(r, 'clean')}"
    )
    if d["fresh"]:
        text += (
            f", where models differ in how they suit the two sets in {_rate(r, 'uneven')}, and where the fresh items "
            f"are harder by 10 points in {_rate(r, 'harder')}"
        )
    known = f"{_rate(r, 'answers')} of models that know the answers of 30 % of the items and " if d["fresh"] else ""
    return (
        f"{text}, where the published order has a sense that words do not show in {_rate(r, 'sequenced')}. It finds "
        f"{known}{_rate(r, 'text')} of models to which published text and orders are likelier by .3 of their spread."
    )


def _rate(rates: Mapping[str, float | None], name: str) -> str:
    value, error = rates.get(name), rates.get(f"{name}_se")
    if value is None:
        return "an unmeasured share"
    return f"{value:.1%}" + (f" (± {error:.1%})" if error is not None else "")
