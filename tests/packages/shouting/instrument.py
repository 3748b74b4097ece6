"""The row of the table of instruments."""

from collections.abc import Mapping
from typing import Any

from audit.verdict.instrument import Indicator, Instrument, Measured


def measured(cell: Mapping[str, Any]) -> Measured:
    e = cell["evidence"]
    return Measured("cost of shouting", e["cost"], e["low"], e["high"], None)


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    e = cell["evidence"]
    return Indicator("score", e["accuracy"]), Indicator("cost", e["cost"], e["low"], e["high"])


INSTRUMENT = Instrument("shouting", "the shouting audit", frozenset({"format"}), measured, tracked)
