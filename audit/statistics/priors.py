"""Define priors and limits for quantities that a run cannot estimate from its own data."""

import math
from dataclasses import dataclass

from audit.core.errors import DataError

# A decision must hold for every odds ratio of unparsed answers up to this value
# (`audit.statistics.unparsed`).
DECIDE_AT = 3.0


@dataclass(frozen=True)
class TauPrior:
    """Hold a prior distribution of tau, the standard deviation between clean models' true
    differences.

    Attributes
    ----------
    scale : float
        Scale of the prior, as an accuracy between 0 and 1. For a half-normal prior it is the root
        mean square of tau.
    source : str
        The data from which the scale was estimated.
    between_sets : float
        Standard deviation of an additional difference between two sets of items, which affects only
        the tested model. It cannot be estimated from references, however many references are used.
    df : float
        Degrees of freedom of a half-t prior; infinite for a half-normal prior.

    Raises
    ------
    DataError
        If the scale does not lie between 0 and 1.

    Notes
    -----
    A half-t prior is used if the scale itself was estimated from few sets. A half-normal prior has
    a lighter tail. It would keep tau small even if a few references show a larger spread.
    """

    scale: float
    source: str = "the run's configuration"
    between_sets: float = 0.0
    df: float = math.inf

    def __post_init__(self) -> None:
        if not 0 < self.scale < 1:
            raise DataError(
                f"The prior's scale is {self.scale}. Expected 0 < scale < 1. Example: 0.03 (3 "
                "points)."
            )


_CONSTAT = "of 45-47 public models in ConStat's tables (Dekoninck et al. 2024)"

# The script tests/golden/statistics/between_models.py prints the standard deviations below.
# tests/golden/statistics/constat_without_memory.py prints the errors of the 'score without memory'.
_HELD_OUT = f"root mean square of 1.6, 3.1 and 2.8 points without sampling error (GSM8K 9.5) {_CONSTAT}, new items"
PRIORS = {
    "rewording": TauPrior(
        0.03, f"spread 1.5 to 2.2 points, sampling error included, {_CONSTAT}, rewordings"
    ),
    "halves": TauPrior(
        0.03, "spread 1.3 to 2.6 points, sampling error included, 10 HELM models, halves of MMLU"
    ),
    "held_out": TauPrior(0.026, _HELD_OUT, df=4),  # The scale was estimated from four sets.
    "score": TauPrior(
        0.026, f"{_HELD_OUT}; ConStat's planted models lie up to 4 points beside it at any R", 0.025
    ),
    "other_benchmark": TauPrior(0.27, f"spread 5 to 27 points {_CONSTAT}, another benchmark"),
}
