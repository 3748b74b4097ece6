"""The procedure's own error rates, as measured (`audit.validity.calibrate`) and shipped: the nearest design."""

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np

from audit.verdict.result import percent
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
    shown = {name: percent(value) for name, value in r.items()}
    return (
        f"With {d['clusters']} independent items and edits of layout or wording that change {percent(d['change'])} of "
        f"the answers, in the worst found of {len(table['worlds'])} simulated worlds ({table['models']:,} models): "
        f"where the content moves as many, it is said to move more in {shown['selective']} and fewer in "
        f"{shown['non_selective']}; where it moves {percent(table['thresholds']['margin'])} more, answers are said to "
        f"stay in {shown['within_margin']}. The paper's ratio (CSR) by its interval, where it is reported: above 1 in "
        f"{shown['ratio_selective']}, below 1 in {shown['ratio_non_selective']} (2.5 % is promised of each of these). "
        f"Its plain interval, which decides nothing: {shown['csr_selective']} and {shown['csr_non_selective']}."
    )
