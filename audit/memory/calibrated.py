"""The calibrated design nearest to a run, and what was measured there (the table: `audit.calibrate audit=memory`)."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

from audit.verdict.result import Calibration
from audit.verdict.simulated import other_thresholds, told

SHIPPED = "calibration_memory.json"


def nearest(
    table: Mapping[str, Any] | None,
    *,
    n: int,
    fresh: int,
    references: int,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """The design with the smallest |log n| + |log fresh| + |log(1 + R)|, fresh items or none alike. None without one.

    fresh: how many fresh items; 0 for none. A run with fresh items and no reference is compared with one of neither.
    thresholds: the run's; the sentence says where its level or effect of interest is not the table's.
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
    said = sentence(found) + other_thresholds(table or {}, thresholds)
    return Calibration(design=dict(found["design"]), rates=dict(found["rates"]), sentence=said)


def sentence(entry: Mapping[str, Any]) -> str:
    """The rates of one design in words: both errors, and what it finds and clears."""
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
    text = (
        f"{text}, where the published order has a sense that words do not show in {told(r, 'sequenced')}. It finds "
        f"{known}{told(r, 'text')} of models to which published text and orders are likelier by .3 of their spread."
    )
    if not d["fresh"]:
        return f"{text} Without fresh items it clears no model."
    return (
        f"{text} It sees nothing in {told(r, 'clean_cleared')} of models without memory, and (false clearance) in "
        f"{told(r, 'gap_10_cleared')} of models that score 10 points more for the answers that they know (as one of a "
        f"panel of twelve in at most {told(r, 'gap_10_cleared_panel')}) and {told(r, 'text_cleared')} of those with "
        "memory of the text."
    )
