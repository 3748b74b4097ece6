"""Find the calibrated design nearest to a run in the measured tables that ship with the package."""

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
    """Return the calibrated design that is nearest to a run, with its error rates.

    Parameters
    ----------
    table : mapping or None
        A shipped calibration table.
    distance : callable
        Function from a design to its distance from the run. The distance is infinite if design and
        run cannot be compared.
    near : float
        Largest distance at which error rates are quoted.
    sentence : callable
        Function from an entry of the table to a sentence with the error rates of this entry.
    none_near : str
        Sentence to use if no design is within `near`.
    thresholds : mapping or None
        Thresholds of the run. The sentence names the thresholds that differ from the table's.

    Returns
    -------
    Calibration or None
        The nearest design, its error rates and a sentence. If no design is within `near`, design
        and rates are empty. The value is None without a table, or if no design can be compared with
        the run.
    """
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
    text = sentence(entry) + (f" These rates are of {' and '.join(differ)}." if differ else "")
    return Calibration(design=dict(entry["design"]), rates=dict(entry["rates"]), sentence=text)


def log_distance(size: float, other: float, least: float = 1) -> float:
    """Return the distance between two sizes on a logarithmic scale.

    Parameters
    ----------
    size, other : float
        The two sizes.
    least : float
        Lower bound of a size. A smaller size is replaced by this bound.

    Returns
    -------
    float
        The distance |log(size / other)|.
    """
    return abs(log(max(size, least) / max(other, least)))
