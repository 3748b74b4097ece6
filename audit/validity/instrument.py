"""The construct-validity audit as a row of the table of instruments. It sees nothing of memory, and clears none of it.

What a cell can tell hangs on its archetype. Where the key moves, surface edits that move answers more than the
construct does are a finding, though the status is a confirmed one; where nothing should move, answers that move are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.exits import FOUND, NOT_CLEARED, OK
from audit.validity.edits.record import Archetype
from audit.validity.result import ValidityStatus
from audit.verdict.instrument import Instrument, Measured

FORMAT, ATTRIBUTE = frozenset({"format"}), frozenset({"attribute"})


def of_cell(cell: Mapping[str, Any]) -> tuple[frozenset[str], int]:
    """(what it can speak of, what it says): a status that is not confirmatory could not tell."""
    sees = ATTRIBUTE if _archetype(cell) == Archetype.INVARIANCE else FORMAT
    found = ValidityStatus.SELECTIVE if sees == ATTRIBUTE else ValidityStatus.NON_SELECTIVE
    confirmed = cell["verdict"] in (ValidityStatus.SELECTIVE, ValidityStatus.NON_SELECTIVE)
    return sees, (FOUND if cell["verdict"] == found else OK) if confirmed else NOT_CLEARED


def measured(cell: Mapping[str, Any]) -> Measured:
    """D with its interval; false alarms: of what would be a finding here, at a true ratio of 1."""
    d = (cell["evidence"] or {}).get("primary") or {}
    accused = "selective" if _archetype(cell) == Archetype.INVARIANCE else "non_selective"
    alarms = (cell["calibration"] or {}).get(accused)
    return Measured("D: attribute less surface edits", d.get("difference"), d.get("low"), d.get("high"), alarms)


def _archetype(cell: Mapping[str, Any]) -> str | None:
    return (cell["evidence"] or {}).get("archetype")


INSTRUMENT = Instrument("validity", "the construct-validity audit", FORMAT | ATTRIBUTE, measured, of_cell)
