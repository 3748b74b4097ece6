"""The calibrated design nearest to a run, and what was measured there (the table: `audit calibrate audit=memory`)."""

from collections.abc import Mapping
from math import inf
from typing import Any

from audit.verdict.result import Calibration
from audit.verdict.shipped import apart, nearest_design
from audit.verdict.simulated import told

SHIPPED = "calibration_memory.json"
NEAR = 1.5  # the largest distance at which a design is called near: twice the items and half the held-out ones, say
# Worlds of models without memory in which the sets, or the models, differ; the worst is quoted.
_DIFFER = (
    "abler", "weaker", "spread_wider", "spread_narrower", "tau_2", "tau_4", "touchy", "larger_1.5", "family", "felt_2",
    "larger_all",
)  # fmt: skip


def nearest(
    table: Mapping[str, Any] | None,
    *,
    n: int,
    fresh: int,
    references: int,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """The design with the smallest |log n| + |log fresh| + |log(1 + R)|, held-out items or none alike; none near is
    said, with no rates, where that is above NEAR. None without a table.

    fresh: how many held-out items; 0 for none. A run with held-out items and no reference is compared with one of
    neither. thresholds: the run's; the sentence says where its level or smallest effect that matters is not the
    table's.
    """
    if not fresh or not references:
        fresh = references = 0

    def distance(design: Mapping[str, Any]) -> float:
        if bool(design["fresh"]) != bool(fresh):
            return inf
        many = apart(1 + references, 1 + design["references"])
        return apart(n, design["n"]) + apart(fresh, design["fresh"]) + many

    of = f"{n:,} items, {fresh:,} held-out items, {references} references"
    none_near = f"No calibrated design is near ({of}), so no error rate is quoted."
    return nearest_design(table, distance, NEAR, sentence=sentence, none_near=none_near, thresholds=thresholds)


def sentence(entry: Mapping[str, Any]) -> str:
    """The rates of one design in words: both errors, and what it finds and clears."""
    d, r = entry["design"], entry["rates"]
    held_out = f"{d['fresh']} held-out items, {d['references']} references" if d["fresh"] else "no held-out items"
    text = (
        f"Nearest calibrated design: {d['n']} items, {held_out}. False positives: of simulated models without memory "
        f"this procedure finds memory in {told(r, 'clean')}"
    )
    if not d["fresh"]:
        return (
            f"{text}, and names something of unknown cause in {told(r, 'clean_unknown')}, or "
            f"{told(r, 'sequenced_unknown')} where the published order has a sense of its own. Without references it "
            "finds no memory, and without held-out items it clears no model."
        )
    there = [name for name in _DIFFER if r.get(name) is not None]
    worst = max(there, key=lambda name: r[name], default=None)
    if worst is not None:
        text += f", and in {told(r, worst)} in the worst of {len(there)} worlds where models or items differ ({worst})"
    return (
        f"{text}. It finds {told(r, 'answers')} of models that know the answers of 30 % of the items, "
        f"{told(r, 'half')} of those that know half, and {told(r, 'text')} of those to which published text and orders "
        f"are likelier by .3 of their spread. It clears {told(r, 'clean_cleared')} of models without memory, and "
        f"(false negatives) {told(r, 'gap_5_cleared')} of models that score 5 points more for answers that they know."
    )
