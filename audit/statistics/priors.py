"""What is assumed where a run cannot tell: numbers for thresholds. No arrays here."""

from dataclasses import dataclass

from audit.errors import DataError

DECIDE_AT = 3.0  # odds ratio of unparsed answers at which decisions are made: `audit.statistics.unparsed`


@dataclass(frozen=True)
class TauPrior:
    """Half-normal prior on tau, the standard deviation of clean models' true differences.

    scale: accuracy 0-1, the root mean square of tau. source: where the scale is from. Raises DataError for a scale
    that is not positive.
    """

    scale: float
    source: str = "the run's configuration"

    def __post_init__(self) -> None:
        if not 0 < self.scale < 1:
            raise DataError(f"The prior's scale is {self.scale}; expected 0 < scale < 1, such as 0.03 (3 points).")


_CONSTAT = "of 45-47 public models in ConStat's tables (Dekoninck et al. 2024)"

# The largest spread that was measured, rounded up: tests/golden/statistics/between_models.py prints them.
PRIORS = {
    "rewording": TauPrior(0.03, f"spread 1.5 to 2.2 points, sampling error included, {_CONSTAT}, rewordings"),
    "halves": TauPrior(0.03, "spread 1.3 to 2.6 points, sampling error included, 10 HELM models, halves of MMLU"),
    "held_out": TauPrior(0.035, f"spread 1.6 to 3.1 points (GSM8K 9.5) {_CONSTAT}, newly written items"),
    "held_out_widest": TauPrior(0.095, f"spread 9.5 points on GSM8K, the widest {_CONSTAT}, newly written items"),
    "other_benchmark": TauPrior(0.27, f"spread 5 to 27 points {_CONSTAT}, another benchmark"),
}
