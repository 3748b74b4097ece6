"""The sweep as a row of the table of instruments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.instrument import Instrument, Measured


def measured(cell: Mapping[str, Any]) -> Measured:
    """The largest gain under noise, with its simultaneous interval."""
    effect, rates = cell["effect"] or {}, (cell["calibration"] or {}).get("rates", {})
    alarms = rates.get("clean_any_excess", rates.get("clean_excess"))
    return Measured("largest gain under noise", effect.get("gain"), effect.get("ci_low"), effect.get("ci_high"), alarms)


INSTRUMENT = Instrument("sweep", "the router-worker sweep", frozenset({"noise"}), measured)
