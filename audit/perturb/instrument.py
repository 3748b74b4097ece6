"""The perturbation audit as a row of the table of instruments."""

from collections.abc import Mapping
from typing import Any

from audit.verdict.instrument import Indicator, Instrument, Measured


def measured(cell: Mapping[str, Any]) -> Measured:
    """The drop under rewording, with its interval; false positives of its strongest verdict that this design can
    give."""
    drop = cell["evidence"]["drop"]["drop"] if cell["evidence"] else {}
    rates = (cell["calibration"] or {}).get("rates", {})
    alarms = rates.get("clean_beyond" if cell["references"] else "clean_brittle")
    return Measured("drop under rewording", drop.get("estimate"), drop.get("low"), drop.get("high"), alarms)


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. cs: the contamination score of accuracies; drop: the accuracy that is lost."""
    if not cell["evidence"]:
        return ()
    drop = cell["evidence"]["drop"]
    return (
        Indicator("score", drop["original"]),
        *(Indicator(name, *(drop[name][key] for key in ("estimate", "low", "high"))) for name in ("cs", "drop")),
    )


INSTRUMENT = Instrument("perturb", "the perturbation audit", frozenset({"wording"}), measured, tracked)
