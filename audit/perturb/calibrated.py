"""The calibrated design nearest to a run, and what was measured there (the table: `audit.calibrate audit=perturb`)."""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

from audit.verdict.result import Calibration
from audit.verdict.simulated import other_thresholds, told

SHIPPED = "calibration_perturb.json"


def nearest(
    table: Mapping[str, Any] | None,
    *,
    n: int,
    variants: int,
    references: int,
    checked: int,
    replicates: int = 1,
    control: bool = False,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """The design with the smallest |log n| + |log N| + |log(1 + R)| + |log checked| / 4 + |log replicates| / 4. None
    where there is no table.

    checked: variants that a person read; without any nothing can be beyond reference, and the sentence says so.
    replicates: runs of the original that could differ. control: fresh items were asked, which no design of this table
    has. thresholds: the run's; the sentence says where its level or effect of interest is not the table's.
    """
    designs = table.get("designs", ()) if table else ()
    if not designs:
        return None

    def distance(entry: Mapping[str, Any]) -> float:
        d = entry["design"]
        far = abs(log(max(n, 1) / d["n"])) + abs(log(max(variants, 1) / d["variants"]))
        far += abs(log((1 + references) / (1 + d["references"])))
        far += abs(log(max(replicates, 1) / d["replicates"])) / 4
        return float(far + (abs(log(checked / d["checked"])) / 4 if checked else 0.0))

    found = min(designs, key=distance)
    said = sentence(found) + other_thresholds(table or {}, thresholds)
    if references and not checked:
        said += (
            " No person has read variants of this run's library, so here no drop can be called beyond reference: the "
            "rates are of a run whose library was read."
        )
    if control and references:
        said += (
            " Fresh items, which only take findings away, are not in these rates: fewer false alarms and less found "
            "(docs/perturb_calibration.md)."
        )
    return Calibration(design=dict(found["design"]), rates=dict(found["rates"]), sentence=said)


def sentence(entry: Mapping[str, Any]) -> str:
    """The rates of one design in words: both errors, and what it finds and clears."""
    d, r = entry["design"], entry["rates"]
    many = d["references"]
    name = "beyond" if many else "brittle"
    said = "a drop beyond reference" if many else "brittle"
    text = (
        f"Nearest calibrated design: {d['n']} items, {d['variants']} variants an item, {many} reference "
        f"{'model' if many == 1 else 'models'}, {d['checked']} variants read by a person, {d['replicates']} "
        f"{'run' if d['replicates'] == 1 else 'runs'} of the original. Of clean models, this "
        f"procedure calls {told(r, f'clean_{name}')} {said}; with variants that are 5 points harder "
        f"{told(r, f'harder_{name}')}; with 2 % broken variants {told(r, f'broken_2_{name}')}, with 5 % "
        f"{told(r, f'broken_5_{name}')}. Of models that remember 15 % of the items it finds "
        f"{told(r, f'memorised_{name}')}."
    )
    if many:
        text += (
            " Where models differ by 2 points in what rewording costs them, "
            f"{told(r, 'uneven_beyond')} of clean models are called so. With 5 points harder variants, and 4 % of the "
            f"answers to them unread, {told(r, 'harder_unread_beyond')} are where these are right ones of its own, "
            f"{told(r, 'harder_references_unread_beyond')} where they are wrong ones of the references."
        )
    if r.get("clean_cleared") is None:
        return f"{text} How many models it clears was not measured in this design."
    return (
        f"{text} No drop is detected in {told(r, 'clean_cleared')} of clean models, and (false clearance) in "
        f"{told(r, 'memorised_5_cleared')} of models that lose 5 points because they remember the wording, "
        f"{told(r, 'harder_cleared')} of those that lose them to harder variants; as one of a panel of twelve in at "
        f"most {told(r, 'memorised_5_cleared_panel')} and {told(r, 'harder_cleared_panel')}."
    )
