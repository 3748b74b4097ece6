"""What a registry follows of the perturbation audit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.verdict.indicator import Indicator


def followed(cell: Mapping[str, Any]) -> tuple[Indicator, ...]:
    """Of a cell of verdict.json. cs: the contamination score of accuracies; drop: the accuracy that is lost."""
    if not cell["evidence"]:
        return ()
    drop = cell["evidence"]["drop"]
    return (
        Indicator("score", drop["original"]),
        *(Indicator(name, *(drop[name][key] for key in ("estimate", "low", "high"))) for name in ("cs", "drop")),
    )
