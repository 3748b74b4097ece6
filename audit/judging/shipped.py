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
    """Return the calibrated design that is nearest to a run, with its rates.

    Parameters
    ----------
    table : mapping or None
        A shipped calibration.
    distance : callable
        Returns the distance of a design to the run; infinite if they cannot be compared.
    near : float
        Largest distance of which rates are quoted.
    sentence : callable
        Returns the rates of an entry in words.
    none_near : str
        The sentence if no design is within `near`.
    thresholds : mapping or None
        Thresholds of the run. The sentence names those that differ from the table's.

    Returns
    -------
    Calibration or None
        Without design and rates if none is within `near`. None if there is no table, or no design can
        be compared with the run.
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
    said = sentence(entry) + (f" These rates are of {' and '.join(differ)}." if differ else "")
    return Calibration(design=dict(entry["design"]), rates=dict(entry["rates"]), sentence=said)


def apart(one: float, other: float, least: float = 1) -> float:
    """Return the distance of two sizes on a log scale.

    Parameters
    ----------
    one, other : float
        The sizes.
    least : float
        A smaller size counts as this one.

    Returns
    -------
    float
        |log| of their ratio.
    """
    return abs(log(max(one, least) / max(other, least)))
