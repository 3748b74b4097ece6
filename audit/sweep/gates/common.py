"""What the gates share."""

from __future__ import annotations

import numpy as np

from audit.records import Setting
from audit.statistics.paired import CellOutcomes
from audit.statistics.values import replicates_of
from audit.sweep.design import Arm

CLEAN = Setting(Arm.FORWARD_FULL, 1, 0)


def clean_settings(cell: CellOutcomes) -> tuple[Setting, ...]:
    return replicates_of(cell, Arm.FORWARD_FULL, 1)


def label(setting: Setting) -> str:
    """A setting in words: "noisy_rewrite r=3", "direct", "forward_full r=1 #2" for its third replicate."""
    text = str(setting.arm) if setting.arm == Arm.DIRECT else f"{setting.arm} r={setting.level}"
    return f"{text} #{setting.replicate}" if setting.replicate else text


def states_of(cell: CellOutcomes, arm: Arm) -> np.ndarray | None:
    settings = cell.settings_of(arm)
    return np.stack([cell.row(s) for s in settings]) if settings else None
