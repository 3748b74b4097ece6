"""The procedure's own error rates, as measured (`audit.validity.calibrate`) and shipped: the nearest design."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from audit.verdict.simulated import other_thresholds

SHIPPED = "calibration_validity.json"


_ALPHA = 0.05  # both directions of the table: its rates are at .025 each


def nearest(
    table: Mapping[str, Any] | None, *, clusters: int, change: float, thresholds: Mapping[str, float] | None = None
) -> dict[str, Any] | None:
    """The measured design nearest in (log) independent items and in the surface families' change of response.

    thresholds: the run's; the sentence says where its level or margin is not the table's.
    """
    if table is None or not np.isfinite(change) or clusters < 1:
        return None
    rows = table["designs"]
    best = min(rows, key=lambda r: abs(np.log(r["clusters"] / clusters)) + 3 * abs(r["change"] - change))
    return {
        **best,
        "models": table["models"],
        "sentence": (
            f"With {best['clusters']} independent items and surface edits that change {best['change']:.0%} of the "
            f"answers, in the worst found of {len(table['worlds'])} simulated worlds ({table['models']:,} models): "
            f"of models whose attribute edits move as many, selective {best['selective']:.1%} and non-selective "
            f"{best['non_selective']:.1%}; of invariance cells whose attribute edits move {table['margin']:.0%} more, "
            f"non-selective {best['within_margin']:.1%}. The ratio's interval where it is reported: selective "
            f"{best['ratio_selective']:.1%}, non-selective {best['ratio_non_selective']:.1%} (2.5 % is promised of "
            "each of these). The ratio's plain interval, which decides nothing: selective "
            f"{best['csr_selective']:.1%}, non-selective {best['csr_non_selective']:.1%}."
            + other_thresholds({"thresholds": {"alpha": _ALPHA, "margin": table["margin"]}}, thresholds)
        ),
    }
