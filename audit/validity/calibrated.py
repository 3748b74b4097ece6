"""The procedure's own error rates, as measured (`audit.validity.calibrate`) and shipped: the nearest design."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from audit.verdict.shipped import apart, nearest_design

SHIPPED = "calibration_validity.json"


def nearest(
    table: Mapping[str, Any] | None, *, clusters: int, change: float, thresholds: Mapping[str, float] | None = None
) -> dict[str, Any] | None:
    """The measured design nearest in (log) independent items and in the surface families' change of response.

    thresholds: the run's; the sentence says where its level or margin is not the table's.
    """
    if not np.isfinite(change) or clusters < 1:
        return None

    def sentence(entry: Mapping[str, Any]) -> str:
        return _sentence(entry, table or {})

    found = nearest_design(
        table,
        lambda design: apart(clusters, design["clusters"]) + 3 * abs(change - design["change"]),
        inf,  # there is no cut-off: the level is kept in every design
        sentence=sentence,
        none_near="",
        thresholds=thresholds,
    )
    if found is None or table is None:
        return None
    return {**found.design, **found.rates, "models": table["models"], "sentence": found.sentence}


def _sentence(entry: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    d, r = entry["design"], entry["rates"]
    return (
        f"With {d['clusters']} independent items and surface edits that change {d['change']:.0%} of the "
        f"answers, in the worst found of {len(table['worlds'])} simulated worlds ({table['models']:,} models): "
        f"of models whose attribute edits move as many, selective {r['selective']:.1%} and non-selective "
        f"{r['non_selective']:.1%}; of invariance cells whose attribute edits move "
        f"{table['thresholds']['margin']:.0%} more, non-selective {r['within_margin']:.1%}. The ratio's interval where "
        f"it is reported: selective {r['ratio_selective']:.1%}, non-selective {r['ratio_non_selective']:.1%} (2.5 % is "
        "promised of each of these). The ratio's plain interval, which decides nothing: selective "
        f"{r['csr_selective']:.1%}, non-selective {r['csr_non_selective']:.1%}."
    )
