"""Differential item functioning of a cell's attribute edits: against the originals, and by the groups that items name.

surface (L, n), attribute (A, n): scores of the edits of n items, NaN where nothing was tested or read.
"""

import numpy as np

from audit.statistics.dif import GroupDif, MantelHaenszel, by_group, mantel_haenszel
from audit.statistics.paired import FloatArray
from audit.validity.metrics import group_of, parts
from audit.validity.record import ValidityCell


def wording_dif(cell: ValidityCell, surface: FloatArray, attribute: FloatArray) -> MantelHaenszel | None:
    """Right answers to originals (reference) and attribute edits (focal), matched on the item's surface score."""
    total = np.nan_to_num(np.nansum(surface, axis=0)).astype(np.int64)
    right = np.concatenate([cell.score_before, attribute.ravel()])
    focal = np.concatenate([np.zeros(cell.n, dtype=bool), np.ones(attribute.size, dtype=bool)])
    rows = 1 + len(attribute)
    found = mantel_haenszel(right, focal, np.tile(total, rows), np.tile(cell.cluster, rows))
    return found if found.strata else None


def group_dif(cell: ValidityCell, surface: FloatArray, attribute: FloatArray) -> tuple[GroupDif, ...]:
    """Right answers to attribute edits, each group against the rest, matched on the item's total score.

    The total counts the original, the surface edits and the very edit that is studied: without it groups that differ in
    difficulty show a DIF that is none (Holland & Thayer 1988). Only items with as many answers are compared.
    """
    groups = {name: here for name, here in parts([group_of(item) for item in cell.items]) if name}
    if not groups or np.isnan(attribute).all():
        return ()
    matched = np.concatenate([cell.score_before[None], surface])
    answers, rest = (~np.isnan(matched)).sum(axis=0), np.nansum(matched, axis=0)
    total = rest + np.nan_to_num(attribute)
    stratum = (answers * (len(matched) + 2) + total).astype(np.int64)
    rows = {name: np.broadcast_to(here, attribute.shape).ravel() for name, here in groups.items()}
    sizes = {name: int(here.sum()) for name, here in groups.items()}
    cluster = np.broadcast_to(cell.cluster, attribute.shape).ravel()
    return by_group(attribute.ravel(), stratum.ravel(), rows, cluster, sizes)
