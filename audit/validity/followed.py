"""What a registry follows of the construct-validity audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.indicator import Indicator


def followed(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. selectivity: how much more attribute edits move answers than surface edits do."""
    evidence = cell["evidence"]
    if not evidence:
        return ()
    score, primary = evidence["score"], evidence["primary"] or {}
    return (
        Indicator("score", score["estimate"], score["low"], score["high"]),
        Indicator("selectivity", primary.get("difference"), primary.get("low"), primary.get("high")),
    )
