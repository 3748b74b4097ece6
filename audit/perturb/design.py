"""Define the arms of the perturbation audit, its design and its thresholds (pure).

The level of a setting is the number of the variant; 0 is the original.
"""

from dataclasses import dataclass
from enum import StrEnum

from audit.core.errors import ConfigError, check_counts, check_known
from audit.core.records import Design, Part
from audit.judging.ladder import BLOCK_AT
from audit.judging.thresholds import Thresholds
from audit.statistics.priors import DECIDE_AT, PRIORS, TauPrior


class Arm(StrEnum):
    """Name the wording of a question."""

    ORIGINAL = "original"  # the published wording
    VARIANT = "variant"  # another wording


def make_design(num_variants: int, original_replicates: int) -> Design:
    """Make the design: replicates of the original (the noise floor), and the variants.

    Parameters
    ----------
    num_variants : int
        Variants of each question.
    original_replicates : int
        Runs of the original under different seeds.

    Returns
    -------
    Design
        Each replicate and variant is a part of its own, so each is run again alone.

    Raises
    ------
    ConfigError
        If a number is below 1.
    """
    check_counts(num_variants=num_variants, original_replicates=original_replicates)
    originals = (Part(Arm.ORIGINAL, (0,), k) for k in range(original_replicates))
    return Design((*originals, *(Part(Arm.VARIANT, (j,)) for j in range(1, num_variants + 1))))


@dataclass(frozen=True)
class PerturbThresholds(Thresholds):
    """Thresholds of the perturbation audit.

    broken_share_max: upper limit of the share of broken variants above which no verdict is given.
    curve_references_min: number of reference models from which ConStat's curve must agree too.
    order_*: see `gates.order_of_items`. units_min: fewest independent items of a verdict.
    bracket_margin: largest amount by which references may miss the tested model's accuracy on the
    reworded items. tau_prior: scale of the prior of how much clean models differ in the cost of
    rewording; 0 for none. unparsed_gamma: odds ratio at which unparsed answers are imputed against
    a finding. block_at: the weakest finding that blocks a gate, strong or suggestive.
    """

    above_chance_standard_errors: float = 2.0
    noop_share_max: float = 0.01
    noise_floor_alpha: float = 0.001
    broken_share_max: float = 0.10
    order_z_min: float = 2.5
    order_items_min: int = 30
    curve_references_min: int = 10
    units_min: int = 60
    bracket_margin: float = 0.03
    tau_prior: float = PRIORS["rewording"].scale
    unparsed_gamma: float = DECIDE_AT
    block_at: str = BLOCK_AT[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_known("verdict.block_at", self.block_at, BLOCK_AT)
        if self.unparsed_gamma < 1 or not self.tau_prior < 1:
            raise ConfigError(
                f"verdict.unparsed_gamma is {self.unparsed_gamma:g} and verdict.tau_prior is {self.tau_prior:g}. "
                "Expected at least 1, and less than 1. Example: verdict.unparsed_gamma=3 verdict.tau_prior=0.03"
            )

    @property
    def prior(self) -> TauPrior | None:
        """Return the prior of how much clean models differ, with the source of its scale; None if
        it is 0.
        """
        if not self.tau_prior:
            return None
        known = PRIORS["rewording"]
        return known if self.tau_prior == known.scale else TauPrior(self.tau_prior)
