"""The calibrated design nearest to a run, and what was measured there (the table: `audit calibrate audit=perturb`)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from audit.verdict.result import Calibration, percent
from audit.verdict.shipped import apart, nearest_design
from audit.verdict.simulated import told

SHIPPED = "calibration_perturb.json"
NEAR = 1.0  # the largest distance that is called near: half the items and another number of references, say


def nearest(
    table: Mapping[str, Any] | None,
    *,
    n: int,
    variants: int,
    references: int,
    checked: int,
    accuracy: float = 0.7,
    unparsed: float = 0.0,
    replicates: int = 1,
    control: bool = False,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """The design with the smallest distance; none near is said, with no rates, where it is above NEAR.

    The distance is |log n| + |log N| / 2 + |log(1 + R)| + |log checked| / 4 + |log replicates| / 4 + 2 |accuracy|
    (differences), and 10 for each unparsed answer of a hundred above the 4 that are simulated. None where there is no
    table. n: independent items. accuracy: of the tested model, as published. unparsed: share of its answers. checked:
    variants that a person read; without any nothing can be beyond reference, and the sentence says so. replicates: runs
    of the original that could differ. control: held-out items were asked, which no design of this table has.
    thresholds: the run's; the sentence says where its level or smallest effect that matters is not the table's.
    """

    def distance(design: Mapping[str, Any]) -> float:
        far = apart(n, design["n"]) + apart(variants, design["variants"]) / 2
        far += apart(1 + references, 1 + design["references"]) + apart(replicates, design["replicates"]) / 4
        far += 2 * abs(accuracy - design["accuracy"]) + 10 * max(unparsed - 0.04, 0.0)
        return far + (apart(checked, design["checked"]) / 4 if checked else 0.0)

    none_near = (
        f"No calibrated design is near: {n} questions, {variants} variants, {references} references, accuracy "
        f"{percent(accuracy)}, {percent(unparsed)} unparsed."
    )
    found = nearest_design(table, distance, NEAR, sentence=sentence, none_near=none_near, thresholds=thresholds)
    if found is None or not found.rates:
        return found
    said = found.sentence
    if references and not checked:
        said += (
            " No person has read variants of this run's library, so here no drop can be called beyond reference: the "
            "rates are of a run whose library was read."
        )
    if control and references:
        said += (
            " Held-out items are not in these rates: with them fewer clean models are called and less is found "
            "(docs/perturb_calibration.md)."
        )
    return replace(found, sentence=said)


def sentence(entry: Mapping[str, Any]) -> str:
    """The rates of one design in words: both errors, and what it finds and clears."""
    d, r = entry["design"], entry["rates"]
    many = d["references"]
    name = "beyond" if many else "brittle"
    said = "a drop beyond reference" if many else "brittle"
    text = (
        f"Nearest calibrated design: {d['n']} items, {d['variants']} variants an item, {many} reference "
        f"{'model' if many == 1 else 'models'}, accuracy {percent(d['accuracy'])}, {d['checked']} variants read by a "
        f"person, {d['replicates']} {'run' if d['replicates'] == 1 else 'runs'} of the original. Of clean models, this "
        f"procedure calls {told(r, f'clean_{name}')} {said}; with variants that are 5 points harder "
        f"{told(r, f'harder_{name}')}. Of models that remember 15 % of the items it finds "
        f"{told(r, f'memorised_{name}')}, of those that remember half {told(r, f'memorised_half_{name}')}."
    )
    if many:
        text += (
            " Where models differ by 2 points in what rewording costs them, "
            f"{told(r, 'uneven_beyond')} of clean models are called so"
        )
        others = ("family_unnamed", "references of one family whose names do not tell"), (
            "touchy_itself", "this model alone losing 5 points more for no memory"
        )  # fmt: skip
        if r.get("touchy_itself_beyond") is not None:
            text += "; with " + ", and with ".join(f"{what} {told(r, f'{w}_beyond')}" for w, what in others)
        text += "."
    return (
        f"{text} No drop is detected in {told(r, 'clean_cleared')} of clean models "
        f"({told(r, 'clean_unparsed_cleared')} with 4 % of all answers unparsed at random), and (false negative) in "
        f"{told(r, 'memorised_5_cleared')} of models that lose 5 points because they remember the wording, "
        f"{told(r, 'harder_cleared')} of those that lose them to harder variants; as one of a panel of twelve in at "
        f"most {told(r, 'memorised_5_cleared_panel')} and {told(r, 'harder_cleared_panel')}."
    )
