"""The memory audit as a row of the table of instruments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.instrument import Instrument, Measured


def measured(cell: Mapping[str, Any]) -> Measured:
    """The gap to fresh items beyond the references', where it was compared; false alarms of either finding."""
    did = (cell["evidence"]["gap"] or {}).get("did", {})
    alarms = (cell["calibration"] or {}).get("rates", {}).get("clean")
    what = "gap to fresh items, beyond the references'"
    return Measured(what, did.get("difference"), did.get("low"), did.get("high"), alarms)


INSTRUMENT = Instrument("memory", "the memory audit", frozenset({"answers", "text"}), measured)
