"""The sweep as a row of the table of instruments."""

from collections.abc import Mapping
from typing import Any

from audit.verdict.instrument import Indicator, Instrument, Measured


def measured(cell: Mapping[str, Any]) -> Measured:
    """The gain under noise behind the verdict: the largest with its simultaneous interval; of a loss the mean."""
    effect, rates = cell["effect"] or {}, (cell["calibration"] or {}).get("rates", {})
    alarms = rates.get("clean_any_excess", rates.get("clean_excess"))
    if cell["verdict"] == "brittle":
        mean, low, high = (effect.get(f"mean_{name}") for name in ("gain", "ci_low", "ci_high"))
        return Measured("mean gain under noise", mean, low, high, None)
    return Measured("largest gain under noise", effect.get("gain"), effect.get("ci_low"), effect.get("ci_high"), alarms)


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. excess: the gain under noise, averaged over r (the best r is chosen in every run)."""
    effect = cell["effect"] or {}
    excess = Indicator("excess", effect.get("mean_gain"), effect.get("mean_ci_low"), effect.get("mean_ci_high"))
    return (Indicator("score", cell["score"]), excess)


INSTRUMENT = Instrument("sweep", "the router-worker sweep", frozenset({"noise"}), measured, tracked)
