"""The sweep of one cell, item by item: the clean baseline and the noisy settings."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from audit.errors import DataError
from audit.records import Setting
from audit.statistics.paired import CellOutcomes, FloatArray, IntArray
from audit.statistics.values import levels_of, replicates_of, settings_values
from audit.sweep.design import Arm


@dataclass(frozen=True)
class Sweep:
    """The clean baseline and the noisy settings of one cell, item by item.

    routers: R router counts, rising. clean: (n,) values. noisy: (R, n) values. cluster: (n,) index of the cluster that
    resampling keeps whole.
    """

    model: str
    benchmark: str
    routers: tuple[int, ...]
    question_ids: tuple[str, ...]
    clean: FloatArray
    noisy: FloatArray
    cluster: IntArray

    @property
    def n(self) -> int:
        return len(self.question_ids)

    def answered(self) -> Sweep:
        """Without the router counts that have not one answered pair: no gain, and no row in the tables."""
        there = np.any(~np.isnan(self.noisy - self.clean), axis=1)
        routers = tuple(r for r, keep in zip(self.routers, there, strict=True) if keep)
        return replace(self, routers=routers, noisy=self.noisy[there])


def sweep_of(cell: CellOutcomes, *, first_only: bool = False) -> Sweep:
    """The paper's sweep: `noisy_rewrite` at every r against `forward_full` at r=1 (song2026, section 4.2).

    `first_only` reads the first replicate of each, as the paper has one run; otherwise replicates are averaged. Raises
    DataError when either arm was not run.
    """
    last = 1 if first_only else None
    base = replicates_of(cell, Arm.FORWARD_FULL, 1)[:last]
    counts = levels_of(cell, Arm.NOISY_REWRITE)
    if not base or not counts:
        raise DataError(
            f"{cell.model} on {cell.benchmark} cannot be compared: needs {Arm.FORWARD_FULL} and {Arm.NOISY_REWRITE}, "
            f"was run under {sorted({(s.arm, s.level) for s in cell.settings})}."
        )
    return Sweep(
        model=cell.model,
        benchmark=cell.benchmark,
        routers=counts,
        question_ids=cell.question_ids,
        clean=settings_values(cell, base),
        noisy=np.stack([settings_values(cell, replicates_of(cell, Arm.NOISY_REWRITE, r)[:last]) for r in counts]),
        cluster=cell.cluster,
    )


CLEAN = Setting(Arm.FORWARD_FULL, 1, 0)


def label(setting: Setting) -> str:
    """A setting in words: "noisy_rewrite r=3", "direct", "forward_full r=1 #2" for its third replicate."""
    text = str(setting.arm) if setting.arm == Arm.DIRECT else f"{setting.arm} r={setting.level}"
    return f"{text} #{setting.replicate}" if setting.replicate else text
