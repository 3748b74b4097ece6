"""May a run stop here? The verdict's own decision at a look, with tests that hold at any stop (pure)."""

from collections.abc import Mapping, Sequence

import numpy as np

from audit.errors import DataError
from audit.statistics.paired import CellOutcomes
from audit.sweep.decide import Corrected, decide
from audit.sweep.evidence import measure
from audit.sweep.result import Verdict
from audit.sweep.thresholds import SweepThresholds

# Nothing that more questions would add to; a gain that only some readings of the replies show is not settled.
SETTLED = frozenset(
    {Verdict.EXCESS, Verdict.UNCONTROLLED, Verdict.EXCESS_EXPLAINED, Verdict.BRITTLE, Verdict.NO_EXCESS}
)


def settled(
    cells: Sequence[CellOutcomes], largest_cluster: Mapping[str, int], thresholds: SweepThresholds, panel: int
) -> bool:
    """Whether every cell has its verdict.

    largest_cluster: by benchmark, of the whole sample. panel: cells of the whole run, for which each is corrected as if
    no other had a finding, since not all are there yet. Gates do not stop a run: they may pass with more questions.
    """
    return all(look(c, largest_cluster[c.benchmark], thresholds, panel) in SETTLED for c in cells)


def look(cell: CellOutcomes, largest_cluster: int, thresholds: SweepThresholds, panel: int = 1) -> Verdict:
    """The verdict on one cell, gates apart; withheld where nothing can be compared yet."""
    try:
        evidence = measure(cell, rng=np.random.default_rng(0), n_resamples=0, largest_cluster=largest_cluster)
    except DataError:  # not one question has an answer in both arms so far
        return Verdict.WITHHELD
    # Bonferroni, without looking at the panel's other cells (never below Holm's).
    own = Corrected(min(1.0, evidence.p_value * panel), min(1.0, evidence.clean.fall_p * panel), panel)
    return decide(evidence, (), thresholds, own).verdict
