"""The perturbation audit as a row of the table of instruments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.instrument import Instrument, Measured


def measured(cell: Mapping[str, Any]) -> Measured:
    """The drop under rewording, with its interval; false alarms of its strongest verdict that this design can give."""
    drop = cell["evidence"]["drop"]["drop"] if cell["evidence"] else {}
    rates = (cell["calibration"] or {}).get("rates", {})
    alarms = rates.get("clean_beyond" if cell["references"] else "clean_brittle")
    return Measured("drop under rewording", drop.get("estimate"), drop.get("low"), drop.get("high"), alarms)


INSTRUMENT = Instrument("perturb", "the perturbation audit", frozenset({"wording"}), measured)
