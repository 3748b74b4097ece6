"""Made-up rows and cells of a sweep, and what is measured and decided of them, for several
files."""

from functools import partial
from typing import Any

import numpy as np
import outcome_tables
from outcome_tables import Outcome, honest, honest_of, pair
from synthetic import synthetic_outcomes

from audit.core.records import Setting
from audit.statistics.paired import CellOutcomes
from audit.sweep.analyse import analyse
from audit.sweep.design import Arm
from audit.sweep.evidence import Evidence, measure
from audit.sweep.vocabulary import SweepResult

RESAMPLES = 499
CLEAN, DIRECT = Setting(Arm.FORWARD_FULL, 1), Setting(Arm.DIRECT, 0)
cell_of = partial(outcome_tables.cell_of, draws="independent")


def noisy(r: int) -> Setting:
    return Setting(Arm.NOISY_REWRITE, r)


def ensemble(r: int) -> Setting:
    return Setting(Arm.FORWARD_FULL, r)


def right(n: int, *spans: tuple[int, int]) -> list[int]:
    """n answers, right in the spans [from, to)."""
    return [int(any(a <= i < b for a, b in spans)) for i in range(n)]


def rows(
    n: int, routers: tuple[int, ...] = (1, 2, 3), seed: int = 3, **options: Any
) -> list[Outcome]:
    return synthetic_outcomes(n, routers, rng=np.random.default_rng(seed), **options)


def measured(cell: CellOutcomes, **options: Any) -> Evidence:
    return measure(
        cell, rng=np.random.default_rng(0), n_resamples=RESAMPLES, reference=honest(cell), **options
    )


def judged(outcomes: list[Outcome], **options: Any) -> tuple[SweepResult, ...]:
    """The results, beside another model that the damage neither helps nor hurts; text gates only
    where texts are given, which take most of the time."""
    cells = pair(outcomes)
    return analyse(cells, n_resamples=RESAMPLES, references=honest_of(cells), **options).results
