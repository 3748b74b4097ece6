"""Held-out items as a control: what the same rewording costs this model where there is no memory.

The control can take a `drop beyond reference` away, and never makes one: that the held-out items' rewordings are less
hard than the benchmark's makes the same difference as memory, and this model alone cannot show which. A control that
cannot carry the comparison is not asked, and says why.
"""

from dataclasses import dataclass

import numpy as np

from audit.perturb.gates import all_gates
from audit.perturb.record import PerturbCell, Wordings
from audit.perturb.thresholds import PerturbThresholds
from audit.perturb.unread import usable_references
from audit.statistics.fresh_drop import Asked, BeyondFresh, beyond_fresh
from audit.statistics.paired import FloatArray, IntArray
from audit.statistics.set_difference import SetDifference, set_difference
from audit.statistics.wording_drop import item_means
from audit.verdict.gates import failed
from audit.verdict.reason import Reason, because

UNITS_MIN = 30  # independent held-out items: with fewer, a t-test of items that mostly do not change has no level


@dataclass(frozen=True)
class FreshControl:
    """The tested model on held-out items. Accuracies and drops are 0-1; None where nothing can be compared.

    benchmark: their name. n: items that count. original, variants, drop: accuracy under the original and the variants,
    and what is lost. beyond: the drop on the benchmark less what these say it should be, on both scales; empty where it
    was not computed. references: the drop on the benchmark less that on the held-out items, of the mean of the
    reference models that answered both (`reference_models`): are the two sets of rewordings equally hard? None without
    such. why: the control is not asked; None where it is.
    """

    benchmark: str
    n: int
    original: float | None = None
    variants: float | None = None
    drop: float | None = None
    beyond: tuple[BeyondFresh, ...] = ()
    references: SetDifference | None = None
    reference_models: int = 0
    why: Reason | None = None

    @property
    def asked(self) -> bool:
        return self.why is None

    @property
    def pvalue(self) -> float:
        """For a drop beyond the held-out items': it must be so on both scales (intersection-union). 1 where not
        asked."""
        return max(b.pvalue for b in self.beyond) if self.asked else 1.0


def fresh_control(
    cell: PerturbCell, thresholds: PerturbThresholds, as_read: FreshControl | None = None
) -> FreshControl | None:
    """The control of one cell; None where no held-out items were run.

    as_read: the control of the same cell as its answers were read, where they are held here (`unread.against_drop`):
    whether it is asked was decided then.
    """
    fresh = cell.control
    if fresh is None:
        return None
    o, v = item_means(*fresh.tested.pair)
    there = ~np.isnan(o)
    n, units = int(there.sum()), _units(o, fresh.cluster)
    if not n:
        return FreshControl(fresh.benchmark, 0, why=because("held_out_no_answers"))
    original, variants = float(o[there].mean()), float(v[there].mean())
    why = _unfit(cell, fresh, n, units, thresholds) if as_read is None else as_read.why
    beyond: tuple[BeyondFresh, ...] = ()
    if why is None:
        sides = _asked(cell), _asked(fresh)
        beyond = (beyond_fresh(*sides), beyond_fresh(*sides, scale="share"))
    references, count = _references(cell, fresh, thresholds)
    return FreshControl(
        fresh.benchmark, n, original, variants, original - variants, beyond, references, count, why
    )  # fmt: skip


def _unfit(cell: PerturbCell, fresh: PerturbCell, n: int, units: int, thresholds: PerturbThresholds) -> Reason | None:
    """Why held-out items cannot carry the comparison; None where they can. Their measurement must pass every gate."""
    if _units(_drop(cell.tested), cell.cluster) < 2:
        return because("held_out_one_group")
    if units < UNITS_MIN:
        return because("held_out_few", n=n, units=units, least=UNITS_MIN)
    if broken := failed(all_gates(fresh, thresholds)):
        return because("held_out_check_failed", gates=[g.name for g in broken])
    held = fresh.tested.held(thresholds.unparsed_gamma, original=True, variants=False)
    if not (fresh.can_lose(fresh.tested) and fresh.can_lose(held)):
        return because("held_out_at_chance")
    return None


def _asked(cell: PerturbCell) -> Asked:
    return (*cell.tested.pair, cell.chance_items, cell.cluster)


def _references(
    cell: PerturbCell, fresh: PerturbCell, thresholds: PerturbThresholds
) -> tuple[SetDifference | None, int]:
    """The references' own difference between the two sets, and how many can be compared with on both."""
    there = {w.model: w for w in usable_references(fresh, thresholds)[0]}
    both = [(w, there[w.model]) for w in usable_references(cell, thresholds)[0] if w.model in there]
    if not both:
        return None, 0
    sides = tuple(np.stack([_drop(pair[side]) for pair in both]).mean(axis=0) for side in (0, 1))
    if min(_units(sides[0], cell.cluster), _units(sides[1], fresh.cluster)) < UNITS_MIN:
        return None, 0  # too few items that all of them answered
    return set_difference((sides[0], sides[1]), (), (cell.cluster, fresh.cluster)), len(both)


def _units(values: FloatArray, cluster: IntArray) -> int:
    """Clusters with a value."""
    return int(np.unique(cluster[~np.isnan(values)]).size)


def _drop(wordings: Wordings) -> FloatArray:
    o, v = item_means(*wordings.pair)
    return o - v
