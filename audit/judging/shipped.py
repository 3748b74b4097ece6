"""The measured tables that ship with the package, and the calibrated design that is nearest to a
run."""

from collections.abc import Callable, Mapping, Sequence
from math import log
from typing import Any

from audit.judging.result import Calibration


def nearest_design(
    table: Mapping[str, Any] | None,
    distance: Callable[[Mapping[str, Any]], float],
    near: float,
    *,
    sentence: Callable[[Mapping[str, Any]], str],
    none_near: str,
    thresholds: Mapping[str, float] | None = None,
) -> Calibration | None:
    """The entry whose design has the smallest distance to a run; no design and no rates where it is
    above `near`.

    sentence: an entry -> its rates in words. none_near: what is said where none is. thresholds: of
    the run; those that are not the table's are named. None without a table, or where no design is
    like the run at all (infinitely far)."""
    designs: Sequence[Mapping[str, Any]] = (table or {}).get("designs", ())
    far, index = min(
        ((distance(e["design"]), k) for k, e in enumerate(designs)), default=(float("inf"), 0)
    )
    if far == float("inf"):
        return None
    if far > near:
        return Calibration(design={}, rates={}, sentence=none_near)
    entry, measured = designs[index], (table or {}).get("thresholds", {})
    differ = []
    for name in ("alpha", "effect_of_interest", "margin"):
        if thresholds is not None and name in measured and measured[name] != thresholds[name]:
            differ.append(f"{name} {measured[name]:g} (this run: {thresholds[name]:g})")
    said = sentence(entry) + (f" These rates are of {' and '.join(differ)}." if differ else "")
    return Calibration(design=dict(entry["design"]), rates=dict(entry["rates"]), sentence=said)


def apart(one: float, other: float, least: float = 1) -> float:
    """|log| of the ratio of two sizes; what is below the least counts as that much."""
    return abs(log(max(one, least) / max(other, least)))
