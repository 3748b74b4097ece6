"""What a registry follows of the memory audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.indicator import Indicator


def followed(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. fresh_gap: published less fresh score, beyond the references' where there are some."""
    gap = (cell["evidence"]["gap"] or {}).get("did", {})
    against = tuple(sorted(cell["references"]))
    return (
        Indicator("score", cell["score"]),
        Indicator("fresh_gap", gap.get("difference"), gap.get("low"), gap.get("high"), against),
    )
