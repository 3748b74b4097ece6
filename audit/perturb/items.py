"""Item by item: how much each original wording stands out, and how many items are affected at the least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.perturb.record import PerturbCell
from audit.statistics.exchange import AffectedItems, affected_items, item_pvalues
from audit.statistics.multiplicity import benjamini_hochberg, benjamini_yekutieli
from audit.statistics.paired import BoolArray, FloatArray, IntArray
from audit.statistics.wording_drop import item_means


@dataclass(frozen=True)
class ItemLevel:
    """All arrays (n,). pvalues: exact, NaN where an item cannot be compared; adjusted: over the items, so that of the
    flagged ones (adjusted <= alpha) no more than a share alpha is expected to be false.

    method: "bh" for independent items, "by" for items in clusters. smallest_p: 1 / (N + 1). can_flag: whether any
    number of items with that p could ever be flagged. drop: original - mean of the variants; beyond: minus
    the references' mean drop. order: indices of the items, the most conspicuous first (p, then drop beyond the
    references, then id). affected: None for items in clusters, which may have been reworded together.
    """

    pvalues: FloatArray
    adjusted: FloatArray
    flagged: BoolArray
    drop: FloatArray
    beyond: FloatArray
    order: IntArray
    method: str
    smallest_p: float
    can_flag: bool
    affected: AffectedItems | None


def item_level(cell: PerturbCell, alpha: float = 0.05) -> ItemLevel:
    """Rank, flag and count the items of a cell."""
    p = item_pvalues(*cell.tested.pair)
    method = "by" if cell.clustered else "bh"
    adjusted = benjamini_yekutieli(p) if cell.clustered else benjamini_hochberg(p)
    o, v = item_means(*cell.tested.pair)
    drop = o - v
    gaps = [a - b for a, b in (item_means(*r.pair) for r in cell.references)]
    # an item that no reference answered has no reference drop: it is ranked by its own
    stacked = np.stack(gaps) if gaps else np.full((1, cell.n), np.nan)
    known = np.sum(~np.isnan(stacked), axis=0)
    beyond = drop - np.nansum(stacked, axis=0) / np.maximum(known, 1)
    smallest = 1 / (1 + int(np.max(np.sum(~np.isnan(cell.tested.variants), axis=0), initial=0)))
    order = np.lexsort((np.array(cell.question_ids), -np.nan_to_num(beyond, nan=-2.0), np.nan_to_num(p, nan=2.0)))
    m = int(np.sum(~np.isnan(p)))
    factor = float(np.sum(1 / np.arange(1, m + 1))) if method == "by" else 1.0
    return ItemLevel(
        pvalues=p,
        adjusted=adjusted,
        flagged=np.nan_to_num(adjusted, nan=1.0) <= alpha,
        drop=drop,
        beyond=beyond,
        order=order.astype(np.int64),
        method=method,
        smallest_p=smallest,
        can_flag=smallest * factor <= alpha,
        affected=None if cell.clustered else affected_items(*cell.tested.pair, confidence=1 - alpha),
    )
