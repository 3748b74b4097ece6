"""The memory audit as a row of the table of instruments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.indicator import Indicator
from audit.verdict.instrument import Instrument, Measured


def measured(cell: Mapping[str, Any]) -> Measured:
    """The gap to held-out items beyond the references', where it was compared; false positives of either finding."""
    gap = cell["evidence"]["gap"] or {}
    did = gap.get("did", {})
    interval = gap.get("predicted") or did
    alarms = (cell["calibration"] or {}).get("rates", {}).get("clean")
    what = "gap to held-out items, beyond the references'"
    return Measured(what, did.get("difference"), interval.get("low"), interval.get("high"), alarms)


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. fresh_gap: published less fresh score, beyond the references' where there are some."""
    gap = (cell["evidence"]["gap"] or {}).get("did", {})
    against = tuple(sorted(cell["references"]))
    return (
        Indicator("score", cell["score"]),
        Indicator("fresh_gap", gap.get("difference"), gap.get("low"), gap.get("high"), against),
    )


INSTRUMENT = Instrument("memory", "the memory audit", frozenset({"answers", "text"}), measured, tracked)
