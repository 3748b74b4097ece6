"""The sweep as a row of the table of instruments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.instrument import Indicator, Instrument, Measured


def measured(cell: Mapping[str, Any]) -> Measured:
    """The largest gain under noise, with its simultaneous interval."""
    effect, rates = cell["effect"] or {}, (cell["calibration"] or {}).get("rates", {})
    alarms = rates.get("clean_any_excess", rates.get("clean_excess"))
    return Measured("largest gain under noise", effect.get("gain"), effect.get("ci_low"), effect.get("ci_high"), alarms)


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. excess: the gain under noise, averaged over r (the best r is chosen in every run)."""
    effect = cell["effect"] or {}
    excess = Indicator("excess", effect.get("mean_gain"), effect.get("mean_ci_low"), effect.get("mean_ci_high"))
    return (Indicator("score", cell["score"]), excess)


INSTRUMENT = Instrument("sweep", "the router-worker sweep", frozenset({"noise"}), measured, tracked)
