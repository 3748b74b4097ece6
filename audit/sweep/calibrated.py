"""Which calibrated design is near to a run, and what was measured there (the table comes from `audit calibrate`)."""

from collections.abc import Mapping
from typing import Any

from audit.verdict.result import Calibration, percent
from audit.verdict.shipped import apart, nearest_design
from audit.verdict.simulated import told

SHIPPED = "calibration.json"
NEAR = 1.0  # the largest distance at which a design is called near: twice the questions and half the discordance, say


def nearest(
    table: Mapping[str, Any] | None,
    *,
    n: int,
    routers: int,
    draws: str,
    clean_accuracy: float,
    discordance: float,
    clean_replicates: int = 1,
    noisy_replicates: int = 1,
    clusters: int | None = None,
    panel: int = 1,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """The clean-world design with the smallest distance; none near is said, with no rates, where it is above NEAR.

    The distance is |log n| + |log R| / 2 + |log discordance| / 2 + 2 |accuracy| (differences), + 1/2 for the other
    kind of draws, + 1/2 where one has one clean (noisy) replicate and the other several, + |log panel| / 4, and n
    stands for the number of clusters where questions are grouped. None where there is no table. thresholds: of the
    run; those that are not the table's are named.
    """
    units = min(clusters or n, n)

    def distance(d: Mapping[str, Any]) -> float:
        far = apart(units, d["n"]) + apart(routers, d["routers"]) / 2 + apart(panel, d["panel"]) / 4
        far += 0.5 * (d["draws"] != draws) + 0.5 * ((d["clean_replicates"] > 1) != (clean_replicates > 1))
        far += 0.5 * ((d.get("noisy_replicates", 1) > 1) != (noisy_replicates > 1))
        return far + 2 * abs(clean_accuracy - d["clean_accuracy"]) + apart(discordance, d["discordance"], 1e-3) / 2

    of = f"{units} {'questions' if units == n else 'groups of questions'}"
    none_near = (
        f"No calibrated design is near: {of}, {routers} router counts, {draws} draws, clean accuracy "
        f"{percent(clean_accuracy)}, discordance {percent(discordance)}, panel of {panel}. Measure your own: "
        "audit calibrate --observed RUN_DIR."
    )
    return nearest_design(table, distance, NEAR, sentence=sentence, none_near=none_near, thresholds=thresholds)


def sentence(entry: Mapping[str, Any]) -> str:
    """The rates of one design in words: both errors, then what it finds."""
    d, r = entry["design"], entry["rates"]
    runs, noisy = d["clean_replicates"], d.get("noisy_replicates", 1)
    text = (
        f"Nearest calibrated design: {d['n']} questions, {d['routers']} router counts, {d['draws']} draws, {runs} "
        f"clean and {noisy} noisy {'replicate' if noisy == 1 else 'replicates'}, accuracy "
        f"{percent(d['clean_accuracy'])}, both controls and a hint reference. "
        f"False positives: of models that noise does nothing for, this procedure calls {told(r, 'clean_excess')} an "
        f"excess (the paper's rule: {told(r, 'paper_model_fpr')}). False negatives: of models that noise lifts by 5 "
        f"points at one router count, it clears {told(r, 'gain_one_r_cleared')}. It clears "
        f"{told(r, 'clean_cleared')} of the former"
    )
    powers = [(g, r[k]) for g, k in ((5, "gain_5_excess"), (10, "gain_10_excess")) if r.get(k) is not None]
    if powers:
        text += f", and finds a true gain of {', '.join(f'{g} points in {percent(v)}' for g, v in powers)} of models"
    text += "."
    if r.get("coverage_mean") is not None:
        held = f"{percent(r['coverage_gain'])} (per r) and {percent(r['coverage_mean'])} (mean over r)"
        text += f" Its 95 % intervals held the truth in {held}."
    return text + " None of these models remembers in a way that helps intact and damaged questions alike."
