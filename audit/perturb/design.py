"""The arms of the perturbation audit, its design and thresholds (pure). The level of a setting is which variant;
0: none.
"""

from dataclasses import dataclass
from enum import StrEnum

from audit.errors import ConfigError, check_counts, check_known
from audit.judging.ladder import BLOCK_AT
from audit.records import Design, Part
from audit.statistics.priors import DECIDE_AT, PRIORS, TauPrior
from audit.verdict.thresholds import Thresholds


class Arm(StrEnum):
    """In which words a question reaches the model."""

    ORIGINAL = "original"  # as published
    VARIANT = "variant"  # reworded


def make_design(num_variants: int, original_replicates: int) -> Design:
    """The original `original_replicates` times under other seeds (the noise floor), and the variants 1..num_variants.

    Each is a part of its own, so each is run again alone.
    """
    check_counts(num_variants=num_variants, original_replicates=original_replicates)
    originals = (Part(Arm.ORIGINAL, (0,), k) for k in range(original_replicates))
    return Design((*originals, *(Part(Arm.VARIANT, (j,)) for j in range(1, num_variants + 1))))


@dataclass(frozen=True)
class PerturbThresholds(Thresholds):
    """broken_share_max: upper limit of the share of broken variants above which no verdict is given.
    curve_references_min: from so many reference models on, ConStat's curve must agree too. order_*: see
    `gates.order_of_items`. units_min: fewest independent items of a verdict. bracket_margin: by how much references may
    miss the tested model's accuracy on the reworded items. tau_prior: scale of the prior of how much clean models
    differ in what rewording costs them; 0: none. unparsed_gamma: odds at which unparsed answers are held against.
    block_at: the weakest finding that blocks a gate, strong or suggestive.
    """

    above_chance_standard_errors: float = 2.0
    answered_share_min: float = 0.95
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
                f"Thresholds unparsed_gamma {self.unparsed_gamma:g} and tau_prior {self.tau_prior:g}: expected at "
                "least 1, such as 3, and less than 1, such as 0.03 (3 points)."
            )

    @property
    def prior(self) -> TauPrior | None:
        """The prior, with the source of its scale."""
        if not self.tau_prior:
            return None
        known = PRIORS["rewording"]
        return known if self.tau_prior == known.scale else TauPrior(self.tau_prior)
