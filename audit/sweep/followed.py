"""What a registry follows of the sweep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.indicator import Indicator


def followed(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. excess: the gain under noise, averaged over r (the best r is chosen in every run)."""
    effect = cell["effect"] or {}
    excess = Indicator("excess", effect.get("mean_gain"), effect.get("mean_ci_low"), effect.get("mean_ci_high"))
    return (Indicator("score", cell["score"]), excess)
