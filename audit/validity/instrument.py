"""The construct-validity audit as a row of the table of instruments. It sees nothing of memory, and clears none of it.

What a cell can tell hangs on its archetype; `vocabulary` says what its status comes to there.
"""

from collections.abc import Mapping
from typing import Any

from audit.validity.edits.record import Archetype
from audit.verdict.instrument import Indicator, Instrument, Measured

FORMAT, ATTRIBUTE = frozenset({"format"}), frozenset({"attribute"})


def sees(cell: Mapping[str, Any]) -> frozenset[str]:
    """What this cell can speak of."""
    return ATTRIBUTE if _archetype(cell) == Archetype.INVARIANCE else FORMAT


def measured(cell: Mapping[str, Any]) -> Measured:
    """D with its interval; false positives: of what would be a finding here, at a true ratio of 1."""
    d = (cell["evidence"] or {}).get("primary") or {}
    accused = "selective" if _archetype(cell) == Archetype.INVARIANCE else "non_selective"
    alarms = (cell["calibration"] or {}).get(accused)
    return Measured(
        "answers moved by content beyond form (D)", d.get("difference"), d.get("low"), d.get("high"), alarms
    )


def _archetype(cell: Mapping[str, Any]) -> str | None:
    return (cell["evidence"] or {}).get("archetype")


def tracked(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. selectivity: how much more attribute edits move answers than surface edits do."""
    evidence = cell["evidence"]
    if not evidence:
        return ()
    score, primary = evidence["score"], evidence["primary"] or {}
    return (
        Indicator("score", score["estimate"], score["low"], score["high"]),
        Indicator("selectivity", primary.get("difference"), primary.get("low"), primary.get("high")),
    )


INSTRUMENT = Instrument("validity", "the construct-validity audit", FORMAT | ATTRIBUTE, measured, tracked, sees)
