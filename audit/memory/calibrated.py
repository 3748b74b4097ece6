"""The calibrated design nearest to a run, and what was measured there (the table: `audit.calibrate audit=memory`)."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

from audit.verdict.result import Calibration
from audit.verdict.simulated import told

SHIPPED = "calibration_memory.json"


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
        f"finds memory in {told(r, 'clean')}"
    )
    if d["fresh"]:
        text += (
            f", where models differ in how they suit the two sets in {told(r, 'uneven')}, and where the fresh items "
            f"are harder by 10 points in {told(r, 'harder')}"
        )
    known = f"{told(r, 'answers')} of models that know the answers of 30 % of the items and " if d["fresh"] else ""
    return (
        f"{text}, where the published order has a sense that words do not show in {told(r, 'sequenced')}. It finds "
        f"{known}{told(r, 'text')} of models to which published text and orders are likelier by .3 of their spread."
    )
